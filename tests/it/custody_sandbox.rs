//! The making of sandboxes.

use std::collections::BTreeSet;
use std::fs;
use std::mem::MaybeUninit;
use std::os::unix::fs::symlink;
use std::thread;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use horde_supervisor::ports::repo::{Repo, RepoError};

use crate::support::city::{City, snapshot};
use crate::support::git::{commit_all, git, rev, write};

#[test]
fn a_sandbox_is_a_worktree_with_its_task_and_nothing_else() {
    let city = City::new();
    let spec = city.spec(1);
    city.repo.make_sandbox(&spec).unwrap();
    let sandbox = &spec.path;
    assert_eq!(git(sandbox, &["branch", "--show-current"]), spec.branch);
    assert_eq!(rev(sandbox, "HEAD"), spec.base.as_str());
    assert_eq!(snapshot(sandbox), snapshot(&city.checkout()));
    assert_eq!(
        fs::read_to_string(sandbox.join("TASK.md")).unwrap(),
        "do it\n"
    );
    assert_eq!(
        fs::read_link(sandbox.join("TASK.md")).unwrap(),
        spec.task_dir.join("TASK.md")
    );
    fs::write(sandbox.join(".orange-outcome"), "{}").unwrap();
    assert_eq!(
        fs::read_to_string(spec.task_dir.join("outcome")).unwrap(),
        "{}"
    );
    assert_eq!(
        fs::read_to_string(sandbox.join(".horde-outcome")).unwrap(),
        "{}"
    );
    assert!(!sandbox.join(".horde-task.md").exists());
    assert_eq!(
        git(sandbox, &["status", "--porcelain", "--untracked-files=all"]),
        ""
    );
    let facts = city.facts(sandbox);
    assert!(
        facts.is_clean() && facts.head_reachable && facts.ahead == 0,
        "{facts:?}"
    );
    let listed = city.repo.sandboxes().unwrap();
    assert_eq!(listed, [("Toast".parse().unwrap(), sandbox.clone())]);
}

#[test]
fn a_repository_with_a_task_of_its_own_gets_another_name() {
    let city = City::with(|checkout| write(checkout, "TASK.md", "theirs\n"));
    city.repo.prepare().unwrap();
    let sandbox = city.sandbox();
    assert_eq!(
        fs::read_to_string(sandbox.join("TASK.md")).unwrap(),
        "theirs\n"
    );
    assert_eq!(
        fs::read_to_string(sandbox.join(".horde-task.md")).unwrap(),
        "do it\n"
    );
    assert!(city.facts(&sandbox).is_clean());
    write(&sandbox, "TASK.md", "edited\n");
    assert_eq!(city.facts(&sandbox).dirty, ["TASK.md"]);
}

#[test]
fn making_it_again_changes_nothing() {
    let city = City::new();
    let spec = city.spec(1);
    city.repo.make_sandbox(&spec).unwrap();
    write(&spec.path, "README", "work\n");
    let head = commit_all(&spec.path, "work");
    write(&spec.path, "src/a.txt", "dirty\n");
    fs::remove_file(spec.path.join("src/b.txt")).unwrap();
    fs::remove_file(spec.path.join("TASK.md")).unwrap();
    let before = snapshot(&spec.path);
    city.repo.make_sandbox(&spec).unwrap();
    assert_eq!(snapshot(&spec.path), before);
    assert_eq!(rev(&spec.path, "HEAD"), head);
    assert!(spec.path.join("TASK.md").is_symlink(), "the link is back");
}

#[test]
fn branch_that_was_there_before_keeps_its_commits_under_another_name() {
    let city = City::new();
    let checkout = city.checkout();
    write(&checkout, "README", "earlier\n");
    commit_all(&checkout, "earlier");
    git(
        &checkout,
        &["push", "--quiet", "origin", "HEAD:refs/heads/earlier"],
    );
    city.repo.fetch_branch("earlier").unwrap();
    let mut spec = city.spec(1);
    let head = rev(&checkout, "HEAD");
    git(
        city.repo.theirs(),
        &["branch", "--no-track", &spec.branch, &head],
    );
    city.repo.make_sandbox(&spec).unwrap();
    assert_eq!(rev(&spec.path, "HEAD"), spec.base.as_str());
    let aside = format!("refs/heads/{}.aside", spec.branch);
    assert_eq!(rev(city.repo.theirs(), &aside), head);
    spec = city.spec_of("Nux", 1);
    spec.base = "1".repeat(40).try_into().unwrap();
    let unknown = city.repo.make_sandbox(&spec).unwrap_err();
    assert!(matches!(unknown, RepoError::NotFound(_)), "{unknown}");
    assert!(!spec.path.exists());
}

/// The states that a killed attempt can leave: the next attempt finishes each.
#[test]
fn a_half_made_sandbox_is_completed() {
    let whole = {
        let city = City::new();
        snapshot(&city.sandbox())
    };
    for stage in 0..6 {
        let city = City::new();
        let spec = city.spec(1);
        let bare = city.repo.theirs();
        fs::create_dir_all(spec.path.parent().unwrap()).unwrap();
        let path = spec.path.display().to_string();
        let admin = bare.join("worktrees/Toast");
        let add = |extra: &str| {
            git(
                bare,
                &["branch", "--no-track", &spec.branch, spec.base.as_str()],
            );
            git(bare, &["worktree", "add", extra, &path, &spec.branch]);
        };
        match stage {
            0 => fs::create_dir_all(&spec.path).unwrap(),
            1 => {
                git(
                    bare,
                    &["branch", "--no-track", &spec.branch, spec.base.as_str()],
                );
            }
            2 => add("--no-checkout"),
            3 => {
                add("--no-checkout");
                write(&admin, "locked", "initializing\n");
                fs::remove_file(spec.path.join(".git")).unwrap();
            }
            4 => {
                // Killed during the checkout: some files, a torn one, the lock of the index.
                city.repo.make_sandbox(&spec).unwrap();
                let note = fs::read_to_string(city.repo.repo_dir().join("horde/notes/Toast.json"))
                    .unwrap();
                let note = note.replace("\"complete\":true", "\"complete\":false");
                fs::write(city.repo.repo_dir().join("horde/notes/Toast.json"), note).unwrap();
                fs::write(admin.join("index.lock"), "").unwrap();
                fs::remove_file(admin.join("index")).unwrap();
                fs::remove_file(spec.path.join("README")).unwrap();
                fs::write(spec.path.join("src/a.txt"), "a1\na").unwrap();
            }
            _ => {
                // The directory was removed, and its entry stayed.
                city.repo.make_sandbox(&spec).unwrap();
                fs::remove_dir_all(&spec.path).unwrap();
                let note = fs::read_to_string(city.repo.repo_dir().join("horde/notes/Toast.json"))
                    .unwrap();
                let note = note.replace("\"complete\":true", "\"complete\":false");
                fs::write(city.repo.repo_dir().join("horde/notes/Toast.json"), note).unwrap();
            }
        }
        city.repo
            .make_sandbox(&spec)
            .unwrap_or_else(|error| panic!("stage {stage}: {error}"));
        assert_eq!(snapshot(&spec.path), whole, "stage {stage}");
        let facts = city.facts(&spec.path);
        assert!(facts.is_clean(), "stage {stage}: {facts:?}");
        assert_eq!(
            facts.branch.as_deref(),
            Some(spec.branch.as_str()),
            "stage {stage}"
        );
    }
}

#[test]
fn another_incarnations_sandbox_is_not_taken() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "dirty\n");
    let refused = city.repo.make_sandbox(&city.spec(2)).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("is the sandbox of horde/raiders/Toast 1"),
        "{refused}"
    );
    assert_eq!(
        fs::read_to_string(sandbox.join("README")).unwrap(),
        "dirty\n"
    );
    // Gone without a discard: the new sandbox is made, and the old entry is kept aside.
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo.make_sandbox(&city.spec(2)).unwrap();
    assert_eq!(
        git(&sandbox, &["branch", "--show-current"]),
        "raider/Toast/gt-1-2"
    );
    assert!(city.repo.theirs().join("horde/retired/Toast/HEAD").exists());
}

#[test]
fn a_sandbox_lies_in_the_raiders_directory() {
    let city = City::new();
    let raiders = city.spec(1).path.parent().unwrap().to_owned();
    fs::create_dir_all(&raiders).unwrap();
    for path in [
        city.checkout(),
        city.root().join("x"),
        raiders.join("../x"),
        raiders.join("a/b"),
    ] {
        let mut spec = city.spec(1);
        spec.path = path;
        city.repo.make_sandbox(&spec).unwrap_err();
    }
    let mut spec = city.spec(3);
    spec.path = raiders.join("Other");
    spec.branch = "no..good".into();
    city.repo.make_sandbox(&spec).unwrap_err();
    assert_eq!(city.repo.sandboxes().unwrap(), []);
}

/// A raider put them in the place of a free slot, and the relic of that slot waited for a person.
#[test]
fn link_or_file_in_the_place_of_a_sandbox_makes_room_for_it_and_is_kept() {
    let city = City::new();
    let place = city.spec(1).path;
    let raiders = place.parent().unwrap().to_owned();
    fs::create_dir_all(&raiders).unwrap();
    let before = snapshot(&city.checkout());
    symlink(city.checkout(), &place).unwrap();
    assert_eq!(city.sandbox(), place);
    assert!(!place.is_symlink() && city.facts(&place).is_clean());
    assert_eq!(snapshot(&city.checkout()), before);
    let to = fs::read_link(raiders.join("Toast.aside")).unwrap();
    assert_eq!(to, city.checkout());
    let other = city.spec_of("Nux", 1);
    fs::write(&other.path, "a file").unwrap();
    city.repo.make_sandbox(&other).unwrap();
    let kept = fs::read_to_string(raiders.join("Nux.aside")).unwrap();
    assert_eq!(kept, "a file");
    assert_eq!(city.repo.sandboxes().unwrap().len(), 2);
}

#[test]
fn files_are_copied_from_the_checkout() {
    let city = City::new();
    let checkout = city.checkout();
    write(&checkout, ".env", "SECRET=1\n");
    write(&checkout, "config/local/a.toml", "a\n");
    symlink("a.toml", checkout.join("config/local/b.toml")).unwrap();
    let mut spec = city.spec(1);
    spec.copy = vec![".env".into(), "config/local".into()];
    city.repo.make_sandbox(&spec).unwrap();
    assert_eq!(
        fs::read_to_string(spec.path.join(".env")).unwrap(),
        "SECRET=1\n"
    );
    assert!(spec.path.join("config/local/b.toml").is_symlink());
    assert!(city.facts(&spec.path).is_clean(), "copies are no work");
    write(&spec.path, ".env", "SECRET=2\n");
    write(&spec.path, "config/local/mine.toml", "new\n");
    let facts = city.facts(&spec.path);
    assert_eq!(
        facts.untracked,
        [".env", "config/local/mine.toml"],
        "edits of them are"
    );
    let mut missing = city.spec_of("Nux", 1);
    missing.copy = vec!["no-such-file".into()];
    let error = city.repo.make_sandbox(&missing).unwrap_err();
    assert!(
        matches!(&error, RepoError::NotFound(what) if what.contains("no-such-file")),
        "{error}"
    );
    for name in ["../outside", "/etc/passwd", ".git/config", ""] {
        missing.copy = vec![name.into()];
        city.repo.make_sandbox(&missing).unwrap_err();
    }
}

#[test]
fn sandboxes_are_made_at_the_same_time() {
    let city = City::new();
    let names = ["Toast", "Nux", "Ace", "Slit", "Rictus", "Coma"];
    thread::scope(|scope| {
        for name in names {
            let city = &city;
            scope.spawn(move || city.repo.make_sandbox(&city.spec_of(name, 1)).unwrap());
        }
    });
    let listed = city.repo.sandboxes().unwrap();
    assert_eq!(listed.len(), names.len());
    for (_, sandbox) in listed {
        assert!(city.facts(&sandbox).is_clean());
    }
}

#[test]
fn things_that_are_no_sandboxes_are_not_listed() {
    let city = City::new();
    assert_eq!(city.repo.sandboxes().unwrap(), []);
    let sandbox = city.sandbox();
    let raiders = sandbox.parent().unwrap();
    fs::write(raiders.join("file"), "").unwrap();
    fs::create_dir(raiders.join(".hidden")).unwrap();
    // Without a link the sandbox is broken, not absent.
    fs::create_dir(raiders.join("Bare")).unwrap();
    let names: Vec<_> = city
        .repo
        .sandboxes()
        .unwrap()
        .into_iter()
        .map(|found| found.0)
        .collect();
    assert_eq!(names, ["Bare".parse().unwrap(), "Toast".parse().unwrap()]);
    city.repo.facts(&raiders.join("Bare"), "main").unwrap_err();
}

/// A disk that is not mounted: nothing in it counts as gone.
#[test]
fn sandboxes_whose_directory_is_not_there_cannot_be_seen() {
    let city = City::new();
    let sandbox = city.sandbox();
    let raiders = sandbox.parent().unwrap();
    let elsewhere = raiders.with_file_name("elsewhere");
    let before = city.repo.sandboxes().unwrap();
    assert_eq!(before.len(), 1);
    fs::rename(raiders, &elsewhere).unwrap();
    let unseen = city.repo.sandboxes();
    assert!(matches!(unseen, Err(RepoError::Failed(_))), "{unseen:?}");
    fs::rename(&elsewhere, raiders).unwrap();
    assert_eq!(city.repo.sandboxes().unwrap(), before);
}

/// The sandbox names its owner: by our note, and without that by its branch; not without an entry of git's.
#[test]
fn a_sandbox_tells_whose_it_is() {
    let city = City::new();
    let (spec, sandbox) = (city.spec(1), city.sandbox());
    let noted = city.repo.provenance(&sandbox).unwrap().unwrap();
    let told = (noted.incarnation, &noted.relic, &noted.branch, &noted.base);
    let made = (spec.incarnation, &spec.relic, &spec.branch, &spec.base);
    assert_eq!(told, made);
    let now = jiff::Timestamp::now();
    assert!(
        (now - noted.made).get_seconds().abs() < 600,
        "{}",
        noted.made
    );
    fs::remove_file(sandbox.join(".git")).unwrap();
    let unlinked = city.repo.provenance(&sandbox).unwrap();
    assert_eq!(unlinked.as_ref(), Some(&noted), "the link is not needed");
    let admin = city.repo.theirs().join("worktrees/Toast");
    fs::remove_file(city.repo.repo_dir().join("horde/notes/Toast.json")).unwrap();
    let named = city.repo.provenance(&sandbox).unwrap().unwrap();
    assert_eq!(
        (named.incarnation, &named.relic),
        (spec.incarnation, &spec.relic)
    );
    fs::write(admin.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    assert_eq!(city.repo.provenance(&sandbox).unwrap(), None);
    fs::remove_dir_all(&admin).unwrap();
    assert_eq!(city.repo.provenance(&sandbox).unwrap(), None);
}

/// A deleted sandbox has nothing checked out, whatever git remembers of it. A sandbox that git cannot use still exists.
#[test]
fn a_branch_is_spare_once_its_directory_is_gone() {
    let city = City::new();
    let sandbox = city.sandbox();
    let branch = city.spec(1).branch;
    let spare = || city.repo.spare_branches().unwrap();
    assert_eq!(spare(), []);
    fs::remove_file(sandbox.join(".git")).unwrap();
    assert_eq!(spare(), []);
    assert_eq!(city.repo.drop_branch(&branch), Ok(false));
    fs::remove_dir_all(&sandbox).unwrap();
    let found = spare();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0].name, found[0].reachable), (&branch, true));
    assert_eq!(city.repo.drop_branch(&branch), Ok(true));
    assert_eq!(spare(), []);
}

/// A reload takes over the checkout's settings again.
#[test]
fn the_address_that_raiders_commit_with_is_read_anew_when_the_rig_is_prepared() {
    let city = City::new();
    let email = || city.repo.user_email();
    assert_eq!(email().as_deref(), Some("ada@example.invalid"));
    git(
        &city.checkout(),
        &["config", "user.email", "eve@example.invalid"],
    );
    assert_eq!(
        email().as_deref(),
        Some("ada@example.invalid"),
        "until then"
    );
    city.repo.prepare().unwrap();
    assert_eq!(email().as_deref(), Some("eve@example.invalid"));
}

/// A kill of the supervisor before its first note about the sandbox.
#[test]
fn sandbox_whose_creation_was_killed_before_its_note_takes_commits_when_it_is_made_again() {
    for left in [
        &["gitdir"][..],
        &["gitdir", "commondir"],
        &["gitdir", "commondir", "HEAD", "index"],
    ] {
        let city = City::new();
        let sandbox = city.sandbox();
        let admin = city.repo.theirs().join("worktrees/Toast");
        for entry in fs::read_dir(&admin).unwrap() {
            let entry = entry.unwrap();
            if !left.contains(&entry.file_name().to_str().unwrap()) {
                let path = entry.path();
                fs::remove_file(&path)
                    .or_else(|_| fs::remove_dir_all(&path))
                    .unwrap();
            }
        }
        let notes = city.repo.repo_dir().join("horde");
        fs::remove_file(notes.join("notes/Toast.json")).unwrap();
        if left.len() < 3 {
            for entry in fs::read_dir(&sandbox).unwrap() {
                let entry = entry.unwrap();
                if entry.file_name() != ".git" {
                    let path = entry.path();
                    fs::remove_file(&path)
                        .or_else(|_| fs::remove_dir_all(&path))
                        .unwrap();
                }
            }
        }
        city.repo.make_sandbox(&city.spec(1)).unwrap();
        write(&sandbox, "work/one", "1\n");
        git(&sandbox, &["add", "work/one"]);
        git(&sandbox, &["commit", "-q", "-m", "one"]);
        let facts = city.facts(&sandbox);
        assert!(facts.is_committed() && facts.ahead == 1, "{facts:?}");
    }
}

/// The supervisor was killed between the temporary file of the link `.git` and its rename: the file stayed, and `hd done`
/// was refused for it until the raider was quarantined.
#[test]
fn nothing_but_its_files_appears_in_a_sandbox_that_is_made() {
    let city = City::new();
    let spec = city.spec(1);
    fs::create_dir_all(&spec.path).unwrap();
    let events = inotify::init(CreateFlags::NONBLOCK).unwrap();
    let came = WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&events, &spec.path, came).unwrap();
    city.repo.make_sandbox(&spec).unwrap();
    let mut room = [MaybeUninit::uninit(); 16 * 1024];
    let mut events = inotify::Reader::new(&events, &mut room);
    let mut names = BTreeSet::new();
    while let Ok(event) = events.next() {
        names.insert(event.file_name().unwrap().to_str().unwrap().to_owned());
    }
    let own = fs::read_dir(&spec.path).unwrap();
    let own: BTreeSet<_> = own
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.contains(".git") && names.contains("README"),
        "{names:?}"
    );
    assert_eq!(names, own);
}
