//! The branches that work lands on, as their remotes have them.

use std::time::Duration;

use futures_util::future::join_all;

use crate::actors::effects;
use crate::actors::rig_settings;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::doctor::{Finding, Kind};

/// The time for the answers of all remotes. A person waits for them.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns the rigs whose configured target branch the remote does not have: no work of them can be charged or land. A remote
/// that is away, or does not answer in time, is no fault of the city. A rig that pushes nothing has its target in the
/// supervisor's own repository, and a change of a default branch that was discovered is told at the next charge.
pub(super) async fn missing(world: &World) -> Vec<Finding> {
    let is_asked = |rig: &&Rig| {
        let is_named = rig.forge.target.is_some() || rig.default_branch.is_some();
        is_named && rig.forge.push && !rig.draining
    };
    let rigs = world.city.rigs.iter().filter(is_asked);
    let asked = rigs.map(|rig| async move {
        let found = tokio::time::timeout(LIMIT, missing_of(world, rig)).await;
        found.ok().flatten()
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn missing_of(world: &World, rig: &Rig) -> Option<Finding> {
    let target = rig_settings::target(world, rig).await.ok()?;
    let branch = target.clone();
    let head = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
        repo.remote_head(&branch)
    });
    if !matches!(head.await, Ok(None)) {
        return None;
    }
    let says = format!("its remote has no branch {target}, which its work would land on");
    let hint = "push that branch, or set `target` of [rigs.forge] or `default_branch` of the rig";
    Some(Finding::new(Kind::Repository, &rig.name, says, hint))
}
