//! The end of a relic by request: its work leaves the queue, and it is closed.

use serde_json::json;

use super::land;
use crate::actors::records::quarantine;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::RelicId;
use crate::domain::merge::{MergeRequest, MrState};
use crate::domain::relic::{Relic, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::ports::relics::{StoreError, Txn};

/// The landing of a relic's work, as far as it can no longer be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Landing {
    /// It has landed by this merge request.
    Landed(RelicId),
    /// It is being pushed to the target by this merge request.
    Lands(RelicId),
}

/// Returns the landing of a relic that can no longer be stopped, if there is one.
///
/// # Errors
/// The store's.
pub fn landing(txn: &mut dyn Txn, relic: &RelicId) -> Result<Option<Landing>, StoreError> {
    let is_closed = txn.relic(relic)?.status == RelicStatus::Closed;
    for mr in txn.mrs_of(relic)? {
        let MergeRequest { id, state, .. } = mr;
        // One that is settled is of the time before a relic was reopened.
        if state == MrState::Merged && (is_closed || mr.settled_at.is_none()) {
            return Ok(Some(Landing::Landed(id)));
        }
        if txn.saga_of(SagaKind::Land, id.as_str())?.is_some() {
            return Ok(Some(Landing::Lands(id)));
        }
    }
    Ok(None)
}

/// A relic that was closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The relic.
    pub relic: Relic,
    /// The merge requests that were taken out of the queue.
    pub withdrawn: Vec<RelicId>,
}

/// Closes the relic, and takes its work out of the queue. The branch is kept: a reopened relic continues from it.
///
/// # Errors
/// The store's.
pub fn close(
    txn: &mut dyn Txn,
    mut relic: Relic,
    reason: Option<&str>,
    origin: impl Into<Origin>,
) -> Result<Closed, StoreError> {
    let mut withdrawn = Vec::new();
    if relic.status == RelicStatus::Closed {
        return Ok(Closed { relic, withdrawn });
    }
    relic.status = RelicStatus::Closed;
    relic.closed = Some(txn.now());
    for mut mr in txn.mrs_of(&relic.id)? {
        let why = Some("its relic was closed");
        if land::withdraw(txn, &mut mr, why, Cause::RelicClosed)? {
            relic.branch = Some(mr.branch);
            withdrawn.push(mr.id);
        }
    }
    txn.put_relic(&relic)?;
    let data = json!({ "reason": reason, "raider": relic.raider });
    let event = NewEvent::new(EventType::RelicClosed, &relic.id, origin);
    txn.record(&event.with(data))?;
    quarantine::close(txn, &relic.id)?;
    Ok(Closed { relic, withdrawn })
}
