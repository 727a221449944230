//! Waiting work: reworks always, ready relics when the rig says so.

use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::charge::{self, ChargeRequest};
use super::super::world::Claim;
use super::WitnessArgs;
use super::inbox::{Handled, REWORK};
use crate::domain::cause::Cause;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::domain::saga::Saga;
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// Charges what waits for a slot: reworks always, ready relics when the rig says so. Slots are held
/// one after another, so that priority and age decide who gets them; the rest of each charge runs by
/// itself.
///
/// # Errors
/// The remote or the store cannot be used at present.
pub async fn charge_waiting(args: &WitnessArgs) -> Result<Handled, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(Handled::AtPatrol);
    };
    let filter = RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Open),
        prefix: Some(rig.prefix.clone()),
        label: None,
    };
    let all = rig.raiders.auto_charge;
    let waiting = world.store.run(move |txn| ready(txn, &filter, all)).await?;
    if waiting.is_empty() {
        return Ok(Handled::AtPatrol);
    }
    // A full rig is not worth a fetch per relic; a freed slot makes the witness look again.
    let mut free = charge::free_slots(world, rig).await?;
    for relic in waiting {
        if free == 0 {
            break;
        }
        let rework = relic.labels.iter().any(|label| label == REWORK);
        let request = ChargeRequest {
            relic: relic.id,
            harness: None,
            name: None,
            target: None,
            cause: if rework {
                Cause::MergeFailed
            } else {
                Cause::Config
            },
        };
        match charge::begin(world, rig, request).await {
            Ok((saga, claim)) => {
                free -= 1;
                carry_out(args, saga, claim);
            }
            // Somebody was faster, at this relic or at the slot.
            Err(refused) if refused.kind == RefusalKind::Conflict => {}
            // The remote or the store is away: the other relics need it as well.
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                tracing::warn!(rig = %args.rig, %error, "waiting work could not be charged");
            }
        }
    }
    Ok(Handled::AtPatrol)
}

/// Runs a charge that has its slot. One that failed is tried again when something has changed, not
/// at once: what was unwound would only fail again.
fn carry_out(args: &WitnessArgs, saga: Saga, claim: Claim) {
    let args = args.clone();
    tokio::spawn(async move {
        let charged = charge::run(&args.world, saga).await;
        drop(claim);
        if let Err(error) = charged {
            tracing::warn!(rig = %args.rig, %error, "waiting work could not be charged");
            if error.is_passing() {
                args.ended(Handled::Soon);
            }
        }
    });
}

/// Open relics that may be charged without anybody's asking, the most urgent first.
fn ready(txn: &mut dyn Txn, filter: &RelicFilter, all: bool) -> Result<Vec<Relic>, StoreError> {
    let mut ready = Vec::new();
    for relic in txn.relics(filter)? {
        let rework = relic.labels.iter().any(|label| label == REWORK);
        let mut unmet = false;
        for dep in &relic.deps {
            unmet |= txn.relic(dep)?.status != RelicStatus::Closed;
        }
        if (all || rework) && !unmet {
            ready.push(relic);
        }
    }
    Ok(ready)
}
