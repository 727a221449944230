//! The branches that work lands on or is pushed to, as their remotes have them.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::actors::effects;
use crate::actors::rig_settings;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::doctor::{Finding, Kind};

/// The time for an answer of a remote. A person waits for it; all remotes are asked at once.
const LIMIT: Duration = Duration::from_secs(10);
/// The first part of the names of raiders' branches.
const RAIDERS: &str = "raider";

/// Returns what the remotes of the rigs lack or have that keeps work from being pushed or landed. A remote that is away, or
/// does not answer in time, is no fault of the city. A rig that pushes nothing has its branches in the supervisor's own
/// repository.
pub(super) async fn faults(world: &World) -> Vec<Finding> {
    let pushes = |rig: &&Rig| rig.forge.push && !rig.draining;
    let rigs = world.city.rigs.iter().filter(pushes);
    let asked = rigs.map(|rig| async move {
        let (missing, in_the_way) = (missing(world, rig), in_the_way(world, rig));
        let (missing, in_the_way) =
            tokio::join!(timeout(LIMIT, missing), timeout(LIMIT, in_the_way));
        [missing.ok().flatten(), in_the_way.ok().flatten()]
    });
    join_all(asked)
        .await
        .into_iter()
        .flatten()
        .flatten()
        .collect()
}

/// Finds a configured target branch that the remote does not have: no work can be charged or land. A change of a default
/// branch that was discovered is told at the next charge.
async fn missing(world: &World, rig: &Rig) -> Option<Finding> {
    if rig.forge.target.is_none() && rig.default_branch.is_none() {
        return None;
    }
    let target = rig_settings::target(world, rig).await.ok()?;
    if has_branch(world, rig, target.clone()).await? {
        return None;
    }
    let says = format!("its remote has no branch {target}, which its work would land on");
    let hint = "push that branch, or set `target` of [rigs.forge] or `default_branch` of the rig";
    Some(Finding::new(Kind::Repository, &rig.name, says, hint))
}

/// Finds a branch in the place of the raiders' branches, for which git makes none of them.
async fn in_the_way(world: &World, rig: &Rig) -> Option<Finding> {
    if !has_branch(world, rig, RAIDERS.to_owned()).await? {
        return None;
    }
    let says = format!("its remote has a branch {RAIDERS}: no branch of a raider can be pushed");
    let hint =
        "rename that branch at the remote: the names of raiders' branches begin with raider/";
    Some(Finding::new(Kind::Repository, &rig.name, says, hint))
}

/// Returns whether the remote has a branch; none if it is away.
async fn has_branch(world: &World, rig: &Rig, branch: String) -> Option<bool> {
    let head = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.remote_head(&branch)
    });
    head.await.ok().map(|head| head.is_some())
}
