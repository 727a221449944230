//! The head of a submission to a merge request that was withdrawn: the branch on the remote may have it.

use super::key_values;
use crate::domain::ids::{Oid, RelicId};
use crate::ports::relics::{StoreError, Txn};

/// Records the head of a withdrawn submission to this merge request.
///
/// # Errors
/// The store's.
pub fn record(txn: &mut dyn Txn, mr: &RelicId, head: &Oid) -> Result<(), StoreError> {
    key_values::write(txn, &key(mr), head)
}

/// Returns the head of a submission to this merge request that was withdrawn last.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn, mr: &RelicId) -> Result<Option<Oid>, StoreError> {
    key_values::read(txn, &key(mr))
}

/// Clears the head of a merge request that is over.
///
/// # Errors
/// The store's.
pub fn forget(txn: &mut dyn Txn, mr: &RelicId) -> Result<(), StoreError> {
    txn.set(&key(mr), None)
}

fn key(mr: &RelicId) -> String {
    format!("later_head/{mr}")
}
