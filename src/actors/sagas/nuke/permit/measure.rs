//! Measurements that a removal is judged by.

use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::facts::{GitFacts, Probed};
use crate::domain::nuke::{only_left_behind, only_unpushed};
use crate::ports::repo::{Measurement, RepoError, is_no_room};

/// Measures the sandbox; `Known(None)` when there is none.
///
/// # Errors
/// A transient failure, such as a rig that is held: it tells nothing of the sandbox, so nothing is judged by it.
pub(in crate::actors::sagas::nuke) async fn measure(
    world: &World,
    target: &NukeTarget,
) -> Result<Probed<Option<Measurement>>, Refusal> {
    let error = match take(world, target).await {
        Ok(measured) => return Ok(Probed::Known(measured)),
        Err(error) => error,
    };
    let why = error.to_string();
    match Refusal::from(error) {
        passing if passing.is_passing() => Err(passing),
        _ => Ok(Probed::Unknown(why)),
    }
}

/// Returns the facts of a measurement.
pub(in crate::actors::sagas::nuke) fn facts_of(
    measured: Probed<Option<Measurement>>,
) -> Probed<Option<GitFacts>> {
    match measured {
        Probed::Known(measured) => Probed::Known(measured.map(|measured| measured.facts)),
        Probed::Unknown(why) => Probed::Unknown(why),
    }
}

/// Builds the refusal for a sandbox that git cannot read.
#[must_use]
pub fn unreadable(target: &NukeTarget, why: String) -> Refusal {
    let raider = &target.raider;
    let message = format!("the content of the sandbox of {raider} can be neither read nor saved");
    if is_no_room(&why) {
        return Refusal::new(RefusalKind::Unavailable, format!("{message}: {why}"));
    }
    let hint = format!("run `hd raider repair {raider}` first");
    Refusal::work_at_risk(message, vec![why]).hint(hint)
}

/// Returns git's present facts; none when there is no sandbox.
///
/// # Errors
/// git cannot read the sandbox.
pub async fn facts(world: &World, target: &NukeTarget) -> Result<Option<GitFacts>, RepoError> {
    Ok(take(world, target).await?.map(|measured| measured.facts))
}

/// Measures the sandbox; none when there is none.
///
/// # Errors
/// git cannot read the sandbox.
pub(in crate::actors::sagas::nuke) async fn take(
    world: &World,
    target: &NukeTarget,
) -> Result<Option<Measurement>, RepoError> {
    let (sandbox, branch) = (world.city.sandbox(&target.raider), target.target.clone());
    let name = target.raider.name.clone();
    effects::repo_for(
        world,
        &target.raider.rig,
        effects::WorkKind::Sandbox,
        move |repo| {
            let mut names = repo.sandboxes()?.into_iter();
            let exists = names.any(|(found, _)| found == name);
            exists.then(|| repo.measure(&sandbox, &branch)).transpose()
        },
    )
    .await
}

/// Returns true when a removal salvages everything at risk unasked: commits that the agent itself left behind, or whose
/// patches a remote's target has (`witness-patrol.md`, verifyCommitOnMain). False when that is unknown.
pub(in crate::actors::sagas::nuke) async fn saved_unasked(
    world: &World,
    target: &NukeTarget,
    git: &GitFacts,
) -> bool {
    if !only_unpushed(git) {
        return only_left_behind(git);
    }
    let (raider, kept, now) = (
        &target.raider,
        &world.directory.unlanded,
        world.clock.mono(),
    );
    if target.cause != Cause::Operator && kept.is_known(raider, &git.head, now) {
        return false;
    }
    let (head, onto) = (git.head.clone(), target.target.clone());
    let asked = effects::repo_for(
        world,
        &raider.rig,
        effects::WorkKind::Network,
        move |repo| repo.on_main(&head, &onto),
    );
    let landed = asked.await;
    // An unknown answer is not cached: it is asked again.
    if landed == Ok(false) {
        kept.record(raider.clone(), git.head.clone(), now);
    }
    landed.unwrap_or(false)
}
