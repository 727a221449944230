//! Local branches of raiders: which of them nobody has checked out, and the one way they are deleted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

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
pub(super) fn checked_out(repo: &GitRepo) -> Result<Vec<(String, PathBuf)>, RepoError> {
    let output = repo
        .git()
        .args(["worktree", "list", "--porcelain", "-z"])
        .run()?;
    let (mut found, mut at) = (Vec::new(), Path::new(""));
    for line in output.stdout.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            at = bytes::path(path);
        } else if let Some(branch) = line.strip_prefix(b"branch ")
            && !is_gone(at)
        {
            found.push((bytes::lossy(branch), at.to_owned()));
        }
    }
    Ok(found)
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
