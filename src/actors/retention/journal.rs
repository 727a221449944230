//! Pruning of the journal: old events are deleted, except those that an automation has not handled yet, and with them
//! the messages that were handled, the drums that were acknowledged and the attempts that were over before.

use crate::actors::records::automations;
use jiff::Timestamp;

use super::super::world::World;
use crate::domain::automation::Automation;
use crate::domain::gates::{Gate, event};
use crate::ports::relics::{EventFilter, StoreError, Txn};

/// Maximum number of events deleted or scanned in one transaction.
const PART: usize = 500;

/// Deletes events from before that time, messages that were handled before, drums that were acknowledged before, and
/// attempts whose relics were closed before.
///
/// # Errors
/// The store's; earlier parts stay deleted.
pub(super) async fn prune(world: &World, before: Timestamp) -> Result<(), StoreError> {
    while !world.is_stopping() {
        let automations = world.city.automations.clone();
        let part = move |txn: &mut dyn Txn| {
            let mut end = txn.last_seq()? + 1;
            for automation in &automations {
                end = end.min(first_waiting(txn, automation, before, end)?);
            }
            txn.prune_events(before, end, PART)
        };
        if world.store.run(part).await? < PART {
            break;
        }
    }
    while !world.is_stopping() {
        let part = move |txn: &mut dyn Txn| txn.prune_messages(before, PART);
        if world.store.run(part).await? < PART {
            break;
        }
    }
    while !world.is_stopping() {
        let part = move |txn: &mut dyn Txn| txn.prune_drums(before, PART);
        if world.store.run(part).await? < PART {
            break;
        }
    }
    while !world.is_stopping() {
        let part = move |txn: &mut dyn Txn| txn.prune_attempts(before, PART);
        if world.store.run(part).await? < PART {
            break;
        }
    }
    Ok(())
}

/// Returns the first old event that the automation has not handled yet; `end` when there is none.
fn first_waiting(
    txn: &mut dyn Txn,
    automation: &Automation,
    before: Timestamp,
    end: u64,
) -> Result<u64, StoreError> {
    let Gate::Event { on } = &automation.gate else {
        return Ok(end);
    };
    let mark = automations::recall(txn, automation)?;
    if !automation.enabled || mark.disabled {
        return Ok(end);
    }
    let mut filter = EventFilter {
        after: mark.cursor,
        kind: Some(on.as_str().to_owned()),
        subject: None,
        limit: PART,
    };
    loop {
        let page = txn.events(&filter)?;
        for event in &page {
            if event.ts >= before || event.seq >= end {
                return Ok(end);
            }
            if !event::is_own(event, &automation.id) {
                return Ok(event.seq);
            }
            filter.after = event.seq;
        }
        if page.len() < PART {
            return Ok(end);
        }
    }
}
