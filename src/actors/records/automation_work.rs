//! The relics that automations made for raiders. They are charged whatever `auto_charge` says, until they are closed: also
//! after a nuke or a failed charge. Only the supervisor writes these facts; labels are free words of users.

use super::key_values;
use crate::domain::automation::AutomationId;
use crate::domain::ids::RelicId;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

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
