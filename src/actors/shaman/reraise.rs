//! One look of the shaman: the inbox, what has vanished, what nobody has answered.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::escalation;
use crate::ports::relics::{StoreError, Txn};

use super::{book, settle};

/// Looks; says when the next escalation is due to be raised again.
pub(super) fn look(
    txn: &mut dyn Txn,
    reraise: Option<Duration>,
) -> Result<Option<Timestamp>, StoreError> {
    book::read_inbox(txn)?;
    settle::vanished(txn)?;
    let now = txn.now();
    let mut next = None;
    for mut entry in book::open(txn)? {
        // Noted by a clock that was ahead.
        if entry.standing.told > now {
            entry.standing.told = now;
            entry.write(txn)?;
        }
        if entry.standing.due(reraise).is_some_and(|due| due <= now) {
            let severity = escalation::severity(entry.relic.priority);
            entry.relic.priority = entry.standing.raise_again(severity, now) as i64;
            entry.write(txn)?;
            entry.raised(txn, Cause::Unanswered)?;
        }
        next = [next, entry.standing.due(reraise)]
            .into_iter()
            .flatten()
            .min();
    }
    Ok(next)
}
