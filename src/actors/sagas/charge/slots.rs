//! The slots of a rig: held ones, and those whose names sandboxes on disk have.

use std::collections::BTreeSet;

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::SlotName;
use crate::domain::slots::{self, NoSlot};
use crate::ports::relics::{StoreError, Txn};

/// Returns the number of raiders that the rig may still have.
///
/// # Errors
/// The rig's directory or the store cannot be read.
pub async fn free_slots(world: &World, rig: &Rig) -> Result<usize, Refusal> {
    let on_disk = sandbox_names(world, rig).await?;
    let rig = rig.clone();
    let free = world.store.run(move |txn| {
        let taken = taken(txn, &rig, &on_disk)?;
        Ok(rig.raiders.max.saturating_sub(taken.len()))
    });
    Ok(free.await?)
}

/// Returns the names of the sandboxes on disk.
pub(super) async fn sandbox_names(world: &World, rig: &Rig) -> Result<BTreeSet<SlotName>, Refusal> {
    let on_disk = effects::repo(world, &rig.name, |repo| repo.sandboxes()).await?;
    Ok(on_disk.into_iter().map(|(name, _)| name).collect())
}

/// Returns the slot of a charge: the wanted one, or the first that is free.
pub(super) fn free_slot(
    txn: &mut dyn Txn,
    rig: &Rig,
    on_disk: &BTreeSet<SlotName>,
    wanted: Option<&SlotName>,
) -> Result<SlotName, StoreError> {
    let taken = taken(txn, rig, on_disk)?;
    let policy = &rig.raiders;
    slots::allocate(&policy.names, policy.max, &taken, wanted)
        .map_err(|no: NoSlot| StoreError::Conflict(no.to_string()))
}

/// Returns the names in use: of sandboxes found on disk, and of held slots.
fn taken(
    txn: &mut dyn Txn,
    rig: &Rig,
    on_disk: &BTreeSet<SlotName>,
) -> Result<BTreeSet<SlotName>, StoreError> {
    let held = crate::actors::records::slots::held(txn, Some(&rig.name))?;
    let held = held.into_iter().map(|raider| raider.name);
    Ok(held.chain(on_disk.iter().cloned()).collect())
}
