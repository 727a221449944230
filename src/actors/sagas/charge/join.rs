//! A request for a relic that automatic charging took first.

use super::super::super::world::World;
use super::super::unpack;
use super::Plan;
use crate::actors::mail::{ChargeRequest, Charged};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::event::{Event, EventType};
use crate::domain::ids::{Incarnation, RaiderId};
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
    let error = until_over(world, saga.id).await?;
    let (raider, incarnation) = (plan.raider.clone(), plan.incarnation);
    let charged = move |txn: &mut dyn Txn| is_charged(txn, (&raider, incarnation), since);
    if world.store.run(charged).await? {
        return Ok(Some(plan.charged(world)));
    }
    let (relic, raider) = (&plan.relic, &plan.raider);
    let why = error.map_or_else(String::new, |error| format!(": {error}"));
    let message = format!("the automatic charge of {relic} to {raider} failed{why}");
    let hint = format!("`hd why {relic}` says what has become of it");
    Err(Refusal::new(RefusalKind::Failed, message).hint(hint))
}

/// Waits until the saga of a charge is closed. Returns why it was unwound, if that was seen.
async fn until_over(world: &World, id: u64) -> Result<Option<String>, Refusal> {
    let mut changes = world.store.changes().follow();
    let mut error = None;
    loop {
        let seen = world.store.changes().count();
        let Some(saga) = world.store.run(move |txn| txn.saga(id)).await? else {
            return Ok(error);
        };
        error = unpack::<Plan>(&saga)?.error.or(error);
        if changes.wait_for(|count| *count > seen).await.is_err() {
            return Ok(error);
        }
    }
}

/// Returns true if the charge of this incarnation is in the journal after that event: the transaction that closes its saga
/// writes it there. The state of the relic does not tell: a charge that failed may leave it blocked, closed, or with another
/// raider by now, and the work of one that succeeded may be over. No event is pruned so soon.
fn is_charged(
    txn: &mut dyn Txn,
    (raider, incarnation): (&RaiderId, Incarnation),
    since: u64,
) -> Result<bool, StoreError> {
    let filter = EventFilter {
        after: since,
        kind: Some(EventType::RaiderCharged.as_str().to_owned()),
        subject: Some(raider.to_string()),
        ..EventFilter::default()
    };
    let charges = txn.events(&filter)?;
    let own = |event: &Event| event.data["incarnation"] == incarnation.0;
    Ok(charges.iter().any(own))
}
