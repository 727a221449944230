//! Waiting work: reworks and the work of automations always, ready relics when the rig charges automatically.

use std::collections::BTreeSet;

use super::super::claims::{Claim, ClaimKey};
use super::super::refusal::{Refusal, RefusalKind};
use super::super::sagas::charge;
use super::WitnessArgs;
use super::inbox::Handled;
use crate::actors::mail::ChargeRequest;
use crate::actors::records::{auto_charge, automation_work, failures};
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::ids::RelicId;
use crate::domain::message;
use crate::domain::relic::{REWORK, Relic};
use crate::domain::saga::Saga;
use crate::ports::relics::{StoreError, Txn};

/// Number of waiting relics considered: more than there are slots and relics in a pause after a failure.
const MOST: usize = 512;

/// Charges relics that wait for a slot: reworks and the work of automations always, ready relics when the rig charges
/// automatically. Slots are
/// taken one after another, so that priority and age decide; the rest of each charge runs in a task of its own. Nothing is
/// charged while a person has paused automatic charging: [`charge::begin`] checks it once more.
///
/// # Errors
/// The remote or the store is not available at present.
pub async fn charge_waiting(args: &WitnessArgs) -> Result<Handled, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(Handled::AtPatrol);
    };
    if rig.closed(&world.city).is_some() {
        return Ok(Handled::AtPatrol);
    }
    let own = rig.clone();
    let waiting = world.store.run(move |txn| waiting(txn, &own));
    let waiting = waiting.await?;
    if waiting.is_empty() {
        return Ok(Handled::AtPatrol);
    }
    // A full rig is not worth a fetch per relic; a freed slot makes the witness look again.
    let mut free = charge::free_slots(world, rig).await?;
    let (mut unavailable, mut away) = (None, BTreeSet::new());
    for relic in waiting {
        if free == 0 {
            break;
        }
        if away.contains(&relic.starts_on) {
            continue;
        }
        // The claim is also held through the pause after a failure.
        let Some(alone) = world.claims.claim(ClaimKey::Charge(relic.id.clone())) else {
            continue;
        };
        let id = relic.id.clone();
        let own_branch = relic.starts_on;
        let rework = relic.labels.iter().any(|label| label == REWORK);
        match charge::begin(world, rig, request(relic.id, rework)).await {
            Ok((saga, claim)) => {
                free -= 1;
                carry_out(args, id, alone, saga, claim);
            }
            // Another charge took the relic or the slot first.
            Err(refused) if refused.kind == RefusalKind::Conflict => {}
            // It is charged when its account is open again, or by a later patrol.
            Err(refused) if refused.kind == RefusalKind::Parked => {}
            // Each of the others would wait as long, one after another.
            Err(error) if error.kind == RefusalKind::Timeout => return Err(error),
            // That branch cannot be fetched, which need not concern the others.
            Err(error) if error.is_passing() && own_branch.is_some() => {
                away.insert(own_branch);
                unavailable = Some(error);
            }
            // The remote or the store is away: the other relics need it as well.
            Err(error) if error.is_passing() => return Err(error),
            Err(error) => {
                tracing::warn!(
                    rig = %args.rig,
                    relic = %id,
                    %error,
                    "a waiting relic could not be charged; the failure is counted, and the relic \
                    waits before a retry"
                );
                pause(args, id, alone, &error).await?;
            }
        }
    }
    match unavailable {
        Some(error) => Err(error),
        None => Ok(Handled::AtPatrol),
    }
}

fn request(relic: RelicId, rework: bool) -> ChargeRequest {
    ChargeRequest {
        relic,
        harness: None,
        name: None,
        target: None,
        origin: match rework {
            true => Cause::MergeFailed.into(),
            false => Cause::Config.into(),
        },
    }
}

/// Counts a failed charge, and holds the relic's claim through the pause after it.
async fn pause(
    args: &WitnessArgs,
    relic: RelicId,
    alone: Claim,
    error: &Refusal,
) -> Result<(), Refusal> {
    let (failed, rig, why) = (relic.clone(), args.rig.clone(), error.to_string());
    let count = move |txn: &mut dyn Txn| failures::count(txn, &failed, &rig, &why);
    args.world.store.run(count).await?;
    args.world.nudge(message::SHAMAN);
    let args = args.clone();
    tokio::spawn(async move { rest(&args, relic, alone).await });
    Ok(())
}

/// Returns the relics that wait for a slot, by priority, then age; none while automatic charging is paused.
fn waiting(txn: &mut dyn Txn, rig: &Rig) -> Result<Vec<Relic>, StoreError> {
    let prefix = rig.prefix.as_str();
    if auto_charge::pauses(txn)?.of(&rig.name).is_some() {
        return Ok(Vec::new());
    }
    if rig.raiders.auto_charge {
        return txn.chargeable(prefix, None, MOST);
    }
    let mut waiting = txn.chargeable(prefix, Some(REWORK), MOST)?;
    for relic in automation_work::waiting(txn, prefix)? {
        if !waiting.iter().any(|other| other.id == relic.id) {
            waiting.push(relic);
        }
    }
    waiting.sort_by_key(|relic| (std::cmp::Reverse(relic.priority), relic.created));
    Ok(waiting)
}

/// Runs a charge that has its slot.
fn carry_out(args: &WitnessArgs, relic: RelicId, alone: Claim, saga: Saga, claim: Claim) {
    let args = args.clone();
    tokio::spawn(async move {
        let charged = charge::run(&args.world, saga).await;
        drop(claim);
        let Err(error) = charged else { return };
        tracing::warn!(
            rig = %args.rig,
            %relic,
            %error,
            "a waiting relic could not be charged; it is retried, after a pause unless the \
            failure is transient"
        );
        if error.is_passing() {
            drop(alone);
            args.ended(Handled::Soon);
        } else {
            rest(&args, relic, alone).await;
        }
    });
}

/// Holds a relic's claim for a pause, because an immediate retry would fail again; then the witness looks.
async fn rest(args: &WitnessArgs, relic: RelicId, alone: Claim) {
    let failures = args.world.store.run(move |txn| txn.relic(&relic)).await;
    let failures = failures.map_or(0, |relic| relic.charge_failures);
    tokio::time::sleep(failures::pause(failures)).await;
    drop(alone);
    args.ended(Handled::Yes);
}
