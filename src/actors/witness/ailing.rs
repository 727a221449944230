//! Raiders that work and whose sandbox is gone or broken: somebody removed the directory or its `.git`,
//! perhaps under a living session. Nothing is done about it but to say so: what the branch holds is safe
//! in `repo.git`, and whether the sandbox is mended or the work is given up is a person's to say.

use std::collections::{BTreeMap, BTreeSet};

use super::super::claims::ClaimKey;
use super::super::effects;
use super::super::refusal::Refusal;
use super::super::world::World;
use super::WitnessArgs;
use super::inbox;
use crate::actors::records::escalations;
use crate::domain::ailment::Ailment;
use crate::domain::ids::{Incarnation, RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};
use crate::ports::repo::RepoError;

/// What was seen of a sandbox that is not known to be whole.
type Seen = Result<Ailment, RepoError>;

/// The raiders of a rig that have work and cannot go on in their sandbox, and those of which that is not
/// known.
///
/// # Errors
/// The store's: nothing is known then.
pub async fn ailing(world: &World, rig: &RigName) -> Result<BTreeMap<RaiderId, Seen>, Refusal> {
    let found = look(world, rig).await?.into_iter();
    Ok(found.map(|(hook, seen)| (hook.raider, seen)).collect())
}

/// Calls a person for each; what was said of those that can go on again is over.
///
/// # Errors
/// The store's.
pub(super) async fn call(args: &WitnessArgs) -> Result<(), Refusal> {
    let mut still: BTreeMap<_, BTreeSet<RaiderId>> =
        Ailment::PROBLEMS.map(|it| (it, BTreeSet::new())).into();
    for (hook, seen) in look(&args.world, &args.rig).await? {
        let raider = &hook.raider;
        match seen {
            Ok(what) => {
                let sandbox = args.world.city.sandbox(raider);
                let evidence = format!("{}; {}", what.says(&sandbox), what.advice(raider));
                still
                    .entry(what.problem())
                    .or_default()
                    .insert(raider.clone());
                inbox::escalate(args, &hook, what.problem(), evidence).await?;
            }
            Err(error) => {
                tracing::warn!(%raider, %error, "whether its sandbox is whole cannot be seen");
                // What was said of it may be so still.
                for these in still.values_mut() {
                    these.insert(raider.clone());
                }
            }
        }
    }
    let rig = args.rig.clone();
    let settled = move |txn: &mut dyn Txn| {
        let mut still = still.iter();
        still.try_for_each(|(problem, these)| escalations::still_so(txn, &rig, *problem, these))
    };
    Ok(args.world.store.run(settled).await?)
}

async fn look(world: &World, rig: &RigName) -> Result<Vec<(Hook, Seen)>, Refusal> {
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
            .map(|path| repo.ailment(path))
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
    // Who was removed in between went in the ordinary way, and who goes by its name now is another.
    let now = at_work(world, rig).await?;
    let now: BTreeSet<_> = now.iter().map(known_by).collect();
    found.retain(|(hook, _)| now.contains(&known_by(hook)));
    Ok(found)
}

fn known_by(hook: &Hook) -> (RaiderId, Incarnation) {
    (hook.raider.clone(), hook.incarnation)
}

/// Those with a hook that nobody is at: neither charged nor removed at this moment.
async fn at_work(world: &World, rig: &RigName) -> Result<Vec<Hook>, StoreError> {
    let rig = rig.clone();
    let read = move |txn: &mut dyn Txn| {
        let sagas = txn.sagas(Some(&rig))?;
        let mut hooks = txn.hooks(Some(&rig))?;
        hooks.retain(|hook| {
            let subject = hook.raider.to_string();
            hook.done.is_none() && sagas.iter().all(|saga| saga.subject != subject)
        });
        Ok(hooks)
    };
    world.store.run(read).await
}
