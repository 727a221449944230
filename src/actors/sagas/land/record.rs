//! The steps of a merge request (`domain/queue.rs`) in the store: one transaction each, its event included.

use std::time::Duration;

use jiff::Timestamp;

use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::wait::forget;
use super::{Plan, pack};
use crate::actors::mail::LandOutcome;
use crate::actors::records::identities;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::event_data::MergeStep;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId};
use crate::domain::merge::{FailureType, GateVerdict, HELD_MAX, HoldReason, MergeRequest, MrState};
use crate::domain::message::{self, Body, Escalation, MergeFailed, Merged};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::queue::{PATIENCE, Step, Tried, pause, step_all};
use crate::domain::relic::RelicStatus;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// Marks a merge request as testing, unless it left the queue meanwhile. It is withdrawn when its relic is closed.
pub(super) async fn start(world: &World, id: RelicId) -> Result<Option<MergeRequest>, Refusal> {
    let started = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        if Step::Tests.after(mr.state).is_none() {
            return Ok(None);
        }
        if txn.relic(&mr.relic)?.status == RelicStatus::Closed {
            let why = Some("its relic is closed");
            if withdraw(txn, &mut mr, why, Cause::RelicClosed)? {
                identities::withdrawn(txn, &mr)?;
            }
            return Ok(None);
        }
        take(txn, &mut mr, &Step::Tests)?;
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
        if !take(txn, &mut mr, &Step::Merges)? {
            return Ok(None);
        }
        record_mr(txn, EventType::MrMerging, &mr, Cause::Done)?;
        let mut attempt = identities::of(txn, &mr.raider, mr.incarnation, &mr.relic)?;
        attempt.files.clone_from(&plan.files);
        txn.put_attempt(&attempt)?;
        let (subject, data) = (plan.mr.as_str(), pack(&plan));
        txn.open_saga(SagaKind::Land, &rig, subject, "intent", &data)
            .map(Some)
    });
    Ok(opened.await?)
}

/// Journals that the push begins, also again after the merge request was held.
pub(super) async fn push_begins(world: &World, id: RelicId) -> Result<MergeRequest, Refusal> {
    let begun = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        if take(txn, &mut mr, &Step::MergesAgain)? {
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
) -> Result<LandOutcome, Refusal> {
    let witness = message::witness(&mr.rig);
    let recorded = world.store.run(move |txn| {
        let mut mr = txn.mr(&mr.id)?;
        if let Some(id) = saga {
            txn.close_saga(id)?;
        }
        settle(txn, &mut mr, &commit, (noop, false)).map(drop)
    });
    recorded.await?;
    world.nudge(&witness);
    Ok(LandOutcome::Landed)
}

/// Records a landing that the forge did not make, with what shows it, and sends MERGED. Returns false when the merge
/// request left its state meanwhile.
pub(super) async fn record_elsewhere(
    world: &World,
    mr: MergeRequest,
    tip: Oid,
    how: &'static str,
) -> Result<bool, Refusal> {
    let witness = message::witness(&mr.rig);
    let recorded = world.store.run(move |txn| {
        let reviewed = mr.head.clone();
        let mut mr = txn.mr(&mr.id)?;
        // Later commits may have been submitted, or a person has decided.
        if !mr.awaits_person() || mr.head != reviewed || !settle(txn, &mut mr, &tip, (true, true))? {
            return Ok(false);
        }
        let data = serde_json::json!({
            "mr": mr.id, "relic": mr.relic, "raider": mr.raider, "head": mr.head, "target": mr.target,
            "merge_commit": tip, "how": how, "pr": mr.pr,
        });
        let event = NewEvent::new(EventType::MrMergedElsewhere, &mr.id, Cause::Merged);
        txn.record(&event.with(data))?;
        Ok(true)
    });
    let recorded = recorded.await?;
    world.nudge(&witness);
    Ok(recorded)
}

/// Takes the step of a landing, and sends MERGED, which says if nothing was left to land and if the forge did not do
/// it. Returns false when it has landed already.
fn settle(
    txn: &mut dyn Txn,
    mr: &mut MergeRequest,
    commit: &Oid,
    (noop, elsewhere): (bool, bool),
) -> Result<bool, StoreError> {
    if !take(txn, mr, &Step::Landed(commit.clone()))? {
        return Ok(false);
    }
    forget(txn, &mr.id)?;
    let mr = mr.clone();
    let body = Body::Merged(Merged {
        merge_commit: commit.clone(),
        merged_at: txn.now(),
        noop,
        elsewhere,
        rig: mr.rig.clone(),
        mr: mr.id,
        raider: mr.raider,
        incarnation: mr.incarnation,
        relic: mr.relic,
        branch: mr.branch,
        head: mr.head,
        target: mr.target,
    });
    let to = message::witness(&mr.rig);
    txn.send(&message::forge(&mr.rig), &to, body)?;
    Ok(true)
}

/// Records that the merge request cannot land as it is, and tells the witness, which decides what follows.
pub(super) async fn fail(
    world: &World,
    saga: Option<u64>,
    mr: MergeRequest,
    failure_type: FailureType,
    error: String,
    conflict_files: Vec<String>,
) -> Result<LandOutcome, Refusal> {
    let witness = message::witness(&mr.rig);
    let to = witness.clone();
    let recorded = world.store.run(move |txn| {
        let mut mr = txn.mr(&mr.id)?;
        if let Some(id) = saga {
            txn.close_saga(id)?;
        }
        let failed = Step::Failed {
            how: failure_type,
            error: error.clone(),
            conflict_files: conflict_files.clone(),
        };
        if !take(txn, &mut mr, &failed)? {
            return Ok(());
        }
        forget(txn, &mr.id)?;
        if mr.state == MrState::Conflict {
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
    Ok(LandOutcome::Failed)
}

/// Holds a merge request after a failure of infrastructure: 10 s, doubling to 10 min (`rules.md`); others go on. A
/// person is called when retries do not help.
pub(super) async fn retry_later(
    world: &World,
    mr: MergeRequest,
    why: String,
) -> Result<LandOutcome, Refusal> {
    retry_for(world, mr, (HoldReason::Infra, why)).await
}

/// Holds a merge request as [`retry_later`] does, for a repository error.
pub(super) async fn retry_after_error(
    world: &World,
    mr: MergeRequest,
    error: &RepoError,
) -> Result<LandOutcome, Refusal> {
    let reason = match error {
        RepoError::CheckoutBusy { .. } => HoldReason::Checkout,
        RepoError::Remote(_)
        | RepoError::Held(_)
        | RepoError::Unseen(_)
        | RepoError::Rejected(_)
        | RepoError::Moved { .. }
        | RepoError::NotFound(_)
        | RepoError::Broken { .. }
        | RepoError::PermitStale(_)
        | RepoError::Timeout { .. }
        | RepoError::Git { .. }
        | RepoError::Damaged { .. }
        | RepoError::Failed(_) => HoldReason::Infra,
    };
    retry_for(world, mr, (reason, error.to_string())).await
}

/// Holds a merge request as [`retry_later`] does, for this reason.
pub(super) async fn retry_for(
    world: &World,
    mr: MergeRequest,
    why: Why,
) -> Result<LandOutcome, Refusal> {
    let wait = pause(mr.attempts, HELD_MAX);
    tracing::warn!(
        mr = %mr.id,
        why = why.1,
        ?wait,
        "a merge request could not land for now; it is held and retried after the wait"
    );
    hold(world, mr.id, why, wait, Tried::Begun).await
}

/// The reason of a wait, and its text for people.
pub(super) type Why = (HoldReason, String);

/// Holds a merge request until its next attempt ([`MergeRequest::held`]).
pub(super) async fn hold(
    world: &World,
    id: RelicId,
    why: Why,
    wait: Duration,
    tried: Tried,
) -> Result<LandOutcome, Refusal> {
    let at = world.clock.now().checked_add(wait);
    let at = at.unwrap_or(Timestamp::MAX);
    let held = world.store.run(move |txn| {
        let mut mr = txn.mr(&id)?;
        let hold = mr.held(why.clone(), at, tried);
        if !take(txn, &mut mr, &hold.step)? {
            return Ok(());
        }
        if hold.is_new {
            record_mr(txn, EventType::MrHeld, &mr, Cause::MergeFailed)?;
        }
        if !hold.calls_person {
            return Ok(());
        }
        let text = format!("{} could not be landed in {PATIENCE} attempts", mr.id);
        let problem = ProblemKind::LandingHeld.of(&mr.id, text);
        call(txn, mr, problem, why.1.clone())
    });
    held.await?;
    world.nudge(message::SHAMAN);
    Ok(LandOutcome::Held)
}

/// Calls a person about a merge request that is still being retried.
pub(super) fn call(
    txn: &mut dyn Txn,
    mr: MergeRequest,
    problem: Problem,
    evidence: String,
) -> Result<(), StoreError> {
    let body = Escalation::high(&mr.raider, problem, evidence)
        .on(mr.relic)
        .medium();
    let from = message::forge(&mr.rig);
    txn.send(&from, message::SHAMAN, Body::Escalation(body))
        .map(|_| ())
}

/// Holds a merge request whose attempt failed by a bug or a damaged row, so that others go on. A journalled landing
/// stays open.
///
/// # Errors
/// The store's.
pub async fn set_back(world: &World, id: RelicId, why: String) -> Result<LandOutcome, Refusal> {
    let mr = world.store.run(move |txn| txn.mr(&id)).await?;
    retry_later(world, mr, why).await
}

/// Returns interrupted merge requests to the queue.
///
/// # Errors
/// The store's.
pub async fn restore(world: &World, stranded: Vec<RelicId>) -> Result<LandOutcome, Refusal> {
    let restored = world.store.run(move |txn| {
        for id in &stranded {
            let mut mr = txn.mr(id)?;
            // False where the merge request left the queue since it was listed.
            if take(txn, &mut mr, &Step::Interrupted)? {
                record_mr(txn, EventType::MrQueued, &mr, Cause::Resumed)?;
            }
        }
        Ok(())
    });
    restored.await?;
    Ok(LandOutcome::Again)
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
    let note = note.map(str::to_owned);
    leave(txn, mr, &Step::Withdrawn { note }, origin)
}

/// Ends a merge request that a person has rejected, as [`withdraw`] does.
///
/// # Errors
/// The store's.
pub fn reject(
    txn: &mut dyn Txn,
    mr: &mut MergeRequest,
    note: &str,
    origin: impl Into<Origin>,
) -> Result<bool, StoreError> {
    let note = note.to_owned();
    leave(txn, mr, &Step::Rejected { note }, origin)
}

fn leave(
    txn: &mut dyn Txn,
    mr: &mut MergeRequest,
    step: &Step,
    origin: impl Into<Origin>,
) -> Result<bool, StoreError> {
    if mr.is_final() || txn.saga_of(SagaKind::Land, mr.id.as_str())?.is_some() {
        return Ok(false);
    }
    forget(txn, &mr.id)?;
    take(txn, mr, step)?;
    record_mr(txn, EventType::MrRejected, mr, origin)?;
    // The raider's POLECAT_DONE has no receiver any more.
    forget_done(txn, &mr.raider, mr.incarnation)?;
    Ok(true)
}

/// Marks the POLECAT_DONE of an incarnation as handled.
///
/// # Errors
/// The store's.
pub fn forget_done(
    txn: &mut dyn Txn,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<(), StoreError> {
    for message in txn.inbox(&message::witness(&raider.rig))? {
        let about = matches!(&message.body, Body::RaiderDone(done)
            if done.raider == *raider && done.incarnation == incarnation);
        if about {
            txn.handled(message.id)?;
        }
    }
    Ok(())
}

/// Stores the step of a merge request. Returns false when the step is not possible in its state: it left that state
/// meanwhile.
///
/// # Errors
/// The store's.
pub fn take(txn: &mut dyn Txn, mr: &mut MergeRequest, step: &Step) -> Result<bool, StoreError> {
    take_all(txn, std::slice::from_mut(mr), step)
}

/// Stores the step of every member of an attempt, or of none when it is not possible for one of them.
fn take_all(
    txn: &mut dyn Txn,
    members: &mut [MergeRequest],
    step: &Step,
) -> Result<bool, StoreError> {
    if step_all(members, step, txn.now()).is_err() {
        return Ok(false);
    }
    members.iter().try_for_each(|mr| txn.put_mr(mr))?;
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
        "branch": mr.branch, "head": mr.head, "target": mr.target, "hold": mr.hold,
    });
    let step = MergeStep {
        note: mr.note.clone(),
        not_before: mr.not_before,
    };
    let event = NewEvent::new(kind, &mr.id, origin);
    txn.record(&event.with(data).and(&step)).map(|_| ())
}
