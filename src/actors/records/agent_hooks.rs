//! Hooks of standing agents and of members of pools: one relic each, under a key of the agent. A hook outlives sessions
//! and supervisors. The hook of a pool's member that is gone goes back to its pool.

use std::collections::BTreeMap;

use serde_json::json;

use super::key_values;
use crate::domain::agent_hook::{AgentHook, HandedStep};
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{AgentName, RelicId};
use crate::domain::relic::Relic;
use crate::ports::relics::{StoreError, Txn};

/// Returns the relic on the hook of an agent.
///
/// # Errors
/// The store's.
pub fn held(
    txn: &mut dyn Txn,
    agent: &AgentName,
) -> Result<Option<(AgentHook, Relic)>, StoreError> {
    let Some(hook) = key_values::read::<AgentHook>(txn, &AgentHook::key(agent))? else {
        return Ok(None);
    };
    let relic = match txn.relic(&hook.relic) {
        Ok(relic) => relic,
        Err(StoreError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_held = hook.holds(agent, &relic);
    Ok(is_held.then_some((hook, relic)))
}

/// Returns the relics on the hooks of all agents.
///
/// # Errors
/// The store's.
pub fn all(txn: &mut dyn Txn) -> Result<BTreeMap<AgentName, RelicId>, StoreError> {
    let mut all = BTreeMap::new();
    for (name, _) in key_values::read_under::<AgentHook>(txn, AgentHook::KEYS)? {
        let Ok(agent) = AgentName::new(name) else {
            continue;
        };
        if let Some((_, relic)) = held(txn, &agent)? {
            all.insert(agent, relic.id);
        }
    }
    Ok(all)
}

/// Returns the standing agent that has the relic on its hook.
///
/// # Errors
/// The store's.
pub fn holder(txn: &mut dyn Txn, relic: &Relic) -> Result<Option<AgentName>, StoreError> {
    let agent = relic.assignee.as_deref();
    let Some(agent) = agent.and_then(|name| AgentName::new(name).ok()) else {
        return Ok(None);
    };
    let hook = key_values::read::<AgentHook>(txn, &AgentHook::key(&agent))?;
    let is_held = hook.is_some_and(|hook| hook.holds(&agent, relic));
    Ok(is_held.then_some(agent))
}

/// Returns the oldest ready relic that is assigned to the agent or to its pool. One that is being charged to a raider
/// at this moment is passed over.
///
/// # Errors
/// The store's.
pub fn next(
    txn: &mut dyn Txn,
    agent: &AgentName,
    pool: Option<&AgentName>,
) -> Result<Option<Relic>, StoreError> {
    let own = txn.ready_of(agent.as_str())?;
    let shared = match pool {
        Some(pool) => txn.ready_of(pool.as_str())?,
        None => None,
    };
    // The first of two of the same age is the agent's own.
    let ready: Vec<Relic> = own.into_iter().chain(shared).collect();
    if ready.is_empty() {
        return Ok(None);
    }
    let sagas = txn.sagas(None)?;
    let is_free = |relic: &Relic| !sagas.iter().any(|saga| saga.charges(&relic.id));
    let ready = ready.into_iter().filter(is_free);
    Ok(ready.min_by_key(|relic| relic.created))
}

/// Puts the next relic on the hook of an agent, unless one is there. Returns the relic on the hook.
///
/// # Errors
/// The store's.
pub fn take(
    txn: &mut dyn Txn,
    agent: &AgentName,
    pool: Option<&AgentName>,
    asker: &Asker,
) -> Result<Option<Relic>, StoreError> {
    if let Some((_, relic)) = held(txn, agent)? {
        return Ok(Some(relic));
    }
    let Some(mut relic) = next(txn, agent, pool)? else {
        txn.set(&AgentHook::key(agent), None)?;
        return Ok(None);
    };
    let is_shared = relic.assignee.as_deref() != Some(agent.as_str());
    let hook = AgentHook {
        relic: relic.id.clone(),
        pool: pool.filter(|_| is_shared).cloned(),
        handed: None,
        work: None,
    };
    key_values::write(txn, &AgentHook::key(agent), &hook)?;
    if is_shared {
        assign(txn, &mut relic, agent.to_string(), asker)?;
    }
    Ok(Some(relic))
}

/// Empties the hooks of agents that are gone. The relics that came from a pool go back to it.
///
/// # Errors
/// The store's.
pub fn release_gone(
    txn: &mut dyn Txn,
    is_gone: impl Fn(&AgentName) -> bool,
) -> Result<(), StoreError> {
    for (name, hook) in key_values::read_under::<AgentHook>(txn, AgentHook::KEYS)? {
        let Ok(agent) = AgentName::new(name) else {
            continue;
        };
        if !is_gone(&agent) {
            continue;
        }
        if let (Some((_, mut relic)), Some(pool)) = (held(txn, &agent)?, hook.pool) {
            assign(txn, &mut relic, pool.to_string(), Cause::Patrol)?;
        }
        txn.set(&AgentHook::key(&agent), None)?;
    }
    Ok(())
}

/// Notes that the step after the present one is for another session than this one.
///
/// # Errors
/// The store's.
pub fn hand_step(
    txn: &mut dyn Txn,
    agent: &AgentName,
    mut hook: AgentHook,
    step: HandedStep,
) -> Result<(), StoreError> {
    hook.handed = Some(step);
    key_values::write(txn, &AgentHook::key(agent), &hook)
}

/// Empties the hook of an agent.
///
/// # Errors
/// The store's.
pub fn drop(txn: &mut dyn Txn, agent: &AgentName) -> Result<(), StoreError> {
    txn.set(&AgentHook::key(agent), None)
}

fn assign(
    txn: &mut dyn Txn,
    relic: &mut Relic,
    assignee: String,
    origin: impl Into<Origin>,
) -> Result<(), StoreError> {
    relic.assignee = Some(assignee);
    txn.put_relic(relic)?;
    let data = json!({ "changed": ["assignee"], "assignee": relic.assignee });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, origin);
    txn.record(&event.with(data)).map(|_| ())
}
