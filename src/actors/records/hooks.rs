//! The end of a hook, with everything that is kept about its raider.

use super::{handoffs, operator_orders, quarantine};
use crate::domain::ids::{ChildId, Incarnation, RaiderId};
use crate::ports::relics::{StoreError, Txn};

/// Drops a raider's hook, if it is of this incarnation, together with a suspension of the raider and the notes of its
/// handoffs: the next holder of the name is another raider.
///
/// # Errors
/// The store's.
pub fn drop_hook(
    txn: &mut dyn Txn,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<bool, StoreError> {
    let held = txn.drop_hook(raider, incarnation)?;
    if held {
        operator_orders::update(txn, &|said| {
            let id = ChildId::Raider(raider.clone());
            said.suspended.remove(&id);
            said.suspensions.remove(&id);
        })?;
        quarantine::forget(txn, raider)?;
        handoffs::forget(txn, raider)?;
    }
    Ok(held)
}
