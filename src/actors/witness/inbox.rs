//! The witness's messages, and its escalations about what it may not repair itself.

use super::super::refusal::Refusal;
use super::{WitnessArgs, merged, rework, validate};
use crate::actors::records::escalations::{self, Ends};
use crate::domain::message::{self, Body, Escalation, Message};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;

/// The result of a piece of work. An error counts as [`Handled::Soon`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// Done; other work may follow from it.
    Yes,
    /// Not done; retry soon.
    Soon,
    /// Not done, and useless to retry before something changes; a later look finds it again, at the latest the
    /// patrol's.
    AtPatrol,
}

/// Handles a message.
///
/// # Errors
/// Something is not available at present.
pub async fn handle(args: &WitnessArgs, message: Message) -> Result<Handled, Refusal> {
    let id = message.id;
    match message.body {
        Body::RaiderDone(done) => validate::raider_done(args, id, done).await,
        Body::Merged(body) => merged::merged(args, id, body).await,
        Body::MergeFailed(failed) => rework::merge_failed(args, id, failed).await,
        Body::MergeReady(_)
        | Body::Help(_)
        | Body::RecoveryNeeded(_)
        | Body::Escalation(_)
        | Body::Handoff(_) => {
            tracing::warn!(
                rig = %args.rig,
                id,
                "the witness received a message of a kind that witnesses do not handle; it is \
                marked as handled"
            );
            args.world.store.run(move |txn| txn.handled(id)).await?;
            Ok(Handled::Yes)
        }
    }
}

/// Sends an escalation about a raider to the shaman, which keeps one per subject and problem: every patrol may see the
/// same problem, but a person is told once, until the problem is settled.
pub async fn escalate(
    args: &WitnessArgs,
    hook: &Hook,
    problem: ProblemKind,
    evidence: String,
) -> Result<(), Refusal> {
    let body = Escalation::high(&hook.raider, problem, evidence).on(hook.relic.clone());
    raise(args, body).await
}

/// Sends an escalation as the witness.
///
/// # Errors
/// The store's.
pub async fn raise(args: &WitnessArgs, body: Escalation) -> Result<(), Refusal> {
    escalations::call(
        &args.world,
        &message::witness(&args.rig),
        Ends::WithSandbox,
        body,
    )
    .await
}
