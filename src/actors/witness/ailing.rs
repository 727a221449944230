//! Raiders with open work whose sandbox is gone or broken: its directory or its `.git` was removed, perhaps under a
//! running session. The witness only calls a person: the branch's commits are safe in `repo.git`, and a person decides
//! whether to repair the sandbox or to give up the work.

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

/// The fault of a sandbox, or why its state is unknown.
type Seen = Result<Ailment, RepoError>;

/// Returns the raiders of a rig that have work and cannot go on in their sandbox, and those whose sandbox cannot be
/// inspected.
///
/// # Errors
/// The store's: nothing is known then.
pub async fn ailing(world: &World, rig: &RigName) -> Result<BTreeMap<RaiderId, Seen>, Refusal> {
    let found = look(world, rig).await?.into_iter();
    Ok(found.map(|(hook, seen)| (hook.raider, seen)).collect())
}

/// Calls a person for each broken sandbox, and closes the escalations of those that work again.
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
                tracing::warn!(
                    %raider,
                    %error,
                    "the sandbox cannot be inspected; earlier escalations about it stay open \
                    until the next patrol"
                );
                // An earlier escalation may still be right.
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
