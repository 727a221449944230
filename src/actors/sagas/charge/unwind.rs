//! Unwinding of a failed charge: session, sandbox, hook, slot.

use super::super::super::ask;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::{nuke, unpack};
use super::Plan;
use crate::actors::mail::ChildRef;
use crate::actors::mail::NukeTarget;
use crate::actors::records::failures;
use crate::actors::records::hooks;
use crate::actors::records::identities::{self, Ended};
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::ids::RaiderId;
use crate::domain::message;
use crate::domain::relic::Hook;
use crate::domain::saga::{Saga, SagaKind};

/// Unwinds all steps. Idempotent; a sandbox that holds anything is salvaged first.
pub(super) async fn unwind(world: &World, saga: &Saga, plan: &Plan) -> Result<(), Refusal> {
    let meant = ChildRef::raider(&plan.raider, plan.incarnation);
    ask::end(world, meant, Cause::ChargeFailed).await?;
    let target = NukeTarget::of(&plan.hook(world), Cause::ChargeFailed);
    nuke::remove(world, &target).await.map_err(|kept| {
        // A rig that is held tells nothing of the sandbox.
        if kept.is_passing() {
            return kept;
        }
        let raider = &plan.raider;
        kept.hint(format!(
            "`hd raider repair {raider}` repairs its sandbox; then it is removed"
        ))
    })?;
    let (id, plan) = (saga.id, plan.clone());
    world
        .store
        .run(move |txn| {
            let hook = txn.hook(&plan.raider)?;
            // Its session could not be started.
            if let Some(hook) = hook.filter(|hook| hook.incarnation == plan.incarnation) {
                identities::end(txn, &Ended::of_hook(&hook, Outcome::ChargeFailed))?;
            }
            hooks::drop_hook(txn, &plan.raider, plan.incarnation)?;
            let mut relic = txn.relic(&plan.relic)?;
            let (former, error) = (plan.former.as_ref(), plan.error.as_deref());
            failures::reopen(txn, &plan.raider, &mut relic, former, error)?;
            if let Some(why) = &plan.failure {
                failures::count(txn, &plan.relic, &plan.raider.rig, why)?;
            }
            txn.close_saga(id)
        })
        .await?;
    world.nudge(message::SHAMAN);
    Ok(())
}

/// Returns the raider's charge that is being unwound, with its intended hook; none when there is no such charge.
///
/// # Errors
/// The store's.
pub async fn stranded(world: &World, raider: &RaiderId) -> Result<Option<(Saga, Hook)>, Refusal> {
    let subject = raider.to_string();
    let saga = world
        .store
        .run(move |txn| txn.saga_of(SagaKind::Charge, &subject))
        .await?;
    let Some(saga) = saga.filter(|saga| saga.step == "unwind") else {
        return Ok(None);
    };
    let hook = unpack::<Plan>(&saga)?.hook(world);
    Ok(Some((saga, hook)))
}
