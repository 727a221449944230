//! A sandbox whose directory is gone: commits on its branch alone, and what git still has of it (staged files, commits
//! that it left behind, submodules), are as precious as the directory's contents (`product.md`, promise 1).

use super::super::salvage::{keep_commit, keep_remains};
use super::super::{at_risk, quota};
use super::measure::unreadable;
use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::facts::GitFacts;
use crate::domain::ids::Oid;
use crate::domain::nuke::{is_readable, losses};

/// Returns the commits that only the sandbox's branch or its HEAD holds.
pub(in crate::actors::sagas::nuke) async fn strays(
    world: &World,
    target: &NukeTarget,
) -> Result<Vec<Oid>, Refusal> {
    let Some(relic) = &target.relic else {
        return Ok(Vec::new());
    };
    let branch = target.raider.branch(relic, target.incarnation);
    let (sandbox, onto) = (world.city.sandbox(&target.raider), target.target.clone());
    let rig = &target.raider.rig;
    let strays = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.strays(&sandbox, &branch, &onto)
    });
    Ok(strays.await?)
}

/// Returns what git still has of the sandbox besides the commits of its branch, which are [`strays`], and stash
/// entries, which outlive it. A registration that a crash damaged is at risk until it is repaired.
async fn remains(world: &World, target: &NukeTarget) -> Result<Option<GitFacts>, Refusal> {
    let (sandbox, onto) = (world.city.sandbox(&target.raider), target.target.clone());
    let rig = &target.raider.rig;
    let left = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.remains(&sandbox, &onto)
    })
    .await;
    let left = match left.map_err(Refusal::from) {
        Err(error) if !error.is_passing() => return Err(unreadable(target, error.message)),
        left => left?,
    };
    let beside = |left: GitFacts| GitFacts {
        head_reachable: true,
        stashes: Vec::new(),
        ..left
    };
    Ok(left.map(beside).filter(|left| !left.is_clean()))
}

/// Refuses a nuke that would lose these. Returns what is salvaged unasked: commits that the agent left behind hold up
/// nothing.
///
/// # Errors
/// [`RefusalKind::WorkAtRisk`] with the losses.
pub(in crate::actors::sagas::nuke) async fn check(
    world: &World,
    target: &NukeTarget,
) -> Result<Vec<String>, Refusal> {
    let left = remains(world, target).await?;
    refuse(target, &strays(world, target).await?, left.as_ref())?;
    Ok(left.as_ref().map(losses).unwrap_or_default())
}

fn refuse(target: &NukeTarget, strays: &[Oid], left: Option<&GitFacts>) -> Result<(), Refusal> {
    let line = |head: &Oid| {
        format!(
            "the sandbox is gone; unpushed commits up to {}",
            head.short()
        )
    };
    let mut lines: Vec<String> = strays.iter().map(line).collect();
    let left = left.filter(|left| !left.is_committed() || !is_readable(left));
    lines.extend(left.map(losses).into_iter().flatten());
    if lines.is_empty() {
        return Ok(());
    }
    let refused = at_risk(target, lines);
    let raider = &target.raider;
    Err(match left {
        None => refused,
        Some(_) => refused.hint(format!(
            "`hd raider repair {raider}` restores the staged files; `--salvage` saves them and goes on"
        )),
    })
}

/// Refuses when there is no room for what would have to be salvaged.
///
/// # Errors
/// There is no room.
pub(in crate::actors::sagas::nuke) async fn savable(
    world: &World,
    target: &NukeTarget,
) -> Result<(), Refusal> {
    match remains(world, target).await? {
        Some(_) => quota::check(world, target).await,
        None => Ok(()),
    }
}

/// Returns the stash entries of a removed sandbox that no salvage has: they stay pinned. Those of a sandbox that was
/// there were saved with it. Empty, which the log says, where they cannot be read.
pub(in crate::actors::sagas::nuke) async fn stashes(
    world: &World,
    target: &NukeTarget,
) -> Vec<Oid> {
    let rig = &target.raider.rig;
    let pinned = effects::repo(world, rig, |repo| repo.pinned_stashes()).await;
    let pinned = pinned.unwrap_or_else(|error| {
        tracing::warn!(raider = %target.raider, %error, "the pinned stash entries cannot be read; the answer to the nuke names none");
        Vec::new()
    });
    let own = pinned.into_iter().filter(|entries| {
        entries.raider.as_ref() == Some(&target.raider)
            && entries.incarnation == Some(target.incarnation)
    });
    own.flat_map(|entries| entries.ids).collect()
}

/// Salvages these, where that is allowed.
///
/// # Errors
/// As [`check`], without `salvage`; there is no room.
pub(in crate::actors::sagas::nuke) async fn keep(
    world: &World,
    target: &NukeTarget,
    salvage: bool,
) -> Result<(), Refusal> {
    let left = remains(world, target).await?;
    if !salvage {
        refuse(target, &strays(world, target).await?, left.as_ref())?;
    }
    if left.is_some() {
        keep_remains(world, target).await?;
    }
    // What the first step has saved is no stray any more.
    for head in strays(world, target).await? {
        keep_commit(world, target, &head).await?;
    }
    Ok(())
}
