//! A look of the shaman: the inbox, vanished problems, unanswered escalations.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::escalation;
use crate::ports::relics::{StoreError, Txn};

use crate::actors::records::escalations;

/// Returns the age of a stamp of this key.
type Age<'a> = &'a dyn Fn(&str, Timestamp) -> Duration;

/// Looks; returns in how long the next escalation must be raised again.
pub(super) fn run(
    txn: &mut dyn Txn,
    reraise: Option<Duration>,
    age: Age<'_>,
) -> Result<Option<Duration>, StoreError> {
    escalations::read_inbox(txn)?;
    escalations::vanished(txn)?;
    let now = txn.now();
    let mut next = None;
    for mut entry in escalations::open(txn)? {
        let age = age(&format!("told/{}", entry.relic.id), entry.standing.told);
        let mut due = entry.standing.due(reraise, age);
        if due.is_some_and(|wait| wait.is_zero()) {
            let severity = escalation::severity(entry.relic.priority);
            entry.relic.priority = entry.standing.raise_again(severity, now) as i64;
            entry.write(txn)?;
            entry.raised(txn, Cause::Unanswered)?;
            // Its new stamp has no age before it is written.
            due = entry.standing.due(reraise, Duration::ZERO);
        }
        next = [next, due].into_iter().flatten().min();
    }
    Ok(next)
}
