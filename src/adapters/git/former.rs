//! Tips that a branch of the origin had before it was rewritten by a force-push. What was taken off a target must not come
//! back with work that was begun before.

use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// `refs/horde/former/<branch>/<tip>`, in ours. They keep nothing that a removal is decided by.
const FORMER: &str = "refs/horde/former";

/// Notes the tip that a branch had, where the one that it has now does not contain it.
///
/// # Errors
/// [`RepoError`]; the branch may be asked for again.
pub(super) fn note(repo: &GitRepo, branch: &str, before: &Oid, now: &Oid) -> Result<(), RepoError> {
    // HEAD is a name for one of the others; those of raiders are rewritten by the supervisor.
    let is_ours = branch == "HEAD" || branch.starts_with("raider/");
    if is_ours || before == now || repo.is_ancestor(before, now)? {
        return Ok(());
    }
    tracing::warn!(rig = %repo.name(), branch, %before, %now, "the branch was rewritten on the origin");
    repo.git()
        .args(["-c", "core.fsync=committed,reference", "update-ref"])
        .args([&format!("{FORMER}/{branch}/{before}"), before.as_str()])
        .run()
        .map(drop)
}

/// The tips that a branch had before it was rewritten.
///
/// # Errors
/// [`RepoError`].
pub(super) fn tips(repo: &GitRepo, branch: &str) -> Result<Vec<Oid>, RepoError> {
    let of_branch = format!("{FORMER}/{branch}/");
    let refs = repo.refs()?.into_iter();
    let tips = refs.filter(|(id, name)| name.strip_prefix(&of_branch) == Some(id.as_str()));
    Ok(tips.map(|(id, _)| id).collect())
}
