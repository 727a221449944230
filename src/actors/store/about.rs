//! The work that an event is about. Events of sessions name a raider or an agent; the relic on its hook is recorded with
//! them, because the hook may be gone when the event is read.

use crate::domain::agent_hook::AgentHook;
use crate::domain::event::NewEvent;
use crate::domain::ids::{AgentName, RaiderId, RelicId};
use crate::ports::relics::{StoreError, Txn};

/// Returns the relic on the hook of a raider or an agent.
///
/// # Errors
/// The store's.
pub fn work_of(txn: &mut dyn Txn, name: &str) -> Result<Option<RelicId>, StoreError> {
    if let Ok(raider) = name.parse::<RaiderId>() {
        return Ok(txn.hook(&raider)?.map(|hook| hook.relic));
    }
    let Ok(agent) = AgentName::new(name) else {
        return Ok(None);
    };
    let fact = txn.get(&AgentHook::key(&agent))?;
    let Some(hook) = fact.and_then(|text| serde_json::from_str::<AgentHook>(&text).ok()) else {
        return Ok(None);
    };
    match txn.relic(&hook.relic) {
        Ok(relic) => Ok(Some(hook.relic.clone()).filter(|_| hook.holds(&agent, &relic))),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records an event, with the relic on the hook of its subject where it names none.
///
/// # Errors
/// The store's.
pub fn record(txn: &mut dyn Txn, event: &NewEvent) -> Result<u64, StoreError> {
    if event.names_relic() || !event.data.is_object() {
        return txn.record(event);
    }
    let Some(relic) = work_of(txn, &event.subject)? else {
        return txn.record(event);
    };
    let mut event = event.clone();
    event.set_relic(&relic);
    txn.record(&event)
}
