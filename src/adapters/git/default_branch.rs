//! A default branch that changed at the remote: noticed, and followed when that is asked for.

use super::fetch;
use super::remote;
use super::rig::GitRepo;
use crate::domain::default_branch::Change;
use crate::ports::repo::RepoError;

/// Returns the change of the default branch since it was discovered; none without one. Where the rig's checkout is its own
/// origin there is never one: its HEAD is what a person has checked out.
pub(super) fn change(repo: &GitRepo) -> Result<Option<Change>, RepoError> {
    if repo.own_origin()?.is_some() {
        return Ok(None);
    }
    let from = match fetch::default_branch(repo) {
        Err(RepoError::NotFound(_)) => return Ok(None),
        known => known?,
    };
    let Some(to) = fetch::head_of(repo, "origin")?.filter(|to| *to != from) else {
        return Ok(None);
    };
    let kept = match remote::fetch(repo, "origin", &from) {
        Err(RepoError::NotFound(_)) => false,
        fetched => fetched.map(|()| true)?,
    };
    match remote::fetch(repo, "origin", &to) {
        // HEAD names a branch without a commit.
        Err(RepoError::NotFound(_)) => return Ok(None),
        fetched => fetched?,
    }
    let old = repo.target_tip(&from)?;
    let new = repo.resolve(&format!("refs/remotes/origin/{to}"))?;
    let contains = match (old, new) {
        (Some(old), Some(new)) => repo.is_ancestor(&old, &new)?,
        // Nothing of the old branch is known, so nothing of it can be missing.
        (None, Some(_)) => true,
        (_, None) => false,
    };
    Ok(Some(Change {
        from,
        to,
        contains,
        kept,
    }))
}

/// Takes this branch for the default branch.
pub(super) fn follow(repo: &GitRepo, branch: &str) -> Result<(), RepoError> {
    let name = format!("refs/remotes/origin/{branch}");
    let git = repo.git();
    git.args(["symbolic-ref", "refs/remotes/origin/HEAD", &name])
        .run()
        .map(drop)
}
