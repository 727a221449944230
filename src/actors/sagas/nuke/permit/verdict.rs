//! The safety protocol's present judgement of a sandbox.

use jiff::Timestamp;

use super::measure::{facts_of, measure};
use crate::actors::effects;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::domain::facts::{GitFacts, Probed, RunState, SessionFacts};
use crate::domain::nuke::{Evidence, Judgement, LastSession, NukePermit, judge};

/// Measures and judges; no permit is needed when there is no sandbox.
pub(in crate::actors::sagas::nuke) async fn probe(
    world: &World,
    target: &NukeTarget,
    salvaged: Option<GitFacts>,
) -> Result<Option<NukePermit>, Refusal> {
    match facts_of(measure(world, target).await?).transpose() {
        None => Ok(None),
        Some(git) => probe_with(world, target, git, salvaged).await,
    }
}

pub(in crate::actors::sagas::nuke) async fn probe_with(
    world: &World,
    target: &NukeTarget,
    git: Probed<GitFacts>,
    salvaged: Option<GitFacts>,
) -> Result<Option<NukePermit>, Refusal> {
    let seen = session(world, target).await;
    permit(evidence(target, world, seen, git, salvaged), target).map(Some)
}

/// Returns the raider's last session.
pub(in crate::actors::sagas::nuke) async fn session(
    world: &World,
    target: &NukeTarget,
) -> Probed<Option<SessionFacts>> {
    match effects::facts(world, &target.raider.session_id()).await {
        Ok(Some(SessionFacts {
            state: RunState::Unknown { why },
            ..
        })) => Probed::Unknown(why),
        seen => seen.into(),
    }
}

pub(in crate::actors::sagas::nuke) fn evidence(
    target: &NukeTarget,
    world: &World,
    seen: Probed<Option<SessionFacts>>,
    git: Probed<GitFacts>,
    salvaged: Option<GitFacts>,
) -> Evidence {
    let last = seen.known().and_then(Option::as_ref);
    let session_runs = last.is_some_and(|last| last.state == RunState::Running);
    // Without a detection time it is now, but never before the session's start: clocks may be set back.
    let began = last.map_or(Timestamp::MIN, |last| last.started_at);
    let detected = target.detected;
    let detected = detected.unwrap_or_else(|| world.clock.now().max(began));
    let session = match seen {
        Probed::Unknown(why) => Probed::Unknown(why),
        Probed::Known(last) => Probed::Known(last.map(|last| LastSession {
            token: last.token,
            generation: last.generation,
        })),
    };
    Evidence {
        raider: target.raider.clone(),
        incarnation: target.incarnation,
        sandbox: world.city.sandbox(&target.raider),
        session,
        session_runs,
        git,
        salvaged,
        cause: target.cause,
        detected,
    }
}

pub(in crate::actors::sagas::nuke) fn permit(
    evidence: Evidence,
    target: &NukeTarget,
) -> Result<NukePermit, Refusal> {
    match judge(evidence) {
        Judgement::Permit(permit) => Ok(*permit),
        Judgement::Skip { losses, status } => Err(Refusal {
            status: Some(status),
            ..at_risk(target, losses)
        }),
        Judgement::Escalate { losses, status } => Err(Refusal {
            status,
            ..at_risk(target, losses)
        }),
    }
}

pub(in crate::actors::sagas::nuke) fn at_risk(target: &NukeTarget, losses: Vec<String>) -> Refusal {
    let message = format!("nuking {} would lose work", target.raider);
    let hint = "`--salvage` saves all of it that can be read under refs/horde/salvage and goes on";
    Refusal::work_at_risk(message, losses).hint(hint)
}
