//! The relic of a raider that died too often (`domain/quarantine_report.rs`).
//!
//! ```text
//!  hooked ── too many deaths ──► blocked, one escalation ── a person restarts it, or its work is done ──► hooked
//!                                   │       ▲
//!                                   └───────┘ the quarantine ends, the raider restarts and dies again
//! ```
//!
//! The root starts the raider again when the quarantine ends (`health-patrol.md`, quarantine auto-expires). That is no
//! act of a person, so the relic stays blocked meanwhile.
//!
//! The end of the quarantine is recorded here: deaths may be counted in memory only (`restart_history`), and the next
//! supervisor keeps the announced time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::escalations;
use super::identities::{self, Ended};
use crate::domain::attempt::Outcome;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::quarantine_report::QuarantineReport;
use crate::domain::relic::{Hook, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The store's key of the quarantined raiders.
const HELD: &str = "raiders.quarantined";

/// The record of a raider that died too often, until a person acts or its work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineRecord {
    /// The raider.
    pub raider: RaiderId,
    /// Its incarnation; the next one is another raider.
    pub incarnation: Incarnation,
    /// Its relic.
    pub relic: RelicId,
    /// The end of the quarantine.
    pub until: Timestamp,
    /// The end of its last session. Older versions did not store it.
    #[serde(default)]
    pub died_of: Option<String>,
}

/// Returns the raiders in quarantine, and those on trial after it.
///
/// # Errors
/// The store's.
pub fn held(txn: &mut dyn Txn) -> Result<Vec<QuarantineRecord>, StoreError> {
    let Some(text) = txn.get(HELD)? else {
        return Ok(Vec::new());
    };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        // Their relics stay blocked, and the raiders start at once.
        tracing::warn!(
            %error,
            "the stored quarantines cannot be read; their raiders start at once, and their \
            relics stay blocked"
        );
        Vec::new()
    }))
}

/// Keeps the records that `stays` accepts, and adds `one`.
fn keep(
    txn: &mut dyn Txn,
    stays: impl Fn(&QuarantineRecord) -> bool,
    one: Option<QuarantineRecord>,
) -> Result<(), StoreError> {
    let before = held(txn)?;
    let mut kept: Vec<_> = before.iter().filter(|held| stays(held)).cloned().collect();
    kept.extend(one);
    if kept == before {
        return Ok(());
    }
    let text = (!kept.is_empty()).then(|| serde_json::json!(kept).to_string());
    txn.set(HELD, text.as_deref())
}

/// Removes the record of a raider that is gone.
///
/// # Errors
/// The store's.
pub fn forget(txn: &mut dyn Txn, raider: &RaiderId) -> Result<(), StoreError> {
    keep(txn, |held| held.raider != *raider, None)
}

/// Blocks the relic of a quarantined raider, and calls a person. Once: the next quarantine of the same raider repeats
/// the open escalation.
///
/// # Errors
/// The store's.
pub fn block(txn: &mut dyn Txn, hook: &Hook, deaths: &QuarantineReport) -> Result<(), StoreError> {
    let now = txn.hook(&hook.raider)?;
    let works = now.is_some_and(|now| now.is_open_for(hook.incarnation));
    if !works {
        return Ok(());
    }
    let mut relic = txn.relic(&hook.relic)?;
    if !relic.status.is_bound() {
        return Ok(());
    }
    let one = QuarantineRecord {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        relic: relic.id.clone(),
        until: deaths.until,
        died_of: Some(deaths.died_of()),
    };
    keep(txn, |held| held.raider != hook.raider, Some(one))?;
    if relic.status == RelicStatus::Hooked {
        relic.status = RelicStatus::Blocked;
        txn.put_relic(&relic)?;
        let data = serde_json::json!({
            "status": relic.status, "raider": hook.raider, "reason": deaths.reason(&hook.raider),
            "until": deaths.until,
        });
        let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::TooManyDeaths);
        txn.record(&event.with(data))?;
        identities::end(txn, &Ended::of_hook(hook, Outcome::Quarantined))?;
    }
    let call = Escalation::high(
        &hook.raider,
        ProblemKind::Quarantined,
        deaths.evidence(&hook.raider, &relic.id, &relic.title),
    )
    .on(relic.id.clone());
    escalations::send(
        txn,
        &message::witness(&hook.raider.rig),
        Body::Escalation(call),
    )
}

/// Releases a blocked relic when a person has its raider start again, or its work is done: the relic is bound as
/// before, and the escalation is closed.
///
/// # Errors
/// The store's.
pub fn release(
    txn: &mut dyn Txn,
    id: &RelicId,
    origin: impl Into<Origin>,
) -> Result<(), StoreError> {
    keep(txn, |held| held.relic != *id, None)?;
    let mut relic = txn.relic(id)?;
    if relic.status != RelicStatus::Blocked {
        return Ok(());
    }
    let hook = txn.hook_of_relic(id)?;
    if let Some(hook) = hook.filter(|hook| !hook.is_declared()) {
        relic.status = RelicStatus::Hooked;
        txn.put_relic(&relic)?;
        let data = serde_json::json!({ "status": relic.status, "raider": hook.raider });
        let event = NewEvent::new(EventType::RelicUpdated, id, origin);
        txn.record(&event.with(data))?;
    }
    close(txn, id)
}

/// Returns true when an escalation about a quarantined raider of this relic is open.
///
/// # Errors
/// The store's.
pub fn is_open(txn: &mut dyn Txn, id: &RelicId) -> Result<bool, StoreError> {
    let open = escalations::about(txn, &[id], Some(ProblemKind::Quarantined))?;
    Ok(!open.is_empty())
}

/// Closes the escalation: another raider has the relic, or the same raider starts again.
///
/// # Errors
/// The store's.
pub fn close(txn: &mut dyn Txn, id: &RelicId) -> Result<(), StoreError> {
    keep(txn, |held| held.relic != *id, None)?;
    escalations::close_matching(txn, &[ProblemKind::Quarantined], |_, work| work == Some(id))
}
