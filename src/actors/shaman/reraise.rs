//! A look of the shaman: the inbox, vanished problems, unanswered escalations.

use std::time::Duration;

use jiff::Timestamp;

use crate::domain::cause::Cause;
use crate::domain::drum::{Mailbox, NewDrum, SUPERVISOR};
use crate::domain::escalation;
use crate::domain::ids::AgentName;
use crate::domain::notify::NotifyPolicy;
use crate::ports::relics::{StoreError, Txn};

use crate::actors::records::drums;
use crate::actors::records::escalations::{self, Entry};

/// Returns the age of a stamp of this key.
type Age<'a> = &'a dyn Fn(&str, Timestamp) -> Duration;

/// Looks; returns in how long the next escalation must be raised again.
pub(super) fn run(
    txn: &mut dyn Txn,
    notify: &NotifyPolicy,
    age: Age<'_>,
) -> Result<Option<Duration>, StoreError> {
    escalations::read_inbox(txn)?;
    escalations::vanished(txn)?;
    let now = txn.now();
    let mut next = None;
    for mut entry in escalations::open(txn)? {
        let age = age(&format!("told/{}", entry.relic.id), entry.standing.told);
        let mut due = entry.standing.due(notify.reraise, age);
        if due.is_some_and(|wait| wait.is_zero()) {
            let severity = escalation::severity(entry.relic.priority);
            entry.relic.priority = entry.standing.raise_again(severity, now) as i64;
            entry.write(txn)?;
            entry.raised(txn, Cause::Unanswered)?;
            // Its new stamp has no age before it is written.
            due = entry.standing.due(notify.reraise, Duration::ZERO);
        }
        mail(txn, &mut entry, &notify.mail_to)?;
        next = [next, due].into_iter().flatten().min();
    }
    Ok(next)
}

/// Sends a drum about an escalation to the agents that have none yet about it as it was last told. An agent whose mailbox
/// is full gets it when there is room, at a later look.
fn mail(txn: &mut dyn Txn, entry: &mut Entry, to: &[AgentName]) -> Result<(), StoreError> {
    for agent in entry.standing.unmailed(to) {
        let (subject, body) = entry.letter();
        let drum = NewDrum {
            mailbox: Mailbox::Agent(agent.clone()),
            to: agent.to_string(),
            from: SUPERVISOR.to_owned(),
            reply_to: None,
            subject,
            body,
            answers: None,
        };
        if drums::offer(txn, &drum, Cause::Config)?.is_none() {
            entry.standing.mailed_to(agent);
            entry.write(txn)?;
        }
    }
    Ok(())
}
