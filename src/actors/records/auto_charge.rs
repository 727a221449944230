//! The pauses of automatic charging. They outlive the supervisor, until a person ends them.

use super::{automation_work, key_values};
use crate::domain::auto_charge::{Facts, Pauses, Waits};
use crate::domain::city::{City, Rig};
use crate::domain::ids::RelicId;
use crate::domain::relic::{REWORK, Relic, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The key.
const KEY: &str = "charging.pauses";

/// Reads the pauses in force.
///
/// # Errors
/// The store's.
pub fn pauses(txn: &mut dyn Txn) -> Result<Pauses, StoreError> {
    Ok(key_values::read(txn, KEY)?.unwrap_or_default())
}

/// Stores the pauses in force.
///
/// # Errors
/// The store's.
pub fn put_pauses(txn: &mut dyn Txn, pauses: &Pauses) -> Result<(), StoreError> {
    key_values::write(txn, KEY, pauses)
}

/// Returns the relics that must be closed before this one can be charged.
///
/// # Errors
/// The store's.
pub fn open_deps(txn: &mut dyn Txn, relic: &Relic) -> Result<Vec<RelicId>, StoreError> {
    let mut open = Vec::new();
    for dep in &relic.deps {
        if txn.relic(dep)?.status != RelicStatus::Closed {
            open.push(dep.clone());
        }
    }
    Ok(open)
}

/// Returns why a relic of this rig is not charged without a request.
///
/// # Errors
/// The store's.
pub fn waits(
    txn: &mut dyn Txn,
    city: &City,
    rig: &Rig,
    relic: &Relic,
) -> Result<Option<Waits>, StoreError> {
    let open_deps = open_deps(txn, relic)?;
    let hook = txn.hook_of_relic(&relic.id)?;
    let is_rework = relic.labels.iter().any(|label| label == REWORK);
    Ok(Waits::of(Facts {
        relic,
        open_deps,
        goes_on: hook.as_ref().is_some_and(|hook| !hook.is_declared()),
        kept: hook.map(|hook| hook.raider),
        closed: rig.closed(city),
        pause: pauses(txn)?.of(&rig.name),
        automatic: rig.raiders.auto_charge || is_rework || automation_work::is_one(txn, &relic.id)?,
    }))
}
