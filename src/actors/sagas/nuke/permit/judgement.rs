//! The judgement before a removal: nothing is touched until it allows the removal.

use super::super::quota;
use super::measure::{self, measure, saved_unasked, take};
use super::missing;
use super::verdict::{evidence, permit, session};
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::facts::{Probed, RunState, SessionFacts};
use crate::domain::nuke::{CleanupStatus, losses};
use crate::ports::repo::Measurement;

/// A removal that was judged, and may begin.
#[derive(Debug)]
pub struct Judged {
    pub(in crate::actors::sagas::nuke) target: NukeTarget,
    /// Set when salvage was requested.
    pub(in crate::actors::sagas::nuke) salvage: bool,
    pub(in crate::actors::sagas::nuke) rest: Option<Rest>,
}

/// The measurement taken while no session ran: ending a session does not change it.
#[derive(Debug)]
pub(in crate::actors::sagas::nuke) struct Rest {
    pub(in crate::actors::sagas::nuke) measured: Measurement,
    /// The token of the session that had ended before.
    last: Option<String>,
}

impl Rest {
    /// Returns the measurement, unless another session ran since.
    pub(in crate::actors::sagas::nuke) async fn still(
        self,
        world: &World,
        target: &NukeTarget,
    ) -> Option<Measurement> {
        let now = at_rest(&session(world, target).await)?;
        (now == self.last).then_some(self.measured)
    }
}

/// Returns the token of the last session, if none runs.
fn at_rest(seen: &Probed<Option<SessionFacts>>) -> Option<Option<String>> {
    match seen.known()? {
        Some(seen) if seen.state == RunState::Running => None,
        seen => Some(seen.as_ref().map(|seen| seen.token.clone())),
    }
}

/// Judges a raider that may still be working, before anything is done to it.
///
/// # Errors
/// As [`check`]'s; [`RefusalKind::NoRoom`] when there is no room for what is salvaged unasked.
pub async fn permitted(world: &World, target: NukeTarget) -> Result<Judged, Refusal> {
    let checked = checked(world, &target).await?;
    if !checked.saves.is_empty() {
        quota::check(world, &target).await?;
    }
    Ok(Judged {
        target,
        salvage: false,
        rest: checked.rest,
    })
}

/// Judges a removal with salvage, before anything is written: refuses what cannot be read, and what there is no room
/// for.
///
/// # Errors
/// [`RefusalKind::WorkAtRisk`] with the reason, [`RefusalKind::NoRoom`], or a transient failure.
pub async fn savable(world: &World, target: NukeTarget) -> Result<Judged, Refusal> {
    let seen = session(world, &target).await;
    let measured = take(world, &target).await.map_err(Refusal::from);
    match &measured {
        Ok(Some(found)) if CleanupStatus::measured(&found.facts) != CleanupStatus::Clean => {
            quota::check(world, &target).await?;
        }
        Ok(Some(_)) => {}
        Ok(None) => missing::savable(world, &target).await?,
        Err(passing) if passing.is_passing() => {}
        Err(error) => return Err(measure::unreadable(&target, error.message.clone())),
    }
    Ok(Judged {
        rest: rest(measured?, &seen),
        target,
        salvage: true,
    })
}

fn rest(measured: Option<Measurement>, seen: &Probed<Option<SessionFacts>>) -> Option<Rest> {
    let (measured, last) = (measured?, at_rest(seen)?);
    Some(Rest { measured, last })
}

/// The expected result of a removal.
pub(in crate::actors::sagas::nuke) struct Checked {
    /// The list, for people, of what it salvages unasked.
    pub(in crate::actors::sagas::nuke) saves: Vec<String>,
    rest: Option<Rest>,
}

/// Judges a raider that may still be working, without touching anything. Returns, for people, what a removal would
/// salvage unasked.
///
/// # Errors
/// [`RefusalKind::WorkAtRisk`] with what would be lost; a transient failure.
pub async fn check(world: &World, target: &NukeTarget) -> Result<Vec<String>, Refusal> {
    Ok(checked(world, target).await?.saves)
}

async fn checked(world: &World, target: &NukeTarget) -> Result<Checked, Refusal> {
    // A running session is ended before the sandbox is judged again.
    let seen = session(world, target).await;
    if let Probed::Unknown(why) = &seen {
        let message = format!(
            "it is unknown whether a session of {} runs: {why}",
            target.raider
        );
        return Err(Refusal::new(RefusalKind::Unavailable, message));
    }
    let Some(measured) = measure(world, target).await?.transpose() else {
        let saves = missing::check(world, target).await?;
        return Ok(Checked { saves, rest: None });
    };
    let measured = match measured {
        Probed::Known(measured) => measured,
        Probed::Unknown(why) => {
            let why = format!("the sandbox cannot be inspected: {why}");
            return Err(measure::unreadable(target, why));
        }
    };
    let git = &measured.facts;
    let saved = saved_unasked(world, target, git).await;
    let salvaged = saved.then(|| git.clone());
    let saves = salvaged.as_ref().map(losses).unwrap_or_default();
    let evidence = evidence(
        target,
        world,
        Probed::Known(None),
        Probed::Known(git.clone()),
        salvaged,
    );
    permit(evidence, target)?;
    let rest = rest(Some(measured), &seen);
    Ok(Checked { saves, rest })
}
