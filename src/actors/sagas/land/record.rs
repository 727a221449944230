//! The states of a merge request in the store: one transaction each, its event included.
//!
//! ```text
//!  reviewing ─► queued ◄──────────────┐ parked, moved, stranded
//!                 └─► testing ─► merging ─► merged
//!                        └──────────┴─► conflict, failed
//!  rejected ◄─ withdrawn from anywhere before the push
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::wait::forget;
use super::{Plan, pack};
use crate::actors::mail::Attempt;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{
    FailureType, GateVerdict, HoldReason, MergeRequest, MrState, PARKED_MAX,
};
use crate::domain::message::{self, Body, Escalation, MergeFailed, Merged, Severity};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::RelicStatus;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// Number of attempts after which a parked merge request needs a person.
const PATIENCE: u32 = 5;

/// Marks a merge request as testing, unless it left the queue meanwhile. It is withdrawn when its relic is closed.
pub(super) async fn start(world: &World, id: RelicId) -> Result<Option<MergeRequest>, Refusal> {
    let started = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        if mr.state != MrState::Queued {
            return Ok(None);
        }
        if txn.relic(&mr.relic)?.status == RelicStatus::Closed {
            let why = Some("its relic is closed");
            withdraw(txn, &mut mr, why, Cause::RelicClosed)?;
            return Ok(None);
        }
        mr.state = MrState::Testing;
        mr.attempts += 1;
        mr.release(None);
        txn.put_mr(&mr)?;
        record_mr(txn, EventType::MrTesting, &mr, Cause::Done)?;
        Ok(Some(mr))
    });
    Ok(started.await?)
}

/// Stores the gates' verdicts with the merge request.
pub(super) async fn note_verdicts(
    world: &World,
    mr: MergeRequest,
    verdicts: Vec<GateVerdict>,
) -> Result<MergeRequest, Refusal> {
    let noted = world.store.run(move |txn| {
        let mut now = txn.mr(&mr.id)?;
        now.gates.clone_from(&verdicts);
        txn.put_mr(&now)?;
        Ok(now)
    });
    Ok(noted.await?)
}

/// Passes the point of no return: the journalled commit will be pushed. None when the merge request left the queue
/// meanwhile.
pub(super) async fn open(world: &World, rig: &Rig, plan: Plan) -> Result<Option<Saga>, Refusal> {
    let rig = rig.name.clone();
    let opened = world.store.run(move |txn| {
        let mut mr = txn.mr(&plan.mr)?;
        if mr.state != MrState::Testing {
            return Ok(None);
        }
        mr.state = MrState::Merging;
        txn.put_mr(&mr)?;
        record_mr(txn, EventType::MrMerging, &mr, Cause::Done)?;
        let (subject, data) = (plan.mr.as_str(), pack(&plan));
        txn.open_saga(SagaKind::Land, &rig, subject, "intent", &data)
            .map(Some)
    });
    Ok(opened.await?)
}

/// Journals that the push begins, also again after the merge request was parked.
pub(super) async fn push_begins(world: &World, id: RelicId) -> Result<MergeRequest, Refusal> {
    let begun = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        if mr.state == MrState::Queued {
            mr.state = MrState::Merging;
            mr.attempts += 1;
            let note = mr.note.take();
            mr.release(note);
            txn.put_mr(&mr)?;
            record_mr(txn, EventType::MrMerging, &mr, Cause::Resumed)?;
        }
        Ok(mr)
    });
    Ok(begun.await?)
}

/// Records the landing, and sends MERGED.
pub(super) async fn record_merged(
    world: &World,
    saga: Option<u64>,
    mr: MergeRequest,
    commit: Oid,
    noop: bool,
) -> Result<Attempt, Refusal> {
    let witness = message::witness(&mr.rig);
    let to = witness.clone();
    let recorded = world.store.run(move |txn| {
        let mut mr = txn.mr(&mr.id)?;
        if let Some(id) = saga {
            txn.close_saga(id)?;
        }
        if mr.state == MrState::Merged {
            return Ok(());
        }
        forget(txn, &mr.id)?;
        mr.state = MrState::Merged;
        mr.merge_commit = Some(commit.clone());
        mr.not_before = None;
        txn.put_mr(&mr)?;
        let body = Body::Merged(Merged {
            merge_commit: commit.clone(),
            merged_at: txn.now(),
            noop,
            rig: mr.rig.clone(),
            mr: mr.id,
            raider: mr.raider,
            incarnation: mr.incarnation,
            relic: mr.relic,
            branch: mr.branch,
            head: mr.head,
            target: mr.target,
        });
        txn.send(&message::forge(&mr.rig), &to, body).map(|_| ())
    });
    recorded.await?;
    world.nudge(&witness);
    Ok(Attempt::Landed)
}

/// Records that the merge request cannot land as it is, and tells the witness, which decides what follows.
pub(super) async fn fail(
    world: &World,
    saga: Option<u64>,
    mr: MergeRequest,
    failure_type: FailureType,
    error: String,
    conflict_files: Vec<String>,
) -> Result<Attempt, Refusal> {
    let witness = message::witness(&mr.rig);
    let to = witness.clone();
    let recorded = world.store.run(move |txn| {
        let mut mr = txn.mr(&mr.id)?;
        if let Some(id) = saga {
            txn.close_saga(id)?;
        }
        if mr.is_over() {
            return Ok(());
        }
        forget(txn, &mr.id)?;
        let conflict = failure_type == FailureType::Conflict;
        mr.state = if conflict {
            MrState::Conflict
        } else {
            MrState::Failed
        };
        mr.conflict_files.clone_from(&conflict_files);
        mr.release(Some(error.clone()));
        mr.not_before = None;
        txn.put_mr(&mr)?;
        if conflict {
            record_mr(txn, EventType::MrConflict, &mr, Cause::MergeFailed)?;
        }
        let body = Body::MergeFailed(MergeFailed {
            failure_type,
            error: error.clone(),
            conflict_files: conflict_files.clone(),
            rig: mr.rig.clone(),
            mr: mr.id,
            raider: mr.raider,
            incarnation: mr.incarnation,
            relic: mr.relic,
            branch: mr.branch,
            head: mr.head,
            target: mr.target,
        });
        txn.send(&message::forge(&mr.rig), &to, body).map(|_| ())
    });
    recorded.await?;
    world.nudge(&witness);
    Ok(Attempt::Failed)
}

/// Parks a merge request after a failure of infrastructure: 10 s, doubling to 10 min (`4-rules.md`); others go on. A
/// person is called when retries do not help.
pub(super) async fn park(world: &World, mr: MergeRequest, why: String) -> Result<Attempt, Refusal> {
    park_for(world, mr, (HoldReason::Infra, why)).await
}

/// Parks a merge request as [`park`] does, for a repository error.
pub(super) async fn park_on(
    world: &World,
    mr: MergeRequest,
    error: &RepoError,
) -> Result<Attempt, Refusal> {
    let reason = match error {
        RepoError::CheckoutBusy { .. } => HoldReason::Checkout,
        _ => HoldReason::Infra,
    };
    park_for(world, mr, (reason, error.to_string())).await
}

async fn park_for(world: &World, mr: MergeRequest, why: Why) -> Result<Attempt, Refusal> {
    let wait = pause(mr.attempts, PARKED_MAX);
    tracing::warn!(
        mr = %mr.id,
        why = why.1,
        ?wait,
        "a merge request could not land for now; it is parked and retried after the wait"
    );
    hold(world, mr.id, why, wait, Tried::Begun).await
}

/// The reason of a wait, and its text for people.
pub(super) type Why = (HoldReason, String);

/// The accounting of an attempt that failed: counted already, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    /// The attempt was counted when it began.
    Begun,
    /// The attempt did not begin. It counts only until a person is called.
    Not,
}

/// Returns the delay after `attempts` attempts.
pub(super) fn pause(attempts: u32, most: Duration) -> Duration {
    const FIRST: Duration = Duration::from_secs(10);
    let doublings = attempts.saturating_sub(1).min(10);
    (FIRST * 2_u32.pow(doublings)).min(most)
}

/// Holds a merge request until its next attempt. Journalled only when the reason is new; a person is called when the
/// number of attempts reaches the limit.
pub(super) async fn hold(
    world: &World,
    id: RelicId,
    (reason, why): Why,
    wait: Duration,
    tried: Tried,
) -> Result<Attempt, Refusal> {
    let at = world.clock.now().checked_add(wait);
    let at = at.unwrap_or(Timestamp::MAX);
    let parked = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        if mr.is_over() {
            return Ok(());
        }
        let counts = tried == Tried::Not && mr.attempts < PATIENCE;
        mr.attempts += u32::from(counts);
        let news = mr.note.as_ref() != Some(&why);
        mr.state = MrState::Queued;
        mr.not_before = Some(at);
        mr.hold_for(reason, why.clone(), txn.now());
        txn.put_mr(&mr)?;
        if news {
            record_mr(txn, EventType::MrHeld, &mr, Cause::MergeFailed)?;
        }
        if mr.attempts != PATIENCE || tried == Tried::Not && !counts {
            return Ok(());
        }
        let text = format!("{} could not be landed in {PATIENCE} attempts", mr.id);
        let problem = ProblemKind::LandingParked.of(&mr.id, text);
        call(txn, mr, problem, why.clone())
    });
    parked.await?;
    world.nudge(message::SHAMAN);
    Ok(Attempt::Parked)
}

/// Calls a person about a merge request that is still being retried.
pub(super) fn call(
    txn: &mut dyn Txn,
    mr: MergeRequest,
    problem: Problem,
    evidence: String,
) -> Result<(), StoreError> {
    let body = Escalation {
        agent: mr.raider.to_string(),
        problem,
        relic: Some(mr.relic),
        severity: Severity::Medium,
        evidence,
    };
    let from = message::forge(&mr.rig);
    txn.send(&from, message::SHAMAN, Body::Escalation(body))
        .map(|_| ())
}

/// Parks a merge request whose attempt failed by a bug or a damaged row, so that others go on. A journalled landing
/// stays open.
///
/// # Errors
/// The store's.
pub async fn set_back(world: &World, id: RelicId, why: String) -> Result<Attempt, Refusal> {
    let mr = world.store.run(move |txn| txn.mr(&id)).await?;
    park(world, mr, why).await
}

/// Returns interrupted merge requests to the queue.
///
/// # Errors
/// The store's.
pub async fn restore(world: &World, stranded: Vec<RelicId>) -> Result<Attempt, Refusal> {
    let restored = world.store.run(move |txn| {
        for id in &stranded {
            let mut mr = txn.mr(id)?;
            // The merge request may have left the queue since it was listed.
            if !matches!(mr.state, MrState::Testing | MrState::Merging) {
                continue;
            }
            mr.state = MrState::Queued;
            txn.put_mr(&mr)?;
            record_mr(txn, EventType::MrQueued, &mr, Cause::Resumed)?;
        }
        Ok(())
    });
    restored.await?;
    Ok(Attempt::Again)
}

/// Withdraws a merge request for good; its branch and its pin stay. Returns false when it is over, or past the point of
/// no return.
///
/// # Errors
/// The store's.
pub fn withdraw(
    txn: &mut dyn Txn,
    mr: &mut MergeRequest,
    note: Option<&str>,
    origin: impl Into<Origin>,
) -> Result<bool, StoreError> {
    if mr.is_over() || txn.saga_of(SagaKind::Land, mr.id.as_str())?.is_some() {
        return Ok(false);
    }
    forget(txn, &mr.id)?;
    mr.state = MrState::Rejected;
    mr.release(note.map(str::to_owned));
    mr.not_before = None;
    txn.put_mr(mr)?;
    record_mr(txn, EventType::MrRejected, mr, origin)?;
    // The raider's POLECAT_DONE has no receiver any more.
    for message in txn.inbox(&message::witness(&mr.rig))? {
        let about = matches!(&message.body, Body::PolecatDone(done)
            if done.raider == mr.raider && done.incarnation == mr.incarnation);
        if about {
            txn.handled(message.id)?;
        }
    }
    Ok(true)
}

/// Journals a merge request's transition.
///
/// # Errors
/// The store's.
pub fn record_mr(
    txn: &mut dyn Txn,
    kind: EventType,
    mr: &MergeRequest,
    origin: impl Into<Origin>,
) -> Result<(), StoreError> {
    let data = serde_json::json!({
        "mr": mr.id, "relic": mr.relic, "raider": mr.raider, "incarnation": mr.incarnation,
        "branch": mr.branch, "head": mr.head, "target": mr.target, "note": mr.note,
        "not_before": mr.not_before, "hold": mr.hold,
    });
    txn.record(&NewEvent::new(kind, &mr.id, origin).with(data))
        .map(|_| ())
}
