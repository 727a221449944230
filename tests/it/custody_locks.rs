//! A lock that a killed git left on the list of packed refs is removed when it is stale; nothing waits for a fresh one in
//! theirs.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use horde_supervisor::domain::ids::{Incarnation, Oid};
use horde_supervisor::ports::repo::Repo;

use crate::custody_theirs::whole_life;
use crate::support::city::{City, toast};
use crate::support::git::{commit_all, git, rev, try_git, write};

/// Leaves a lock that is older than any command runs, beside packed refs.
fn lock(repo: &Path) {
    let lock = fresh_lock(repo);
    lock.set_modified(SystemTime::UNIX_EPOCH).unwrap();
}

fn fresh_lock(repo: &Path) -> fs::File {
    git(repo, &["pack-refs", "--all"]);
    fs::File::create(repo.join("packed-refs.lock")).unwrap()
}

/// The slot is free again, and the next raider gets it.
/// Case A61 of an adversary: locks that a killed git left.
/// Case A79 of an adversary: a leftover lock of the packed refs keeps the slot.
#[test]
fn lock_on_packed_refs_of_theirs_keeps_no_slot() {
    let city = City::new();
    city.sandbox();
    let theirs = city.repo.theirs();
    fresh_lock(theirs);
    whole_life(&city, "Nux");
    let spec = city.spec_of("Nux", 2);
    assert!(!spec.path.exists() && !theirs.join("worktrees/Nux").exists());
    assert!(theirs.join("packed-refs.lock").exists());
    let next = city.spec_of("Nux", 3);
    city.repo.make_sandbox(&next).unwrap();
    assert!(city.facts(&next.path).is_clean());
    // git packs the branch of a raider at work: it stays until the lock is gone, and holds up nothing.
    fs::remove_file(theirs.join("packed-refs.lock")).unwrap();
    git(theirs, &["branch", "-q", "raider/Nux/old-1", "origin/main"]);
    fresh_lock(theirs);
    assert!(!city.repo.drop_branch("raider/Nux/old-1").unwrap());
    fs::remove_file(theirs.join("packed-refs.lock")).unwrap();
    lock(theirs);
    assert!(city.repo.drop_branch("raider/Nux/old-1").unwrap());
    assert!(!theirs.join("packed-refs.lock").exists(), "it was stale");
}

/// A supervisor that was killed had left it: no agent of the rig could stash any more.
#[test]
fn stale_lock_of_the_stash_list_is_removed_by_a_patrol() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "changed\n");
    let held = city.repo.theirs().join("refs/stash.lock");
    let lock = fs::File::create(&held).unwrap();
    assert!(!try_git(&sandbox, &["stash"]).status.success());
    city.repo.progress(&sandbox).unwrap();
    assert!(held.exists(), "it is fresh");
    lock.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    city.repo.progress(&sandbox).unwrap();
    git(&sandbox, &["stash"]);
}

/// The pin of a merge request, an old salvage, and a branch that the remote has no more: each is taken out of the list.
#[test]
fn lock_on_packed_refs_of_ours_stops_no_deletion() {
    let city = City::new();
    let sandbox = city.sandbox();
    write(&sandbox, "README", "changed\n");
    let head = Oid::new(commit_all(&sandbox, "work")).unwrap();
    let spec = city.spec(1);
    city.repo.push_branch(&spec.branch, &head, None).unwrap();
    let ours = city.repo.repo_dir();
    let is_there = |name: &str| {
        let asked = ["rev-parse", "--verify", "-q", name];
        try_git(ours, &asked).status.success()
    };
    let mr = "gt-9".to_owned().try_into().unwrap();
    city.repo.pin(&mr, &head).unwrap();
    lock(ours);
    city.repo.unpin(&mr).unwrap();
    assert!(!is_there("refs/horde/mq/gt-9"));
    let record = city.repo.salvage(&sandbox, &toast(), Incarnation(1));
    let record = record.unwrap();
    lock(ours);
    let tips = city.repo.tips(&record.refs).unwrap();
    city.repo.delete_refs(&tips).unwrap();
    assert!(!is_there(&record.refs[0]));
    lock(ours);
    let branch = format!("refs/remotes/origin/{}", spec.branch);
    assert_eq!(rev(ours, &branch), head.as_str());
    git(&city.origin(), &["branch", "-q", "-D", &spec.branch]);
    fs::remove_file(ours.join("horde.ready")).unwrap();
    city.repo.prepare().unwrap();
    assert!(!is_there(&branch));
    assert!(!ours.join("packed-refs.lock").exists());
}
