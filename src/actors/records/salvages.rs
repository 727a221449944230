//! Salvages: what was saved, and for which work.

use crate::actors::mail::NukeTarget;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::merge::MergeRequest;
use crate::domain::saga::SagaKind;
use crate::ports::relics::{SalvageEntry, StoreError, Txn};
use crate::ports::repo::SalvageRecord;

/// The work that a salvage is recorded for.
pub struct SalvageSubject {
    raider: RaiderId,
    incarnation: Incarnation,
    relic: Option<RelicId>,
    cause: Cause,
    origin: Origin,
}

impl SalvageSubject {
    /// Returns the work of a merge request.
    #[must_use]
    pub fn of(mr: &MergeRequest, cause: Cause) -> Self {
        Self {
            raider: mr.raider.clone(),
            incarnation: mr.incarnation,
            relic: Some(mr.relic.clone()),
            cause,
            origin: cause.into(),
        }
    }
}

impl From<&NukeTarget> for SalvageSubject {
    fn from(target: &NukeTarget) -> Self {
        Self {
            raider: target.raider.clone(),
            incarnation: target.incarnation,
            relic: target.relic.clone(),
            cause: target.cause,
            origin: target.origin(),
        }
    }
}

/// Records and journals a salvage, once: a retry finds the same.
///
/// # Errors
/// The store's.
pub fn record(
    txn: &mut dyn Txn,
    of: &SalvageSubject,
    record: &SalvageRecord,
) -> Result<(), StoreError> {
    let entry = SalvageEntry {
        id: record.id.clone(),
        rig: of.raider.rig.clone(),
        raider: of.raider.name.clone(),
        incarnation: of.incarnation,
        relic: of.relic.clone(),
        reason: of.cause.to_string(),
        created: txn.now(),
        refs: record.refs.clone(),
        bytes: record.bytes,
        ignored: record.ignored.clone(),
        work: Some(record.work.clone()),
    };
    if is_being_pruned(txn, &entry.id)? {
        return Err(StoreError::Conflict(format!(
            "{} is being pruned",
            entry.id
        )));
    }
    let same = |known: &SalvageEntry| known.id == entry.id && known.refs == entry.refs;
    let known = txn.salvages()?.iter().any(same);
    // A salvage that is relied upon again is kept as long as a new one.
    txn.put_salvage(&entry)?;
    if known {
        return Ok(());
    }
    let data = serde_json::json!({
        "id": record.id, "refs": record.refs, "bytes": record.bytes, "relic": of.relic,
        "incarnation": of.incarnation,
    });
    let event = NewEvent::new(EventType::RaiderSalvaged, &of.raider, of.origin.clone());
    txn.record(&event.with(data)).map(|_| ())
}

/// Returns true when a salvage is being destroyed: nothing may rely on it any more.
fn is_being_pruned(txn: &mut dyn Txn, salvage: &str) -> Result<bool, StoreError> {
    Ok(txn.saga_of(SagaKind::Prune, salvage)?.is_some())
}
