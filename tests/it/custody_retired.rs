//! Set-aside entries of removed worktrees, and stash entries of raiders that are gone: both are kept as long as
//! salvage.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::ports::repo::Repo;

use crate::support::city::City;
use crate::support::git::{git, write};

/// Removes the directory of Toast's first sandbox after `act`, and makes a second one. Returns the entry of the first.
fn retired(city: &City, act: impl FnOnce(&Path)) -> PathBuf {
    let sandbox = city.sandbox();
    act(&sandbox);
    fs::remove_dir_all(&sandbox).unwrap();
    city.repo.make_sandbox(&city.spec(2)).unwrap();
    let entry = city.repo.theirs().join("horde/retired/Toast");
    assert!(entry.join("HEAD").exists());
    entry
}

/// It may be the last to hold some work, and is kept for as long as salvage, and no longer.
#[test]
fn an_entry_goes_when_it_was_kept_for_long_enough() {
    let city = City::new();
    let entry = retired(&city, |sandbox| {
        write(sandbox, "new", "1\n");
        git(sandbox, &["add", "new"]);
    });
    let now = jiff::Timestamp::now();
    let earlier = now.checked_sub(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(city.repo.expire_retired(earlier).unwrap(), 0);
    assert!(entry.exists());
    let later = now.checked_add(std::time::Duration::from_secs(60)).unwrap();
    assert_eq!(city.repo.expire_retired(later).unwrap(), 1);
    assert!(!entry.exists());
}

/// All sandboxes share one list: entries of living sandboxes stay at any age.
#[test]
fn stash_entries_of_raiders_that_are_gone_go_when_they_were_kept_for_long_enough() {
    let city = City::new();
    let (sandbox, gone) = (city.sandbox(), city.spec_of("Gone", 1));
    city.repo.make_sandbox(&gone).unwrap();
    let stash = |sandbox: &Path, text: &str| {
        write(sandbox, "README", text);
        git(sandbox, &["stash"]);
    };
    let list = || git(&sandbox, &["stash", "list", "--format=%gs"]);
    stash(&gone.path, "1\n");
    stash(&sandbox, "2\n");
    stash(&gone.path, "3\n");
    assert_eq!(list().lines().count(), 3);
    let now = jiff::Timestamp::now();
    let minute = std::time::Duration::from_secs(60);
    let expire = |before| city.repo.expire_stash(before).unwrap();
    let (ago, later) = (
        now.checked_sub(minute).unwrap(),
        now.checked_add(minute).unwrap(),
    );
    assert_eq!(expire(later), 0, "both live");
    fs::remove_dir_all(&gone.path).unwrap();
    city.repo
        .forget_sandbox(&gone.path, &gone.raider, gone.incarnation)
        .unwrap();
    assert_eq!(expire(ago), 0, "they are new");
    assert_eq!(expire(later), 2);
    let left = list();
    assert_eq!(left.lines().count(), 1, "{left}");
    assert!(left.contains(&city.spec(1).branch), "{left}");
    // The last entry takes the ref with it.
    fs::remove_dir_all(&sandbox).unwrap();
    let toast = city.spec(1);
    city.repo
        .forget_sandbox(&sandbox, &toast.raider, toast.incarnation)
        .unwrap();
    assert_eq!(expire(later), 1);
    let theirs = city.repo.theirs();
    assert!(!theirs.join("refs/stash").exists());
    git(theirs, &["fsck", "--no-progress"]);
}
