//! MERGE_FAILED: a fresh raider re-implements on the new baseline, at most `rework_attempts` times;
//! then the relic is blocked and a person is called (`raider-lifecycle.md`, pending merges). Work
//! never goes back to the raider that did it: it is gone.

use super::super::refusal::Refusal;
use super::WitnessArgs;
use super::inbox::{Handled, REWORK};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::MergeRequest;
use crate::domain::message::{self, Body, Escalation, MergeFailed, Severity};
use crate::domain::prompt;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::ports::relics::{StoreError, Txn};

/// Handles MERGE_FAILED.
///
/// # Errors
/// The store cannot be used at present.
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
    txn.record(&event.with(data.clone()))?;
    txn.append_cv(&failed.raider.to_string(), "merge_failed", &data)?;
    let mut relic = txn.relic(&failed.relic)?;
    let theirs = relic.assignee.as_deref() == Some(failed.raider.to_string().as_str());
    let hook = txn.hook_of_relic(&failed.relic)?;
    let later = hook.is_some_and(|hook| hook.incarnation != failed.incarnation);
    if relic.status != RelicStatus::Hooked || !theirs || later {
        // Closed, or taken up by somebody else meanwhile.
        return Ok(());
    }
    relic.assignee = None;
    relic.context = Some(prompt::rework(failed));
    let exhausted = relic.reworks >= attempts;
    let cause = if exhausted {
        Cause::ReworkExhausted
    } else {
        Cause::MergeFailed
    };
    if exhausted {
        relic.status = RelicStatus::Blocked;
        relic.labels.retain(|label| label != REWORK);
        relic.branch = Some(failed.branch.clone());
    } else {
        relic.reworks += 1;
        relic.status = RelicStatus::Open;
        // A fresh start from the target: the context says where the earlier attempt is.
        relic.branch = None;
        if !relic.labels.iter().any(|label| label == REWORK) {
            relic.labels.push(REWORK.to_owned());
        }
    }
    txn.put_relic(&relic)?;
    let update = serde_json::json!({
        "status": relic.status, "reworks": relic.reworks, "mr": failed.mr,
        "raider": failed.raider,
    });
    txn.record(&NewEvent::new(EventType::RelicUpdated, &relic.id, cause).with(update))?;
    if exhausted {
        let body = Body::Escalation(Escalation {
            agent: failed.raider.to_string(),
            relic: Some(relic.id.clone()),
            problem: format!("{} could not be landed after {attempts} reworks", relic.id),
            severity: Severity::High,
            evidence: failed.error.clone(),
        });
        txn.send(&message::witness(&failed.rig), message::SHAMAN, body)?;
    }
    Ok(())
}

/// A person said no to a merge request: the relic is open for a fresh raider who is told why. Human
/// rejections are not counted.
///
/// # Errors
/// The store's.
pub fn reject(txn: &mut dyn Txn, mr: &MergeRequest, note: Option<&str>) -> Result<(), StoreError> {
    for message in txn.inbox(&message::witness(&mr.rig))? {
        let about = matches!(&message.body, Body::PolecatDone(done)
            if done.raider == mr.raider && done.incarnation == mr.incarnation);
        if about {
            txn.handled(message.id)?;
        }
    }
    let mut relic = txn.relic(&mr.relic)?;
    if relic.status != RelicStatus::Hooked {
        return Ok(());
    }
    relic.status = RelicStatus::Open;
    relic.assignee = None;
    relic.branch = None;
    relic.context = Some(prompt::rejected(&mr.branch, &mr.head, note));
    if !relic.labels.iter().any(|label| label == REWORK) {
        relic.labels.push(REWORK.to_owned());
    }
    txn.put_relic(&relic)?;
    let data = serde_json::json!({ "status": "open", "mr": mr.id, "note": note });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::Operator);
    txn.record(&event.with(data)).map(|_| ())
}
