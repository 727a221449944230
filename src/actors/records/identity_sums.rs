//! Kept sums over the chains of this city's identities, so that a look at them reads what is new only. A sum is a cache:
//! `hd cv --verify` reads every entry.

use serde::{Deserialize, Serialize};

use super::key_values;
use crate::domain::track_record::TrackRecord;
use crate::ports::relics::{ChainOf, StoreError, Txn};

/// Prefix of the keys. The number grows when an entry adds something else to a record than before.
const KEY: &str = "cv-sum/1/";

/// The sum over the beginning of a chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Summed {
    /// The number of the last entry that is in it.
    pub seq: u64,
    /// The hash of that entry.
    pub hash: String,
    /// The sum.
    pub record: TrackRecord,
}

/// Returns the kept sum of an identity's chain; an empty one when none is kept, and when the entry at its end is another
/// one now.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn, name: &str) -> Result<Summed, StoreError> {
    let kept: Option<Summed> = key_values::read(txn, &format!("{KEY}{name}"))?;
    let Some(kept) = kept.filter(|kept| kept.seq > 0) else {
        return Ok(Summed::default());
    };
    let end = txn
        .chain_entries(&ChainOf::Own, name, kept.seq - 1, 1)?
        .pop();
    let is_same = end.is_some_and(|end| end.entry.seq == kept.seq && end.entry.hash == kept.hash);
    Ok(if is_same { kept } else { Summed::default() })
}

/// Keeps a sum.
///
/// # Errors
/// The store's.
pub fn keep(txn: &mut dyn Txn, name: &str, sum: &Summed) -> Result<(), StoreError> {
    key_values::write(txn, &format!("{KEY}{name}"), sum)
}
