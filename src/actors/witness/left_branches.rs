//! Branches that raiders left in the repository of the sandboxes, as where the supervisor was killed. A removal deletes the
//! branch of its sandbox itself; this is for what is left all the same.

use std::collections::BTreeSet;

use super::super::effects;
use super::super::refusal::Refusal;
use super::WitnessArgs;
use crate::actors::claims::ClaimKey;
use crate::actors::records::slots;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RelicId, RigName, SlotName};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{StoreError, Txn};

/// The number of branches that a patrol tries to delete.
const AT_ONCE: usize = 16;
/// The number of branches that a patrol looks at: an agent can make any number, with such names.
const LOOKED_AT: usize = 500;

/// Deletes the branches of raiders that have neither hook nor sandbox, and whose relics are closed, if another ref reaches their
/// commits. A branch that could not be deleted is left to `hd doctor` until the next start.
///
/// # Errors
/// Repository or store cannot be read.
pub(super) async fn delete(args: &WitnessArgs) -> Result<(), Refusal> {
    let (world, rig) = (&args.world, &args.rig);
    let Some(_claim) = world.claims.claim(ClaimKey::LeftBranches(rig.clone())) else {
        return Ok(());
    };
    // Listed before owners are read: a branch that gets an owner meanwhile is not in the list.
    let listed = effects::repo(world, rig, |repo| {
        let branches = repo.raider_branches()?;
        let sandboxes = match branches.is_empty() {
            true => Vec::new(),
            false => repo.sandboxes()?,
        };
        Ok((branches, sandboxes))
    });
    let (mut branches, sandboxes) = listed.await?;
    let tried = args.memory.tried_branches();
    branches.retain(|branch| relic_of(rig, branch).is_some() && !tried.contains(branch));
    let branches = args.memory.next_branches(branches, LOOKED_AT);
    if branches.is_empty() {
        return Ok(());
    }
    let of = rig.clone();
    let left = world.store.run(move |txn| {
        let held = slots::held(txn, Some(&of))?;
        let mut held: BTreeSet<SlotName> = held.into_iter().map(|raider| raider.name).collect();
        held.extend(sandboxes.iter().map(|(slot, _)| slot.clone()));
        let mut left = Vec::new();
        for branch in &branches {
            let free = relic_of(&of, branch).filter(|(slot, _)| !held.contains(slot));
            if let Some((_, relic)) = free
                && is_over(txn, &relic, branch)?
            {
                left.push(branch.clone());
            }
        }
        Ok(left)
    });
    for branch in left.await?.into_iter().take(AT_ONCE) {
        let name = branch.clone();
        match effects::repo(world, rig, move |repo| repo.drop_branch(&name)).await {
            Ok(true) => {
                tracing::warn!(%rig, branch, "a branch of a raider that is gone was left; it was deleted, and another ref holds its commits");
                let data = serde_json::json!({ "branch": branch });
                let event = NewEvent::new(EventType::BranchDropped, rig, Cause::Recovered);
                world.store.journal(vec![event.with(data)]);
            }
            Ok(false) => args.memory.branch_stays(branch),
            Err(why) => {
                tracing::warn!(%rig, branch, %why, "a branch of a raider that is gone could not be deleted; `hd doctor --fix` tries again");
                args.memory.branch_stays(branch);
            }
        }
    }
    Ok(())
}

/// Returns slot and relic of a branch that the supervisor named; none for one that an agent named.
fn relic_of(rig: &RigName, branch: &str) -> Option<(SlotName, RelicId)> {
    let (slot, _) = branch.strip_prefix("raider/")?.split_once('/')?;
    let raider = RaiderId::new(rig.clone(), SlotName::new(slot).ok()?);
    let (relic, _) = raider.of_branch(branch)?;
    Some((raider.name, relic))
}

/// Returns true if the relic is closed and none of its merge requests still needs the branch. A relic that the store does not
/// know may be newer than a store that was restored.
fn is_over(txn: &mut dyn Txn, relic: &RelicId, branch: &str) -> Result<bool, StoreError> {
    let status = match txn.relic(relic) {
        Ok(relic) => relic.status,
        Err(StoreError::NotFound { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut of_relic = txn.mrs_of(relic)?.into_iter();
    let is_final = of_relic.all(|mr| mr.is_final() || mr.branch != branch);
    Ok(status == RelicStatus::Closed && is_final)
}
