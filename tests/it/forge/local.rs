//! Rigs that push nowhere: without a remote, or with pushing turned off.

use std::fs;

use serde_json::json;

use super::{assert_no_raider_blamed, wait_held};
use crate::faults::plan;
use crate::support::git::{commit_all, git, rev, write};
use crate::support::live::City;

fn without_remote() -> City {
    plan().without_origin().start()
}

#[test]
fn without_a_remote_the_users_branch_and_checkout_move() {
    let mut city = without_remote();
    let relic = city.work_on("w1");
    city.wait_status(&relic, "closed");
    city.assert_quiet();
    city.assert_no_salvage();
    let checkout = city.checkout();
    let log = git(&checkout, &["log", "--format=%s", "main"]);
    assert_eq!(log, "Work on w1\nfirst");
    let content = fs::read_to_string(checkout.join("work/w1"));
    assert_eq!(content.expect("it is in the work tree"), "w1\n");
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    assert_eq!(
        git(&checkout, &["for-each-ref", "--format=%(refname)"]),
        "refs/heads/main"
    );
    city.stop();
}

/// Weakness W7 of an earlier system: work was merged in the user's checkout, and a failed push was ignored.
#[test]
fn a_checkout_with_changes_makes_the_landing_wait() {
    let mut city = without_remote();
    write(&city.checkout(), "README", "being edited\n");
    let before = rev(&city.checkout(), "main");
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    let note = mr["note"].as_str().expect("a text");
    assert!(note.contains("README"), "{note}");
    let shown = city.answer("status", json!({}));
    let queued = &shown["rigs"][0]["forge"]["queue"][0];
    assert_eq!(queued["needs_person"], true, "{queued}");
    assert_eq!(rev(&city.checkout(), "main"), before);
    let edited = fs::read_to_string(city.checkout().join("README"));
    assert_eq!(edited.expect("it is there"), "being edited\n");
    write(&city.checkout(), "README", "hello\n");
    city.answer("mq.retry", json!({ "mr": mr["id"] }));
    city.wait_status(&relic, "closed");
    city.assert_quiet();
    assert_no_raider_blamed(&city, &relic);
    assert!(city.checkout().join("work/w1").exists());
    city.stop();
}

#[test]
fn a_rig_that_must_not_push_lands_in_its_own_repository() {
    let mut city = plan().set("forge", "push", "false").start();
    let before = rev(&city.origin(), "main");
    let relic = city.work_on("w1");
    city.wait_status(&relic, "closed");
    city.assert_quiet();
    city.assert_no_salvage();
    assert_eq!(rev(&city.origin(), "main"), before);
    assert_eq!(rev(&city.checkout(), "main"), before);
    let log = git(&city.repo(), &["log", "--format=%s", "refs/heads/main"]);
    assert_eq!(log, "Work on w1\nfirst");
    // The next landing builds on the last one.
    let next = city.work_on("w2");
    city.wait_status(&next, "closed");
    let log = git(&city.repo(), &["log", "--format=%s", "refs/heads/main"]);
    assert_eq!(log, "Work on w2\nWork on w1\nfirst");
    city.stop();
}

/// During a rebase or a bisect the checkout is not touched; when that is over, the landing continues by itself.
#[test]
fn a_checkout_in_the_middle_of_something_makes_the_landing_wait_until_it_is_over() {
    let mut city = without_remote();
    let checkout = city.checkout();
    for at in 0..3 {
        write(&checkout, "own", format!("{at}\n"));
        commit_all(&checkout, "own");
    }
    git(&checkout, &["bisect", "start", "HEAD", "HEAD~2"]);
    let before = (rev(&checkout, "main"), rev(&checkout, "HEAD"));
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    let note = mr["note"].as_str().expect("a text");
    assert!(note.contains("in the middle of a bisect"), "{note}");
    assert_eq!((rev(&checkout, "main"), rev(&checkout, "HEAD")), before);
    git(&checkout, &["bisect", "reset"]);
    city.wait_status(&relic, "closed");
    city.assert_quiet();
    assert_no_raider_blamed(&city, &relic);
    assert!(checkout.join("work/w1").exists());
    city.stop();
}

/// A file of the landing may be one that a person has and ignores.
#[test]
fn an_ignored_file_in_the_way_is_never_overwritten() {
    let mut city = without_remote();
    let checkout = city.checkout();
    write(&checkout, ".git/info/exclude", "work/\n");
    write(&checkout, "work/w1", "mine\n");
    let relic = city.work_on("w1");
    let mr = wait_held(&city, &relic);
    let note = mr["note"].as_str().expect("a text");
    assert!(note.contains("work/w1"), "{note}");
    let kept = fs::read_to_string(checkout.join("work/w1"));
    assert_eq!(kept.expect("it is there"), "mine\n");
    fs::remove_file(checkout.join("work/w1")).expect("it goes");
    city.wait_status(&relic, "closed");
    assert_no_raider_blamed(&city, &relic);
    city.stop();
}
