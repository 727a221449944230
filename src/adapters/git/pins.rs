//! Pins: refs that keep a queued head alive independent of its branch and its sandbox.

use super::rig::GitRepo;
use crate::domain::ids::{Oid, RelicId};
use crate::ports::repo::RepoError;

fn name(mr: &RelicId) -> String {
    format!("refs/horde/mq/{mr}")
}

/// Points `refs/horde/mq/<mr>` at `head`.
///
/// # Errors
/// [`RepoError::NotFound`] if there is no such commit.
pub(super) fn pin(repo: &GitRepo, mr: &RelicId, head: &Oid) -> Result<(), RepoError> {
    repo.take(std::slice::from_ref(head))?;
    // MERGE_READY is acknowledged after this, so the pin must survive a loss of power.
    repo.git()
        .args(["-c", "core.fsync=committed,reference", "update-ref"])
        .args([&name(mr), head.as_str()])
        .run()
        .map(drop)
}

/// Drops the pin. Succeeds if it is gone already.
///
/// # Errors
/// [`RepoError`].
pub(super) fn unpin(repo: &GitRepo, mr: &RelicId) -> Result<(), RepoError> {
    repo.git()
        .args(["update-ref", "-d", &name(mr)])
        .run()
        .map(drop)
}
