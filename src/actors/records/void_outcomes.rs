//! Outcome files that count no longer: a person rejected the work that they declared, and its session works on. The file
//! is moved aside after the rejection is stored. Until then, and where that fails, only a later writing of it counts; a copy
//! of the city has new times.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::key_values;
use crate::domain::ids::{Incarnation, RaiderId};
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// An outcome file that does not count.
#[derive(Debug, Serialize, Deserialize)]
struct Void {
    incarnation: Incarnation,
    /// When the last one was declared: it, and all before it, count no longer.
    written: Option<Timestamp>,
}

fn key(raider: &RaiderId) -> String {
    format!("outcome.void/{raider}")
}

/// Notes that the outcomes which were declared until this time count no longer.
///
/// # Errors
/// The store's.
pub fn void(txn: &mut dyn Txn, hook: &Hook, written: Option<Timestamp>) -> Result<(), StoreError> {
    let void = Void {
        incarnation: hook.incarnation,
        written,
    };
    key_values::write(txn, &key(&hook.raider), &void)
}

/// Returns true when the outcome that was declared at this time counts no longer.
///
/// # Errors
/// The store's.
pub fn is_void(
    txn: &mut dyn Txn,
    hook: &Hook,
    written: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let void = key_values::read::<Void>(txn, &key(&hook.raider))?;
    let now = txn.now();
    let is_until = |void: &Void| match void.written.is_some_and(|at| at > now) {
        // The clock was set back since: every new outcome has an earlier time.
        true => written == void.written,
        false => written <= void.written,
    };
    Ok(void.is_some_and(|void| void.incarnation == hook.incarnation && is_until(&void)))
}
