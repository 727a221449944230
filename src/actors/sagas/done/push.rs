//! The push of a completion: retried until the remote has the branch, or the completion is withdrawn. A withdrawal
//! closes the saga; the push sees that at its next try.

use std::time::Duration;

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::pack;
use super::Plan;
use crate::actors::records::escalations;
use crate::actors::refusal::LASTING;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::message::{self, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::saga::Saga;

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
