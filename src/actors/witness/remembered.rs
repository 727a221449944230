//! Small facts that the store keeps for witnesses under a key, as JSON. The journal is no place for them: old events
//! are deleted.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ports::relics::{StoreError, Txn};

/// Returns the fact under this key. What another version wrote, and this one cannot read, is begun anew.
///
/// # Errors
/// The store's.
pub(super) fn read<T: DeserializeOwned>(
    txn: &mut dyn Txn,
    key: &str,
) -> Result<Option<T>, StoreError> {
    let text = txn.get(key)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Keeps a fact under this key, in place of one before.
///
/// # Errors
/// The store's.
pub(super) fn write(
    txn: &mut dyn Txn,
    key: &str,
    value: &impl Serialize,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(value).map_err(|e| StoreError::Failed(e.to_string()))?;
    txn.set(key, Some(&text))
}
