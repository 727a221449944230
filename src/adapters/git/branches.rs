//! Local branches of raiders: which of them nobody has checked out, and the one way they are deleted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin;
use super::bytes;
use super::rig::GitRepo;
use crate::domain::doctor::BranchFacts;
use crate::ports::repo::RepoError;

/// Branches of raiders that no worktree has checked out.
pub(super) fn spare(repo: &GitRepo) -> Result<Vec<BranchFacts>, RepoError> {
    let listed = repo
        .git()
        .args(["for-each-ref", "--format=%(refname)", "refs/heads/raider/"])
        .run()?;
    let in_use = checked_out(repo)?;
    let text = listed.text();
    let spare = text
        .lines()
        .filter(|full| !in_use.iter().any(|(name, _)| name == full));
    let facts = |full: &str| {
        let name = full.strip_prefix("refs/heads/").unwrap_or(full);
        Ok(BranchFacts {
            name: name.to_owned(),
            reachable: is_reachable(repo, full, full)?,
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
        let (head, link) = (line(&admin.join("HEAD"))?, line(&admin.join("gitdir"))?);
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

/// What a file of one line says; none where there is no such file.
fn line(file: &Path) -> Result<Option<Vec<u8>>, RepoError> {
    match fs::read(file) {
        Ok(text) => Ok(Some(text.trim_ascii().to_owned())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(admin::failed("cannot read", file, &error)),
    }
}

fn is_gone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Whether a ref of another name reaches the commit.
fn is_reachable(repo: &GitRepo, commit: &str, name: &str) -> Result<bool, RepoError> {
    let reaching = repo
        .git()
        .args(["for-each-ref", "--format=%(refname)", "--contains", commit])
        .run()?;
    Ok(reaching.text().lines().any(|found| found != name))
}

/// Deletes a local branch that another ref reaches and no worktree has checked out. Otherwise it
/// stays. True when it is gone.
pub(super) fn drop_branch(repo: &GitRepo, branch: &str) -> Result<bool, RepoError> {
    let name = format!("refs/heads/{branch}");
    let Some(tip) = repo.resolve(&name)? else {
        return Ok(true);
    };
    let in_use = checked_out(repo)?.iter().any(|(used, _)| *used == name);
    if in_use || !is_reachable(repo, tip.as_str(), &name)? {
        return Ok(false);
    }
    repo.git()
        .args(["update-ref", "-d", &name, tip.as_str()])
        .run()?;
    Ok(true)
}
