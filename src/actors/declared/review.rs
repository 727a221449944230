//! The decision whether finished work needs a person's review before it is queued (`contract.md`, `review` and
//! `human_review_paths`).

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::world::World;
use crate::actors::mail::DoneRequest;
use crate::domain::city::ForgePolicy;
use crate::domain::ids::{Oid, RigName};
use crate::domain::relic::Completion;
use crate::ports::repo::RepoError;

/// A review that is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// The reason, for people; none when each merge request of the rig is reviewed.
    pub why: Option<String>,
}

/// Returns true when a person may have to review the work: its paths are known only when it is pushed.
#[must_use]
pub fn is_possible(world: &World, request: &DoneRequest) -> bool {
    let rig = world.city.rig(&request.raider.rig);
    let configured = rig.is_some_and(|rig| {
        let forge = &rig.forge;
        forge.review_human || !forge.human_review_paths.is_empty()
    });
    let lands = request.exit == Completion::Completed && !request.no_change;
    lands && (configured || request.wants_review)
}

/// Returns the review that a pushed head needs by the configuration of its rig. The paths are those that the head changes since
/// it left the target. The target is fetched before: work that was rebased would else have the changes of the target as its own.
/// With a remote that is away, the tip that was fetched last counts: older, it can only add paths.
///
/// # Errors
/// The repository is not available at present.
pub async fn needed(
    world: &World,
    rig: &RigName,
    head: &Oid,
    target: &str,
) -> Result<Option<Needed>, Refusal> {
    let paths = world.city.rig(rig).map(|rig| &rig.forge);
    let compares =
        |forge: &&ForgePolicy| !forge.review_human && !forge.human_review_paths.is_empty();
    if paths.filter(compares).is_some() {
        let branch = target.to_owned();
        let fetched = effects::repo_for(world, rig, effects::WorkKind::Network, move |repo| {
            repo.fetch_target(&branch)
        });
        if let Err(why) = fetched.await {
            tracing::debug!(%rig, target, %why, "the target of a review cannot be fetched; its known tip counts");
        }
    }
    by_known_tip(world, rig, head, target).await
}

/// Returns the review that a pushed head needs, compared with the tip of the target that was fetched last. Paths that cannot be
/// compared need one: a change must not land unseen because git fails.
///
/// # Errors
/// The repository is not available at present.
pub async fn by_known_tip(
    world: &World,
    rig: &RigName,
    head: &Oid,
    target: &str,
) -> Result<Option<Needed>, Refusal> {
    let Some(policy) = world.city.rig(rig).map(|rig| &rig.forge) else {
        return Ok(None);
    };
    if policy.review_human {
        return Ok(Some(Needed { why: None }));
    }
    if policy.human_review_paths.is_empty() {
        return Ok(None);
    }
    let (head, target) = (head.clone(), target.to_owned());
    let changed = effects::repo_for(world, rig, effects::WorkKind::Sandbox, move |repo| {
        repo.changed_paths(&head, &target)
    });
    let why = of_paths(policy, changed.await)?;
    Ok(why.map(|why| Needed { why: Some(why) }))
}

/// Returns why a change of these paths needs a review by `human_review_paths`; none when it needs none. Paths that cannot
/// be listed need one.
///
/// # Errors
/// The paths cannot be listed at present.
pub fn of_paths(
    policy: &ForgePolicy,
    changed: Result<Vec<String>, RepoError>,
) -> Result<Option<String>, Refusal> {
    match changed.map_err(Refusal::from) {
        Ok(changed) => Ok(policy.human_review_paths.reason(&changed)),
        Err(error) if error.is_passing() => Err(error),
        Err(error) => Ok(Some(format!(
            "its paths cannot be compared with human_review_paths ({error})"
        ))),
    }
}
