//! Finished raiders whose merge requests wait for a person: they keep sandbox and slot for `review_hold`, and are then
//! removed like any finished raider. The merge request waits on (`1-product.md`, human review).

use jiff::Timestamp;

use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::domain::city::Rig;
use crate::domain::ids::RaiderId;
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// Returns the raiders that have waited for `review_hold`.
///
/// # Errors
/// The store's.
pub(super) async fn overdue(args: &WitnessArgs, rig: &Rig) -> Result<Vec<RaiderId>, Refusal> {
    let name = rig.name.clone();
    let read = move |txn: &mut dyn Txn| {
        let mut waiting = Vec::new();
        for hook in txn.hooks(Some(&name))? {
            if let Some(since) = since(txn, &hook)? {
                waiting.push((hook, since));
            }
        }
        Ok(waiting)
    };
    let mut waiting = args.world.store.run(read).await?;
    waiting.retain(|(hook, since)| has_expired(args, rig, hook, *since));
    Ok(waiting.into_iter().map(|(hook, _)| hook.raider).collect())
}

/// Returns since when a person is to review this raider's work; none when no review is due.
///
/// # Errors
/// The store's.
pub(super) fn since(txn: &mut dyn Txn, hook: &Hook) -> Result<Option<Timestamp>, StoreError> {
    let Some(done) = &hook.done else {
        return Ok(None);
    };
    let mr = txn.mr_of(&hook.relic, &hook.raider, hook.incarnation)?;
    let Some(mr) = mr.filter(|mr| mr.awaits_person()) else {
        return Ok(None);
    };
    Ok(Some(mr.held_since.unwrap_or(done.at)))
}

/// Returns true when a review that waits since then has waited for `review_hold`.
pub(super) fn has_expired(args: &WitnessArgs, rig: &Rig, hook: &Hook, since: Timestamp) -> bool {
    let key = format!("review/{}/{}", hook.raider, hook.incarnation);
    args.world.age(&key, since) >= rig.witness.review_hold
}
