//! Runs that bring each other about: how many runs in a row led to a relic, to a run, and to an event. An event that a
//! person or the supervisor itself caused has none.
//!
//! ```text
//!  event ──► run ──► relic, made by its command or its ritual ──► relics that the agent on it makes ──► their events ──┐
//!    0        1                    1                                           1                                       │
//!             2 ◄──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```

use jiff::Timestamp;
use serde_json::Value;

use super::automation_work::MAKER;
use super::key_values;
use crate::actors::store::about;
use crate::domain::asker::Asker;
use crate::domain::automation::AutomationId;
use crate::domain::cause::Cause;
use crate::domain::event::Event;
use crate::domain::ids::{RaiderId, RelicId};
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// Prefix of the keys of relics.
const RELIC: &str = "automation-chain/relic/";
/// Prefix of the keys of automations: the last run of each.
const RUN: &str = "automation-chain/run/";

/// Records the number of a run that begins.
///
/// # Errors
/// The store's.
pub fn begin_run(
    txn: &mut dyn Txn,
    automation: &AutomationId,
    number: u32,
) -> Result<(), StoreError> {
    key_values::write(txn, &format!("{RUN}{automation}"), &number)
}

/// Records the number of runs that led to a new relic, if any did.
///
/// # Errors
/// The store's.
pub fn note_made(txn: &mut dyn Txn, relic: &Relic, by: &Asker) -> Result<(), StoreError> {
    match of_party(txn, &by.name)? {
        0 => Ok(()),
        number => key_values::write(txn, &format!("{RELIC}{}", relic.id), &number),
    }
}

/// Returns the number of runs in a row that led to what this party does now: an automation by its last run, a raider or an
/// agent by the relic on its hook.
///
/// # Errors
/// The store's.
pub fn of_party(txn: &mut dyn Txn, name: &str) -> Result<u32, StoreError> {
    if let Some(automation) = name.strip_prefix(MAKER) {
        return of_run(txn, automation);
    }
    if let Some(relic) = about::work_of(txn, name)? {
        return of_relic(txn, &relic);
    }
    // A raider is named by its session where it asked for something.
    let hooks = match name.contains('/') {
        true => Vec::new(),
        false => txn.hooks(None)?,
    };
    let own = hooks
        .into_iter()
        .find(|hook| hook.raider.session_id().as_str() == name);
    own.map_or(Ok(0), |hook| of_relic(txn, &hook.relic))
}

fn of_run(txn: &mut dyn Txn, automation: &str) -> Result<u32, StoreError> {
    Ok(key_values::read(txn, &format!("{RUN}{automation}"))?.unwrap_or_default())
}

/// Returns the number of a relic; that of a step is its whole's.
fn of_relic(txn: &mut dyn Txn, id: &RelicId) -> Result<u32, StoreError> {
    let whole = txn.totem_of_step(id)?;
    let id = whole.as_ref().unwrap_or(id);
    Ok(key_values::read(txn, &format!("{RELIC}{id}"))?.unwrap_or_default())
}

/// Returns the number of runs in a row that led to an event.
///
/// # Errors
/// The store's.
pub fn of_event(txn: &mut dyn Txn, event: &Event) -> Result<u32, StoreError> {
    let mut number = 0;
    // A slot that was missed comes of the schedule.
    let slot = [Cause::Missed, Cause::StillRunning];
    let is_slot = slot.iter().any(|cause| event.cause == cause.as_str());
    if event.kind.starts_with("automation.") && !is_slot {
        number = of_run(txn, &event.subject)?;
    }
    if let Some(by) = event.data.pointer("/asker/name").and_then(Value::as_str) {
        number = number.max(of_party(txn, by)?);
    }
    let named = event.data.get("relic").and_then(Value::as_str);
    for id in [Some(event.subject.as_str()), named].into_iter().flatten() {
        if let Ok(relic) = id.parse::<RelicId>() {
            number = number.max(of_relic(txn, &relic)?);
        }
    }
    if named.is_none() && event.subject.parse::<RaiderId>().is_ok() {
        number = number.max(of_party(txn, &event.subject)?);
    }
    Ok(number)
}

/// Forgets the relics that were closed before that time.
///
/// # Errors
/// The store's.
pub fn prune(txn: &mut dyn Txn, before: Timestamp) -> Result<(), StoreError> {
    for (id, _) in key_values::read_under::<u32>(txn, RELIC)? {
        let relic = id.parse::<RelicId>().ok().map(|id| txn.relic(&id));
        let is_over = match relic {
            Some(Ok(relic)) => {
                let closed = relic.closed.is_some_and(|closed| closed < before);
                closed && relic.status == RelicStatus::Closed
            }
            None | Some(Err(StoreError::NotFound { .. })) => true,
            Some(Err(error)) => return Err(error),
        };
        if is_over {
            txn.set(&format!("{RELIC}{id}"), None)?;
        }
    }
    Ok(())
}
