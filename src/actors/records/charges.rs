//! The end of a charge: the journal shows it as complete.

use serde::Deserialize;

use super::failures::Former;
use super::quarantine;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::event_data;
use crate::domain::existing_branch::Start;
use crate::domain::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId};
use crate::domain::relic::REWORK;
use crate::domain::routing::Choice;
use crate::domain::saga::Saga;
use crate::ports::relics::{StoreError, Txn};

/// A charge, as its saga keeps it.
#[derive(Debug, Deserialize)]
struct Charge {
    relic: RelicId,
    raider: RaiderId,
    incarnation: Incarnation,
    branch: String,
    base: Oid,
    #[serde(default)]
    start: Option<Start>,
    harness: HarnessName,
    #[serde(default)]
    identity: Option<String>,
    #[serde(default)]
    choice: Option<Choice>,
    cause: Cause,
    #[serde(default)]
    by: Option<String>,
    #[serde(default)]
    former: Option<Former>,
}

/// Journals the charge as complete, before any act of the agent.
///
/// # Errors
/// The store's; [`StoreError::Conflict`] when no session is wanted, or no longer.
pub fn show(txn: &mut dyn Txn, saga: &Saga) -> Result<(), StoreError> {
    let busy = || StoreError::Conflict(format!("the charge of {} is still running", saga.subject));
    let charge: Charge = serde_json::from_value(saga.data.clone()).map_err(|_| busy())?;
    if saga.step != "hook" {
        return Err(busy());
    }
    let mut relic = txn.relic(&charge.relic)?;
    if charge.former.as_ref().is_some_and(Former::was_blocked) {
        quarantine::close(txn, &relic.id)?;
    }
    if charge.cause.is_asked() {
        relic.charge_failures = 0;
    }
    relic.labels.retain(|label| label != REWORK);
    txn.put_relic(&relic)?;
    let data = serde_json::json!({
        "branch": charge.branch, "base": charge.base, "harness": charge.harness, "start": charge.start,
        "identity": charge.identity, "why": charge.choice.as_ref().map(Choice::says), "choice": charge.choice,
    });
    let raider = &charge.raider;
    let origin = Origin::new(charge.cause, charge.by);
    let charged = event_data::Charged {
        relic: charge.relic.clone(),
        incarnation: charge.incarnation,
    };
    let event = NewEvent::new(EventType::RaiderCharged, raider, origin);
    txn.record(&event.with(data).and(&charged))?;
    let working = serde_json::json!({ "relic": charge.relic });
    let event = NewEvent::new(EventType::RaiderWorking, raider, Cause::Charged);
    txn.record(&event.with(working))?;
    txn.close_saga(saga.id)
}
