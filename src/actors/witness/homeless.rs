//! Raiders that work and whose sandbox is not there any more: somebody removed the directory, perhaps
//! under a living session. Nothing is done about it but to say so: what the branch holds is safe in
//! `repo.git`, and whether the sandbox is made anew or the work is given up is a person's to say.

use std::collections::BTreeSet;

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::sagas::repair;
use super::super::shaman;
use super::super::world::World;
use super::WitnessArgs;
use super::inbox;
use crate::domain::ids::{Incarnation, RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::ports::relics::{StoreError, Txn};

/// The raiders of a rig that have work and no sandbox.
///
/// # Errors
/// Store or directory cannot be read: nothing is known then.
pub async fn homeless(world: &World, rig: &RigName) -> Result<BTreeSet<RaiderId>, Refusal> {
    let gone = hooks(world, rig).await?.into_iter();
    Ok(gone.map(|hook| hook.raider).collect())
}

/// Calls a person for each; what was said of those that have a sandbox again is over.
///
/// # Errors
/// Store or directory cannot be read.
pub(super) async fn call(args: &WitnessArgs) -> Result<(), Refusal> {
    let gone = hooks(&args.world, &args.rig).await?;
    for hook in &gone {
        let (raider, sandbox) = (&hook.raider, args.world.city.sandbox(&hook.raider));
        let evidence = format!(
            "{} is not there any more; `hd raider repair {raider}` makes it anew from its branch, \
             `hd raider nuke {raider}` gives it up",
            sandbox.display()
        );
        inbox::escalate(args, hook, shaman::HOMELESS, evidence).await?;
    }
    let rig = args.rig.clone();
    let gone = gone.into_iter().map(|hook| hook.raider).collect();
    let settled = move |txn: &mut dyn Txn| shaman::still_so(txn, &rig, shaman::HOMELESS, &gone);
    Ok(args.world.store.run(settled).await?)
}

async fn hooks(world: &World, rig: &RigName) -> Result<Vec<Hook>, Refusal> {
    let mut gone = at_work(world, rig).await?;
    if gone.is_empty() {
        return Ok(gone);
    }
    let there = effects::repo(world, rig, |repo| repo.sandboxes()).await?;
    let there: BTreeSet<_> = there.into_iter().map(|(name, _)| name).collect();
    gone.retain(|hook| {
        let mended = world.claims.is_claimed(&repair::mending(&hook.raider));
        !there.contains(&hook.raider.name) && !mended
    });
    if gone.is_empty() {
        return Ok(gone);
    }
    // Who was removed in between went in the ordinary way, and who goes by its name now is another.
    let now = at_work(world, rig).await?;
    let now: BTreeSet<_> = now.iter().map(known_by).collect();
    gone.retain(|hook| now.contains(&known_by(hook)));
    Ok(gone)
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
