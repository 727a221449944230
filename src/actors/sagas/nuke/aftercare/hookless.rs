//! A sandbox without hook: its relic may still name this raider.

use crate::actors::mail::NukeTarget;
use crate::actors::records::escalations;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{RelicFilter, SalvageEntry, StoreError, Txn};

/// Opens the relic again when it has neither a hook nor another attempt in the queue.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) fn reopen(
    txn: &mut dyn Txn,
    target: &NukeTarget,
    salvage: Option<&SalvageEntry>,
) -> Result<(), StoreError> {
    let problems = [ProblemKind::Hookless, ProblemKind::NukeStuck];
    let raider = target.raider.to_string();
    escalations::close_matching(txn, &problems, |who, work| who == raider && work.is_none())?;
    let Some(id) = &target.relic else {
        return Ok(());
    };
    let hooked = RelicFilter {
        status: Some(RelicStatus::Hooked),
        ..RelicFilter::default()
    };
    // The relic may have been deleted since.
    let there = txn.relics(&hooked)?.iter().any(|relic| relic.id == *id);
    if !there || txn.hook_of_relic(id)?.is_some() {
        return Ok(());
    }
    let other = txn.mrs_of(id)?.into_iter().any(|mr| {
        let own = mr.raider == target.raider && mr.incarnation == target.incarnation;
        !own && !mr.state.is_final()
    });
    if other {
        return Ok(());
    }
    super::reopen::reopen(txn, target, id, salvage)
}
