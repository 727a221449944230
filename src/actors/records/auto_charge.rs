//! The pauses of automatic charging. They outlive the supervisor, until a person ends them.

use super::{automation_work, key_values};
use crate::domain::auto_charge::{Facts, Pauses, Waits};
use crate::domain::city::{City, Rig};
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

/// Returns why an open relic of this rig is not charged without a request.
///
/// # Errors
/// The store's.
pub fn waits(
    txn: &mut dyn Txn,
    city: &City,
    rig: &Rig,
    relic: &Relic,
) -> Result<Option<Waits>, StoreError> {
    let mut open_deps = Vec::new();
    for dep in &relic.deps {
        if txn.relic(dep)?.status != RelicStatus::Closed {
            open_deps.push(dep.clone());
        }
    }
    let is_rework = relic.labels.iter().any(|label| label == REWORK);
    Ok(Waits::of(Facts {
        relic,
        open_deps,
        kept: txn.hook_of_relic(&relic.id)?.map(|hook| hook.raider),
        closed: rig.closed(city),
        pause: pauses(txn)?.of(&rig.name),
        automatic: rig.raiders.auto_charge || is_rework || automation_work::is_one(txn, &relic.id)?,
    }))
}
