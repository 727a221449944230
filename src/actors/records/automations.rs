//! The stored marks of automations, and the events that wait for one.

use jiff::Timestamp;
use serde_json::json;

use super::automation_work;
use crate::domain::asker::Asker;
use crate::domain::automation::{Automation, Mark};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::gates::Gate;
use crate::domain::gates::event::Queue;
use crate::ports::relics::{EventFilter, StoreError, Txn};

/// Number of events read at once.
const PAGE: usize = 500;

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
pub fn switch(
    txn: &mut dyn Txn,
    automation: &Automation,
    on: bool,
    asker: &Asker,
) -> Result<(), StoreError> {
    let mut mark = recall(txn, automation)?;
    if mark.disabled == on {
        let kind = match on {
            true => EventType::AutomationEnabled,
            false => EventType::AutomationDisabled,
        };
        txn.record(&NewEvent::new(kind, &automation.id, asker))?;
    }
    if mark.disabled && on {
        mark.slots = txn.now();
        mark.cursor = txn.last_seq()?;
    }
    mark.disabled = !on;
    txn.put_mark(&mark)
}

/// Returns the events that wait for an automation, without its own and those about the work of automations; the first
/// `most` where that is given. None wait for another gate than that of an event.
///
/// # Errors
/// The store's.
pub fn waiting_events(
    txn: &mut dyn Txn,
    automation: &Automation,
    mark: &Mark,
    most: Option<usize>,
) -> Result<Queue, StoreError> {
    let mut queue = Queue::default();
    let Gate::Event { on } = &automation.gate else {
        return Ok(queue);
    };
    let mut filter = EventFilter {
        after: mark.cursor,
        kind: Some(on.as_str().to_owned()),
        subject: None,
        limit: most.map_or(PAGE, |most| most.min(PAGE)),
    };
    // A shown number may be smaller than the real one; a decision reads to the end.
    let mut pages = if most.is_some() { 4 } else { usize::MAX };
    loop {
        let page = txn.events(&filter)?;
        pages -= 1;
        let full = page.len() == filter.limit && pages > 0;
        for event in page {
            filter.after = event.seq;
            if !automation_work::is_about_automated_work(txn, automation, &event)? {
                queue.push(event, &automation.id);
            }
        }
        if !full || most.is_some_and(|most| queue.len() >= most) {
            return Ok(queue);
        }
    }
}

/// Journals the events that an automation does not run for because too many wait.
///
/// # Errors
/// The store's.
pub fn journal_skipped(
    txn: &mut dyn Txn,
    automation: &Automation,
    mark: &Mark,
    queue: &Queue,
) -> Result<(), StoreError> {
    if queue.skipped == 0 {
        return Ok(());
    }
    let data = json!({ "events": queue.skipped, "after": mark.cursor, "before": queue.first() });
    let kind = EventType::AutomationSkipped;
    let skipped = NewEvent::new(kind, &automation.id, Cause::QueueFull);
    txn.record(&skipped.with(data)).map(drop)
}

/// Returns the numbers of the events from before that time that an automation has still to run for. Those of a longer
/// queue than may wait are skipped now: an automation that waits for its work to be finished keeps a bounded number.
///
/// # Errors
/// The store's.
pub fn keep_waiting(
    txn: &mut dyn Txn,
    automation: &Automation,
    before: Timestamp,
) -> Result<Vec<u64>, StoreError> {
    let Gate::Event { .. } = &automation.gate else {
        return Ok(Vec::new());
    };
    let mut mark = recall(txn, automation)?;
    if !automation.enabled || mark.disabled {
        return Ok(Vec::new());
    }
    let queue = waiting_events(txn, automation, &mark, None)?;
    if let Some(first) = queue.first().filter(|_| queue.skipped > 0) {
        journal_skipped(txn, automation, &mark, &queue)?;
        mark.cursor = first - 1;
        txn.put_mark(&mark)?;
    }
    Ok(queue.older(before))
}
