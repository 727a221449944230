//! The bounds on runs that bring each other about: by events, and by `hd auto run`. At a bound a person is called.

use serde_json::json;

use crate::actors::records::automation_chains::{self, Chain};
use crate::actors::records::{automations, escalations};
use crate::domain::asker::{Asker, AskerKind};
use crate::domain::automation::{Automation, Mark};
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::domain::message::{Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::ports::relics::{StoreError, Txn};

/// Returns the row of runs behind which a run that `hd auto run` asks for begins; the reason, if it may not begin. A person
/// begins a new row.
pub(super) fn of_asked(
    txn: &mut dyn Txn,
    automation: &Automation,
    asker: &Asker,
) -> Result<Result<Option<Chain>, String>, StoreError> {
    if asker.kind() == AskerKind::Person {
        return Ok(Ok(None));
    }
    let after = automation_chains::of_party(txn, &asker.name)?;
    let Some(why) = automation_chains::is_over(txn, after)? else {
        return Ok(Ok(after));
    };
    let (by, id) = (&asker.name, &automation.id);
    let detail = format!("{by} came of {why}; {id} does not run for it");
    call(txn, automation, &detail)?;
    Ok(Err(detail))
}

/// Returns the first waiting event to run for, with the row of runs that led to it; journals which events were skipped.
pub(super) fn next_event(
    txn: &mut dyn Txn,
    automation: &Automation,
    mark: &Mark,
) -> Result<Option<(Event, Option<Chain>)>, StoreError> {
    let mut queue = automations::waiting_events(txn, automation, mark, None)?;
    automations::journal_skipped(txn, automation, mark, &queue)?;
    while let Some(event) = queue.pop() {
        // Such an event would be skipped in turn, and that would be the next event.
        if event.cause == Cause::EndlessChain.as_str() {
            continue;
        }
        let after = automation_chains::of_event(txn, &event)?;
        let Some(why) = automation_chains::is_over(txn, after)? else {
            return Ok(Some((event, after)));
        };
        let (seq, id) = (event.seq, &automation.id);
        let detail = format!("event {seq} came of {why}; {id} does not run for it");
        let skipped = NewEvent::new(EventType::AutomationSkipped, id, Cause::EndlessChain);
        txn.record(&skipped.with(json!({ "event": seq, "detail": detail })))?;
        call(txn, automation, &detail)?;
    }
    Ok(None)
}

/// Calls a person, once while the escalation is open. No run closes it: those of the next row begin as well.
fn call(txn: &mut dyn Txn, automation: &Automation, detail: &str) -> Result<(), StoreError> {
    tracing::warn!(automation = %automation.id, "{detail}");
    let subject = format!("automation/{}", automation.id);
    let body = Escalation::high(subject, ProblemKind::AutomationsEndless, detail).medium();
    escalations::send(txn, "dispatcher", Body::Escalation(body))
}
