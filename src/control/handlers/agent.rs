//! `agent.*`: standing agents; stop, start, restart and unquarantine take raiders too
//! (`4-rules.md`, names).

use serde_json::{Value, json};

use super::{names, status};
use crate::actors::ask;
use crate::actors::refusal::Refusal;
use crate::actors::root::{ChildState, RootMsg};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::cause::Cause;
use crate::domain::ids::ChildId;

/// An agent that ignores everything but KILL needs its grace and a moment.
const STOP_LIMIT: std::time::Duration = std::time::Duration::from_secs(600);
const START_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

pub(super) async fn list(world: &World) -> Result<Value, ControlError> {
    let views = ask::views(world).await?;
    let agents = world.city.agents.iter().map(|agent| {
        let id = ChildId::Agent(agent.name.clone());
        let view = views.iter().find(|view| view.spec.id == id);
        status::agent_json(agent.name.as_str(), view)
    });
    Ok(Value::Array(agents.collect()))
}

pub(super) async fn stop(world: &World, name: &str) -> Result<Value, ControlError> {
    let view = names::child(world, name).await?;
    let id = view.spec.id.clone();
    let message = |reply| RootMsg::Rest {
        id: id.clone(),
        reply,
    };
    let stopped = ask::ask(world.directory.root(), message, STOP_LIMIT).await?;
    stopped.map_err(|refused| ControlError::internal(refused.to_string()))?;
    Ok(json!({ "name": view.spec.id.to_string(), "state": "stopped" }))
}

async fn wake(world: &World, id: ChildId) -> Result<Value, ControlError> {
    let name = id.to_string();
    let message = |reply| RootMsg::Wake {
        id,
        cause: Cause::Operator,
        reply,
    };
    let woken = ask::ask(world.directory.root(), message, START_LIMIT).await?;
    woken.map_err(Refusal::conflict)?;
    Ok(json!({ "name": name, "state": "starting" }))
}

pub(super) async fn start(world: &World, name: &str) -> Result<Value, ControlError> {
    let view = names::child(world, name).await?;
    wake(world, view.spec.id).await
}

/// A fresh session; planned, so not counted.
pub(super) async fn restart(world: &World, name: &str) -> Result<Value, ControlError> {
    let view = names::child(world, name).await?;
    if view.session.is_none() {
        return wake(world, view.spec.id).await;
    }
    ask::cycle(world, view.spec.id.clone(), Cause::Operator).await?;
    Ok(json!({ "name": view.spec.id.to_string(), "state": "starting" }))
}

pub(super) async fn unquarantine(world: &World, name: &str) -> Result<Value, ControlError> {
    let view = names::child(world, name).await?;
    if view.state != ChildState::Quarantined {
        return Err(ControlError::conflict(format!(
            "{} is not quarantined",
            view.spec.id
        )));
    }
    wake(world, view.spec.id).await
}
