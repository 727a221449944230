//! The number of times that a raider was told of its refused outcomes, and the last one. Kept in the store, so that a
//! restarted witness goes on counting.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::key_values;
use crate::domain::ids::Incarnation;
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// The notices of an incarnation.
#[derive(Debug, Serialize, Deserialize)]
pub struct OutcomeNotices {
    incarnation: Incarnation,
    /// Their number.
    pub count: u32,
    /// When it was told last, and the modification time of the outcome file then.
    pub last: Option<(Timestamp, Option<Timestamp>)>,
    /// Why that outcome was refused; none for a notice of an earlier version.
    #[serde(default)]
    why: Option<String>,
}

fn key(hook: &Hook) -> String {
    format!("outcome/{}", hook.raider)
}

/// Returns the notices so far.
///
/// # Errors
/// The store's.
pub fn so_far(txn: &mut dyn Txn, hook: &Hook) -> Result<OutcomeNotices, StoreError> {
    let told: Option<OutcomeNotices> = key_values::read(txn, &key(hook))?;
    let own = told.filter(|told| told.incarnation == hook.incarnation);
    Ok(own.unwrap_or(OutcomeNotices {
        incarnation: hook.incarnation,
        count: 0,
        last: None,
        why: None,
    }))
}

/// Counts a notice about that write of the outcome file, which was refused for this reason.
///
/// # Errors
/// The store's.
pub fn count_one(
    txn: &mut dyn Txn,
    hook: &Hook,
    written: Option<Timestamp>,
    why: &str,
) -> Result<(), StoreError> {
    let mut told = so_far(txn, hook)?;
    told.count += 1;
    told.last = Some((txn.now(), written));
    told.why = Some(why.to_owned());
    key_values::write(txn, &key(hook), &told)
}

/// Returns why the outcome file, as it was written at this time, was refused; none when it was not, as far as its raider
/// was told.
///
/// # Errors
/// The store's.
pub fn refused(
    txn: &mut dyn Txn,
    hook: &Hook,
    written: Option<Timestamp>,
) -> Result<Option<String>, StoreError> {
    let told = so_far(txn, hook)?;
    let is_of = told.last.is_some_and(|(_, about)| about == written);
    let why = told.why.unwrap_or_else(|| "it was refused".to_owned());
    Ok(is_of.then_some(why))
}
