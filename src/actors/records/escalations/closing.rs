//! Automatic closing of escalations whose problem has vanished.

use std::collections::BTreeSet;

use crate::domain::cause::Cause;
use crate::domain::escalation::EscalationState;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

use super::Entry;

/// Returns the open escalations about these relics or merge requests; of one kind, if given.
///
/// # Errors
/// The store's.
pub fn about(
    txn: &mut dyn Txn,
    ids: &[&RelicId],
    kind: Option<ProblemKind>,
) -> Result<Vec<Relic>, StoreError> {
    let open = super::open(txn)?.into_iter();
    let named = |entry: &Entry| {
        let (_, relic) = entry.about();
        relic.is_some_and(|relic| ids.contains(&&relic))
            && kind.is_none_or(|kind| entry.problem().kind() == kind)
    };
    Ok(open.filter(named).map(|entry| entry.relic).collect())
}

/// Closes the escalations about work that landed. Those about a sandbox stay as long as the sandbox does: it may hold work
/// that did not land. Reports in the words of an agent or a person stay until a person closes them: they need not be about the work.
///
/// # Errors
/// The store's.
pub fn landed(txn: &mut dyn Txn, ids: &[&RelicId]) -> Result<(), StoreError> {
    let mut over = super::open(txn)?;
    over.retain(|entry| {
        let (_, relic) = entry.about();
        let ends_with_work = entry.standing.sandbox.is_none() && !is_said(entry);
        ends_with_work && relic.is_some_and(|relic| ids.contains(&&relic))
    });
    let over = over.into_iter().map(|entry| entry.relic);
    close(txn, over.collect(), Cause::Merged)
}

/// Closes the escalations of these kinds whose subject and work satisfy `is_over`. Unread messages are handled first.
///
/// # Errors
/// The store's.
pub fn close_matching(
    txn: &mut dyn Txn,
    kinds: &[ProblemKind],
    is_over: impl Fn(&str, Option<&RelicId>) -> bool,
) -> Result<(), StoreError> {
    close_where(txn, |entry| {
        let (who, work) = entry.about();
        kinds.contains(&entry.problem().kind()) && is_over(who, work.as_ref())
    })
}

/// Returns the state of the escalation of this kind about this child; none when none is open.
///
/// # Errors
/// The store's.
pub fn standing(
    txn: &mut dyn Txn,
    kind: ProblemKind,
    child: &str,
) -> Result<Option<EscalationState>, StoreError> {
    super::read_inbox(txn)?;
    let mut open = super::open(txn)?.into_iter();
    let entry = open.find(|entry| entry.about().0 == child && entry.problem().kind() == kind);
    Ok(entry.map(|entry| entry.standing))
}

/// Closes the escalations that satisfy `is_over`. Unread messages are handled first.
///
/// # Errors
/// The store's.
pub fn close_where(txn: &mut dyn Txn, is_over: impl Fn(&Entry) -> bool) -> Result<(), StoreError> {
    super::read_inbox(txn)?;
    let mut over = super::open(txn)?;
    over.retain(is_over);
    let over = over.into_iter().map(|entry| entry.relic);
    close(txn, over.collect(), Cause::Vanished)
}

/// Closes the escalations of this kind about raiders of this rig that do not have the problem any more.
///
/// # Errors
/// The store's.
pub fn still_so(
    txn: &mut dyn Txn,
    rig: &RigName,
    kind: ProblemKind,
    these: &BTreeSet<RaiderId>,
) -> Result<(), StoreError> {
    close_matching(txn, &[kind], |who, _| {
        let raider = who.parse::<RaiderId>();
        raider.is_ok_and(|raider| raider.rig == *rig && !these.contains(&raider))
    })
}

/// Closes these escalations with a cause.
///
/// # Errors
/// The store's.
pub fn close(txn: &mut dyn Txn, settled: Vec<Relic>, cause: Cause) -> Result<(), StoreError> {
    for mut escalation in settled {
        escalation.status = RelicStatus::Closed;
        escalation.closed = Some(txn.now());
        txn.put_relic(&escalation)?;
        super::forget(txn, &escalation.id)?;
        let code = Problem::stored(&escalation.labels, &escalation.title).kind();
        let data = serde_json::json!({ "problem": escalation.title, "code": code, "closed": true });
        let event = NewEvent::new(EventType::EscalationAcked, &escalation.id, cause);
        txn.record(&event.with(data))?;
    }
    Ok(())
}

/// Closes every escalation whose problem has vanished, for whatever reason.
pub fn vanished(txn: &mut dyn Txn) -> Result<(), StoreError> {
    let mut gone = Vec::new();
    for entry in super::open(txn)? {
        if has_vanished(txn, &entry)? {
            gone.push(entry.relic);
        }
    }
    close(txn, gone, Cause::Vanished)
}

/// Derived from hooks and relics at each look, so that the code that ends a problem need not know the escalations about
/// it. An escalation without work waits for a person, and so does a report in the words of an agent or a person.
fn has_vanished(txn: &mut dyn Txn, entry: &Entry) -> Result<bool, StoreError> {
    let (who, Some(relic)) = entry.about() else {
        return Ok(false);
    };
    let hook = match who.parse::<RaiderId>() {
        Ok(raider) => txn.hook(&raider)?.filter(|hook| hook.relic == relic),
        Err(_) => None,
    };
    if let Some(sandbox) = entry.standing.sandbox {
        return Ok(hook.is_none_or(|hook| hook.incarnation != sandbox));
    }
    if hook.is_some() || is_said(entry) {
        return Ok(false);
    }
    Ok(match status(txn, &relic)? {
        Some(RelicStatus::Closed) => true,
        // A person took it up again, or its raider is gone and the work starts anew. Queued work is not over yet.
        Some(RelicStatus::Open) => {
            let was = entry.standing.relic;
            let moved = was.is_some_and(|was| was != RelicStatus::Open);
            moved && txn.mrs_of(&relic)?.iter().all(|mr| mr.state.is_final())
        }
        Some(RelicStatus::Hooked | RelicStatus::Blocked | RelicStatus::Deferred) | None => false,
    })
}

/// Returns true for a report in the words of an agent or a person: what becomes of the work need not answer it.
fn is_said(entry: &Entry) -> bool {
    entry.problem().kind() == ProblemKind::Said
}

/// Returns the status of a relic; none when it does not exist.
pub(super) fn status(txn: &mut dyn Txn, id: &RelicId) -> Result<Option<RelicStatus>, StoreError> {
    match txn.relic(id) {
        Ok(relic) => Ok(Some(relic.status)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
