//! Finished raiders whose merge requests wait for a person: they keep sandbox and slot for `review_hold`, and are then
//! removed like any finished raider. The merge request waits on (`product.md`, human review).

use jiff::Timestamp;

use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::domain::city::Rig;
use crate::domain::ids::RaiderId;
use crate::domain::phase::WorkPhase;
use crate::domain::relic::Hook;

/// Returns the raiders that have waited for `review_hold`.
///
/// # Errors
/// The store's.
pub(super) async fn overdue(args: &WitnessArgs, rig: &Rig) -> Result<Vec<RaiderId>, Refusal> {
    let name = rig.name.clone();
    let records = args.world.store.run(move |txn| txn.raiders(Some(&name)));
    let waiting = records
        .await?
        .into_iter()
        .filter_map(|record| match WorkPhase::of(&record) {
            WorkPhase::InReview { asked, .. } => Some((record.hook, asked)),
            WorkPhase::Charging { .. }
            | WorkPhase::Removing { .. }
            | WorkPhase::Working
            | WorkPhase::Unbound
            | WorkPhase::Orphaned { .. }
            | WorkPhase::Submitting { .. }
            | WorkPhase::Validating { .. }
            | WorkPhase::Over { .. } => None,
        });
    let expired = waiting.filter(|(hook, asked)| has_expired(args, rig, hook, *asked));
    Ok(expired.map(|(hook, _)| hook.raider).collect())
}

/// Returns true when a review that waits since then has waited for `review_hold`.
pub(super) fn has_expired(args: &WitnessArgs, rig: &Rig, hook: &Hook, since: Timestamp) -> bool {
    let key = format!("review/{}/{}", hook.raider, hook.incarnation);
    args.world.age(&key, since) >= rig.witness.review_hold
}
