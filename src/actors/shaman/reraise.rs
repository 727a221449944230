//! One look of the shaman: the inbox, what has vanished, what nobody has answered.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::escalation;
use crate::ports::relics::{StoreError, Txn};

use super::{book, settle};

/// How old a stamp of this key is.
type Age<'a> = &'a dyn Fn(&str, Timestamp) -> Duration;

/// Looks; says in how long the next escalation is due to be raised again.
pub(super) fn look(
    txn: &mut dyn Txn,
    reraise: Option<Duration>,
    age: Age<'_>,
) -> Result<Option<Duration>, StoreError> {
    book::read_inbox(txn)?;
    settle::vanished(txn)?;
    let now = txn.now();
    let mut next = None;
    for mut entry in book::open(txn)? {
        let key = format!("told/{}", entry.relic.id);
        let due = |entry: &book::Entry| {
            let told = entry.standing.told;
            entry.standing.due(reraise, age(&key, told))
        };
        if due(&entry).is_some_and(|wait| wait.is_zero()) {
            let severity = escalation::severity(entry.relic.priority);
            entry.relic.priority = entry.standing.raise_again(severity, now) as i64;
            entry.write(txn)?;
            entry.raised(txn, Cause::Unanswered)?;
        }
        next = [next, due(&entry)].into_iter().flatten().min();
    }
    Ok(next)
}
