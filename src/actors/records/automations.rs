//! The stored marks of automations.

use crate::domain::automation::{Automation, Mark};
use crate::ports::relics::{StoreError, Txn};

/// Returns the mark of an automation. An automation that is new, has another gate than before, or was switched on or
/// off in its file, gets a fresh mark.
///
/// # Errors
/// The store's.
pub fn recall(txn: &mut dyn Txn, automation: &Automation) -> Result<Mark, StoreError> {
    let known = txn.mark(&automation.id)?;
    let gate = match automation.enabled {
        true => automation.gate.identity(),
        false => "off".to_owned(),
    };
    let disabled = known.as_ref().is_some_and(|mark| mark.disabled);
    if let Some(mark) = known.filter(|mark| mark.gate == gate) {
        return Ok(mark);
    }
    Ok(Mark {
        automation: automation.id.clone(),
        gate,
        disabled,
        slots: txn.now(),
        cursor: txn.last_seq()?,
    })
}

/// Switches an automation on or off for good. Slots and events of the time in which it was off are passed over.
///
/// # Errors
/// The store's.
pub fn switch(txn: &mut dyn Txn, automation: &Automation, on: bool) -> Result<(), StoreError> {
    let mut mark = recall(txn, automation)?;
    if mark.disabled && on {
        mark.slots = txn.now();
        mark.cursor = txn.last_seq()?;
    }
    mark.disabled = !on;
    txn.put_mark(&mark)
}
