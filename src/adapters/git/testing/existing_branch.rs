//! Tests of branches that work begins on, and of a default branch that changes at the remote.

use super::Rigged;
use crate::adapters::git::{default_branch, existing_branch, fetch, remote};
use crate::domain::default_branch::Change;
use crate::domain::existing_branch::BranchAt;

#[test]
fn branch_of_the_remote_is_fetched_and_a_missing_one_lists_the_others() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.foreign_push("topic/a", &head);
    let found = existing_branch::find(&rig.repo, "topic/a").unwrap();
    let expected = BranchAt {
        remote: Some(head.clone()),
        ..BranchAt::default()
    };
    assert_eq!(found, expected);
    assert_eq!(
        rig.repo.resolve("refs/remotes/origin/topic/a").unwrap(),
        Some(head)
    );
    rig.in_origin(&["branch", "-q", "-D", "topic/a"]);
    let missing = existing_branch::find(&rig.repo, "topic/a").unwrap();
    assert_eq!(
        (missing.remote, missing.others),
        (None, vec!["main".to_owned()])
    );
    assert_eq!(
        rig.repo.resolve("refs/remotes/origin/topic/a").unwrap(),
        None
    );
}

/// `topic` and `topic/x` exclude each other in a repository.
#[test]
fn branch_is_found_whatever_branches_were_above_or_below_it() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.foreign_push("topic/x", &head);
    let at = |branch: &str| existing_branch::find(&rig.repo, branch).unwrap().remote;
    assert_eq!(at("topic/x"), Some(head.clone()));
    assert_eq!(at("topic"), None);
    assert_eq!(at("topic/x/y"), None);
    for (gone, there) in [
        ("topic/x", "topic"),
        ("topic", "topic/x/y"),
        ("topic/x/y", "topic/x"),
    ] {
        rig.in_origin(&["branch", "-q", "-D", gone]);
        rig.foreign_push(there, &head);
        assert_eq!(at(there), Some(head.clone()), "{there} instead of {gone}");
        assert_eq!(at(gone), None);
        assert_eq!(fetch::fetch_branch(&rig.repo, gone).unwrap(), None);
    }
    // The push of such a branch was accepted.
    remote::track(&rig.repo, "topic", &head).unwrap();
    assert_eq!(
        rig.repo.resolve("refs/remotes/origin/topic/x").unwrap(),
        None
    );
}

#[test]
fn branch_that_a_person_has_checked_out_is_found_with_its_place() {
    let rig = Rigged::local();
    let found = existing_branch::find(&rig.repo, "main").unwrap();
    assert_eq!(
        (found.remote, found.local),
        (Some(rig.base.clone()), Some(rig.base.clone()))
    );
    let place = found.checked_out.unwrap();
    assert!(place.ends_with("origin"), "{place}");
}

/// Discovers the default branch, as the preparation of a rig does.
fn discover(rig: &Rigged) {
    remote::fetch_target(&rig.repo, "main").unwrap();
    default_branch::follow(&rig.repo, "main").unwrap();
    assert_eq!(fetch::default_branch(&rig.repo).unwrap(), "main");
}

#[test]
fn default_branch_that_was_renamed_is_noticed_and_can_be_followed() {
    let rig = Rigged::new();
    discover(&rig);
    assert_eq!(default_branch::change(&rig.repo).unwrap(), None);
    let next = rig.commit(&rig.base, &[("b", "b\n")]);
    rig.foreign_push("trunk", &next);
    let mut change = Change {
        from: "main".into(),
        to: "trunk".into(),
        contains: true,
        kept: true,
    };
    rig.in_origin(&["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    assert_eq!(
        default_branch::change(&rig.repo).unwrap(),
        Some(change.clone())
    );
    rig.in_origin(&["branch", "-q", "-D", "main"]);
    change.kept = false;
    assert_eq!(default_branch::change(&rig.repo).unwrap(), Some(change));
    // What is known of the former one stays: sandboxes are measured against it.
    assert_eq!(rig.repo.target_tip("main").unwrap(), Some(rig.base.clone()));
    default_branch::follow(&rig.repo, "trunk").unwrap();
    assert_eq!(default_branch::change(&rig.repo).unwrap(), None);
    assert_eq!(fetch::default_branch(&rig.repo).unwrap(), "trunk");
}

#[test]
fn default_branch_without_the_commits_of_the_former_one_is_told_as_such() {
    let rig = Rigged::new();
    discover(&rig);
    rig.foreign_push("develop", &rig.base);
    let landed = rig.commit(&rig.base, &[("landed", "l\n")]);
    // Pushed by another, and not fetched yet.
    rig.foreign_push("main", &landed);
    rig.in_origin(&["symbolic-ref", "HEAD", "refs/heads/develop"]);
    let change = default_branch::change(&rig.repo).unwrap().unwrap();
    assert_eq!((change.to.as_str(), change.contains), ("develop", false));
    // HEAD may name a branch that has no commit.
    rig.in_origin(&["symbolic-ref", "HEAD", "refs/heads/unborn"]);
    assert_eq!(default_branch::change(&rig.repo).unwrap(), None);
}

/// The HEAD of a checkout is the branch that its owner works on.
#[test]
fn checkout_that_is_its_own_origin_never_changes_the_default_branch() {
    let rig = Rigged::local();
    discover(&rig);
    rig.in_origin(&["checkout", "-q", "-b", "feature"]);
    assert_eq!(default_branch::change(&rig.repo).unwrap(), None);
}
