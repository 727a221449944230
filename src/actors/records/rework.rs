//! Relics whose merge request failed or was rejected, as an operator's orders change them.

use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::merge::MergeRequest;
use crate::domain::prompt;
use crate::domain::relic::{REWORK, RelicStatus};
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
