//! Set-aside entries of removed worktrees: they are deleted once refs hold everything that they name.

use std::fs;
use std::path::{Path, PathBuf};

use horde_supervisor::domain::ids::{Oid, RelicId};
use horde_supervisor::ports::repo::Repo;

use crate::support::city::City;
use crate::support::git::{commit_all, git, rev, write};

fn mr() -> RelicId {
    RelicId::new("gt-9").unwrap()
}

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

#[test]
fn an_entry_goes_when_a_ref_of_ours_has_all_of_it() {
    let city = City::new();
    assert_eq!(city.repo.drop_retired().unwrap(), 0, "there is nothing yet");
    let entry = retired(&city, |sandbox| {
        write(sandbox, "README", "1\n");
        commit_all(sandbox, "one");
    });
    let branch = city.spec(1).branch;
    let head = rev(city.repo.theirs(), &branch);
    assert_eq!(
        city.repo.drop_retired().unwrap(),
        0,
        "agents may move branches"
    );
    let pinned = Oid::new(head.clone()).unwrap();
    city.repo.pin(&mr(), &pinned).unwrap();
    assert_eq!(city.repo.drop_retired().unwrap(), 1);
    assert!(!entry.exists());
    assert_eq!(rev(city.repo.theirs(), &branch), head);
    assert!(
        city.facts(&city.spec(2).path).is_clean(),
        "in use, and untouched"
    );
    assert_eq!(city.repo.drop_retired().unwrap(), 0);
}

/// Only its reflog names the commit that an amend left.
#[test]
fn an_entry_stays_while_only_its_reflog_names_a_commit() {
    let city = City::new();
    let mut left = String::new();
    let entry = retired(&city, |sandbox| {
        write(sandbox, "README", "1\n");
        left = commit_all(sandbox, "one");
        git(sandbox, &["reset", "-q", "--hard", "HEAD~1"]);
    });
    assert_eq!(city.repo.drop_retired().unwrap(), 0);
    let bare = city.repo.repo_dir();
    // A raider's branch that was seen on a remote may be deleted there.
    let seen = "refs/remotes/origin/raider/Toast/x";
    let commit = Oid::new(left).unwrap();
    city.repo.pin(&mr(), &commit).unwrap();
    git(bare, &["update-ref", seen, commit.as_str()]);
    city.repo.unpin(&mr()).unwrap();
    assert_eq!(city.repo.drop_retired().unwrap(), 0);
    assert!(entry.join("logs/HEAD").exists());
    city.repo.pin(&mr(), &commit).unwrap();
    assert_eq!(city.repo.drop_retired().unwrap(), 1);
    assert!(!entry.exists());
}

/// An added file that was never committed is in no commit.
#[test]
fn retired_entry_with_staged_files_stays() {
    let city = City::new();
    let entry = retired(&city, |sandbox| {
        write(sandbox, "new", "1\n");
        git(sandbox, &["add", "new"]);
    });
    assert_eq!(city.repo.drop_retired().unwrap(), 0);
    assert!(entry.join("index").exists());
}

/// Part of an operation in progress may exist nowhere else; a state that cannot be judged is kept.
#[test]
fn an_entry_stays_for_a_merge_under_way_and_when_it_is_no_entry() {
    let city = City::new();
    let entry = retired(&city, |sandbox| {
        let tree = rev(sandbox, "HEAD^{tree}");
        let alone = git(sandbox, &["commit-tree", "-m", "alone", &tree]);
        let file = git(sandbox, &["rev-parse", "--git-path", "MERGE_HEAD"]);
        fs::write(sandbox.join(file.trim()), alone).unwrap();
    });
    let odd = entry.with_file_name("odd");
    fs::create_dir(&odd).unwrap();
    assert_eq!(city.repo.drop_retired().unwrap(), 0);
    fs::remove_file(entry.join("MERGE_HEAD")).unwrap();
    assert_eq!(city.repo.drop_retired().unwrap(), 1);
    assert!(!entry.exists() && odd.exists());
}

/// The patches of a series that are not applied yet are text, which no search for commits finds; nor does a search find
/// staged work in an index that a repair set aside, or that a killed git was writing.
#[test]
fn an_entry_stays_for_any_file_that_a_clean_worktree_has_not() {
    for name in ["rebase-apply/0002", "index.aside", "index.lock"] {
        let city = City::new();
        let entry = retired(&city, |_| {});
        write(&entry, name, "From: Ada\n\nnot yet\n");
        assert_eq!(city.repo.drop_retired().unwrap(), 0, "{name}");
        fs::remove_file(entry.join(name)).unwrap();
        assert_eq!(city.repo.drop_retired().unwrap(), 1, "{name}");
    }
}

/// `git fetch --tags` records the tags that it brings.
#[test]
fn a_tag_that_a_ref_has_is_held() {
    let city = City::new();
    let entry = retired(&city, |sandbox| {
        git(sandbox, &["tag", "--annotate", "-m", "one", "v1"]);
        let tag = format!("{}\t\ttag 'v1'\n", rev(sandbox, "v1"));
        let admin = git(sandbox, &["rev-parse", "--absolute-git-dir"]);
        write(Path::new(&admin), "FETCH_HEAD", tag);
    });
    let theirs = city.repo.theirs().display().to_string();
    assert_eq!(
        city.repo.drop_retired().unwrap(),
        0,
        "agents may delete tags"
    );
    let tag = "refs/tags/v1:refs/tags/v1";
    git(city.repo.repo_dir(), &["fetch", "--quiet", &theirs, tag]);
    assert_eq!(city.repo.drop_retired().unwrap(), 1);
    assert!(!entry.exists());
}

/// Work that refs do not hold is kept for as long as salvage, and no longer.
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
