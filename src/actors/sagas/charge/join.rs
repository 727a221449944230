//! A request for a relic that automatic charging took first.

use super::super::super::world::World;
use super::super::unpack;
use super::Plan;
use crate::actors::mail::{ChargeRequest, Charged};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

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
        Ok(sagas.into_iter().find(|saga| saga.charges(&wanted)))
    };
    let Some(saga) = world.store.run(find).await? else {
        return Ok(None);
    };
    let plan: Plan = unpack(&saga)?;
    if !plan.serves(request) {
        return Ok(None);
    }
    let mut changes = world.store.changes().follow();
    loop {
        let seen = world.store.changes().count();
        let id = saga.id;
        if world.store.run(move |txn| txn.saga(id)).await?.is_none() {
            break;
        }
        if changes.wait_for(|count| *count > seen).await.is_err() {
            break;
        }
    }
    let of = plan.relic.clone();
    let is_open = move |txn: &mut dyn Txn| -> Result<bool, StoreError> {
        let hook = txn.hook_of_relic(&of)?;
        Ok(hook.is_none() && txn.relic(&of)?.status == RelicStatus::Open)
    };
    match world.store.run(is_open).await? {
        false => Ok(Some(plan.charged(world))),
        true => {
            let (relic, raider) = (&plan.relic, &plan.raider);
            let message = format!("the automatic charge of {relic} to {raider} failed");
            let hint = format!("`hd why {raider}` says why");
            Err(Refusal::new(RefusalKind::Failed, message).hint(hint))
        }
    }
}
