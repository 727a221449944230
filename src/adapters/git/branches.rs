//! Local branches of raiders: which of them nobody has checked out, and the one way they are deleted.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

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
    let spare = text.lines().filter(|full| !in_use.contains(*full));
    let facts = |full: &str| {
        let name = full.strip_prefix("refs/heads/").unwrap_or(full);
        Ok(BranchFacts {
            name: name.to_owned(),
            reachable: is_reachable(repo, full, full)?,
        })
    };
    spare.map(facts).collect()
}

/// The full names of branches that worktrees have checked out. One whose directory is gone has none,
/// however long git keeps what it knew of it.
fn checked_out(repo: &GitRepo) -> Result<BTreeSet<String>, RepoError> {
    let output = repo
        .git()
        .args(["worktree", "list", "--porcelain", "-z"])
        .run()?;
    let mut found = BTreeSet::new();
    let mut is_there = false;
    for line in output.stdout.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            is_there = !is_gone(bytes::path(path));
        } else if let Some(branch) = line.strip_prefix(b"branch ")
            && is_there
        {
            found.insert(String::from_utf8_lossy(branch).into_owned());
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
    if !is_reachable(repo, tip.as_str(), &name)? || checked_out(repo)?.contains(&name) {
        return Ok(false);
    }
    repo.git()
        .args(["update-ref", "-d", &name, tip.as_str()])
        .run()?;
    Ok(true)
}
