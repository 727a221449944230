//! Tests of remote branches and pins.

use super::Rigged;
use crate::adapters::git::command::Git;
use crate::adapters::git::{branches, fetch, pins, remote};
use crate::domain::ids::{Oid, RelicId};
use crate::ports::repo::RepoError;

const BRANCH: &str = "raider/Toast/gt-1-1";

fn absent() -> Oid {
    Oid::new("0123456789012345678901234567890123456789").unwrap()
}

/// Agents can write to the repository that the refs are copied into. A failed copy stops neither fetch nor push.
#[test]
fn files_in_the_way_in_theirs_hold_up_neither_fetch_nor_push() {
    let rig = Rigged::new();
    let shown = |branch: &str| rig.repo.theirs().join("refs/remotes/origin").join(branch);
    std::fs::create_dir_all(shown("main").join("deep")).unwrap();
    std::fs::write(shown("main").join("deep/work"), "mine\n").unwrap();
    let target = remote::fetch_target(&rig.repo, "main").unwrap();
    assert_eq!(target.tip, rig.base);
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    std::fs::create_dir_all(shown(BRANCH).parent().unwrap().parent().unwrap()).unwrap();
    std::fs::write(shown(BRANCH).parent().unwrap(), "no directory\n").unwrap();
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    assert_eq!(rig.at(BRANCH), Some(head));
    // An empty directory blocks nothing.
    std::fs::remove_file(shown("main").join("deep/work")).unwrap();
    remote::fetch_target(&rig.repo, "main").unwrap();
    let told = rig.repo.their_refs().resolve("refs/remotes/origin/main");
    assert_eq!(told.unwrap(), Some(rig.base.clone()));
}

#[test]
fn a_branch_is_pushed_read_back_and_pushed_again() {
    let rig = Rigged::new();
    let one = rig.commit(&rig.base, &[("a", "a\n")]);
    let two = rig.commit(&one, &[("b", "b\n")]);
    for head in [&one, &one, &two] {
        remote::push_branch(&rig.repo, BRANCH, head, None).unwrap();
        assert_eq!(rig.at(BRANCH).as_ref(), Some(head));
        assert_eq!(
            remote::remote_head(&rig.repo, BRANCH).unwrap().as_ref(),
            Some(head)
        );
        let tracked = rig.repo.resolve(&format!("refs/remotes/origin/{BRANCH}"));
        assert_eq!(tracked.unwrap().as_ref(), Some(head));
    }
    // A push of rewritten work must name the commit that it replaces.
    let rewritten = rig.commit(&rig.base, &[("c", "c\n")]);
    let error = remote::push_branch(&rig.repo, BRANCH, &rewritten, None).unwrap_err();
    assert!(matches!(error, RepoError::Moved { ref found, .. } if *found == two.to_string()));
    let error = remote::push_branch(&rig.repo, BRANCH, &rewritten, Some(&one)).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
    assert_eq!(rig.at(BRANCH), Some(two.clone()));
    remote::push_branch(&rig.repo, BRANCH, &rewritten, Some(&two)).unwrap();
    remote::push_branch(&rig.repo, BRANCH, &rewritten, Some(&two)).unwrap();
    assert_eq!(rig.at(BRANCH), Some(rewritten.clone()));
    let gone = remote::push_branch(&rig.repo, "raider/x", &rewritten, Some(&two)).unwrap_err();
    assert!(
        matches!(gone, RepoError::Moved { ref found, .. } if found == "absent"),
        "{gone}"
    );
    let unknown = remote::push_branch(&rig.repo, BRANCH, &absent(), None).unwrap_err();
    assert!(matches!(unknown, RepoError::NotFound(_)), "{unknown}");
}

#[test]
fn a_hook_that_says_no_is_told_from_a_remote_that_is_away() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.hook("pre-receive", "echo not on a friday >&2; exit 1");
    let error = remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap_err();
    assert!(
        matches!(&error, RepoError::Rejected(why) if why.contains("not on a friday")),
        "{error}"
    );
    assert_eq!(rig.at(BRANCH), None);
    std::fs::rename(rig.origin(), rig.path("elsewhere")).unwrap();
    for error in [
        remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap_err(),
        remote::fetch_target(&rig.repo, "main")
            .map(drop)
            .unwrap_err(),
        remote::remote_head(&rig.repo, "main")
            .map(drop)
            .unwrap_err(),
        remote::delete_branch(&rig.repo, BRANCH, &head).unwrap_err(),
    ] {
        assert!(matches!(error, RepoError::Remote(_)), "{error}");
    }
}

#[test]
fn the_target_is_fetched_with_its_tree() {
    let rig = Rigged::new();
    let next = rig.commit(&rig.base, &[("a", "a\n")]);
    rig.foreign_push("main", &next);
    let state = remote::fetch_target(&rig.repo, "main").unwrap();
    assert_eq!(state.tip, next);
    assert_eq!(
        state.tree.as_str(),
        rig.in_origin(&["rev-parse", "main^{tree}"])
    );
    let error = remote::fetch_target(&rig.repo, "missing").unwrap_err();
    assert!(matches!(error, RepoError::NotFound(_)), "{error}");
}

#[test]
fn a_branch_is_deleted_where_it_was_left() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let local = format!("refs/heads/{BRANCH}");
    let git = |args: &[&str]| Git::in_dir(rig.repo.theirs()).args(args).run().unwrap();
    let at = || rig.repo.their_refs().resolve(&local).unwrap();
    git(&["update-ref", &local, head.as_str()]);
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();

    let later = rig.commit(&head, &[("b", "b\n")]);
    rig.foreign_push(BRANCH, &later);
    let error = remote::delete_branch(&rig.repo, BRANCH, &head).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
    assert_eq!(rig.at(BRANCH), Some(later));
    rig.foreign_push(BRANCH, &head);

    remote::delete_branch(&rig.repo, BRANCH, &head).unwrap();
    assert_eq!(rig.at(BRANCH), None);
    let tracked = format!("refs/remotes/origin/{BRANCH}");
    assert_eq!(rig.repo.resolve(&tracked).unwrap(), None);
    // Nothing of ours reached theirs, so it is still there.
    assert_eq!(at(), Some(head.clone()));

    pins::pin(&rig.repo, &RelicId::new("gt-2").unwrap(), &head).unwrap();
    let sandbox = rig.path("sandbox");
    git(&["worktree", "add", "-q", sandbox.to_str().unwrap(), BRANCH]);
    remote::delete_branch(&rig.repo, BRANCH, &head).unwrap();
    assert_eq!(at(), Some(head.clone()), "checked out");
    git(&["worktree", "remove", sandbox.to_str().unwrap()]);
    remote::delete_branch(&rig.repo, BRANCH, &head).unwrap();
    assert_eq!(at(), None);
}

#[test]
fn a_branch_that_the_remote_keeps_is_not_deleted() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    rig.in_origin(&["config", "receive.denyDeletes", "true"]);
    let error = remote::delete_branch(&rig.repo, BRANCH, &head).unwrap_err();
    assert!(matches!(error, RepoError::Rejected(_)), "{error}");
}

#[test]
fn a_pin_holds_a_head_that_exists() {
    let rig = Rigged::new();
    let mr = RelicId::new("gt-12.3").unwrap();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    pins::pin(&rig.repo, &mr, &head).unwrap();
    pins::pin(&rig.repo, &mr, &head).unwrap();
    assert_eq!(
        rig.repo.resolve("refs/horde/mq/gt-12.3").unwrap(),
        Some(head)
    );
    let error = pins::pin(&rig.repo, &mr, &absent()).unwrap_err();
    assert!(matches!(error, RepoError::NotFound(_)), "{error}");
    pins::unpin(&rig.repo, &mr).unwrap();
    pins::unpin(&rig.repo, &mr).unwrap();
    assert_eq!(rig.repo.resolve("refs/horde/mq/gt-12.3").unwrap(), None);
}

#[test]
fn without_pushing_branches_live_here() {
    let rig = Rigged::silent();
    let state = remote::fetch_target(&rig.repo, "main").unwrap();
    assert_eq!(state.tip, rig.base);
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    assert_eq!(
        remote::remote_head(&rig.repo, BRANCH).unwrap(),
        Some(head.clone())
    );
    assert_eq!(rig.at(BRANCH), None, "nothing was pushed");
    let other = rig.commit(&rig.base, &[("b", "b\n")]);
    let error = remote::push_branch(&rig.repo, BRANCH, &other, None).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
    // The remote's target moves independently.
    rig.foreign_push("main", &other);
    assert_eq!(
        remote::fetch_target(&rig.repo, "main").unwrap().tip,
        rig.base
    );
}

/// A pushed branch outlives the local branch on a remote, and also without pushing.
#[test]
fn pushed_branch_outlives_its_local_branch() {
    let rig = Rigged::silent();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let local = format!("refs/heads/{BRANCH}");
    let git = |args: &[&str]| Git::in_dir(rig.repo.theirs()).args(args).run().unwrap();
    git(&["update-ref", &local, head.as_str()]);
    assert_eq!(fetch::fetch_branch(&rig.repo, BRANCH).unwrap(), None);
    remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
    branches::drop_branch(&rig.repo, BRANCH).unwrap();
    assert_eq!(rig.repo.their_refs().resolve(&local).unwrap(), None);
    let pushed = fetch::fetch_branch(&rig.repo, BRANCH).unwrap();
    assert_eq!(pushed.as_ref(), Some(&head));
    let error = remote::delete_branch(&rig.repo, BRANCH, &rig.base).unwrap_err();
    assert!(matches!(error, RepoError::Moved { .. }), "{error}");
    for _ in 0..2 {
        remote::delete_branch(&rig.repo, BRANCH, &head).unwrap();
        assert_eq!(fetch::fetch_branch(&rig.repo, BRANCH).unwrap(), None);
    }
}

/// Branches of raiders used to stay in the agents' repository for ever.
#[test]
fn branch_that_is_deleted_is_gone_where_agents_read_as_well() {
    let rig = Rigged::new();
    let head = rig.commit(&rig.base, &[("a", "a\n")]);
    let tracking = format!("refs/remotes/origin/{BRANCH}");
    let told = || rig.repo.their_refs().resolve(&tracking).unwrap();
    for packed in [false, true] {
        remote::push_branch(&rig.repo, BRANCH, &head, None).unwrap();
        assert_eq!(told().as_ref(), Some(&head));
        if packed {
            let git = Git::in_dir(rig.repo.theirs()).args(["pack-refs", "--all"]);
            git.run().unwrap();
        }
        remote::delete_branch(&rig.repo, BRANCH, &head).unwrap();
        assert_eq!(told(), None);
    }
}
