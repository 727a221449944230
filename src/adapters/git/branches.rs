//! Local branches of raiders: which of them nobody has checked out, and the one way they are deleted.

use super::remote::checked_out;
use super::rig::GitRepo;
use crate::domain::doctor::BranchFacts;
use crate::ports::repo::RepoError;

/// Branches of raiders that no worktree has checked out.
pub(super) fn spare(repo: &GitRepo) -> Result<Vec<BranchFacts>, RepoError> {
    let format = "--format=%(worktreepath) %(refname)";
    let listed = repo
        .git()
        .args(["for-each-ref", format, "refs/heads/raider/"])
        .run()?;
    let text = listed.text();
    // A line that begins with a space names no worktree.
    let spare = text
        .lines()
        .filter_map(|line| line.strip_prefix(" refs/heads/"));
    let facts = |name: &str| {
        let full = format!("refs/heads/{name}");
        Ok(BranchFacts {
            name: name.to_owned(),
            reachable: is_reachable(repo, &full, &full)?,
        })
    };
    spare.map(facts).collect()
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
    if !is_reachable(repo, tip.as_str(), &name)? || checked_out(repo, &name)? {
        return Ok(false);
    }
    repo.git()
        .args(["update-ref", "-d", &name, tip.as_str()])
        .run()?;
    Ok(true)
}
