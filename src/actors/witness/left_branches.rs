//! Branches that a raider left in the repository of the sandboxes, as where the supervisor was killed while it removed the sandbox.
//! A removal deletes them itself; this is for what another cause left.

use std::collections::BTreeSet;

use super::super::effects;
use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::actors::claims::ClaimKey;
use crate::actors::records::slots;
use crate::domain::cause::Cause;
use crate::domain::doctor::relic_of_left_branch;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::SlotName;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

/// Deletes the branches of raiders that are gone and whose relics are closed. A branch whose commits no other ref reaches stays,
/// and `hd doctor` finds it.
///
/// # Errors
/// Repository or store cannot be read.
pub(super) async fn delete(args: &WitnessArgs) -> Result<(), Refusal> {
    let (world, rig) = (&args.world, &args.rig);
    let Some(_claim) = world.claims.claim(ClaimKey::LeftBranches(rig.clone())) else {
        return Ok(());
    };
    // Listed before owners are read: a branch that gets an owner meanwhile is not in the list.
    let mut spare = effects::repo(world, rig, |repo| repo.spare_branches()).await?;
    spare.retain(|branch| branch.reachable);
    if spare.is_empty() {
        return Ok(());
    }
    let (named, of) = (rig.clone(), rig.clone());
    let left = world.store.run(move |txn| {
        let held = slots::held(txn, Some(&named))?;
        let held: BTreeSet<SlotName> = held.into_iter().map(|raider| raider.name).collect();
        let mut left = Vec::new();
        for branch in &spare {
            if is_left(txn, &branch.name, &held)? {
                left.push(branch.name.clone());
            }
        }
        Ok(left)
    });
    for branch in left.await? {
        let name = branch.clone();
        if !effects::repo(world, rig, move |repo| repo.drop_branch(&name)).await? {
            continue;
        }
        tracing::warn!(%rig, branch, "a branch of a raider that is gone was left in repo.git; it was deleted, and another ref holds its commits");
        let data = serde_json::json!({ "branch": branch });
        let event = NewEvent::new(EventType::BranchDropped, &of, Cause::Recovered);
        world.store.journal(vec![event.with(data)]);
    }
    Ok(())
}

fn is_left(txn: &mut dyn Txn, branch: &str, held: &BTreeSet<SlotName>) -> Result<bool, StoreError> {
    let Some(relic) = relic_of_left_branch(branch, held) else {
        return Ok(false);
    };
    let is_over = match txn.relic(&relic) {
        Ok(relic) => relic.status == RelicStatus::Closed,
        Err(StoreError::NotFound { .. }) => true,
        Err(error) => return Err(error),
    };
    let mut of_relic = txn.mrs_of(&relic)?.into_iter();
    Ok(is_over && of_relic.all(|mr| mr.is_final() || mr.branch != branch))
}
