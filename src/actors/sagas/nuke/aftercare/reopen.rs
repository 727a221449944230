//! The relic of a raider that is gone.

use crate::actors::mail::NukeTarget;
use crate::actors::records::failures;
use crate::actors::records::identities::{self, Ended};
use crate::actors::sagas::{closing, land};
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RelicId;
use crate::domain::merge::MrState;
use crate::domain::prompt;
use crate::domain::queue::Step;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{SalvageEntry, StoreError, Txn};

/// Settles the relic of a raider that was removed: it is closed where the removal cancels its work, unless the work can
/// no longer be kept from landing, and opened otherwise.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) fn settle(
    txn: &mut dyn Txn,
    target: &NukeTarget,
    relic: &RelicId,
    salvage: Option<&SalvageEntry>,
) -> Result<(), StoreError> {
    let Some(cancel) = &target.cancel else {
        return reopen(txn, target, relic, salvage);
    };
    if closing::landing(txn, relic)?.is_some() {
        return reopen(txn, target, relic, salvage);
    }
    let mut relic = txn.relic(relic)?;
    if let Some(kept) = salvage {
        // For the raider of a relic that is reopened after all.
        let told = prompt::salvaged(relic.context.as_deref(), &kept.id, kept.work.as_ref());
        relic.context = Some(told);
    }
    let id = relic.id.clone();
    closing::close(txn, relic, cancel.reason.as_deref(), target.origin())?;
    abandon(txn, target, &id)
}

/// Opens the relic of a raider that was removed before its work was in the queue (`rules.md`, charge): the next
/// raider starts from what was pushed, and is told of the salvage. Its assignee is the one before the charge. Work in the queue stays there, and so does a relic
/// that waits for a person (`product.md`, human review; a relic blocked because its raider died too often). A relic
/// that repeatedly comes to nothing is blocked.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) fn reopen(
    txn: &mut dyn Txn,
    target: &NukeTarget,
    relic: &RelicId,
    salvage: Option<&SalvageEntry>,
) -> Result<(), StoreError> {
    let mut relic = txn.relic(relic)?;
    let mr = txn.mr_of(&relic.id, &target.raider, target.incarnation)?;
    let ours = relic.is_of(&target.raider);
    if !relic.status.is_bound() || !ours {
        let is_cancelled = relic.status == RelicStatus::Closed && target.cause != Cause::Merged;
        let attempt = txn.attempt(&target.raider, target.incarnation)?;
        if is_cancelled && attempt.is_some_and(|attempt| attempt.relic == relic.id) {
            abandon(txn, target, &relic.id)?;
        }
        return Ok(());
    }
    match mr {
        // The raider had it back, and has submitted nothing since.
        Some(mr) if mr.state == MrState::Rejected => {}
        // The witness validated it: the forge has it or will have it, and the relic waits for MERGED.
        Some(mr) if mr.state != MrState::Reviewing || mr.is_in_review() => return Ok(()),
        Some(mut mr) => {
            let why = "its raider was nuked before the work was verified";
            let note = Some(why.to_owned());
            land::take(txn, &mut mr, &Step::Withdrawn { note })?;
            relic.branch = Some(mr.branch);
        }
        None => {}
    }
    if let Some(kept) = salvage {
        let told = prompt::salvaged(relic.context.as_deref(), &kept.id, kept.work.as_ref());
        relic.context = Some(told);
    }
    // The cause of its raider's deaths may persist: a person decides whether another raider tries.
    if relic.status != RelicStatus::Blocked {
        relic.status = RelicStatus::Open;
    }
    let attempt = txn.attempt(&target.raider, target.incarnation)?;
    let attempt = attempt.filter(|attempt| attempt.relic == relic.id);
    relic.assignee = attempt.and_then(|attempt| attempt.assignee);
    txn.put_relic(&relic)?;
    abandon(txn, target, &relic.id)?;
    let data = serde_json::json!({ "status": relic.status });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, target.cause);
    txn.record(&event.with(data))?;
    if matches!(target.cause, Cause::TooManyDeaths | Cause::KeptLongEnough) {
        let why = format!(
            "{} ended without success: {}",
            target.raider,
            target.cause.as_str()
        );
        failures::count(txn, &relic.id, &target.raider.rig, &why)?;
    }
    Ok(())
}

/// Records that the attempt came to nothing, with the cause. One that has a result, as a quarantine, keeps that.
fn abandon(txn: &mut dyn Txn, target: &NukeTarget, relic: &RelicId) -> Result<(), StoreError> {
    let attempt = identities::of(txn, &target.raider, target.incarnation, relic)?;
    if attempt.counted_until.is_some() {
        return Ok(());
    }
    let ended = Ended {
        raider: &target.raider,
        incarnation: target.incarnation,
        relic,
        mr: None,
        outcome: Outcome::Abandoned,
        failure: Some(target.cause.as_str()),
        declared: Some(txn.now()),
    };
    identities::end(txn, &ended)
}
