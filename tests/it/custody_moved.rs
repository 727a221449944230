//! A city that was moved: the index, the HEAD and the detached commits of its sandboxes are found at the new place.

use std::fs;
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

/// A start that was killed before it wrote the new place has changed some links.
#[test]
fn move_that_was_followed_in_part_is_followed_to_its_end() {
    let city = City::new();
    let sandbox = busy(&city);
    let place = city.repo.repo_dir().join("horde/place");
    let old = fs::read(&place).unwrap();
    let (moved, to) = moved(&city);
    moved.prepare().unwrap();
    let place = moved.repo_dir().join("horde/place");
    assert_ne!(fs::read(&place).unwrap(), old);
    fs::write(&place, &old).unwrap();
    let back = moved.theirs().join("worktrees/Toast/gitdir");
    fs::write(&back, format!("{}/.git\n", sandbox.display())).unwrap();
    let again = repo(
        &city.root().join("elsewhere"),
        RigSource::Path(city.checkout()),
        true,
    );
    again.prepare().unwrap();
    assert_eq!(again.sandbox_fault(&to).unwrap(), None);
}

/// What an agent wrote in the place of a link is no reason to write elsewhere.
#[test]
fn link_that_an_agent_replaced_is_not_followed() {
    let city = City::new();
    let sandbox = busy(&city);
    let outside = city.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let link = fs::read(sandbox.join("inner/.git")).unwrap();
    fs::write(outside.join(".git"), &link).unwrap();
    fs::rename(sandbox.join("inner"), sandbox.join("was")).unwrap();
    std::os::unix::fs::symlink(&outside, sandbox.join("inner")).unwrap();
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
