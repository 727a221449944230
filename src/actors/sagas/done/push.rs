//! The push of a completion: retried until the remote has the branch, or the completion is withdrawn. A withdrawal
//! closes the saga; the push sees that at its next try.

use std::time::Duration;

use jiff::Timestamp;

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::{land, pack, unpack};
use super::Plan;
use crate::actors::records::escalations;
use crate::actors::refusal::LASTING;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RaiderId;
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Completion, DoneIntent};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};

/// Pushes until the remote has the branch; returns false when the completion was withdrawn meanwhile. A remote that is
/// away or refuses blocks only this raider.
pub(super) async fn push(world: &World, saga: &mut Saga, plan: &mut Plan) -> Result<bool, Refusal> {
    const FIRST: Duration = Duration::from_secs(1);
    const MOST: Duration = Duration::from_secs(600);
    // A person may have resolved it: retry at least once per patrol interval.
    let most = MOST.min(world.city.daemon.patrol_interval).max(FIRST);
    let id = saga.id;
    let (mut wait, mut began) = (FIRST, world.clock.mono());
    let mut called = false;
    while world.store.run(move |txn| txn.saga(id)).await?.is_some() {
        let (branch, head) = (plan.branch.clone(), plan.head.clone());
        let replaces = plan.replaces.clone().or_else(|| plan.rejected.clone());
        let pushed = effects::repo_for(
            world,
            &plan.raider.rig,
            effects::WorkKind::Network,
            // The reviewed or rejected commits may have been amended.
            move |repo| match replaces.filter(|old| *old != head) {
                Some(old) if repo.remote_head(&branch)?.as_ref() == Some(&old) => {
                    repo.push_branch(&branch, &head, Some(&old))
                }
                _ => repo.push_branch(&branch, &head, None),
            },
        );
        let Err(error) = pushed.await else {
            if plan.blocked.take().is_some() {
                let relic = plan.relic.clone();
                let taken = world.store.run(move |txn| {
                    let blocked = Some(ProblemKind::PushBlocked);
                    let settled = escalations::about(txn, &[&relic], blocked)?;
                    escalations::close(txn, settled, Cause::Done)
                });
                taken.await?;
            }
            return Ok(true);
        };
        let error = Refusal::from(error);
        let now = world.clock.mono();
        if effects::is_held(world, &plan.raider.rig) {
            // A person was called for the rig, and its time is no time of failure.
            began = now;
        }
        let lasts = !called && now.saturating_sub(began) >= LASTING;
        if plan.blocked.as_deref() != Some(&error.message) || lasts {
            plan.blocked = Some(error.message.clone());
            let calls = lasts || !error.is_passing();
            record_failure(world, saga, plan, &error, calls).await?;
            called |= lasts;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(most);
    }
    Ok(false)
}

/// Notes why the push fails, and calls a person when the failure is not transient, or has lasted.
async fn record_failure(
    world: &World,
    saga: &mut Saga,
    plan: &Plan,
    error: &Refusal,
    calls: bool,
) -> Result<(), Refusal> {
    let (id, data) = (saga.id, pack(plan));
    let body = Escalation::high(
        &plan.raider,
        ProblemKind::PushBlocked,
        format!(
            "{}: {error}\nthe push is retried; `hd raider nuke {} --salvage` saves its work and \
            abandons the branch",
            plan.branch, plan.raider
        ),
    )
    .on(plan.relic.clone());
    let (raider, from) = (plan.raider.clone(), message::witness(&plan.raider.rig));
    let event = serde_json::json!({ "relic": plan.relic, "error": error.message });
    saga.data = data.clone();
    let told = world.store.run(move |txn| {
        if txn.saga(id)?.is_none() {
            return Ok(());
        }
        txn.step_saga(id, "intent", &data)?;
        let blocked = NewEvent::new(EventType::RaiderPushBlocked, &raider, Cause::Done);
        txn.record(&blocked.with(event.clone()))?;
        if calls {
            escalations::report(txn, &from, &body)?;
        }
        Ok(())
    });
    told.await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

/// Returns true when this completion is still being pushed, so that it may be withdrawn.
#[must_use]
pub fn is_pushing(saga: &Saga) -> bool {
    saga.kind == SagaKind::Done && saga.step == "intent"
}

/// Withdraws a completion that is still being pushed: its raider has open work again. Where it was to replace work that a
/// person reviews, that completion counts again: its merge request waits on.
///
/// # Errors
/// The store's.
pub fn withdraw(txn: &mut dyn Txn, raider: &RaiderId, cause: Cause) -> Result<(), StoreError> {
    let saga = txn.saga_of(SagaKind::Done, &raider.to_string())?;
    let (Some(saga), Some(mut hook)) = (saga.filter(is_pushing), txn.hook(raider)?) else {
        return Ok(());
    };
    txn.close_saga(saga.id)?;
    // An unreadable plan was written by another version, which replaced none.
    let plan = unpack::<Plan>(&saga).ok();
    let at = hook.done.as_ref().map_or_else(|| txn.now(), |done| done.at);
    let later = plan.as_ref().map(|plan| plan.head.clone());
    hook.done = plan.and_then(|plan| former(plan, at));
    if let (Some(head), true) = (later, hook.is_declared())
        && let Some(mr) = txn.mr_of(&hook.relic, raider, hook.incarnation)?
        && !mr.is_final()
    {
        land::record_later_head(txn, &mr.id, &head)?;
    }
    txn.put_hook(&hook)?;
    let reviewed = hook.done.as_ref().map(|done| &done.head);
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "reviewed": reviewed,
    });
    let event = NewEvent::new(EventType::RaiderDoneWithdrawn, raider, cause);
    txn.record(&event.with(data)).map(|_| ())
}

/// Returns the completion that a submission was to take the place of. An older version journalled only its head, which is what
/// a person reviews; the time is then that of the submission.
fn former(plan: Plan, at: Timestamp) -> Option<DoneIntent> {
    let head = plan.replaces?;
    let journalled = plan.former.map(|former| *former);
    Some(journalled.unwrap_or(DoneIntent {
        exit: Completion::Completed,
        head,
        cleanup_status: None,
        mismatch: None,
        no_change: false,
        wants_review: plan.wants_review,
        until: None,
        reason: None,
        at,
    }))
}
