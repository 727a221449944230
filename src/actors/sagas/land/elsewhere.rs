//! A merge request that waits for its review while the target already has its work: a pull request was merged on the
//! host, say (`product.md`, human review).
//!
//! ```text
//!  the target has its commits, and a revert of them would change the target      ──► landed
//!  its commits change something, and to merge them changes nothing of the target ──► landed (squashed, or picked)
//!  else: not merged, merged and reverted, or changed since                       ──► it waits on
//! ```

use super::record::record_elsewhere;
use super::{land_request, save_commits};
use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::Oid;
use crate::domain::merge::{MergeOutcome, MergeRequest};
use crate::ports::relics::Txn;

/// Records a merge request as landed if the tip of its target has its work. Returns true if it has.
///
/// # Errors
/// The repository cannot be read now, or the store's.
pub async fn merged_elsewhere(
    world: &World,
    rig: &Rig,
    mr: MergeRequest,
    tip: &Oid,
) -> Result<bool, Refusal> {
    let Some(how) = evidence(world, rig, &mr, tip).await? else {
        return Ok(false);
    };
    save_commits(world, rig, &mr).await?;
    record_elsewhere(world, mr, tip.clone(), how).await
}

/// Returns how the target shows the work; none when it does not.
async fn evidence(
    world: &World,
    rig: &Rig,
    mr: &MergeRequest,
    tip: &Oid,
) -> Result<Option<&'static str>, Refusal> {
    // The tip was fetched for all merge requests that wait: to ask the remote for each would cost a fetch per request.
    let (own, head) = (tip.clone(), mr.head.clone());
    let landed = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.has(&own, &head)
    });
    if landed.await? {
        let Some(began) = began(world, mr).await? else {
            return Ok(Some("commits"));
        };
        let (head, tip) = (mr.head.clone(), tip.clone());
        let reverted =
            effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
                repo.is_reverted(&began, &head, &tip)
            });
        // Where it cannot be told, a person decides.
        return Ok((reverted.await? == Some(false)).then_some("commits"));
    }
    let (target, head) = (mr.target.clone(), mr.head.clone());
    let changed = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.changed_paths(&head, &target)
    });
    if changed.await?.is_empty() {
        // Its commits cancel each other: to merge them would change nothing of any target.
        return Ok(None);
    }
    let request = land_request(world, rig, mr, tip).await?;
    let merged = effects::repo_for(world, &rig.name, effects::WorkKind::Landing, move |repo| {
        repo.merge(&request)
    });
    Ok((merged.await? == MergeOutcome::Nothing).then_some("changes"))
}

/// Returns the tip of the target that the work was begun on, by this attempt or an earlier one.
async fn began(world: &World, mr: &MergeRequest) -> Result<Option<Oid>, Refusal> {
    let (own, relic) = (mr.began.clone(), mr.relic.clone());
    let read = move |txn: &mut dyn Txn| {
        let all = txn.mrs_of(&relic)?;
        Ok(own
            .clone()
            .or_else(|| all.into_iter().find_map(|mr| mr.began)))
    };
    Ok(world.store.run(read).await?)
}
