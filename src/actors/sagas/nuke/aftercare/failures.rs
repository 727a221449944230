//! A nuke that keeps failing transiently, or because the sandbox changes before each removal: it is retried without
//! limit, and a person is called after a few tries.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::Plan;
use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::records::key_values;
use crate::actors::refusal::{LASTING, Refusal};
use crate::actors::sagas::step;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::ids::{Incarnation, RaiderId};
use crate::domain::problem::ProblemKind;
use crate::domain::saga::Saga;
use crate::ports::relics::{StoreError, Txn};

/// As many tries as a charge has before its relic is blocked.
const TRIES: u32 = 3;

/// Counts the failures of this step, except for those of a rig that is held, and calls a person after a few; the
/// escalation is opened once.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) async fn count(
    world: &World,
    saga: &mut Saga,
    mut plan: Plan,
    failure: &Refusal,
) -> Result<(), Refusal> {
    let target = plan.target.clone();
    // A person was called for the rig, and its time is no time of failure.
    if effects::is_held(world, &target.raider.rig) {
        return Ok(());
    }
    plan.tries += 1;
    let (tries, at) = (plan.tries, saga.step.clone());
    step(world, saga, at, &plan).await?;
    if tries < TRIES {
        return Ok(());
    }
    call(world, &target, failure).await
}

/// The number of times in a row that an incarnation's sandbox changed before its removal. Each such saga ends, and the
/// session goes on with the work.
#[derive(Serialize, Deserialize)]
struct Changed {
    incarnation: Incarnation,
    count: u32,
    last: Timestamp,
}

fn key(raider: &RaiderId) -> String {
    format!("changed/{raider}")
}

/// Ends the saga of a sandbox that changed meanwhile, and counts that; calls a person after a few times.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) async fn changed(
    world: &World,
    saga: u64,
    target: &NukeTarget,
    failure: &Refusal,
) -> Result<(), Refusal> {
    let (raider, incarnation) = (target.raider.clone(), target.incarnation);
    // An operator reads the refusal, and nothing tries again.
    let counts = target.cause != Cause::Operator;
    let pause = LASTING.max(world.city.daemon.patrol_interval * TRIES);
    let counted = world.store.run(move |txn| {
        txn.close_saga(saga)?;
        if !counts {
            return Ok(0);
        }
        let (key, last) = (key(&raider), txn.now());
        let known = key_values::read(txn, &key)?;
        // A sandbox that was worked in for long since then is no removal that fails again and again.
        let in_a_row = |known: &Changed| {
            let since = Duration::try_from(last - known.last);
            known.incarnation == incarnation && since.is_ok_and(|since| since < pause)
        };
        let count = known.filter(in_a_row).map_or(0, |known| known.count) + 1;
        let changed = Changed {
            incarnation,
            count,
            last,
        };
        key_values::write(txn, &key, &changed)?;
        Ok(count)
    });
    if counted.await? < TRIES {
        return Ok(());
    }
    call(world, target, failure).await
}

/// Clears the count of a raider that is gone.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) fn forget(
    txn: &mut dyn Txn,
    raider: &RaiderId,
) -> Result<(), StoreError> {
    txn.set(&key(raider), None)
}

async fn call(world: &World, target: &NukeTarget, failure: &Refusal) -> Result<(), Refusal> {
    let evidence = format!("{failure}\nthe nuke is retried");
    super::super::call(world, target, (ProblemKind::NukeStuck, None), evidence).await
}
