//! Landing one merge request (`witness-patrol.md`, signal path; `3-architecture.md`, 3.4).
//!
//! ```text
//!  queued ─► testing: fetch target ─► merge in memory ─► gates on exactly that tree
//!               │ moved meanwhile: again   │ conflict         │ red        │ cannot run
//!               ▼                          ▼                  ▼            ▼
//!  merging: intent ─► push with lease ─► landed          MERGE_FAILED    parked, tried later
//!                                          └─► MERGED
//! ```
//!
//! What lands is byte for byte what the gates saw: the pushed commit is the tested one.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::refusal::Refusal;
use super::super::world::World;
use super::super::{effects, gates, launch};
use super::{pack, unpack};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{FailureType, GateVerdict, MergeOutcome, MergeRequest, MrState};
use crate::domain::message::{self, Body, MergeFailed, Merged};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::{LandRequest, RepoError};

/// What an attempt came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// It is on the target.
    Landed,
    /// It cannot land as it is.
    Failed,
    /// Not its fault; later.
    Parked,
    /// The target moved; at once again.
    Again,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plan {
    mr: RelicId,
    target: String,
    old: Oid,
    new: Oid,
}

/// Tries to land a queued merge request.
///
/// # Errors
/// The store cannot be used; nothing has landed unrecorded.
pub async fn attempt(world: &World, rig: &Rig, id: RelicId) -> Result<Attempt, Refusal> {
    let mr = start_testing(world, id).await?;
    let Some(mr) = mr else {
        return Ok(Attempt::Parked);
    };
    let target = mr.target.clone();
    let state = effects::repo(world, &rig.name, move |repo| repo.fetch_target(&target)).await;
    let state = match state {
        Ok(state) => state,
        Err(error) => return park(world, mr, format!("the target cannot be read: {error}")).await,
    };
    let request = land_request(world, rig, &mr, &state.tip).await?;
    let merged = effects::repo(world, &rig.name, move |repo| repo.merge(&request)).await;
    let (tip, tree) = match merged {
        Ok(MergeOutcome::Clean { tip, tree }) => (tip, tree),
        Ok(MergeOutcome::Nothing) => {
            record_merged(world, None, mr, state.tip, true).await?;
            return Ok(Attempt::Landed);
        }
        Ok(MergeOutcome::Conflict(files)) => {
            let error = format!("conflicts with {} in {}", mr.target, files.join(", "));
            return fail(world, mr, FailureType::Conflict, error, files).await;
        }
        Err(error) => return park(world, mr, format!("the merge cannot be made: {error}")).await,
    };
    let ran = gates::run_all(world, rig, &tip, &tree, &state).await;
    let verdicts = ran.verdicts.clone();
    let mr = note_verdicts(world, mr, verdicts).await?;
    match ran.outcome {
        gates::Outcome::Green => {}
        gates::Outcome::Red { gate, tail } => {
            let error = format!("gate {gate} failed:\n{tail}");
            return fail(world, mr, FailureType::Tests, error, Vec::new()).await;
        }
        gates::Outcome::TargetRed { gate } => {
            let why = format!(
                "gate {gate} fails on {} itself; nobody is blamed",
                mr.target
            );
            let data = serde_json::json!({ "gate": gate, "target": mr.target });
            let event = NewEvent::new(EventType::ForgeRed, &rig.name, Cause::MergeFailed);
            world.store.note(vec![event.with(data)]);
            return park(world, mr, why).await;
        }
        gates::Outcome::Infra { gate, why } => {
            return park(world, mr, format!("gate {gate} could not run: {why}")).await;
        }
    }
    world.at(FaultPoint::LandIntentBefore);
    let plan = Plan {
        mr: mr.id.clone(),
        target: mr.target.clone(),
        old: state.tip,
        new: tip,
    };
    let saga = open(world, rig, plan).await?;
    world.at(FaultPoint::LandIntentAfter);
    resume(world, rig, saga).await
}

/// Marks it as being tested, unless somebody took it out of the queue meanwhile.
async fn start_testing(world: &World, id: RelicId) -> Result<Option<MergeRequest>, Refusal> {
    let started = world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&id)?;
            if mr.state != MrState::Queued {
                return Ok(None);
            }
            mr.state = MrState::Testing;
            mr.attempts += 1;
            mr.note = None;
            txn.put_mr(&mr)?;
            record_mr(txn, EventType::MrTesting, &mr, Cause::Done)?;
            Ok(Some(mr))
        })
        .await?;
    Ok(started)
}

async fn land_request(
    world: &World,
    rig: &Rig,
    mr: &MergeRequest,
    onto: &Oid,
) -> Result<LandRequest, Refusal> {
    let id = mr.relic.clone();
    let relic = world.store.run(move |txn| txn.relic(&id)).await?;
    Ok(LandRequest {
        head: mr.head.clone(),
        onto: onto.clone(),
        style: rig.forge.style,
        title: relic.title,
        trailers: vec![
            format!("Horde-Relic: {}", mr.relic),
            format!("Horde-MR: {}", mr.id),
            format!("Raider: {}", mr.raider),
        ],
        committer: launch::forge_signature(world, rig),
    })
}

async fn note_verdicts(
    world: &World,
    mr: MergeRequest,
    verdicts: Vec<GateVerdict>,
) -> Result<MergeRequest, Refusal> {
    let noted = world
        .store
        .run(move |txn| {
            let mut now = txn.mr(&mr.id)?;
            now.gates.clone_from(&verdicts);
            txn.put_mr(&now)?;
            Ok(now)
        })
        .await?;
    Ok(noted)
}

async fn open(world: &World, rig: &Rig, plan: Plan) -> Result<Saga, Refusal> {
    let rig = rig.name.clone();
    let saga = world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&plan.mr)?;
            if mr.state != MrState::Testing {
                return Err(StoreError::Conflict(format!(
                    "{} was taken out of the queue",
                    mr.id
                )));
            }
            mr.state = MrState::Merging;
            txn.put_mr(&mr)?;
            record_mr(txn, EventType::MrMerging, &mr, Cause::Done)?;
            txn.open_saga(
                SagaKind::Land,
                &rig,
                plan.mr.as_str(),
                "intent",
                &pack(&plan),
            )
        })
        .await?;
    Ok(saga)
}

/// Pushes what the saga says and records it. Also after a crash: a push that went through is
/// recognised on the remote.
///
/// # Errors
/// The store cannot be used.
pub async fn resume(world: &World, rig: &Rig, saga: Saga) -> Result<Attempt, Refusal> {
    let plan: Plan = unpack(&saga)?;
    let (target, old, new) = (plan.target.clone(), plan.old.clone(), plan.new.clone());
    let landed = effects::repo(world, &rig.name, move |repo| repo.land(&target, &old, &new)).await;
    let id = plan.mr.clone();
    let mr = world.store.run(move |txn| txn.mr(&id)).await?;
    let close = Some(saga.id);
    match landed {
        Ok(()) => {
            world.at(FaultPoint::LandPushBefore);
            record_merged(world, close, mr, plan.new, false).await?;
            world.at(FaultPoint::LandPushAfter);
            Ok(Attempt::Landed)
        }
        Err(RepoError::Moved { .. }) => {
            // Somebody else pushed. Nobody's fault: what was tested is not what would land.
            put_back(world, saga.id, mr.id).await?;
            Ok(Attempt::Again)
        }
        Err(RepoError::Rejected(why)) => {
            close_saga(world, saga.id).await?;
            fail(world, mr, FailureType::Push, why, Vec::new()).await
        }
        Err(error) => {
            close_saga(world, saga.id).await?;
            park(world, mr, error.to_string()).await
        }
    }
}

async fn close_saga(world: &World, id: u64) -> Result<(), Refusal> {
    Ok(world.store.run(move |txn| txn.close_saga(id)).await?)
}

async fn record_merged(
    world: &World,
    saga: Option<u64>,
    mr: MergeRequest,
    commit: Oid,
    noop: bool,
) -> Result<(), Refusal> {
    let to = message::witness(&mr.rig);
    let witness = to.clone();
    world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&mr.id)?;
            if let Some(id) = saga {
                txn.close_saga(id)?;
            }
            if mr.state == MrState::Merged {
                return Ok(());
            }
            mr.state = MrState::Merged;
            mr.merge_commit = Some(commit.clone());
            mr.not_before = None;
            txn.put_mr(&mr)?;
            let body = Body::Merged(Merged {
                mr: mr.id.clone(),
                raider: mr.raider.clone(),
                incarnation: mr.incarnation,
                rig: mr.rig.clone(),
                relic: mr.relic.clone(),
                branch: mr.branch.clone(),
                head: mr.head.clone(),
                target: mr.target.clone(),
                merge_commit: commit.clone(),
                merged_at: txn.now(),
                noop,
            });
            txn.send(&message::forge(&mr.rig), &to, body).map(|_| ())
        })
        .await?;
    world.nudge(&witness);
    Ok(())
}

/// It cannot land as it is: the witness is told, and decides about rework.
async fn fail(
    world: &World,
    mr: MergeRequest,
    failure_type: FailureType,
    error: String,
    conflict_files: Vec<String>,
) -> Result<Attempt, Refusal> {
    let to = message::witness(&mr.rig);
    let witness = to.clone();
    world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&mr.id)?;
            if mr.state.is_final() {
                return Ok(());
            }
            let conflict = failure_type == FailureType::Conflict;
            mr.state = if conflict {
                MrState::Conflict
            } else {
                MrState::Failed
            };
            mr.conflict_files.clone_from(&conflict_files);
            mr.note = Some(error.clone());
            txn.put_mr(&mr)?;
            if conflict {
                record_mr(txn, EventType::MrConflict, &mr, Cause::MergeFailed)?;
            }
            let body = Body::MergeFailed(MergeFailed {
                mr: mr.id.clone(),
                raider: mr.raider.clone(),
                incarnation: mr.incarnation,
                rig: mr.rig.clone(),
                relic: mr.relic.clone(),
                branch: mr.branch.clone(),
                head: mr.head.clone(),
                target: mr.target.clone(),
                failure_type,
                error: error.clone(),
                conflict_files: conflict_files.clone(),
            });
            txn.send(&message::forge(&mr.rig), &to, body).map(|_| ())
        })
        .await?;
    world.nudge(&witness);
    Ok(Attempt::Failed)
}

/// Infrastructure failed: the merge request waits, 10 s, doubling to 10 min (`4-rules.md`).
async fn park(world: &World, mr: MergeRequest, why: String) -> Result<Attempt, Refusal> {
    const FIRST: Duration = Duration::from_secs(10);
    const MOST: Duration = Duration::from_secs(600);
    let doublings = mr.attempts.saturating_sub(1).min(10);
    let wait = (FIRST * 2_u32.pow(doublings)).min(MOST);
    let at = world
        .clock
        .now()
        .checked_add(wait)
        .unwrap_or(Timestamp::MAX);
    tracing::warn!(mr = %mr.id, why, ?wait, "a merge request is parked");
    requeue(world, mr, at, why).await?;
    Ok(Attempt::Parked)
}

/// Back into the queue as if it had not been tried.
async fn put_back(world: &World, saga: u64, id: RelicId) -> Result<(), Refusal> {
    let put_back = world.store.run(move |txn| {
        txn.close_saga(saga)?;
        let mut mr = txn.mr(&id)?;
        if mr.state == MrState::Merging {
            mr.state = MrState::Queued;
            mr.attempts = mr.attempts.saturating_sub(1);
            mr.not_before = None;
            txn.put_mr(&mr)?;
        }
        Ok(())
    });
    Ok(put_back.await?)
}

async fn requeue(
    world: &World,
    mr: MergeRequest,
    not_before: Timestamp,
    note: String,
) -> Result<(), Refusal> {
    world
        .store
        .run(move |txn| {
            let mut mr = txn.mr(&mr.id)?;
            if !matches!(
                mr.state,
                MrState::Testing | MrState::Merging | MrState::Queued
            ) {
                return Ok(());
            }
            mr.state = MrState::Queued;
            mr.not_before = Some(not_before);
            mr.note = Some(note.clone());
            txn.put_mr(&mr)?;
            record_mr(txn, EventType::MrHeld, &mr, Cause::MergeFailed)
        })
        .await?;
    Ok(())
}

/// Journals a merge request's transition.
///
/// # Errors
/// The store's.
pub fn record_mr(
    txn: &mut dyn Txn,
    kind: EventType,
    mr: &MergeRequest,
    cause: Cause,
) -> Result<(), StoreError> {
    let data = serde_json::json!({
        "mr": mr.id, "relic": mr.relic, "raider": mr.raider, "incarnation": mr.incarnation,
        "branch": mr.branch, "head": mr.head, "target": mr.target, "note": mr.note,
        "not_before": mr.not_before,
    });
    txn.record(&NewEvent::new(kind, &mr.id, cause).with(data))
        .map(|_| ())
}
