//! A request for a relic that automatic charging took first.

use std::fmt::Display;

use super::super::super::world::World;
use super::super::unpack;
use super::Plan;
use crate::actors::mail::{ChargeRequest, Charged};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType};
use crate::domain::event_data::{self, ChargeFailed};
use crate::ports::relics::{EventFilter, StoreError, Txn};

impl Plan {
    /// Returns true when no caller asked for the charge, and it is as this request wants it.
    fn serves(&self, request: &ChargeRequest) -> bool {
        let fits = |wanted: Option<&str>, has: &str| wanted.is_none_or(|wanted| wanted == has);
        let name = request.name.as_ref().map(|name| name.as_str());
        let harness = request.harness.as_ref().map(|harness| harness.as_str());
        !self.cause.is_asked()
            && fits(name, self.raider.name.as_str())
            && fits(harness, self.harness.as_str())
            && fits(request.target.as_deref(), &self.target)
    }
}

/// Waits for the automatic charge of the relic that goes on, if it is as the request wants it: the work that was asked
/// for has begun. Returns none when there is no such charge.
///
/// # Errors
/// That charge failed.
pub async fn join(world: &World, request: &ChargeRequest) -> Result<Option<Charged>, Refusal> {
    let wanted = request.relic.clone();
    let find = move |txn: &mut dyn Txn| {
        let sagas = txn.sagas(None)?;
        let saga = sagas.into_iter().find(|saga| saga.charges(&wanted));
        Ok(saga.zip(Some(txn.last_seq()?)))
    };
    let Some((saga, since)) = world.store.run(find).await? else {
        return Ok(None);
    };
    let plan: Plan = unpack(&saga)?;
    if !plan.serves(request) {
        return Ok(None);
    }
    until_over(world, saga.id).await?;
    let own = plan.clone();
    let end = move |txn: &mut dyn Txn| match is_charged(txn, &own, since)? {
        true => Ok(Ok(())),
        false => Ok(Err(error(txn, &own, since)?)),
    };
    let Err(error) = world.store.run(end).await? else {
        return Ok(Some(plan.charged(world)));
    };
    let (relic, raider) = (&plan.relic, &plan.raider);
    let why = error.map_or_else(String::new, |error| format!(": {error}"));
    let message = format!("the automatic charge of {relic} to {raider} failed{why}");
    let hint = format!("`hd why {relic}` says what has become of it");
    Err(Refusal::new(RefusalKind::Failed, message).hint(hint))
}

/// Waits until the saga of a charge is closed.
async fn until_over(world: &World, id: u64) -> Result<(), Refusal> {
    let mut changes = world.store.changes().follow();
    loop {
        let seen = world.store.changes().count();
        let is_open = world.store.run(move |txn| txn.saga(id)).await?.is_some();
        if !is_open || changes.wait_for(|count| *count > seen).await.is_err() {
            return Ok(());
        }
    }
}

/// Returns true if the charge of the incarnation is in the journal after that event: the transaction that closes its saga
/// writes it there. The state of the relic does not tell: a charge that failed may leave it blocked, closed, or with another
/// raider by now, and the work of one that succeeded may be over. No event is pruned so soon.
fn is_charged(txn: &mut dyn Txn, plan: &Plan, since: u64) -> Result<bool, StoreError> {
    let charges = events(txn, EventType::RaiderCharged, &plan.raider, since)?;
    let mut charges = charges
        .iter()
        .filter_map(Event::read::<event_data::Charged>);
    Ok(charges.any(|charged| charged.incarnation == plan.incarnation))
}

/// Returns why the charge was undone, from the event of the transaction that has closed its saga.
fn error(txn: &mut dyn Txn, plan: &Plan, since: u64) -> Result<Option<String>, StoreError> {
    let updates = events(txn, EventType::RelicUpdated, &plan.relic, since)?;
    let undone = updates
        .iter()
        .find(|event| event.cause_known() == Some(Cause::ChargeFailed));
    Ok(undone.and_then(|event| event.read::<ChargeFailed>()?.error))
}

fn events(
    txn: &mut dyn Txn,
    kind: EventType,
    subject: &dyn Display,
    since: u64,
) -> Result<Vec<Event>, StoreError> {
    txn.events(&EventFilter {
        after: since,
        kind: Some(kind.as_str().to_owned()),
        subject: Some(subject.to_string()),
        ..EventFilter::default()
    })
}
