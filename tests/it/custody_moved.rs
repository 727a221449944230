//! A city that was moved: the index, the HEAD and the detached commits of its sandboxes are found at the new place.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use horde_supervisor::adapters::git::GitRepo;
use horde_supervisor::domain::city::RigSource;
use horde_supervisor::domain::ids::Incarnation;
use horde_supervisor::ports::repo::Repo;

use crate::support::city::{City, repo, snapshot, toast};
use crate::support::git::{commit_all, git, rev, write};

/// Makes a sandbox with a staged file that is in no directory, a commit on no branch, and a worktree in it.
fn busy(city: &City) -> PathBuf {
    let sandbox = city.sandbox();
    write(&sandbox, "README", "committed\n");
    commit_all(&sandbox, "work");
    git(&sandbox, &["worktree", "add", "-q", "inner", "--detach"]);
    write(&sandbox.join("inner"), "found", "in the inner worktree\n");
    git(&sandbox.join("inner"), &["add", "found"]);
    git(&sandbox, &["checkout", "-q", "--detach"]);
    git(
        &sandbox,
        &["commit", "-q", "--allow-empty", "-m", "detached"],
    );
    write(&sandbox, "staged", "staged only\n");
    git(&sandbox, &["add", "staged"]);
    fs::remove_file(sandbox.join("staged")).unwrap();
    sandbox
}

/// Moves the city, as `mv` does. Returns its repository and the sandbox at the new place.
fn moved(city: &City) -> (GitRepo, PathBuf) {
    let to = city.root().join("elsewhere");
    fs::create_dir(&to).unwrap();
    fs::rename(city.root().join("city"), to.join("city")).unwrap();
    let repo = repo(&to, RigSource::Path(city.checkout()), true);
    (repo, to.join("city/horde/raiders/Toast"))
}

fn show(dir: &Path, name: &str) -> String {
    git(dir, &["show", name])
}

#[test]
fn sandboxes_of_a_city_that_was_moved_are_whole_at_the_new_place() {
    let city = City::new();
    let sandbox = busy(&city);
    let (head, before) = (rev(&sandbox, "HEAD"), city.facts(&sandbox));
    let outside = city.restored(&city.salvage(&sandbox));
    let (repo, sandbox) = moved(&city);
    repo.prepare().unwrap();
    assert_eq!(repo.sandbox_fault(&sandbox).unwrap(), None);
    assert_eq!(rev(&sandbox, "HEAD"), head);
    assert_eq!(show(&sandbox, ":staged"), "staged only");
    let task = fs::read_link(sandbox.join("TASK.md")).unwrap();
    assert!(
        task.starts_with(city.root().join("elsewhere/city/.horde/tasks")),
        "{task:?}"
    );
    assert_eq!(
        show(&sandbox.join("inner"), ":found"),
        "in the inner worktree"
    );
    let after = repo.facts(&sandbox, "main").unwrap();
    assert_eq!(after.head, before.head);
    assert_eq!(after.dirty, before.dirty);
    // A salvage that was restored outside of the city is still a worktree of it.
    assert_eq!(rev(&outside, "HEAD"), head);
    // Another start changes nothing.
    let files = snapshot(&sandbox);
    repo.prepare().unwrap();
    assert_eq!(snapshot(&sandbox), files);
}

/// An operator keeps the sandboxes behind a link.
#[test]
fn sandboxes_behind_a_link_are_whole_after_a_move_of_the_city() {
    // The second place moves along.
    for target in ["disk", "city/inside"] {
        let city = City::bare();
        let (raiders, real) = (city.repo.raiders_dir(), city.root().join(target));
        fs::create_dir_all(raiders.parent().unwrap()).unwrap();
        fs::create_dir_all(&real).unwrap();
        let moves_along = target.starts_with("city");
        let link = if moves_along {
            "../inside".into()
        } else {
            real
        };
        symlink(link, raiders).unwrap();
        city.repo.prepare().unwrap();
        let sandbox = busy(&city);
        let before = city.facts(&sandbox);
        let (repo, sandbox) = moved(&city);
        repo.prepare().unwrap();
        assert_eq!(repo.sandbox_fault(&sandbox).unwrap(), None, "{target}");
        let after = repo.facts(&sandbox, "main").unwrap();
        assert_eq!((after.head, after.dirty), (before.head, before.dirty));
    }
}

/// A start that was killed before it wrote the new place has changed some links.
#[test]
fn move_that_was_followed_in_part_is_followed_to_its_end() {
    for half in [
        "horde/repo.git/worktrees/Toast/gitdir",
        "horde/raiders/Toast/.git",
    ] {
        let city = City::new();
        busy(&city);
        let place = "city/.horde/custody/horde.git/horde/place";
        let old = fs::read(city.root().join(place)).unwrap();
        let link = fs::read(city.root().join("city").join(half)).unwrap();
        let (repo, to) = moved(&city);
        repo.prepare().unwrap();
        let elsewhere = city.root().join("elsewhere");
        assert_ne!(fs::read(elsewhere.join(place)).unwrap(), old);
        fs::write(elsewhere.join(place), &old).unwrap();
        fs::write(elsewhere.join("city").join(half), &link).unwrap();
        assert!(repo.sandbox_fault(&to).unwrap().is_some(), "{half}");
        repo.prepare().unwrap();
        assert_eq!(repo.sandbox_fault(&to).unwrap(), None, "{half}");
    }
}

/// A line that an agent wrote, or a directory that it closed, stops neither the others nor the rig.
#[test]
fn link_that_cannot_follow_stops_nothing() {
    let city = City::new();
    let sandbox = busy(&city);
    let old = city.root().join("city/horde");
    let worktrees = city.repo.theirs().join("worktrees");
    for (name, link) in [
        ("long", old.join("a".repeat(300)).join(".git")),
        ("other", old.join("a".repeat(253))),
        ("far", Path::new(&"a/".repeat(3000)).join(".git")),
    ] {
        fs::create_dir(worktrees.join(name)).unwrap();
        let text = format!("{}\n", link.display());
        fs::write(worktrees.join(name).join("gitdir"), text).unwrap();
    }
    let looping = sandbox.join("loop");
    symlink(&looping, &looping).unwrap();
    fs::create_dir(worktrees.join("loop")).unwrap();
    let text = format!("{}/.git\n", looping.join("x").display());
    fs::write(worktrees.join("loop/gitdir"), text).unwrap();
    assert_eq!(city.facts(&sandbox).untracked, ["inner/", "loop"]);
    let inner = sandbox.join("inner");
    let closed = |dir: &Path, mode| {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
    };
    closed(&inner, 0o555);
    let (repo, sandbox) = moved(&city);
    repo.prepare().unwrap();
    closed(&sandbox.join("inner"), 0o755);
    assert_eq!(repo.sandbox_fault(&sandbox).unwrap(), None);
}

/// An agent names the administrative directory of another raider, whose sandbox is gone, as its own.
#[test]
fn directory_of_another_raider_is_not_taken_by_its_name() {
    let city = City::new();
    let sandbox = busy(&city);
    let head = rev(&sandbox, "HEAD");
    let other = city.spec_of("Ash", 1);
    city.repo.make_sandbox(&other).unwrap();
    fs::remove_dir_all(&other.path).unwrap();
    fs::write(sandbox.join(".git"), "gitdir: /none/worktrees/Ash\n").unwrap();
    let back = city.repo.theirs().join("worktrees/Toast/gitdir");
    fs::write(&back, "/none/raiders/Toast/.git\n").unwrap();
    assert_eq!(city.facts(&sandbox).head.as_str(), head);
}

/// A link that an agent put in the place of a directory is no way to write elsewhere.
#[test]
fn link_that_an_agent_replaced_is_not_followed() {
    let city = City::new();
    let sandbox = busy(&city);
    let outside = city.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let link = fs::read(sandbox.join("inner/.git")).unwrap();
    fs::write(outside.join(".git"), &link).unwrap();
    fs::rename(sandbox.join("inner"), sandbox.join("was")).unwrap();
    symlink(&outside, sandbox.join("inner")).unwrap();
    let (repo, sandbox) = moved(&city);
    repo.prepare().unwrap();
    assert_eq!(fs::read(outside.join(".git")).unwrap(), link);
    assert_eq!(repo.sandbox_fault(&sandbox).unwrap(), None);
}

/// Without the place of the last start, the links name a place that does not exist. The salvage finds the
/// administrative directory by its name.
#[test]
fn salvage_of_a_sandbox_whose_links_name_no_place_has_index_and_head() {
    let city = City::new();
    let sandbox = busy(&city);
    let head = rev(&sandbox, "HEAD");
    fs::remove_file(city.repo.repo_dir().join("horde/place")).unwrap();
    let (repo, sandbox) = moved(&city);
    repo.prepare().unwrap();
    assert!(repo.sandbox_fault(&sandbox).unwrap().is_some());
    let record = repo.salvage(&sandbox, &toast(), Incarnation(1)).unwrap();
    let to = city.root().join("back");
    repo.restore(&record, &to).unwrap();
    assert_eq!(rev(&to, "HEAD"), head);
    assert_eq!(show(&to, ":staged"), "staged only");
}
