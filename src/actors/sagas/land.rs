//! Landing one merge request (`witness-patrol.md`, signal path; `docs/architecture.md`, landing).
//!
//! ```text
//!  queued ─► testing: fetch target ─► merge in memory ─► gates on exactly that tree
//!               │ moved meanwhile: again   │ conflict         │ red        │ cannot run
//!               ▼ ever more slowly         ▼                  ▼            ▼
//!  merging: intent ─► push with lease ─► landed          MERGE_FAILED    held, tried later
//!                          │               └─► MERGED
//!                          └ no answer: the intent stays, and is retried later
//! ```
//!
//! The landed tree is byte for byte the tested one: the pushed commit is the commit that the gates ran on. The landing
//! waits for a person's checkout that would move with the target, checked before and after the gates. A merge that changes
//! a path of `human_review_paths` goes back to `reviewing` before the gates, unless a person approved its head. Each push
//! compares once more: a reload during the gates, or while the push waits to be retried, may have added paths, or `review`.

mod elsewhere;
mod record;
mod review;
mod wait;

use crate::actors::mail::LandOutcome;
use crate::actors::records::identities;
use crate::actors::records::salvages::{self, SalvageSubject};
use crate::actors::rig_settings;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use elsewhere::merged_elsewhere;
pub use record::{forget_done, record_mr, reject, restore, set_back, take, withdraw};
pub use review::hold_for_review;

use self::record::{
    fail, note_verdicts, open, push_begins, record_merged, retry_after_error, retry_for,
    retry_later, start,
};
use self::wait::{put_back, wait_for_checkout};
use super::super::refusal::Refusal;
use super::super::world::World;
use super::super::{effects, gates};
use super::{pack, step, unpack};
use crate::domain::attempt::file_types;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Oid, RelicId};
use crate::domain::merge::{FailureType, HoldReason, MergeOutcome, MergeRequest};
use crate::domain::saga::{FaultPoint, Saga};
use crate::ports::relics::Txn;
use crate::ports::repo::{LandRequest, RepoError, TargetState};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Plan {
    mr: RelicId,
    target: String,
    old: Oid,
    new: Oid,
    /// The changed files, by type.
    #[serde(default)]
    files: Option<BTreeMap<String, u64>>,
    /// When its last push began. A push whose answer was lost may still be carried out by the remote.
    #[serde(default)]
    pushed_at: Option<Timestamp>,
}

/// Tries to land a queued merge request.
///
/// # Errors
/// The store cannot be used; nothing has landed unrecorded.
pub async fn attempt(world: &World, rig: &Rig, id: RelicId) -> Result<LandOutcome, Refusal> {
    if let Some(waits) = wait_for_checkout(world, rig, &id).await? {
        return Ok(waits);
    }
    let Some(mr) = start(world, id).await? else {
        return Ok(LandOutcome::Withdrawn);
    };
    let target = mr.target.clone();
    let state = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.fetch_target(&target)
    })
    .await;
    let state = match state {
        Ok(state) => state,
        Err(RepoError::NotFound(_)) => {
            let why = (HoldReason::TargetGone, target_is_gone(rig, &mr));
            return retry_for(world, mr, why).await;
        }
        Err(error) => {
            return retry_later(world, mr, format!("the target cannot be read: {error}")).await;
        }
    };
    let request = land_request(world, rig, &mr, &state.tip).await?;
    let merged = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.merge(&request)
    })
    .await;
    match merged {
        Ok(MergeOutcome::Clean { tip, tree }) => {
            test_and_land(world, rig, mr, (tip, tree), state).await
        }
        Ok(MergeOutcome::Nothing) => land_empty_merge(world, rig, mr, state.tip).await,
        Ok(MergeOutcome::Conflict(files)) => {
            let error = format!("conflicts with {} in {}", mr.target, files.join(", "));
            fail(world, None, mr, FailureType::Conflict, error, files).await
        }
        Ok(MergeOutcome::Unrelated) => {
            let error = format!("{} shares no history with {}", mr.head, mr.target);
            fail(world, None, mr, FailureType::Unrelated, error, Vec::new()).await
        }
        Err(error) => retry_later(world, mr, format!("the merge failed: {error}")).await,
    }
}

/// Tests a clean merge and lands it. One that changes a path which a person reviews waits for that review first.
async fn test_and_land(
    world: &World,
    rig: &Rig,
    mr: MergeRequest,
    (tip, tree): (Oid, Oid),
    state: TargetState,
) -> Result<LandOutcome, Refusal> {
    let changed = changed_paths(world, rig, &mr, &tip).await;
    match review::due(rig, &mr, &changed) {
        Ok(None) => {}
        Ok(Some(why)) => return review::return_to_review(world, mr, why, None).await,
        Err(error) => {
            let why = format!("the paths that it changes cannot be listed: {error}");
            return retry_later(world, mr, why).await;
        }
    }
    let files = file_types_of(&mr, changed);
    if !rig.forge.gates.is_empty() {
        // No gate runs while the checkout cannot move.
        let (target, old, new) = (mr.target.clone(), state.tip.clone(), tip.clone());
        let free = effects::repo(world, &rig.name, move |repo| {
            repo.checkout_free(&target, Some((&old, &new)))
        });
        if let Err(error) = free.await {
            return retry_after_error(world, mr, &error).await;
        }
    }
    let mr = match test(world, rig, mr, (&tip, &tree), &state).await? {
        Ok(green) => green,
        Err(red) => return Ok(red),
    };
    world.at(FaultPoint::LandIntentBefore);
    let plan = Plan {
        files,
        mr: mr.id.clone(),
        target: mr.target.clone(),
        old: state.tip,
        new: tip,
        pushed_at: None,
    };
    let Some(saga) = open(world, rig, plan).await? else {
        return Ok(LandOutcome::Withdrawn);
    };
    world.at(FaultPoint::LandIntentAfter);
    resume(world, rig, saga).await
}

/// Lists the paths that a landing of this commit changes.
async fn changed_paths(
    world: &World,
    rig: &Rig,
    mr: &MergeRequest,
    tip: &Oid,
) -> Result<Vec<String>, RepoError> {
    let (target, tip) = (mr.target.clone(), tip.clone());
    let paths = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.changed_paths(&tip, &target)
    });
    paths.await
}

/// Counts by type the files that a landing changes; none when they cannot be listed, which is no reason not to land.
fn file_types_of(
    mr: &MergeRequest,
    changed: Result<Vec<String>, RepoError>,
) -> Option<BTreeMap<String, u64>> {
    match changed {
        Ok(paths) => Some(file_types(paths.iter().map(String::as_str))),
        Err(error) => {
            tracing::warn!(
                mr = %mr.id,
                %error,
                "the changed files of a landing cannot be listed; its entry in the identity's chain has no types of files"
            );
            None
        }
    }
}

/// Returns why a merge request is held whose target no longer exists, and what a person can do. Its target is not changed:
/// it was tested and reviewed for that one.
fn target_is_gone(rig: &Rig, mr: &MergeRequest) -> String {
    let (target, relic) = (&mr.target, &mr.relic);
    format!(
        "its target {target} does not exist at the remote any more; it lands when {target} exists again; to land it \
         elsewhere: `hd cancel {relic}`, `hd relic reopen {relic}`, `hd charge {relic} {} --target BRANCH`",
        rig.name
    )
}

/// Handles a merge that gives the target's own tree: nothing is to land.
async fn land_empty_merge(
    world: &World,
    rig: &Rig,
    mr: MergeRequest,
    tip: Oid,
) -> Result<LandOutcome, Refusal> {
    match save_commits(world, rig, &mr).await {
        Ok(()) => record_merged(world, None, mr, tip, true).await,
        Err(error) => {
            let why = format!("there is nothing to land, but its commits cannot be saved: {error}");
            retry_later(world, mr, why).await
        }
    }
}

/// Saves the commits of a merge request that has nothing left to land, unless the target has them: they may be on the
/// raider's branch only, which is deleted.
async fn save_commits(world: &World, rig: &Rig, mr: &MergeRequest) -> Result<(), Refusal> {
    let MergeRequest {
        head,
        target,
        raider,
        incarnation,
        ..
    } = mr.clone();
    let kept =
        effects::repo_for(
            world,
            &rig.name,
            effects::WorkKind::Landing,
            move |repo| match repo.landed(&target, &head)? {
                true => Ok(None),
                false => repo.salvage_head(&head, &raider, incarnation).map(Some),
            },
        );
    let Some(record) = kept.await? else {
        return Ok(());
    };
    let about = SalvageSubject::of(mr, Cause::Merged);
    let noted = move |txn: &mut dyn Txn| salvages::record(txn, &about, &record);
    world.store.run(noted).await?;
    Ok(())
}

/// Runs the gates on the merged tree. Handles any result but green itself.
async fn test(
    world: &World,
    rig: &Rig,
    mr: MergeRequest,
    (commit, tree): (&Oid, &Oid),
    target: &TargetState,
) -> Result<Result<MergeRequest, LandOutcome>, Refusal> {
    let of = gates::Tested {
        world,
        rig,
        mr: &mr.id,
    };
    let ran = gates::run_all(of, (commit, tree), target).await;
    let mr = note_verdicts(world, mr, ran.verdicts).await?;
    let dealt_with = match ran.outcome {
        gates::Outcome::Green => return Ok(Ok(mr)),
        gates::Outcome::Withdrawn => Ok(LandOutcome::Withdrawn),
        gates::Outcome::Red { gate, why } => {
            let error = format!("gate {gate} {why}");
            let kind = FailureType::of_gate(&gate);
            fail(world, None, mr, kind, error, Vec::new()).await
        }
        gates::Outcome::TargetRed { gate } => {
            let data = serde_json::json!({ "gate": gate, "target": mr.target });
            let event = NewEvent::new(EventType::ForgeRed, &rig.name, Cause::MergeFailed);
            world.store.journal(vec![event.with(data)]);
            let target = mr.target.clone();
            let why =
                format!("gate {gate} fails on {target} itself, so no branch is rejected for it");
            retry_later(world, mr, why).await
        }
        gates::Outcome::Infra { gate, why } => {
            retry_later(world, mr, format!("gate {gate} {why}")).await
        }
    };
    dealt_with.map(Err)
}

/// Returns the tips of the target on which the attempts at a relic began: a fresh raider may have continued the branch of an
/// earlier one.
#[must_use]
pub fn began(attempts: Vec<MergeRequest>) -> Vec<Oid> {
    let mut began: Vec<Oid> = attempts.into_iter().filter_map(|it| it.began).collect();
    began.sort();
    began.dedup();
    began
}

async fn land_request(
    world: &World,
    rig: &Rig,
    mr: &MergeRequest,
    onto: &Oid,
) -> Result<LandRequest, Refusal> {
    let own = mr.clone();
    let read = move |txn: &mut dyn Txn| {
        let attempt = identities::of(txn, &own.raider, own.incarnation, &own.relic)?;
        Ok((txn.relic(&own.relic)?, txn.mrs_of(&own.relic)?, attempt))
    };
    let (relic, attempts, attempt) = world.store.run(read).await?;
    Ok(LandRequest {
        head: mr.head.clone(),
        began: began(attempts),
        onto: onto.clone(),
        style: rig.forge.style,
        title: relic.title,
        trailers: vec![
            format!("Horde-Relic: {}", mr.relic),
            format!("Horde-MR: {}", mr.id),
            format!("Raider: {}", mr.raider),
            format!("Horde-Identity: {}", attempt.identity),
        ],
        committer: rig_settings::forge_signature(world, rig).await?,
    })
}

/// Pushes the saga's commit and records the landing. Also used after a crash, or a push of unknown result: a push that
/// succeeded is recognised on the remote.
///
/// # Errors
/// The store cannot be used.
pub async fn resume(world: &World, rig: &Rig, mut saga: Saga) -> Result<LandOutcome, Refusal> {
    let mut plan: Plan = match unpack(&saga) {
        Ok(plan) => plan,
        Err(error) => {
            // If it was pushed, the next merge finds that on the target.
            world.store.run(move |txn| txn.close_saga(saga.id)).await?;
            return Err(error);
        }
    };
    let mr = push_begins(world, plan.mr.clone()).await?;
    if let Some(waits) = review::before_push(world, &mr, &plan, saga.id).await? {
        return Ok(waits);
    }
    plan.pushed_at = Some(world.clock.now());
    step(world, &mut saga, "intent", &plan).await?;
    let (target, old, new) = (plan.target.clone(), plan.old.clone(), plan.new.clone());
    let landed = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.land(&target, &old, &new)
    })
    .await;
    let close = Some(saga.id);
    match landed {
        Ok(()) => {
            world.at(FaultPoint::LandPushBefore);
            let landed = record_merged(world, close, mr, plan.new, false).await;
            world.at(FaultPoint::LandPushAfter);
            landed
        }
        Err(RepoError::Moved { .. }) => {
            // Another push moved the target, so the tested tree is not what would land. No raider is blamed.
            put_back(world, saga.id, mr).await
        }
        Err(RepoError::Rejected(why)) => {
            fail(world, close, mr, FailureType::Push, why, Vec::new()).await
        }
        Err(error @ RepoError::CheckoutBusy { .. }) => {
            world.store.run(move |txn| txn.close_saga(saga.id)).await?;
            retry_after_error(world, mr, &error).await
        }
        // A garbage collection took the tested commit, so it is made and tested again. If it was pushed, the next merge
        // finds that on the target.
        Err(error @ RepoError::NotFound(_)) => {
            world.store.run(move |txn| txn.close_saga(saga.id)).await?;
            retry_later(world, mr, error.to_string()).await
        }
        // The push may have succeeded: the saga stays, and checks at its next try.
        Err(error) => retry_later(world, mr, error.to_string()).await,
    }
}
