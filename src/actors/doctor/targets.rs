//! The branches that work lands on, as their remotes have them.

use crate::actors::effects;
use crate::actors::rig_settings;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::doctor::{Finding, Kind};

/// Returns the rigs whose target branch the remote does not have: no work of them can be charged or land. A remote that is
/// away is no fault of the city, and a rig that pushes nothing has its target in the supervisor's own repository.
pub(super) async fn missing(world: &World) -> Vec<Finding> {
    let mut found = Vec::new();
    let pushes = |rig: &&Rig| rig.forge.push && !rig.draining;
    for rig in world.city.rigs.iter().filter(pushes) {
        let Ok(target) = rig_settings::target(world, rig).await else {
            continue;
        };
        let branch = target.clone();
        let head = effects::repo_for(world, &rig.name, effects::WorkKind::Network, move |repo| {
            repo.remote_head(&branch)
        });
        if let Ok(None) = head.await {
            let says = format!("its remote has no branch {target}, which its work would land on");
            let hint =
                "push that branch, or set `target` of [rigs.forge] or `default_branch` of the rig";
            found.push(Finding::new(Kind::Repository, &rig.name, says, hint));
        }
    }
    found
}
