//! Small facts that the store keeps under a key, as JSON. The journal cannot hold them: old events are
//! deleted.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ports::relics::{StoreError, Txn};

/// Returns the fact under this key. A value of another version that cannot be read counts as absent.
///
/// # Errors
/// The store's.
pub(in crate::actors) fn read<T: DeserializeOwned>(
    txn: &mut dyn Txn,
    key: &str,
) -> Result<Option<T>, StoreError> {
    let text = txn.get(key)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the facts whose keys begin with this, by the rest of their keys. A value of another version that cannot be
/// read counts as absent.
///
/// # Errors
/// The store's.
pub(in crate::actors) fn read_under<T: DeserializeOwned>(
    txn: &mut dyn Txn,
    prefix: &str,
) -> Result<Vec<(String, T)>, StoreError> {
    let facts = txn.key_values_under(prefix)?.into_iter();
    let read = |(key, text): (String, String)| {
        let rest = key.strip_prefix(prefix)?.to_owned();
        Some((rest, serde_json::from_str(&text).ok()?))
    };
    Ok(facts.filter_map(read).collect())
}

/// Stores a fact under this key, replacing an earlier one.
///
/// # Errors
/// The store's.
pub(in crate::actors) fn write(
    txn: &mut dyn Txn,
    key: &str,
    value: &impl Serialize,
) -> Result<(), StoreError> {
    let text = serde_json::to_string(value).map_err(|e| StoreError::Failed(e.to_string()))?;
    txn.set(key, Some(&text))
}
