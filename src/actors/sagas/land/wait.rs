//! Waits that are no branch's fault: a target that moved, a person's checkout.

use std::time::Duration;

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::record::{call, hold, record_mr, take};
use crate::actors::mail::LandOutcome;
use crate::actors::records::{key_values, later_heads};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::merge::{Chase, HoldReason, MergeRequest, MrState};
use crate::domain::message;
use crate::domain::problem::ProblemKind;
use crate::domain::queue::{Step, Tried, pause};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// The longest interval between two checks of a checkout: a landing goes on soon after it is free.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// Waits for a checkout that would move with the target and cannot, before anything is merged or tested. Returns none
/// when the checkout is free or its state is unknown: the attempt finds out.
pub(super) async fn wait_for_checkout(
    world: &World,
    rig: &Rig,
    id: &RelicId,
) -> Result<Option<LandOutcome>, Refusal> {
    let own = id.clone();
    let mr = world.store.run(move |txn| txn.mr(&own)).await?;
    if mr.state != MrState::Queued {
        return Ok(None);
    }
    let target = mr.target.clone();
    let free = effects::repo(world, &rig.name, move |repo| {
        repo.checkout_free(&target, None)
    });
    let Err(busy @ RepoError::CheckoutBusy { .. }) = free.await else {
        return Ok(None);
    };
    let wait = pause(mr.attempts + 1, LOOK_MAX);
    tracing::debug!(
        mr = %mr.id,
        %busy,
        ?wait,
        "a merge request waits for a checkout that would move with the target; retry after the \
        wait"
    );
    let why = (HoldReason::Checkout, busy.to_string());
    let held = hold(world, mr.id, why, wait, Tried::Not);
    held.await.map(Some)
}

/// Returns a merge request to the queue because the target moved. The delay grows with each time, and a person is
/// called when it goes on.
pub(super) async fn put_back(
    world: &World,
    saga: u64,
    mr: MergeRequest,
) -> Result<LandOutcome, Refusal> {
    let put_back = world.store.run(move |txn| {
        txn.close_saga(saga)?;
        let mut mr = txn.mr(&mr.id)?;
        let (key, now) = (key(&mr.id), txn.now());
        let mut chase: Chase = key_values::read(txn, &key)?.unwrap_or_default();
        let calls = chase.moved(now);
        let why = chase.explanation(&mr.target);
        let moved = Step::TargetMoved {
            until: chase.wait().and_then(|wait| now.checked_add(wait).ok()),
            note: why.clone(),
        };
        if !take(txn, &mut mr, &moved)? {
            return Ok(LandOutcome::Again);
        }
        key_values::write(txn, &key, &chase)?;
        let waits = mr.not_before.is_some();
        if waits {
            record_mr(txn, EventType::MrHeld, &mr, Cause::MergeFailed)?;
        }
        if calls {
            let text = format!("{} cannot be landed: {} keeps moving", mr.id, mr.target);
            let problem = ProblemKind::TargetMoves.of(&mr.id, text);
            call(txn, mr, problem, why)?;
        }
        Ok(if waits {
            LandOutcome::Held
        } else {
            LandOutcome::Again
        })
    });
    let attempt = put_back.await?;
    world.nudge(message::SHAMAN);
    Ok(attempt)
}

/// Clears the count of moved targets of a merge request that is over, and its later head.
pub(super) fn forget(txn: &mut dyn Txn, id: &RelicId) -> Result<(), StoreError> {
    later_heads::forget(txn, id)?;
    txn.set(&key(id), None)
}

fn key(id: &RelicId) -> String {
    format!("chase/{id}")
}
