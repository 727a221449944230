//! `agent.*`: standing agents; stop, start, restart and unquarantine take raiders too
//! (`rules.md`, names).

use serde_json::Value;

use super::{names, session_verbs, status, to_json};
use crate::actors::mail::{ChildState, ChildView, RootMail};
use crate::actors::records::agent_hooks;
use crate::actors::records::operator_orders::{self, OperatorOrders, SuspensionOrder};
use crate::actors::refusal::RefusalKind;
use crate::actors::sandbox_faults;
use crate::actors::world::World;
use crate::actors::{ask, usage};
use crate::control::protocol::answers::{Ordered, OrderedState};
use crate::control::protocol::{ControlError, args};
use crate::domain::asker::Asker;
use crate::domain::ids::{ChildId, RaiderId, verb_group};
use crate::ports::relics::Txn;

/// The limit of a stop: an agent that ignores everything but KILL needs its grace and a moment.
const STOP_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
const START_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

pub(super) async fn list(world: &World) -> Result<Value, ControlError> {
    let views = ask::views(world).await?;
    let stored = |txn: &mut dyn Txn| {
        let used = usage::now(txn, &[])?.agents;
        Ok((operator_orders::read(txn)?, agent_hooks::all(txn)?, used))
    };
    let (said, hooks, used) = world.store.run(stored).await?;
    to_json(&status::agents(world, &views, &said, &hooks, &used))
}

pub(super) async fn stop(world: &World, asker: &Asker, name: &str) -> Result<Value, ControlError> {
    let id = names::single(world, name).await?;
    let name = id.to_string();
    if let ChildId::Agent(agent) = id.clone() {
        // Sticky: it outlives the supervisor.
        update_orders(world, move |said| {
            said.resting.insert(agent.clone());
        })
        .await?;
    }
    let by = Some(asker.clone());
    let message = |reply| RootMail::Rest { id, by, reply };
    let stopped = ask::ask(world.directory.root(), message, STOP_LIMIT).await?;
    stopped.map_err(|refused| ControlError::internal(refused.to_string()))?;
    ordered(name, OrderedState::Stopped)
}

/// Returns the answer to an order.
fn ordered(name: String, state: OrderedState) -> Result<Value, ControlError> {
    to_json(&Ordered { name, state })
}

async fn update_orders(
    world: &World,
    change: impl Fn(&mut OperatorOrders) + Send + 'static,
) -> Result<(), ControlError> {
    Ok(world
        .store
        .run(move |txn| operator_orders::update(txn, &change))
        .await?)
}

/// Suspends a child, so that no request starts a session for it, or resumes it.
pub(super) async fn suspend(
    world: &World,
    by: Asker,
    name: &str,
    on: bool,
) -> Result<Value, ControlError> {
    let id = names::known(world, name).await?;
    let name = id.to_string();
    let order = SuspensionOrder { suspends: on, by };
    update_orders(world, move |said| {
        let is_new = match on {
            true => said.suspended.insert(id.clone()),
            false => said.suspended.remove(&id),
        };
        if is_new {
            said.suspensions.insert(id.clone(), order.clone());
        }
    })
    .await?;
    world.directory.tell_root(RootMail::Look);
    match on {
        true => ordered(name, OrderedState::Suspended),
        false => ordered(name, OrderedState::Resumed),
    }
}

/// Starts the child, and returns why a start failed. A resting child goes on resting then.
async fn wake(world: &World, asker: &Asker, id: ChildId) -> Result<Value, ControlError> {
    let name = id.to_string();
    let said = world.store.run(|txn| operator_orders::read(txn)).await?;
    let mut agents = world.city.agents.iter();
    let pool = match &id {
        ChildId::Agent(agent) => agents.find(|of| of.member_number(agent).is_some()),
        ChildId::Raider(_) => None,
    };
    let pool = pool.map(|pool| ChildId::Agent(pool.name.clone()));
    if let Some(by) = [Some(id.clone()), pool]
        .into_iter()
        .flatten()
        .find(|id| said.suspended.contains(id))
    {
        let message = format!("{by} is suspended");
        let group = verb_group(&by.to_string());
        let hint = format!("`hd {group} resume {by}` resumes it");
        return Err(ControlError::conflict(message).hint(hint));
    }
    if world.city.suspends(&id) {
        let message = format!("{name} is suspended by the configuration");
        return Err(ControlError::conflict(message).hint("set `suspended = false`"));
    }
    let rested = match &id {
        ChildId::Agent(agent) => said.resting.get(agent).cloned(),
        ChildId::Raider(_) => None,
    };
    if let Some(agent) = rested.clone() {
        update_orders(world, move |said| {
            said.resting.remove(&agent);
        })
        .await?;
    }
    let message = |reply| RootMail::Wake {
        id,
        order: asker.into(),
        reply,
    };
    match ask::ask(world.directory.root(), message, START_LIMIT).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => {
            if let Some(agent) = rested {
                update_orders(world, move |said| {
                    said.resting.insert(agent.clone());
                })
                .await?;
            }
            return Err(why_not(world, &name, why).await);
        }
        // The child needs longer, and gets it.
        Err(late) if late.kind == RefusalKind::Timeout => {}
        Err(refusal) => return Err(refusal.into()),
    }
    ordered(name, OrderedState::Starting)
}

async fn why_not(world: &World, name: &str, why: String) -> ControlError {
    let refused = ControlError::conflict(why);
    let Ok(raider) = name.parse::<RaiderId>() else {
        return refused;
    };
    let seen = sandbox_faults::by_raider(world, &raider.rig)
        .await
        .unwrap_or_default();
    match seen.get(&raider) {
        Some(Ok(what)) => refused.hint(what.advice(&raider)),
        Some(Err(_)) | None => refused,
    }
}

pub(super) async fn start(world: &World, asker: &Asker, name: &str) -> Result<Value, ControlError> {
    let id = names::single(world, name).await?;
    wake(world, asker, id).await
}

/// Replaces the session by another, which resumes the conversation or begins afresh; planned, so not counted as a
/// restart.
pub(super) async fn restart(
    world: &World,
    asker: &Asker,
    args: args::Restart,
) -> Result<Value, ControlError> {
    let id = names::single(world, &args.name).await?;
    if args.fresh {
        session_verbs::afresh(world, &id.session_id(&world.city.name)).await?;
    }
    let views = ask::views(world).await?;
    let up = |view: &ChildView| view.spec.id == id && view.session.is_some();
    if !views.iter().any(up) {
        return wake(world, asker, id).await;
    }
    ask::cycle(world, id.clone(), asker).await?;
    ordered(id.to_string(), OrderedState::Starting)
}

/// Starts a quarantined raider on a person's request.
pub(super) async fn try_again(
    world: &World,
    asker: &Asker,
    raider: Option<&RaiderId>,
) -> Result<(), ControlError> {
    let id = raider.cloned().map(ChildId::Raider);
    let views = ask::views(world).await?.into_iter();
    let mut held = views.filter(|view| view.state == ChildState::Quarantined);
    if let Some(view) = held.find(|view| Some(&view.spec.id) == id.as_ref()) {
        wake(world, asker, view.spec.id).await?;
    }
    Ok(())
}

pub(super) async fn unquarantine(
    world: &World,
    asker: &Asker,
    name: &str,
) -> Result<Value, ControlError> {
    let view = names::child(world, name).await?;
    if view.state != ChildState::Quarantined {
        return Err(ControlError::conflict(format!(
            "{} is not quarantined",
            view.spec.id
        )));
    }
    wake(world, asker, view.spec.id).await
}
