//! The branch of finished work on the remote.

use super::super::effects;
use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::domain::ids::Oid;
use crate::domain::message::RaiderDone;

/// Ensures that the remote has the sandbox's head; a head that moved after `done` is pushed first (`rules.md`, done).
/// The head pushed at `done` may be replaced, by lease: the agent may have amended it. Returns why it cannot be
/// pushed, when no retry will help. The branch may also have the `later` head of a submission that was withdrawn, and stays
/// so: ours has the reviewed head, and the forge pins it before it is queued.
///
/// # Errors
/// The remote or the repository is not available at present.
pub(super) async fn ensure_pushed(
    args: &WitnessArgs,
    done: &RaiderDone,
    head: &Oid,
    later: Option<Oid>,
) -> Result<Option<Refusal>, Refusal> {
    let (branch, pushed, head) = (done.branch.clone(), done.head.clone(), head.clone());
    let ensured = effects::repo_for(
        &args.world,
        &args.rig,
        effects::WorkKind::Network,
        move |repo| match repo.remote_head(&branch)? {
            Some(found) if found == head => Ok(()),
            Some(found) if found == pushed => repo.push_branch(&branch, &head, Some(&pushed)),
            Some(found) if later.as_ref() == Some(&found) => Ok(()),
            _ => repo.push_branch(&branch, &head, None),
        },
    );
    match ensured.await.map_err(Refusal::from) {
        Ok(()) => Ok(None),
        Err(error) if error.is_passing() => Err(error),
        Err(error) => Ok(Some(error)),
    }
}
