//! Branches of raiders in theirs: which of them no worktree has checked out, and the one way they are deleted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin;
use super::bytes;
use super::rig::GitRepo;
use super::stash::PINS;
use crate::domain::doctor::BranchFacts;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Branches of raiders that no worktree has checked out.
pub(super) fn spare(repo: &GitRepo) -> Result<Vec<BranchFacts>, RepoError> {
    let in_use = checked_out(repo)?;
    let listed = repo.their_refs().list("refs/heads/raider/")?;
    let spare = listed
        .iter()
        .filter(|(full, _)| !in_use.iter().any(|(name, _)| name == *full));
    let facts = |(full, tip): (&String, &Oid)| {
        let name = full.strip_prefix("refs/heads/").unwrap_or(full);
        Ok(BranchFacts {
            name: name.to_owned(),
            reachable: is_held(repo, tip)?,
        })
    };
    spare.map(facts).collect()
}

/// The full names of branches that worktrees have checked out, and where those are. One whose directory
/// is gone has none, however long git keeps what it knew of it.
///
/// Read here: `git worktree list` fails of any worktree that somebody makes or removes at that moment.
pub(super) fn checked_out(repo: &GitRepo) -> Result<Vec<(String, PathBuf)>, RepoError> {
    let mut found = Vec::new();
    for admin in admin::entries(repo)? {
        let (head, link) = (line(&admin, "HEAD")?, line(&admin, "gitdir")?);
        let branch = head.as_deref().and_then(|head| head.strip_prefix(b"ref: "));
        // Half of one is being made, or removed.
        let (Some(branch), Some(link)) = (branch, link) else {
            continue;
        };
        let link = admin.join(bytes::path(&link));
        match link.parent() {
            Some(at) if !is_gone(at) => found.push((bytes::lossy(branch), at.to_owned())),
            Some(_) | None => {}
        }
    }
    Ok(found)
}

/// Reads a file of one line; none where there is no such file, or its agent has closed it.
fn line(admin: &Path, name: &str) -> Result<Option<Vec<u8>>, RepoError> {
    let text = match admin::line(admin, Path::new(name)) {
        Err(error) if admin::is_nothing(&error) => Ok(None),
        text => text,
    };
    let text = text.map_err(|error| admin::failed("cannot read", &admin.join(name), &error))?;
    Ok(text.map(|text| text.trim_ascii().to_owned()))
}

fn is_gone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Whether a ref of ours reaches the commit.
fn is_held(repo: &GitRepo, commit: &Oid) -> Result<bool, RepoError> {
    if repo.resolve(commit.as_str())?.is_none() {
        return Ok(false);
    }
    let reaching = repo
        .git()
        .args(["for-each-ref", "--format=%(refname)"])
        .args(["--contains", commit.as_str()])
        .run()?
        .text();
    // Pins go with their sandboxes.
    Ok(reaching.lines().any(|name| !name.starts_with(PINS)))
}

/// Deletes a branch of theirs that a ref of ours reaches and no worktree has checked out. Otherwise it
/// stays. True when it is gone.
pub(super) fn drop_branch(repo: &GitRepo, branch: &str) -> Result<bool, RepoError> {
    let name = format!("refs/heads/{branch}");
    let theirs = repo.their_refs();
    let tip = match theirs.resolve(&name) {
        Ok(Some(tip)) => tip,
        Ok(None) => return Ok(true),
        // Nothing says what it held.
        Err(why) => {
            tracing::warn!(branch, %why, "the branch stays");
            return Ok(false);
        }
    };
    let in_use = checked_out(repo)?.iter().any(|(used, _)| *used == name);
    if in_use || !is_held(repo, &tip)? {
        return Ok(false);
    }
    theirs.delete(&name, &tip)
}
