//! Tests of pushes: the user's hook, concurrent pushers, remotes that hang, stale locks.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use super::Rigged;
use crate::adapters::git::land::land;
use crate::adapters::git::locks;
use crate::adapters::git::remote::{fetch_target, push_branch};
use crate::adapters::git::settings::NO_PUSH;
use crate::ports::repo::RepoError;
use crate::testing::eventually;
use crate::testing::program;

const BRANCH: &str = "raider/Toast/gt-1-1";

/// Makes a program like the one that a hook of `git lfs install` runs: it records its input.
fn fake_lfs(rig: &Rigged) -> std::path::PathBuf {
    let seen = rig.path("seen");
    let script = format!(
        "out='{}'\n{{ echo \"args: $1 $2\"; echo \"refs: $(cat)\"; echo \"dir: $(git rev-parse --absolute-git-dir)\"\n\
         echo \"push: $(git config remote.origin.pushurl)\"; echo \"lfs: $(git config remote.origin.lfsurl)\"\n\
         }} > \"$out\"",
        seen.display()
    );
    let hooks = rig.origin().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    program::script(&hooks.join("pre-push"), &script);
    seen
}

fn line<'a>(text: &'a str, key: &str) -> &'a str {
    let mut lines = text.lines();
    lines
        .find_map(|line| line.strip_prefix(key))
        .unwrap()
        .trim()
}

/// The sandbox's disabled URL must not reach the hook, wherever it is written.
#[test]
fn lfs_upload_by_the_users_hook_gets_the_real_address() {
    let rig = Rigged::local();
    rig.in_origin(&["config", "--unset", "core.hooksPath"]);
    rig.in_origin(&["config", "receive.denyCurrentBranch", "ignore"]);
    for (key, value) in [
        ("remote.origin.pushurl", NO_PUSH),
        ("remote.origin.lfsurl", "https://lfs.example.invalid/x"),
        ("core.hooksPath", "/nonexistent"),
    ] {
        rig.repo.git().args(["config", key, value]).run().unwrap();
    }
    let seen = fake_lfs(&rig);
    let url = rig.repo.push_url().unwrap();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    let text = fs::read_to_string(&seen).unwrap();
    assert_eq!(line(&text, "args:"), format!("{url} {url}"));
    assert_eq!(line(&text, "push:"), url);
    assert_eq!(line(&text, "lfs:"), "https://lfs.example.invalid/x");
    let dir = Path::new(line(&text, "dir:")).canonicalize().unwrap();
    assert_eq!(dir, rig.repo.repo_dir().canonicalize().unwrap());
    assert!(
        line(&text, "refs:").contains(&format!("{head} refs/heads/{BRANCH}")),
        "{text}"
    );
    fs::remove_file(&seen).unwrap();
    land(&rig.repo, "main", &rig.base, &head).unwrap();
    assert!(
        fs::read_to_string(&seen)
            .unwrap()
            .contains("refs/heads/main")
    );
}

/// The content of a tracked hooks directory depends on the commit, which may be an agent's.
#[test]
fn hooks_that_a_commit_brings_do_not_run() {
    let rig = Rigged::local();
    rig.in_origin(&["config", "receive.denyCurrentBranch", "ignore"]);
    let ran = rig.path("ran");
    program::script(
        &rig.origin().join("pre-push"),
        &format!("touch '{}'", ran.display()),
    );
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    for hooks in [".", "../origin"] {
        rig.in_origin(&["config", "core.hooksPath", hooks]);
        rig.repo
            .git()
            .args(["config", "core.hooksPath", rig.origin().to_str().unwrap()])
            .run()
            .unwrap();
        push_branch(&rig.repo, BRANCH, &head, None).unwrap();
        assert!(!ran.exists());
    }
}

/// The directory of the hook is git's own, and the file that it leads to is an agent's.
#[test]
fn hook_that_is_a_link_to_a_tracked_file_does_not_run() {
    let rig = Rigged::local();
    rig.in_origin(&["config", "--unset", "core.hooksPath"]);
    rig.in_origin(&["config", "receive.denyCurrentBranch", "ignore"]);
    let ran = rig.path("ran");
    let script = format!("touch '{}'", ran.display());
    fs::create_dir(rig.origin().join("scripts")).unwrap();
    program::script(&rig.origin().join("scripts/pre-push"), &script);
    let hooks = rig.origin().join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    std::os::unix::fs::symlink("../../scripts/pre-push", hooks.join("pre-push")).unwrap();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    assert!(!ran.exists());
}

#[test]
fn users_hook_can_refuse_a_push() {
    let rig = Rigged::local();
    let hooks = rig.path("hooks");
    fs::create_dir(&hooks).unwrap();
    rig.in_origin(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
    program::script(&hooks.join("pre-push"), "echo not today >&2; exit 1");
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let error = push_branch(&rig.repo, BRANCH, &head, None).unwrap_err();
    assert!(
        matches!(&error, RepoError::Rejected(why) if why.contains("not today")),
        "{error}"
    );
}

/// When two pushes meet and the branch has moved, it was a race, whatever the remote's message is.
/// Case C15 of an adversary: a race with another pusher was taken for a rejection.
#[test]
fn race_with_another_pusher_is_no_rejection() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let theirs = rig.commit(&rig.base, &[("b", "b\n")]);
    rig.foreign_push("side", &theirs);
    // The other push comes first, between the remote's check and its update.
    let script = format!(
        "unset GIT_QUARANTINE_PATH\ngit update-ref refs/heads/main {theirs} {}",
        rig.base
    );
    rig.hook("pre-receive", &script);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(
        matches!(&error, RepoError::Moved { found, .. } if *found == theirs.to_string()),
        "{error}"
    );
    // Even if a hook refuses the push because of the race.
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let theirs = rig.commit(&rig.base, &[("b", "b\n")]);
    rig.foreign_push("side", &theirs);
    let script = format!(
        "unset GIT_QUARANTINE_PATH\ngit update-ref refs/heads/main {theirs} {}\necho busy >&2; exit 1",
        rig.base
    );
    rig.hook("pre-receive", &script);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(&error, RepoError::Moved { .. }), "{error}");
}

/// A lock at the remote is transient, and says nothing about the work.
#[test]
fn lock_at_the_remote_is_tried_again_later() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    fs::write(rig.origin().join("refs/heads/main.lock"), "").unwrap();
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(error, RepoError::Remote(_)), "{error}");
    fs::remove_file(rig.origin().join("refs/heads/main.lock")).unwrap();
    land(&rig.repo, "main", &rig.base, &new).unwrap();
}

/// The remote has accepted the push, and then a process there hangs.
/// Case C23 of an adversary: a push that hangs after it was accepted blocked the queue.
#[test]
fn push_that_hangs_after_it_was_accepted_has_landed() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let (gate, ended) = (rig.path("gate"), rig.path("ended"));
    rig.hook(
        "post-receive",
        &format!(
            "while ! test -e '{}'; do sleep 0.05; done; touch '{}'",
            gate.display(),
            ended.display()
        ),
    );
    let begun = Instant::now();
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(!ended.exists(), "the hook goes on");
    assert_eq!(rig.at("main"), Some(new));
    fs::write(&gate, "").unwrap();
    eventually("the hook is not cut short", || ended.exists().then_some(()));
}

/// Case C16 of an adversary: parallel fetches of the supervisor collided.
#[test]
fn parallel_fetches_of_one_branch_do_not_collide() {
    let rig = Rigged::new();
    for round in 0..4 {
        let text = format!("{round}\n");
        let next = rig.commit(&rig.at("main").unwrap(), &[("a", &text)]);
        rig.foreign_push("main", &next);
        std::thread::scope(|scope| {
            let fetches: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| fetch_target(&rig.repo, "main")))
                .collect();
            for fetch in fetches {
                assert_eq!(fetch.join().unwrap().unwrap().tip, next);
            }
        });
    }
}

/// A lock that a killed git left: the landing counts, and the lock is removed once it is stale.
/// Case C24 of an adversary: a leftover lock of a remote branch hid a landing.
#[test]
fn stale_lock_of_a_remote_branch_neither_hides_a_landing_nor_stays() {
    let rig = Rigged::new();
    fetch_target(&rig.repo, "main").unwrap();
    let lock = rig.repo.repo_dir().join("refs/remotes/origin/main.lock");
    fs::write(&lock, "").unwrap();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    assert_eq!(rig.at("main"), Some(new.clone()));
    assert!(lock.exists(), "it may be of another process");
    fetch_target(&rig.repo, "main").unwrap_err();
    let file = fs::File::options().write(true).open(&lock).unwrap();
    file.set_modified(SystemTime::now() - 2 * locks::STALE)
        .unwrap();
    assert_eq!(fetch_target(&rig.repo, "main").unwrap().tip, new);
    assert!(!lock.exists());
}

/// The push was said to have found the branch moved, which it was not, and no person was told what helps.
#[test]
fn branch_in_the_place_of_the_raiders_branches_refuses_the_push_with_gits_reason() {
    let rig = Rigged::new();
    rig.foreign_push("raider", &rig.base);
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let push = || push_branch(&rig.repo, "raider/Toast/gt-1-1", &new, None);
    let refused = push().unwrap_err();
    assert!(matches!(refused, RepoError::Rejected(_)), "{refused}");
    assert!(
        refused.to_string().contains("'refs/heads/raider' exists"),
        "{refused}"
    );
    fs::remove_file(rig.origin().join("refs/heads/raider")).unwrap();
    push().unwrap();
}

/// It was said to have moved, which it had not.
#[test]
fn branch_that_the_remote_cannot_write_now_is_told_with_gits_reason_and_pushed_later() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let push = || push_branch(&rig.repo, BRANCH, &new, None);
    let lock = rig.origin().join(format!("refs/heads/{BRANCH}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    let refused = push().unwrap_err();
    assert!(matches!(refused, RepoError::Remote(_)), "{refused}");
    fs::remove_file(&lock).unwrap();
    push().unwrap();
}
