//! Relics whose merge request failed or was rejected, as an operator's orders change them.

use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::MergeRequest;
use crate::domain::prompt;
use crate::domain::relic::{Hook, REWORK, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// Returns true when a failed merge request may be tried again: its failure blocked the relic, and no other work on
/// that has begun since. The relic then waits for it.
///
/// # Errors
/// The store's.
pub fn revive(txn: &mut dyn Txn, mr: &MergeRequest, asker: &Asker) -> Result<bool, StoreError> {
    let mut relic = txn.relic(&mr.relic)?;
    let waits = relic.status == RelicStatus::Blocked && relic.branch.as_ref() == Some(&mr.branch);
    if waits {
        relic.status = RelicStatus::Hooked;
        relic.assignee = Some(mr.raider.to_string());
        txn.put_relic(&relic)?;
        let data = serde_json::json!({ "status": "hooked", "mr": mr.id, "raider": mr.raider });
        let event = NewEvent::new(EventType::RelicUpdated, &relic.id, asker);
        txn.record(&event.with(data))?;
    }
    Ok(waits)
}

/// Handles a person's rejection of a merge request: the relic is open for a fresh raider, which is told why. Rejections
/// by people are not counted.
///
/// # Errors
/// The store's.
pub fn reject(
    txn: &mut dyn Txn,
    mr: &MergeRequest,
    note: Option<&str>,
    asker: &Asker,
) -> Result<(), StoreError> {
    let mut relic = txn.relic(&mr.relic)?;
    if relic.status != RelicStatus::Hooked {
        return Ok(());
    }
    relic.status = RelicStatus::Open;
    relic.assignee = None;
    relic.branch = None;
    relic.context = Some(prompt::rejected(mr, note));
    if !relic.labels.iter().any(|label| label == REWORK) {
        relic.labels.push(REWORK.to_owned());
    }
    txn.put_relic(&relic)?;
    let data = serde_json::json!({ "status": "open", "mr": mr.id, "note": note });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, asker);
    txn.record(&event.with(data)).map(|_| ())
}

/// Gives rejected work back to the raider that did it and whose session waits for the review: its hook is open again.
/// Returns the hook; none when its completion is not the one that was reviewed.
///
/// # Errors
/// The store's.
pub fn give_back(
    txn: &mut dyn Txn,
    mr: &MergeRequest,
    hook: &Hook,
    note: &str,
    asker: &Asker,
) -> Result<Option<Hook>, StoreError> {
    let subject = hook.raider.to_string();
    for kind in [SagaKind::Done, SagaKind::Nuke] {
        if txn.saga_of(kind, &subject)?.is_some() {
            return Ok(None);
        }
    }
    let now = txn.hook(&hook.raider)?;
    let now = now.filter(|now| now.incarnation == hook.incarnation && now.is_declared());
    let Some(mut hook) = now else {
        return Ok(None);
    };
    hook.done = None;
    txn.put_hook(&hook)?;
    let mut relic = txn.relic(&mr.relic)?;
    relic.context = Some(prompt::returned(mr, note));
    txn.put_relic(&relic)?;
    let data = serde_json::json!({
        "relic": hook.relic, "incarnation": hook.incarnation, "mr": mr.id, "note": note,
    });
    let event = NewEvent::new(EventType::RaiderDoneWithdrawn, &hook.raider, asker);
    txn.record(&event.with(data))?;
    Ok(Some(hook))
}
