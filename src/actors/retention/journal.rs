//! Pruning of the journal: old events are deleted, except those that an automation has not handled yet, and with them
//! the messages that were handled, the drums that were acknowledged, the rounds of self-review of work that is over and
//! the attempts that were over before.

use crate::actors::records::{automation_chains, automations};
use jiff::Timestamp;

use super::super::world::World;
use crate::ports::relics::{StoreError, Txn};

/// Maximum number of rows deleted in one transaction.
const PART: usize = 500;

/// Deletes events from before that time, messages that were handled before, drums that were acknowledged before, rounds
/// of self-review that were recorded before, and attempts whose relics were closed before.
///
/// # Errors
/// The store's; earlier parts stay deleted.
pub(super) async fn prune(world: &World, before: Timestamp) -> Result<(), StoreError> {
    let automations = world.city.automations.clone();
    let waiting = move |txn: &mut dyn Txn| {
        // Events that are recorded from here on are left to the next run.
        let (mut waiting, end) = (Vec::new(), txn.last_seq()? + 1);
        for automation in &automations {
            waiting.extend(automations::keep_waiting(txn, automation, before)?);
        }
        Ok((waiting, end))
    };
    let (waiting, end) = world.store.run(waiting).await?;
    in_parts(world, move |txn| {
        txn.prune_events(before, end, &waiting, PART)
    })
    .await?;
    let chains = move |txn: &mut dyn Txn| automation_chains::prune(txn, before);
    world.store.run(chains).await?;
    in_parts(world, move |txn| txn.prune_messages(before, PART)).await?;
    in_parts(world, move |txn| txn.prune_drums(before, PART)).await?;
    in_parts(world, move |txn| txn.prune_self_reviews(before, PART)).await?;
    in_parts(world, move |txn| txn.prune_attempts(before, PART)).await
}

/// Deletes in transactions of at most [`PART`] rows, because other users of the store wait meanwhile.
async fn in_parts(
    world: &World,
    part: impl Fn(&mut dyn Txn) -> Result<usize, StoreError> + Clone + Send + 'static,
) -> Result<(), StoreError> {
    while !world.is_stopping() {
        if world.store.run(part.clone()).await? < PART {
            break;
        }
    }
    Ok(())
}
