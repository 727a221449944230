//! The relic of a raider that died too often (`domain/quarantine.rs`).
//!
//! ```text
//!  hooked ── too many deaths ──► blocked, one escalation ── a person has it tried again, or its work is done ──► hooked
//!                                   │       ▲
//!                                   └───────┘ the quarantine ends, the raider is tried again and dies again
//! ```
//!
//! The root starts the raider again when the quarantine ends (`health-patrol.md`, quarantine auto-expires); that
//! is no act of a person, and the relic stays blocked meanwhile.
//!
//! Until then it is on record here until when the raider rests: deaths may be counted in memory alone
//! (`restart_history`), and the next supervisor keeps the time that this one promised.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::escalations;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::message::{self, Body, Escalation, Severity};
use crate::domain::problem::ProblemKind;
use crate::domain::quarantine::Deaths;
use crate::domain::relic::{Hook, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// Where the raiders in quarantine are kept in the store.
const HELD: &str = "raiders.quarantined";

/// A raider that died too often, until a person acts or its work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Which.
    pub raider: RaiderId,
    /// Its next incarnation is another raider.
    pub incarnation: Incarnation,
    /// What it works on.
    pub relic: RelicId,
    /// When it is tried again.
    pub until: Timestamp,
    /// How its last session ended. Older versions did not keep that.
    #[serde(default)]
    pub died_of: Option<String>,
}

/// Returns the raiders in quarantine, and those that are being tried again after it.
///
/// # Errors
/// The store's.
pub fn held(txn: &mut dyn Txn) -> Result<Vec<Held>, StoreError> {
    let Some(text) = txn.get(HELD)? else {
        return Ok(Vec::new());
    };
    Ok(serde_json::from_str(&text).unwrap_or_else(|error| {
        // Their relics stay blocked, and they are tried at once.
        tracing::warn!(%error, "the stored quarantines cannot be read and are forgotten");
        Vec::new()
    }))
}

/// Keeps those of them, and this one.
fn keep(
    txn: &mut dyn Txn,
    stays: impl Fn(&Held) -> bool,
    one: Option<Held>,
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

/// Forgets the quarantine of a raider that is gone.
///
/// # Errors
/// The store's.
pub fn forget(txn: &mut dyn Txn, raider: &RaiderId) -> Result<(), StoreError> {
    keep(txn, |held| held.raider != *raider, None)
}

/// Blocks the relic of a raider that is in quarantine, and calls a person. Once: the next quarantine of the same
/// raider repeats the call that is open.
///
/// # Errors
/// The store's.
pub fn block(txn: &mut dyn Txn, hook: &Hook, deaths: &Deaths) -> Result<(), StoreError> {
    let now = txn.hook(&hook.raider)?;
    let works = now.is_some_and(|now| now.incarnation == hook.incarnation && now.done.is_none());
    if !works {
        return Ok(());
    }
    let mut relic = txn.relic(&hook.relic)?;
    if !relic.status.is_bound() {
        return Ok(());
    }
    let one = Held {
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
    }
    let call = Escalation {
        agent: hook.raider.to_string(),
        relic: Some(relic.id.clone()),
        problem: ProblemKind::Quarantined.into(),
        severity: Severity::High,
        evidence: deaths.evidence(&hook.raider, &relic.id, &relic.title),
    };
    escalations::send(
        txn,
        &message::witness(&hook.raider.rig),
        Body::Escalation(call),
    )
}

/// A person has the raider of a blocked relic tried again, or its work is done: the relic is bound as before, and
/// the call is over.
///
/// # Errors
/// The store's.
pub fn release(txn: &mut dyn Txn, id: &RelicId, cause: Cause) -> Result<(), StoreError> {
    keep(txn, |held| held.relic != *id, None)?;
    let mut relic = txn.relic(id)?;
    if relic.status != RelicStatus::Blocked {
        return Ok(());
    }
    let hook = txn.hook_of_relic(id)?;
    if let Some(hook) = hook.filter(|hook| hook.done.is_none()) {
        relic.status = RelicStatus::Hooked;
        txn.put_relic(&relic)?;
        let data = serde_json::json!({ "status": relic.status, "raider": hook.raider });
        let event = NewEvent::new(EventType::RelicUpdated, id, cause);
        txn.record(&event.with(data))?;
    }
    settle(txn, id)
}

/// Whether a person was called for a raider that died too often at this relic, and nothing came of it yet.
///
/// # Errors
/// The store's.
pub fn is_open(txn: &mut dyn Txn, id: &RelicId) -> Result<bool, StoreError> {
    let open = escalations::about(txn, &[id], Some(ProblemKind::Quarantined))?;
    Ok(!open.is_empty())
}

/// What a person was called for is over: another raider has the relic, or the same one is tried again.
///
/// # Errors
/// The store's.
pub fn settle(txn: &mut dyn Txn, id: &RelicId) -> Result<(), StoreError> {
    keep(txn, |held| held.relic != *id, None)?;
    escalations::over(txn, &[ProblemKind::Quarantined], |_, work| work == Some(id))
}
