//! Sandboxes of raiders at work that are gone or broken: the directory or its `.git` was removed, perhaps under a
//! running session.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::ClaimKey;
use super::effects;
use super::refusal::Refusal;
use super::world::World;
use crate::domain::ids::{Incarnation, RaiderId, RigName};
use crate::domain::phase::WorkPhase;
use crate::domain::relic::Hook;
use crate::domain::sandbox_fault::SandboxFault;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// The fault of a sandbox, or why its state is unknown.
pub type Observed = Result<SandboxFault, RepoError>;

/// Returns the raiders of a rig that have work and cannot go on in their sandbox, and those whose sandbox cannot be
/// inspected.
///
/// # Errors
/// The store's: nothing is known then.
pub async fn by_raider(
    world: &World,
    rig: &RigName,
) -> Result<BTreeMap<RaiderId, Observed>, Refusal> {
    let found = observe(world, rig).await?.into_iter();
    Ok(found.map(|(hook, seen)| (hook.raider, seen)).collect())
}

/// Returns the hooks of raiders at work whose sandbox is not known to be whole.
///
/// # Errors
/// The store's: nothing is known then.
pub(in crate::actors) async fn observe(
    world: &World,
    rig: &RigName,
) -> Result<Vec<(Hook, Observed)>, Refusal> {
    let hooks = at_work(world, rig).await?;
    if hooks.is_empty() {
        return Ok(Vec::new());
    }
    let paths: Vec<_> = hooks
        .iter()
        .map(|it| world.city.sandbox(&it.raider))
        .collect();
    let seen = effects::repo(world, rig, move |repo| {
        Ok(paths
            .iter()
            .map(|path| repo.sandbox_fault(path))
            .collect::<Vec<_>>())
    });
    let seen = seen.await?.into_iter().map(Result::transpose);
    let mut found: Vec<_> = hooks
        .into_iter()
        .zip(seen)
        .filter_map(|(hook, seen)| Some((hook, seen?)))
        .collect();
    found.retain(|(hook, _)| {
        !world
            .claims
            .is_claimed(&ClaimKey::Repair(hook.raider.clone()))
    });
    if found.is_empty() {
        return Ok(found);
    }
    // A raider that was removed meanwhile was removed properly, and its name may belong to another by now.
    let now = at_work(world, rig).await?;
    let now: BTreeSet<_> = now.iter().map(known_by).collect();
    found.retain(|(hook, _)| now.contains(&known_by(hook)));
    Ok(found)
}

fn known_by(hook: &Hook) -> (RaiderId, Incarnation) {
    (hook.raider.clone(), hook.incarnation)
}

/// Returns the hooks of raiders at work that are neither being charged nor removed.
async fn at_work(world: &World, rig: &RigName) -> Result<Vec<Hook>, StoreError> {
    let rig = rig.clone();
    let read = move |txn: &mut dyn Txn| {
        let records = txn.raiders(Some(&rig))?.into_iter();
        let open = records.filter(|record| WorkPhase::of(record).is_open());
        Ok(open.map(|record| record.hook).collect())
    };
    world.store.run(read).await
}
