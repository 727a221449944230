//! MERGE_FAILED: a fresh raider re-implements on the new baseline, at most `rework_attempts` times; then the relic is
//! blocked and a person is called (`raider-lifecycle.md`, pending merges). Blocks at once when no rework could help: a
//! remote that refuses to move its target. Work never goes back to the raider that did it: it is gone.

use super::super::refusal::Refusal;
use super::WitnessArgs;
use super::inbox::Handled;
use crate::actors::records::identities::{self, Ended};
use crate::domain::attempt::{self, Outcome};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data::NotLanded;
use crate::domain::ids::Oid;
use crate::domain::merge::{FailureType, MrState};
use crate::domain::message::{self, Body, Escalation, MergeFailed};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::prompt;
use crate::domain::relic::{REWORK, RelicStatus};
use crate::domain::saga::FaultPoint;
use crate::ports::relics::{StoreError, Txn};

/// Handles MERGE_FAILED.
///
/// # Errors
/// The store is not available at present.
pub async fn merge_failed(
    args: &WitnessArgs,
    id: u64,
    failed: MergeFailed,
) -> Result<Handled, Refusal> {
    let world = &args.world;
    let attempts = world
        .city
        .rig(&args.rig)
        .map_or(0, |rig| rig.forge.rework_attempts);
    world.at(FaultPoint::ReworkBefore);
    world
        .store
        .run(move |txn| {
            if txn.handled(id)? {
                decide(txn, &failed, attempts)
            } else {
                Ok(())
            }
        })
        .await?;
    world.at(FaultPoint::ReworkAfter);
    world.nudge(message::SHAMAN);
    Ok(Handled::Yes)
}

fn decide(txn: &mut dyn Txn, failed: &MergeFailed, attempts: u32) -> Result<(), StoreError> {
    let data = serde_json::json!({
        "relic": failed.relic, "mr": failed.mr, "incarnation": failed.incarnation,
        "failure_type": failed.failure_type, "conflict_files": failed.conflict_files,
        "error": failed.error,
    });
    let event = NewEvent::new(
        EventType::RaiderMergeFailed,
        &failed.raider,
        Cause::MergeFailed,
    );
    txn.record(&event.with(data))?;
    note_result(txn, failed)?;
    let mut relic = txn.relic(&failed.relic)?;
    let theirs = relic.is_of(&failed.raider);
    let hook = txn.hook_of_relic(&failed.relic)?;
    let later = hook.is_some_and(|hook| hook.incarnation != failed.incarnation);
    if relic.status != RelicStatus::Hooked || !theirs || later {
        // Closed, or taken up by another raider meanwhile.
        return Ok(());
    }
    relic.assignee = None;
    let began = began(txn, failed)?;
    relic.context = Some(prompt::rework(failed, began.as_ref()));
    let problem = hopeless(failed, relic.reworks, attempts);
    let cause = match &problem {
        Some((cause, _)) => {
            relic.status = RelicStatus::Blocked;
            relic.labels.retain(|label| label != REWORK);
            relic.branch = Some(failed.branch.clone());
            *cause
        }
        None => {
            relic.reworks += 1;
            relic.status = RelicStatus::Open;
            // A fresh start from the target: the context names the earlier attempt.
            relic.branch = None;
            if !relic.labels.iter().any(|label| label == REWORK) {
                relic.labels.push(REWORK.to_owned());
            }
            Cause::MergeFailed
        }
    };
    txn.put_relic(&relic)?;
    let update = serde_json::json!({
        "reworks": relic.reworks, "mr": failed.mr, "raider": failed.raider,
    });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, cause).with(update);
    let status = relic.status;
    txn.record(&event.and(&NotLanded { status }))?;
    if let Some((_, problem)) = problem {
        let body = Body::Escalation(
            Escalation::high(&failed.raider, problem, failed.error.clone()).on(relic.id.clone()),
        );
        txn.send(&message::witness(&failed.rig), message::SHAMAN, body)?;
    }
    Ok(())
}

/// Records the failure in the chain of the identity that did the work.
fn note_result(txn: &mut dyn Txn, failed: &MergeFailed) -> Result<(), StoreError> {
    let requests = txn.mrs_of(&failed.relic)?;
    let mr = requests.iter().find(|mr| mr.id == failed.mr);
    // A message may come late: a retry has landed it.
    if mr.is_none_or(|mr| mr.state == MrState::Merged) {
        return Ok(());
    }
    let ended = Ended {
        raider: &failed.raider,
        incarnation: failed.incarnation,
        relic: &failed.relic,
        mr: Some(&failed.mr),
        outcome: Outcome::MergeFailed,
        failure: Some(attempt::word(failed.failure_type)),
        declared: None,
    };
    identities::end(txn, &ended)
}

/// Returns the tip of the target that the attempt was begun on.
fn began(txn: &mut dyn Txn, failed: &MergeFailed) -> Result<Option<Oid>, StoreError> {
    let attempts = txn.mrs_of(&failed.relic)?;
    let attempt = attempts.into_iter().find(|mr| mr.id == failed.mr);
    Ok(attempt.and_then(|mr| mr.began))
}

/// Returns why no fresh raider is charged, for people: the attempts are used up, or none could help.
fn hopeless(failed: &MergeFailed, reworks: u32, attempts: u32) -> Option<(Cause, Problem)> {
    let (relic, mr) = (&failed.relic, &failed.mr);
    match failed.failure_type {
        FailureType::Conflict | FailureType::Tests | FailureType::Build => {
            let text = format!("{relic} could not be landed after {attempts} reworks");
            let problem = ProblemKind::ReworkExhausted.in_words(text);
            (reworks >= attempts).then_some((Cause::ReworkExhausted, problem))
        }
        FailureType::Push | FailureType::Infra | FailureType::Unrelated => {
            let target = &failed.target;
            let text = format!(
                "{relic} cannot be landed on {target}; `hd mq retry {mr}` tries again when it can"
            );
            let problem = ProblemKind::LandingRefused.of(mr, text);
            Some((Cause::MergeFailed, problem))
        }
    }
}
