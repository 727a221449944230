//! A sandbox whose directory is gone: what its branch holds alone is as precious as what the
//! directory held (`1-product.md`, promise 1).

use super::super::super::effects;
use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::keep::keep_commit;
use super::{Target, at_risk};
use crate::domain::ids::Oid;

/// What the branch of a sandbox that is gone holds alone.
async fn strays(world: &World, target: &Target) -> Result<Vec<Oid>, Refusal> {
    let Some(relic) = &target.relic else {
        return Ok(Vec::new());
    };
    let branch = target.raider.branch(relic, target.incarnation);
    let (sandbox, onto) = (world.city.sandbox(&target.raider), target.target.clone());
    let rig = &target.raider.rig;
    let strays = effects::repo(world, rig, move |repo| {
        repo.strays(&sandbox, &branch, &onto)
    });
    Ok(strays.await?)
}

/// Refuses a nuke that would lose them.
///
/// # Errors
/// What would be lost.
pub(super) async fn check(world: &World, target: &Target) -> Result<(), Refusal> {
    refuse(target, &strays(world, target).await?)
}

fn refuse(target: &Target, strays: &[Oid]) -> Result<(), Refusal> {
    if strays.is_empty() {
        return Ok(());
    }
    let line = |head: &Oid| {
        format!(
            "the sandbox is gone; unpushed commits up to {}",
            head.short()
        )
    };
    Err(at_risk(target, strays.iter().map(line).collect()))
}

/// Salvages them, where that is allowed. True when there were any.
///
/// # Errors
/// As [`check`], without `salvage`.
pub(super) async fn keep(world: &World, target: &Target, salvage: bool) -> Result<bool, Refusal> {
    let strays = strays(world, target).await?;
    if !salvage {
        refuse(target, &strays)?;
    }
    for head in &strays {
        keep_commit(world, target, head).await?;
    }
    Ok(!strays.is_empty())
}
