//! Completions that are withdrawn while they are being pushed.

use jiff::Timestamp;
use serde::Deserialize;

use super::later_heads;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Oid, RaiderId};
use crate::domain::relic::{Completion, DoneIntent};
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::{StoreError, Txn};

/// The submission of a completion, as its saga keeps it.
#[derive(Debug, Deserialize)]
struct Submission {
    head: Oid,
    wants_review: bool,
    #[serde(default)]
    replaces: Option<Oid>,
    #[serde(default)]
    former: Option<Box<DoneIntent>>,
}

/// Withdraws a completion that is still being pushed: its raider has open work again. Where it was to replace work that a
/// person reviews, that completion counts again: its merge request waits on.
///
/// # Errors
/// The store's.
pub fn withdraw(txn: &mut dyn Txn, raider: &RaiderId, cause: Cause) -> Result<(), StoreError> {
    let saga = txn.saga_of(SagaKind::Done, &raider.to_string())?;
    let (Some(saga), Some(mut hook)) = (saga.filter(Saga::is_pushing), txn.hook(raider)?) else {
        return Ok(());
    };
    txn.close_saga(saga.id)?;
    // An unreadable plan was written by another version, which replaced none.
    let submission = serde_json::from_value::<Submission>(saga.data).ok();
    let at = hook.done.as_ref().map_or_else(|| txn.now(), |done| done.at);
    let later = submission.as_ref().map(|given| given.head.clone());
    hook.done = submission.and_then(|given| former(given, at));
    if let (Some(head), true) = (later, hook.is_declared())
        && let Some(mr) = txn.mr_of(&hook.relic, raider, hook.incarnation)?
        && !mr.is_final()
    {
        later_heads::record(txn, &mr.id, &head)?;
    }
    txn.put_hook(&hook)?;
    let reviewed = hook.done.as_ref().map(|done| &done.head);
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "reviewed": reviewed,
    });
    let event = NewEvent::new(EventType::RaiderDoneWithdrawn, raider, cause);
    txn.record(&event.with(data)).map(|_| ())
}

/// Returns the completion that a submission was to take the place of. An older version journalled only its head, which is what
/// a person reviews; the time is then that of the submission.
fn former(given: Submission, at: Timestamp) -> Option<DoneIntent> {
    let head = given.replaces?;
    let journalled = given.former.map(|former| *former);
    Some(journalled.unwrap_or(DoneIntent {
        exit: Completion::Completed,
        head,
        cleanup_status: None,
        mismatch: None,
        no_change: false,
        wants_review: given.wants_review,
        until: None,
        reason: None,
        at,
    }))
}
