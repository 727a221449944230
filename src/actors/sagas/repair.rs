//! `repair`: rebuilds a corrupted sandbox with the work it still holds (`raider-lifecycle.md`, what "recycle" means).
//! Salvages everything readable first; overwrites nothing on disk.

use crate::actors::mail::NukeTarget;
use crate::actors::sandboxes;

use super::super::claims::ClaimKey;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::super::{ask, effects};
use super::charge::{self, sandbox_spec};
use super::nuke;
use crate::actors::mail::ChildRef;
use crate::actors::mail::raider_spec;
use crate::domain::answers::Repaired;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::facts::Probed;
use crate::domain::ids::RaiderId;
use crate::domain::message;
use crate::domain::nuke::CleanupStatus;
use crate::domain::relic::Hook;

/// Ends the session, rebuilds the sandbox, starts the session again. A charge that could not be unwound, because git
/// could not judge its sandbox, can be unwound afterwards.
///
/// # Errors
/// The raider has no hook, or git could not repair the sandbox; its files are untouched then.
pub async fn run(world: &World, raider: RaiderId) -> Result<Repaired, Refusal> {
    run_for(world, raider, None).await
}

/// As [`run`], but for a caller of the control socket, which the event names.
///
/// # Errors
/// As for [`run`].
pub async fn run_for(
    world: &World,
    raider: RaiderId,
    asker: Option<&Asker>,
) -> Result<Repaired, Refusal> {
    if let Some((saga, hook)) = charge::stranded(world, &raider).await? {
        // Only its sandbox prevents the unwinding, which goes on after the repair.
        let busy = || {
            Refusal::conflict(format!(
                "{raider} is busy: its failed charge is being undone"
            ))
        };
        let alone = world
            .claims
            .claim(ClaimKey::Saga(saga.id))
            .ok_or_else(busy)?;
        end(world, &hook).await?;
        let repaired = rebuild(world, &hook, asker).await?;
        drop(alone);
        world.nudge(&message::witness(&raider.rig));
        return Ok(repaired);
    }
    let wanted = raider.clone();
    let held = world.store.run(move |txn| txn.hook(&wanted)).await?;
    let has_hook = held.is_some();
    let hook = match held {
        Some(hook) => hook,
        None => hookless(world, &raider).await?,
    };
    // Neither a nuke nor a patrol that starts the agent may come between: the fence keeps out the nuke, the claim the
    // patrol.
    let _alone = nuke::fence(world, &NukeTarget::of(&hook, Cause::Repair), false).await?;
    let marked = world.claims.claim(ClaimKey::Repair(raider.clone()));
    end(world, &hook).await?;
    let repaired = rebuild(world, &hook, asker).await;
    drop(marked);
    if has_hook && !hook.is_declared() {
        // Even after a failed repair the raider goes on if its sandbox allows it.
        let goes_on = ask::want(world, raider_spec(&world.city, hook, None), Cause::Repair).await;
        match (&repaired, goes_on) {
            (Ok(_), goes_on) => goes_on?,
            (Err(_), Ok(())) => {}
            (Err(_), Err(error)) => {
                tracing::warn!(
                    %raider,
                    %error,
                    "the raider could not be restarted after a failed repair; the next patrol \
                    retries"
                );
            }
        }
    }
    repaired
}

/// Returns the hook that a sandbox without hook was made for.
async fn hookless(world: &World, raider: &RaiderId) -> Result<Hook, Refusal> {
    let slotless = || Refusal::not_found(format!("{raider} has no slot"));
    let rig = world.city.rig(&raider.rig).ok_or_else(slotless)?;
    let lone = sandboxes::hookless(world, rig).await?.into_iter();
    let mut own = lone.filter(|lone| lone.raider == *raider);
    match own.next().ok_or_else(slotless)?.was {
        Probed::Known(was) => was.ok_or_else(slotless),
        Probed::Unknown(why) => {
            let message = format!("the owner of the sandbox of {raider} cannot be read: {why}");
            Err(Refusal::new(RefusalKind::Failed, message))
        }
    }
}

async fn end(world: &World, hook: &Hook) -> Result<(), Refusal> {
    let meant = ChildRef::raider(&hook.raider, hook.incarnation);
    ask::end(world, meant, Cause::Repair).await
}

/// Rebuilds the hook's sandbox.
async fn rebuild(world: &World, hook: &Hook, asker: Option<&Asker>) -> Result<Repaired, Refusal> {
    let raider = hook.raider.clone();
    let rig = world
        .city
        .rig(&raider.rig)
        .ok_or_else(|| Refusal::not_found(format!("rig {} is not configured", raider.rig)))?;
    let sandbox = world.city.sandbox(&raider);
    let path = sandbox.clone();
    let ailment = effects::repo(world, &rig.name, move |repo| repo.sandbox_fault(&path)).await;
    let ailment = match ailment {
        Ok(what) => what.map(|what| what.says(&sandbox)),
        Err(error) => Some(error.to_string()),
    };
    let (path, target) = (sandbox.clone(), hook.target.clone());
    let seen = effects::repo_for(world, &rig.name, effects::WorkKind::Sandbox, move |repo| {
        repo.facts(&path, &target)
    })
    .await;
    let (was, salvage) = match seen.map_err(Refusal::from) {
        Ok(facts) if CleanupStatus::measured(&facts) == CleanupStatus::Clean => (ailment, None),
        Ok(_) => {
            let target = NukeTarget::of(hook, Cause::Repair);
            let (_, salvage) = nuke::write_salvage(world, &target).await?;
            (ailment, Some(salvage.id))
        }
        // A transient error: it may be readable soon, and is saved then.
        Err(error) if error.is_passing() => return Err(error),
        // Unreadable files cannot be saved, and are not overwritten either.
        Err(error) => (ailment.or(Some(error.to_string())), None),
    };
    let task_dir = world
        .city
        .task_dir(&hook.raider, &hook.relic, hook.incarnation);
    let spec = sandbox_spec(world, rig, hook, task_dir);
    effects::repo_for(world, &rig.name, effects::WorkKind::Sandbox, move |repo| {
        repo.repair_sandbox(&spec)
    })
    .await?;
    world.directory.sandboxes.note(&rig.name);
    let data = serde_json::json!({ "relic": hook.relic, "was": was, "salvage": salvage });
    let event = NewEvent::new(EventType::RaiderRepaired, &raider, Cause::Repair);
    let event = event.with(data);
    let event = match asker {
        Some(asker) => event.asked_by(asker),
        None => event,
    };
    world.store.journal(vec![event]);
    Ok(Repaired {
        raider,
        sandbox,
        was,
        salvage,
    })
}
