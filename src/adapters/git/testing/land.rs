//! Tests of landing, and of work on the target.

use super::Rigged;
use crate::adapters::git::commit_checks;
use crate::adapters::git::land::{land, landed, on_main};
use crate::adapters::git::remote::fetch_target;
use crate::adapters::git::salvage::{keep, restore};
use crate::domain::ids::{Incarnation, Oid};
use crate::ports::repo::RepoError;

#[test]
fn landing_moves_the_target_once() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    assert!(!landed(&rig.repo, "main", &new).unwrap());
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    assert_eq!(rig.at("main"), Some(new.clone()));
    assert!(landed(&rig.repo, "main", &new).unwrap());
    // A crash before the answer was noted: the same landing again, also beneath later ones.
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    let later = rig.commit(&new, &[("b", "b\n")]);
    rig.foreign_push("main", &later);
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    assert_eq!(rig.at("main"), Some(later));
}

/// Each of the two was checked alone.
#[test]
fn landing_of_two_branches_that_make_a_link_to_a_task_together_is_refused() {
    let rig = Rigged::new();
    let sandbox = rig.repo.raiders_dir().join("Toast");
    let [link, dir] = [("TASK.md", "docs/TASK.md"), ("docs", "../Nux")];
    let base = rig.commit(&rig.base, &[("text/TASK.md", "x\n")]);
    let base = rig.links(&base, &[("docs", "text")]);
    land(&rig.repo, "main", &rig.base, &base).unwrap();
    for branch in [link, dir] {
        let alone = rig.links(&base, &[branch]);
        commit_checks::check(&rig.repo, &sandbox, &alone, "main").unwrap();
    }
    let first = rig.links(&base, &[link]);
    land(&rig.repo, "main", &base, &first).unwrap();
    let both = rig.links(&first, &[dir]);
    let error = land(&rig.repo, "main", &first, &both).unwrap_err();
    assert!(
        matches!(&error, RepoError::Rejected(why) if why.contains("TASK.md is a link that leads to no file")),
        "{error}"
    );
    assert_eq!(rig.at("main"), Some(first));
    // A target that a person gave such a link takes work.
    rig.foreign_push("main", &both);
    let next = rig.commit(&both, &[("a", "a\n")]);
    land(&rig.repo, "main", &both, &next).unwrap();
}

#[test]
fn foreign_push_is_never_overwritten() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    let foreign = rig.commit(&rig.base, &[("b", "b\n")]);
    rig.foreign_push("main", &foreign);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(matches!(error, RepoError::Moved { ref found, .. } if *found == foreign.to_string()));
    assert_eq!(rig.at("main"), Some(foreign.clone()));
    assert!(!landed(&rig.repo, "main", &new).unwrap());

    let error = land(&rig.repo, "main", &foreign, &new).unwrap_err();
    assert!(error.to_string().contains("does not contain"), "{error}");
    assert_eq!(rig.at("main"), Some(foreign));
}

#[test]
fn a_target_that_is_gone_is_not_made_again() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.in_origin(&["update-ref", "-d", "refs/heads/main"]);
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(
        matches!(error, RepoError::Moved { ref found, .. } if found == "absent"),
        "{error}"
    );
    assert_eq!(rig.at("main"), None);
}

/// Weakness W22 of an earlier system: gates ran on the target before the merge, and a failed push left its merge
/// behind.
#[test]
fn a_hook_of_the_remote_can_refuse() {
    let rig = Rigged::new();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.hook("pre-receive", "echo frozen >&2; exit 1");
    let error = land(&rig.repo, "main", &rig.base, &new).unwrap_err();
    assert!(
        matches!(&error, RepoError::Rejected(why) if why.contains("frozen")),
        "{error}"
    );
    assert_eq!(rig.at("main"), Some(rig.base.clone()));
}

#[test]
fn without_pushing_the_target_moves_here() {
    let rig = Rigged::silent();
    fetch_target(&rig.repo, "main").unwrap();
    let new = rig.commit(&rig.base, &[("a", "a\n")]);
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    land(&rig.repo, "main", &rig.base, &new).unwrap();
    assert!(landed(&rig.repo, "main", &new).unwrap());
    assert_eq!(fetch_target(&rig.repo, "main").unwrap().tip, new);
    assert_eq!(rig.at("main"), Some(rig.base.clone()));
    let other = rig.commit(&rig.base, &[("b", "b\n")]);
    let error = land(&rig.repo, "main", &rig.base, &other).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
}

#[test]
fn work_is_on_main_as_it_is_rebased_or_squashed() {
    let rig = Rigged::new();
    let one = rig.commit(&rig.base, &[("a", "a\n")]);
    let two = rig.commit(&one, &[("b", "b\n")]);
    let on = |tip: &Oid| {
        rig.foreign_push("main", tip);
        on_main(&rig.repo, &two, "main").unwrap()
    };
    let first = rig.commit(&rig.base, &[("x", "x\n")]);
    let half = rig.commit(&first, &[("a", "a\n")]);
    let rebased = rig.commit(&half, &[("b", "b\n")]);
    let squashed = rig.commit(&first, &[("a", "a\n"), ("b", "b\n")]);
    let other = rig.commit(&first, &[("a", "a\n"), ("b", "c\n")]);
    assert!(!on(&first));
    assert!(!on(&half), "one commit is missing");
    assert!(!on(&other), "it is another patch");
    assert!(on(&two));
    assert!(on(&rebased));
    assert!(on(&rig.commit(&rebased, &[("a", "later\n")])));
    assert!(on(&squashed));
    assert!(on(&rig.commit(&squashed, &[("b", "later\n")])));
    // Reverted work is not on the target, one by one or squashed; landed once more, it is.
    let reverted = rig.commit(&squashed, &[("a", ""), ("b", "")]);
    assert!(!on(&reverted), "it was reverted");
    let again = rig.commit(&reverted, &[("a", "a\n"), ("b", "b\n")]);
    assert!(on(&again));
    let half = rig.commit(&rebased, &[("b", "")]);
    assert!(!on(&half), "a part of it was reverted");
}

/// The same lines in another block are another program.
#[test]
fn patch_that_differs_in_white_space_is_not_on_main() {
    let rig = Rigged::new();
    let start = "def f(x):\n    if x:\n        a()\n    return x\n";
    let base = rig.commit(&rig.base, &[("f.py", start)]);
    let inside = start.replace("a()\n", "a()\n        b()\n");
    let outside = start.replace("a()\n", "a()\n    b()\n");
    let head = rig.commit(&base, &[("f.py", &outside)]);
    rig.foreign_push("main", &rig.commit(&base, &[("f.py", &inside)]));
    assert!(!on_main(&rig.repo, &head, "main").unwrap());
    let first = rig.commit(&base, &[("other", "x\n")]);
    rig.foreign_push("main", &rig.commit(&first, &[("f.py", &outside)]));
    assert!(on_main(&rig.repo, &head, "main").unwrap());
}

#[test]
fn any_remote_may_have_the_work() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let fork = rig.path("fork").display().to_string();
    let git = |args: &[&str]| rig.repo.git().args(args).run().unwrap();
    git(&["init", "-q", "--bare", "--initial-branch=trunk", &fork]);
    git(&["remote", "add", "fork", &fork]);
    assert!(!on_main(&rig.repo, &head, "main").unwrap());
    git(&["push", "-q", &fork, &format!("{head}:refs/heads/trunk")]);
    assert!(on_main(&rig.repo, &head, "main").unwrap());
    // An unreachable remote does not mean no.
    let other = rig.commit(&rig.base, &[("b", "b\n")]);
    std::fs::remove_dir_all(&fork).unwrap();
    let error = on_main(&rig.repo, &other, "main").unwrap_err();
    assert!(matches!(error, RepoError::Remote(_)), "{error}");
}

#[test]
fn a_commit_that_did_not_land_is_kept_once_and_comes_back() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let raider = "horde/raiders/Toast".parse().unwrap();
    let save = |head: &Oid| keep(&rig.repo, head, &raider, Incarnation(3));
    let record = save(&head).unwrap();
    assert_eq!(save(&head).unwrap(), record);
    assert_eq!(record.id, "horde-Toast-3");
    assert_eq!(record.refs, ["refs/horde/salvage/horde/Toast/3/head"]);
    let other = save(&rig.base).unwrap();
    assert_eq!(other.id, "horde-Toast-3.2");
    let to = rig.path("restored");
    restore(&rig.repo, &record, &to).unwrap();
    assert_eq!(std::fs::read_to_string(to.join("a")).unwrap(), "a\n");
    let absent = Oid::new("a".repeat(40)).unwrap();
    let error = save(&absent).unwrap_err();
    assert!(matches!(error, RepoError::NotFound(_)), "{error}");
}
