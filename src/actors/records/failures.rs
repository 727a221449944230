//! Failed automatic charges, and raiders without result: counted on the relic, retried after a pause, given up after a
//! few. Completed work, or a person's charge, clears the count.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::auto_charge;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::event_data::ChargeFailed;
use crate::domain::ids::{HarnessName, RaiderId, RelicId, RigName};
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// The number of failures in a row after which the relic is blocked.
const ATTEMPTS: u32 = 3;

/// Counts a permanent failure of an automatic charge, or a raider that died too often. After too many in a row the
/// relic is blocked and a person is called; `relic reopen` gives it fresh attempts.
///
/// # Errors
/// The store's.
pub fn count(txn: &mut dyn Txn, id: &RelicId, rig: &RigName, why: &str) -> Result<(), StoreError> {
    let mut relic = txn.relic(id)?;
    if relic.status != RelicStatus::Open || relic.assignee.is_some() {
        return Ok(());
    }
    // A dependency was added during the charge.
    if !auto_charge::open_deps(txn, &relic)?.is_empty() {
        return Ok(());
    }
    relic.charge_failures += 1;
    if relic.charge_failures >= ATTEMPTS {
        relic.status = RelicStatus::Blocked;
        let failed = ChargeFailed {
            status: relic.status,
            error: Some(why.to_owned()),
        };
        let event = NewEvent::new(EventType::RelicUpdated, id, Cause::ChargeFailed);
        txn.record(&event.and(&failed))?;
        let witness = message::witness(rig);
        let body = Body::Escalation(
            Escalation::high(
                &witness,
                ProblemKind::ChargedInVain
                    .in_words(format!("{ATTEMPTS} charges of {id} failed in a row")),
                why,
            )
            .on(id.clone()),
        );
        txn.send(&witness, message::SHAMAN, body)?;
    }
    txn.put_relic(&relic)
}

/// The state of a relic that a charge replaces.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Former {
    assignee: Option<String>,
    target: Option<String>,
    harness: Option<HarnessName>,
    /// The state of a relic that was blocked. A charge ends that, because a person has requested it.
    #[serde(default)]
    blocked: Option<Blocked>,
}

/// The rest of the state of a blocked relic.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Blocked {
    /// The raider that did not get on with it.
    raider: Option<RaiderId>,
    reworks: u32,
    charge_failures: u32,
}

impl Former {
    /// Returns those of a relic that is not charged yet.
    #[must_use]
    pub fn of(relic: &Relic) -> Self {
        Self {
            assignee: relic.assignee.clone(),
            target: relic.target.clone(),
            harness: relic.harness.clone(),
            blocked: (relic.status == RelicStatus::Blocked).then(|| Blocked {
                raider: relic.raider.clone(),
                reworks: relic.reworks,
                charge_failures: relic.charge_failures,
            }),
        }
    }

    /// Returns true for a relic that was blocked.
    #[must_use]
    pub fn was_blocked(&self) -> bool {
        self.blocked.is_some()
    }

    fn restore(self, relic: &mut Relic) {
        relic.assignee = self.assignee;
        (relic.target, relic.harness) = (self.target, self.harness);
        if let Some(blocked) = self.blocked {
            relic.status = RelicStatus::Blocked;
            relic.raider = blocked.raider;
            (relic.reworks, relic.charge_failures) = (blocked.reworks, blocked.charge_failures);
        }
    }
}

/// Gives the relic of a charge that is unwound the state that it had before, and journals the reason.
///
/// # Errors
/// The store's.
pub fn reopen(
    txn: &mut dyn Txn,
    raider: &RaiderId,
    relic: &mut Relic,
    former: Option<&Former>,
    error: Option<&str>,
) -> Result<(), StoreError> {
    let ours = relic.is_of(raider);
    if relic.status == RelicStatus::Hooked && ours {
        relic.status = RelicStatus::Open;
        relic.assignee = None;
        relic.raider = None;
        if let Some(former) = former.cloned() {
            former.restore(relic);
        }
        txn.put_relic(relic)?;
    }
    let failed = ChargeFailed {
        status: relic.status,
        error: error.map(str::to_owned),
    };
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::ChargeFailed);
    txn.record(&event.and(&failed)).map(|_| ())
}

/// Returns how long a relic is left alone after this number of failed charges.
#[must_use]
pub fn pause(failures: u32) -> Duration {
    Duration::from_secs(10) * 2_u32.pow(failures.saturating_sub(1).min(ATTEMPTS))
}
