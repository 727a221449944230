//! Sandboxes without hook.

use std::path::PathBuf;

use super::records::slots;
use super::refusal::Refusal;
use super::world::World;
use super::{effects, rig_settings};
use crate::domain::city::Rig;
use crate::domain::facts::Probed;
use crate::domain::ids::{RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::ports::relics::Txn;
use crate::ports::repo::Provenance;

/// A sandbox that has neither a hook nor an open saga. It holds its slot.
#[derive(Debug, Clone)]
pub struct Hookless {
    /// The raider that the sandbox is named after.
    pub raider: RaiderId,
    /// The hook that it was made for; none when there is no record, unknown when that cannot be read.
    pub was: Probed<Option<Hook>>,
}

impl Hookless {
    /// Returns the hook that it was made for, if known.
    #[must_use]
    pub fn hook(&self) -> Option<&Hook> {
        self.was.known().and_then(Option::as_ref)
    }
}

/// Returns the sandboxes of a rig without hook.
///
/// # Errors
/// Directory, repository or store cannot be read.
pub async fn hookless(world: &World, rig: &Rig) -> Result<Vec<Hookless>, Refusal> {
    let lone = hookless_names(world, &rig.name).await?;
    if lone.is_empty() {
        return Ok(Vec::new());
    }
    let onto = rig_settings::target(world, rig).await?;
    let paths: Vec<PathBuf> = lone.iter().map(|one| world.city.sandbox(one)).collect();
    let origins = effects::repo(world, &rig.name, move |repo| {
        Ok(paths
            .iter()
            .map(|path| repo.provenance(path))
            .collect::<Vec<_>>())
    });
    let mut found = Vec::new();
    for (raider, origin) in lone.into_iter().zip(origins.await?) {
        let made_for = |origin: Provenance| Hook {
            raider: raider.clone(),
            incarnation: origin.incarnation,
            relic: origin.relic,
            branch: origin.branch,
            base: origin.base,
            from_target: false,
            target: onto.clone(),
            harness: rig.raiders.harness.clone(),
            charged_at: origin.made,
            done: None,
        };
        let was = Probed::from(origin.map(|origin| origin.map(made_for)));
        found.push(Hookless { raider, was });
    }
    Ok(found)
}

/// Returns the raiders of sandboxes without hook or saga. The directory is read first: a raider that is charged
/// meanwhile has a saga or a hook when the store is read.
pub async fn hookless_names(world: &World, rig: &RigName) -> Result<Vec<RaiderId>, Refusal> {
    let on_disk = effects::repo(world, rig, |repo| repo.sandboxes()).await?;
    let wanted = rig.clone();
    let read = move |txn: &mut dyn Txn| slots::held(txn, Some(&wanted));
    let held = world.store.run(read).await?;
    let raiders = on_disk
        .into_iter()
        .map(|(name, _)| RaiderId::new(rig.clone(), name));
    Ok(raiders.filter(|raider| !held.contains(raider)).collect())
}
