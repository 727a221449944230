//! The relics that automations made for raiders. They are charged whatever `auto_charge` says, until they are closed: also
//! after a nuke or a failed charge. Only the supervisor writes these facts; labels are free words of users.

use super::key_values;
use crate::actors::store::about;
use crate::domain::automation::{Action, Automation, AutomationId};
use crate::domain::event::Event;
use crate::domain::ids::RelicId;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The beginning of an automation's name as a maker of work.
pub const MAKER: &str = "automation/";
/// Prefix of the keys.
const KEY: &str = "automation-work/";

/// Records that the automation made this relic for a raider.
///
/// # Errors
/// The store's.
pub fn add(
    txn: &mut dyn Txn,
    relic: &RelicId,
    automation: &AutomationId,
) -> Result<(), StoreError> {
    key_values::write(txn, &format!("{KEY}{relic}"), &automation.to_string())
}

/// Returns true when an automation made this relic for a raider.
///
/// # Errors
/// The store's.
pub fn is_one(txn: &mut dyn Txn, relic: &RelicId) -> Result<bool, StoreError> {
    Ok(txn.get(&format!("{KEY}{relic}"))?.is_some())
}

/// Returns the relics of this prefix that may be charged now. Forgets those that are closed.
///
/// # Errors
/// The store's.
pub fn waiting(txn: &mut dyn Txn, prefix: &str) -> Result<Vec<Relic>, StoreError> {
    let mut waiting = Vec::new();
    for (id, _) in key_values::read_under::<String>(txn, KEY)? {
        let Some(relic) = open(txn, &id)? else {
            txn.set(&format!("{KEY}{id}"), None)?;
            continue;
        };
        if relic.id.prefix() == prefix && is_ready(txn, &relic)? {
            waiting.push(relic);
        }
    }
    Ok(waiting)
}

/// Returns the relic, unless it is closed or gone.
fn open(txn: &mut dyn Txn, id: &str) -> Result<Option<Relic>, StoreError> {
    let Ok(id) = id.parse::<RelicId>() else {
        return Ok(None);
    };
    match txn.relic(&id) {
        Ok(relic) => Ok(Some(relic).filter(|relic| relic.status != RelicStatus::Closed)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true for what [`Txn::chargeable`] would list.
fn is_ready(txn: &mut dyn Txn, relic: &Relic) -> Result<bool, StoreError> {
    let is_free = relic.status == RelicStatus::Open && relic.assignee.is_none();
    if !is_free || relic.kind != RelicKind::Task {
        return Ok(false);
    }
    for dep in &relic.deps {
        if txn.relic(dep)?.status != RelicStatus::Closed {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true when an event is about work with a totem that an automation made, this one or another: each run would
/// bring about the next, without end. An event about a raider or an agent is about the work on its hook.
///
/// # Errors
/// The store's.
pub fn is_about_automated_work(
    txn: &mut dyn Txn,
    automation: &Automation,
    event: &Event,
) -> Result<bool, StoreError> {
    let Action::Ritual(_) = automation.action else {
        return Ok(false);
    };
    let mut relics: Vec<RelicId> = [Some(event.subject.as_str()), event.relic()]
        .into_iter()
        .flatten()
        .filter_map(|id| id.parse().ok())
        .collect();
    // Events of older versions, and those that name their work nowhere: the hook of now.
    if relics.is_empty() {
        relics.extend(about::work_of(txn, &event.subject)?);
    }
    for id in relics {
        if is_automated(txn, &id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns true for a relic with a totem that an automation started, and for a step of one.
fn is_automated(txn: &mut dyn Txn, id: &RelicId) -> Result<bool, StoreError> {
    let whole = txn.totem_of_step(id)?;
    let totem = txn.totem(whole.as_ref().unwrap_or(id))?;
    let by = totem.and_then(|totem| totem.by);
    Ok(by.is_some_and(|by| by.starts_with(MAKER)))
}
