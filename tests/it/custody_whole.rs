//! The repository that agents share may be removed, closed, or have other objects in the place of files that all
//! sandboxes need: each sandbox is judged and saved all the same, and the rig goes on.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;
use horde_supervisor::testing::tier::sampled;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::custody_theirs::whole_life;
use crate::support::city::{City, permit, repo, snapshot, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};
use crate::support::namespace::unprivileged;

fn pipe(path: &Path) {
    mkfifo(path, Mode::S_IRWXU).unwrap();
}

fn zero(path: &Path) {
    symlink("/dev/zero", path).unwrap();
}

/// Saves the sandbox, removes it, and restores the very files.
fn saved_and_removed(city: &City, what: &str) {
    let spec = city.spec(1);
    let files = snapshot(&spec.path);
    let facts = city.facts(&spec.path);
    let record = city.repo.salvage(&spec.path, &toast(), Incarnation(1));
    let record = record.unwrap_or_else(|error| panic!("{what}: {error}"));
    city.repo
        .discard_sandbox(&permit(&spec, &facts), &city.trash(), &|| Ok(()))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let to = city.root().join("restored/Toast");
    city.repo.restore(&record, &to).unwrap();
    let mut restored = snapshot(&to);
    // The link that leads nowhere any more.
    restored.remove(&b"found.git"[..]);
    assert_eq!(restored, files, "{what}");
}

/// A charge used to write through the link.
#[test]
fn link_in_the_place_of_all_administrative_directories_leads_nowhere() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "new", "untracked\n");
    let (worktrees, out) = (
        city.repo.theirs().join("worktrees"),
        city.root().join("out"),
    );
    fs::rename(&worktrees, &out).unwrap();
    symlink(&out, &worktrees).unwrap();
    let before = snapshot(&out);
    whole_life(&city, "Nux");
    saved_and_removed(&city, "a link");
    assert_eq!(snapshot(&out), before);
    assert!(!out.join("Nux").exists() && out.join("Toast").exists());
    assert!(worktrees.symlink_metadata().unwrap().is_dir());
}

/// Each patrol, charge and removal of the rig reads all refs.
/// Case C20 of an adversary: a pipe in the administrative directory of one sandbox.
#[test]
fn pipe_in_one_administrative_directory_stops_no_other_sandbox() {
    for name in ["HEAD", "gitdir", "index", "logs/HEAD"] {
        let city = City::new();
        let sandbox = city.sandbox();
        let place = city.repo.theirs().join("worktrees/Toast").join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        drop(fs::remove_file(&place));
        mkfifo(&place, Mode::S_IRWXU).unwrap();
        whole_life(&city, "Nux");
        write(&sandbox, "new", "untracked\n");
        let facts = city.facts(&sandbox);
        assert!(facts.untracked.contains(&"new".to_owned()), "{name}");
    }
}

/// The sandbox could be neither measured nor saved.
#[test]
fn sandbox_whose_reflog_is_no_file_is_measured_by_its_files() {
    let cases: [Break; 4] = [
        ("a pipe for logs", |admin| pipe(&admin.join("logs"))),
        ("a link for logs", |admin| zero(&admin.join("logs"))),
        ("a pipe for a log", |admin| pipe(&admin.join("logs/HEAD"))),
        ("a link for a log", |admin| zero(&admin.join("logs/HEAD"))),
    ];
    for (what, break_it) in cases {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "new", "untracked\n");
        let admin = city.repo.theirs().join("worktrees/Toast");
        drop(fs::remove_dir_all(admin.join("logs")));
        if what.ends_with("log") {
            fs::create_dir(admin.join("logs")).unwrap();
        }
        break_it(&admin);
        let facts = city.facts(&sandbox);
        assert_eq!(facts.untracked, ["new"], "{what}");
        saved_and_removed(&city, what);
    }
}

/// An act on the shared repository.
type Break = (&'static str, fn(&Path));

const BREAKS: [Break; 9] = [
    ("it is gone", |theirs| fs::remove_dir_all(theirs).unwrap()),
    ("no HEAD", |theirs| {
        fs::remove_file(theirs.join("HEAD")).unwrap()
    }),
    ("a pipe for HEAD", |theirs| {
        fs::remove_file(theirs.join("HEAD")).unwrap();
        mkfifo(&theirs.join("HEAD"), Mode::S_IRWXU).unwrap();
    }),
    ("no refs", |theirs| {
        fs::remove_dir_all(theirs.join("refs")).unwrap()
    }),
    ("a link for refs/heads", |theirs| {
        fs::remove_dir_all(theirs.join("refs/heads")).unwrap();
        symlink("/", theirs.join("refs/heads")).unwrap();
    }),
    ("no objects", |theirs| {
        fs::remove_dir_all(theirs.join("objects")).unwrap()
    }),
    ("a file for worktrees", |theirs| {
        fs::remove_dir_all(theirs.join("worktrees")).unwrap();
        fs::write(theirs.join("worktrees"), "").unwrap();
    }),
    ("a link for logs", |theirs| {
        fs::remove_dir_all(theirs.join("logs")).unwrap();
        symlink("/", theirs.join("logs")).unwrap();
    }),
    ("it holds nothing", |theirs| {
        fs::remove_dir_all(theirs).unwrap();
        fs::create_dir(theirs).unwrap();
    }),
];

/// Toast's bytes were on the disk, but nothing in the rig could be measured, saved or charged.
#[test]
fn whatever_becomes_of_the_shared_repository_sandboxes_are_saved_and_others_go_on() {
    for (what, break_it) in sampled(BREAKS, 2) {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "committed\n");
        commit_all(&sandbox, "work");
        write(&sandbox, "src/a.txt", "dirty\n");
        write(&sandbox, "new", "untracked\n");
        break_it(city.repo.theirs());
        let facts = city.facts(&sandbox);
        let all: Vec<_> = facts.dirty.iter().chain(&facts.untracked).collect();
        for path in ["src/a.txt", "new"] {
            assert!(all.iter().any(|it| *it == path), "{what}: {facts:?}");
        }
        saved_and_removed(&city, what);
        whole_life(&city, "Nux");
    }
}

/// And git works in the sandboxes again, with the commits from before.
#[test]
fn shared_repository_is_a_repository_again_after_a_patrol() {
    // Without its objects, the sandbox is one whose HEAD is damaged.
    let breaks = BREAKS.into_iter().filter(|it| it.0 != "no objects");
    for (what, break_it) in sampled(breaks, 2) {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "committed\n");
        let head = commit_all(&sandbox, "work");
        break_it(city.repo.theirs());
        // A sandbox about which git knows nothing any more is repaired.
        drop(city.repo.progress(&sandbox));
        assert!(!city.repo.take_mended().is_empty(), "{what} is told");
        assert!(city.repo.take_mended().is_empty(), "{what} is told once");
        if city.repo.sandbox_fault(&sandbox).unwrap().is_some() {
            city.repo.repair_sandbox(&city.spec(1)).unwrap();
        }
        let works = try_git(&sandbox, &["status"]).status.success();
        assert!(works, "{what}: {:?}", try_git(&sandbox, &["status"]));
        if !["it is gone", "it holds nothing"].contains(&what) {
            assert_eq!(rev(&sandbox, "HEAD"), head, "{what}");
        }
        git(&sandbox, &["fetch", "-q", "origin"]);
        git(&sandbox, &["commit", "-q", "--allow-empty", "-m", "more"]);
    }
}

/// The directory in which git keeps the last commit.
const FAN: &str = "objects/..";

/// A directory that an agent closed to its owner is opened again. For root nothing is closed.
#[test]
fn directory_closed_by_one_agent_stops_no_sandbox() {
    if !unprivileged(directory_closed_by_one_agent_stops_no_sandbox) {
        return;
    }
    let places = [
        "",
        "objects",
        "refs/heads",
        "refs/heads/raider",
        "worktrees",
        "worktrees/Toast",
        "packed-refs",
        "logs",
        "objects/pack",
        FAN,
        "worktrees/Toast/logs",
        "worktrees/Toast/logs/HEAD",
    ];
    for name in sampled(places, 3) {
        let city = City::new();
        let sandbox = city.sandbox();
        write(&sandbox, "README", "committed\n");
        let head = commit_all(&sandbox, "work");
        let fan = format!("objects/{}", &head[..2]);
        let name = if name == FAN { &fan } else { name };
        write(&sandbox, "new", "untracked\n");
        let place = city.repo.theirs().join(name);
        if !place.exists() {
            fs::write(&place, "").unwrap();
        }
        fs::set_permissions(&place, fs::Permissions::from_mode(0o000)).unwrap();
        whole_life(&city, "Nux");
        assert_eq!(city.facts(&sandbox).untracked, ["new"], "{name}");
        saved_and_removed(&city, name);
    }
}

/// Configuration, attributes and refs used to be written into the repository that the link named.
#[test]
fn link_in_the_place_of_the_shared_repository_leads_nowhere() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "committed\n");
    commit_all(&sandbox, "work");
    write(&sandbox, "new", "untracked\n");
    let person = city.root().join("person");
    fs::create_dir(&person).unwrap();
    git(&person, &["init", "-q"]);
    write(&person, "own", "a person's\n");
    commit_all(&person, "own");
    let before = snapshot(&person.join(".git"));
    let theirs = city.repo.theirs();
    fs::rename(theirs, theirs.with_extension("moved")).unwrap();
    symlink(person.join(".git"), theirs).unwrap();
    assert!(city.facts(&sandbox).untracked.contains(&"new".to_owned()));
    city.repo.prepare().unwrap();
    saved_and_removed(&city, "a link");
    whole_life(&city, "Nux");
    assert_eq!(snapshot(&person.join(".git")), before);
    let told = city.repo.take_mended().join("; ");
    assert!(told.contains("is set aside as"), "{told}");
}

/// git ran there, followed a link to the user's own configuration, and wrote into it.
#[test]
fn start_runs_no_git_in_a_damaged_shared_repository() {
    let city = City::new();
    let (outside, theirs) = (city.root().join("outside"), city.repo.theirs());
    fs::write(&outside, "[user]\n\tname = Ada\n").unwrap();
    for name in ["HEAD", "config"] {
        fs::remove_file(theirs.join(name)).unwrap();
    }
    symlink(&outside, theirs.join("config")).unwrap();
    let started = repo(&city.root(), RigSource::Path(city.checkout()), true);
    started.prepare().unwrap();
    let text = fs::read_to_string(&outside).unwrap();
    assert_eq!(text, "[user]\n\tname = Ada\n");
    whole_life(&city, "Nux");
}

/// An agent that removes these files decides when they are written, but not their content.
#[test]
fn settings_that_are_written_again_are_those_of_the_last_start() {
    let city = City::new();
    let sandbox = city.sandbox();
    let file = city.repo.theirs().join("horde.config");
    let before = fs::read_to_string(&file).unwrap();
    git(&city.checkout(), &["config", "user.name", "Eve"]);
    git(&city.checkout(), &["config", "filter.x.clean", "cat"]);
    fs::remove_file(&file).unwrap();
    city.facts(&sandbox);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    city.repo.prepare().unwrap();
    assert!(fs::read_to_string(&file).unwrap().contains("Eve"));
}
