//! The end of a relic by request: its work leaves the queue, and it is closed with its open steps.

use serde_json::json;

use super::land;
use crate::actors::records::{agent_work, identities, quarantine};
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
    /// A push of this merge request may have arrived, and is tried again.
    Unknown(RelicId),
}

impl Landing {
    /// Returns the refusal of a request that would stop the landing of this relic.
    #[must_use]
    pub fn refusal(&self, relic: &RelicId) -> String {
        match self {
            Self::Landed(mr) => format!("{relic} has landed ({mr})"),
            Self::Lands(mr) => format!("{relic} is being landed at this moment ({mr})"),
            Self::Unknown(mr) => format!(
                "{relic} may have landed: the push of {mr} ended without an answer, and is tried \
                again by itself, or at once by `hd mq retry {mr}`"
            ),
        }
    }
}

/// Returns the landing of a relic that can no longer be stopped, if there is one.
///
/// # Errors
/// The store's.
pub fn landing(txn: &mut dyn Txn, relic: &RelicId) -> Result<Option<Landing>, StoreError> {
    let is_closed = txn.relic(relic)?.status == RelicStatus::Closed;
    for mr in txn.mrs_of(relic)? {
        let MergeRequest {
            id, state, hold, ..
        } = mr;
        // One that is settled is of the time before a relic was reopened.
        if state == MrState::Merged && (is_closed || mr.settled_at.is_none()) {
            return Ok(Some(Landing::Landed(id)));
        }
        if txn.saga_of(SagaKind::Land, id.as_str())?.is_some() {
            return Ok(Some(match hold {
                None => Landing::Lands(id),
                Some(_) => Landing::Unknown(id),
            }));
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

/// Closes the relic with the open steps of its totem, and takes its work out of the queue. The branch is kept: a reopened
/// relic continues from it.
///
/// # Errors
/// The store's.
pub fn close(
    txn: &mut dyn Txn,
    mut relic: Relic,
    reason: Option<&str>,
    origin: impl Into<Origin>,
) -> Result<Closed, StoreError> {
    let origin = origin.into();
    let mut withdrawn = Vec::new();
    if relic.status == RelicStatus::Closed {
        return Ok(Closed { relic, withdrawn });
    }
    agent_work::withdrawn(txn, &relic)?;
    relic.status = RelicStatus::Closed;
    relic.closed = Some(txn.now());
    for mut mr in txn.mrs_of(&relic.id)? {
        let why = Some("its relic was closed");
        if land::withdraw(txn, &mut mr, why, Cause::RelicClosed)? {
            identities::withdrawn(txn, &mr)?;
            relic.branch = Some(mr.branch);
            withdrawn.push(mr.id);
        }
    }
    txn.put_relic(&relic)?;
    let data = json!({ "reason": reason, "raider": relic.raider });
    let event = NewEvent::new(EventType::RelicClosed, &relic.id, origin.clone());
    txn.record(&event.with(data))?;
    close_steps(txn, &relic, &origin)?;
    quarantine::close(txn, &relic.id)?;
    Ok(Closed { relic, withdrawn })
}

/// Closes the open steps of a relic that was closed, at the same time: [`reopen_steps`] knows them by it.
///
/// # Errors
/// The store's.
pub fn close_steps(txn: &mut dyn Txn, relic: &Relic, origin: &Origin) -> Result<(), StoreError> {
    let Some(totem) = txn.totem(&relic.id)? else {
        return Ok(());
    };
    for row in totem.steps {
        let mut step = txn.relic(&row.relic)?;
        if step.status == RelicStatus::Closed {
            continue;
        }
        step.status = RelicStatus::Closed;
        step.closed = relic.closed;
        txn.put_relic(&step)?;
        let data = json!({ "reason": "its relic was closed", "raider": null, "relic": relic.id });
        let event = NewEvent::new(EventType::RelicClosed, &step.id, origin.clone());
        txn.record(&event.with(data))?;
    }
    Ok(())
}

/// Opens the steps that were closed with a relic, which is reopened. Steps that were done before stay so.
///
/// # Errors
/// The store's.
pub fn reopen_steps(txn: &mut dyn Txn, closed: &Relic, origin: &Origin) -> Result<(), StoreError> {
    let (Some(at), Some(totem)) = (closed.closed, txn.totem(&closed.id)?) else {
        return Ok(());
    };
    for row in totem.steps {
        let mut step = txn.relic(&row.relic)?;
        if step.status != RelicStatus::Closed || step.closed != Some(at) {
            continue;
        }
        step.status = RelicStatus::Open;
        step.closed = None;
        txn.put_relic(&step)?;
        let data = json!({ "status": step.status, "relic": closed.id });
        let event = NewEvent::new(EventType::RelicUpdated, &step.id, origin.clone());
        txn.record(&event.with(data))?;
    }
    Ok(())
}
