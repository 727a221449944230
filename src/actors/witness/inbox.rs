//! The witness's messages, and whom it tells of what it may not mend itself.

use super::super::refusal::Refusal;
use super::{WitnessArgs, merged, rework, validate};
use crate::actors::records::escalations;
use crate::domain::message::{self, Body, Escalation, Message, Severity};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;

/// What a piece of work came to. An error is the same as [`Handled::Soon`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// It is done, and something may follow from it.
    Yes,
    /// Not yet; try again soon.
    Soon,
    /// Not before something changes; the next look, at the latest the patrol's, finds it again.
    AtPatrol,
}

/// Handles a message.
///
/// # Errors
/// Something cannot be asked at present.
pub async fn handle(args: &WitnessArgs, message: Message) -> Result<Handled, Refusal> {
    let id = message.id;
    match message.body {
        Body::PolecatDone(done) => validate::polecat_done(args, id, done).await,
        Body::Merged(body) => merged::merged(args, id, body).await,
        Body::MergeFailed(failed) => rework::merge_failed(args, id, failed).await,
        Body::MergeReady(_)
        | Body::Help(_)
        | Body::RecoveryNeeded(_)
        | Body::Escalation(_)
        | Body::Handoff(_) => {
            tracing::warn!(id, "a witness got a message that is not for witnesses");
            args.world.store.run(move |txn| txn.handled(id)).await?;
            Ok(Handled::Yes)
        }
    }
}

/// Sends an escalation about a raider to the shaman, who keeps one per subject and problem. Every
/// patrol may see the same problem: it is told once, until a person has settled it.
pub async fn escalate(
    args: &WitnessArgs,
    hook: &Hook,
    problem: ProblemKind,
    evidence: String,
) -> Result<(), Refusal> {
    let body = Escalation {
        agent: hook.raider.to_string(),
        relic: Some(hook.relic.clone()),
        problem: problem.into(),
        severity: Severity::High,
        evidence,
    };
    raise(args, body).await
}

/// Sends an escalation as the witness.
///
/// # Errors
/// The store's.
pub async fn raise(args: &WitnessArgs, body: Escalation) -> Result<(), Refusal> {
    escalations::call(&args.world, &message::witness(&args.rig), body).await
}
