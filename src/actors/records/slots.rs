//! Slots of raiders.

use std::collections::BTreeSet;

use crate::domain::ids::{RaiderId, RigName};
use crate::ports::relics::{StoreError, Txn};

/// Returns the raiders that hold a slot, of a rig or of all: by a hook, or by an open saga.
///
/// # Errors
/// The store's.
pub fn held(txn: &mut dyn Txn, rig: Option<&RigName>) -> Result<BTreeSet<RaiderId>, StoreError> {
    let hooks = txn.hooks(rig)?.into_iter().map(|hook| hook.raider);
    let sagas = txn.sagas(rig)?.into_iter();
    let busy = sagas.filter_map(|saga| saga.subject.parse().ok());
    Ok(hooks.chain(busy).collect())
}
