//! Files that ignore rules hide go with the sandbox, whatever else is saved of it (`1-product.md`, promise
//! 1, is about work): a person learns which before, where one asks for the removal, and after each.

use std::time::Duration;

use super::super::super::refusal::{Refusal, RefusalKind};
use super::super::super::world::World;
use super::super::step;
use super::Plan;
use super::measure::measure;
use crate::actors::mail::NukeTarget;
use crate::domain::cause::Cause;
use crate::domain::facts::Probed;
use crate::domain::ignored::Ignored;
use crate::domain::saga::Saga;
use crate::ports::repo::Measurement;

/// No refusal waits longer to be able to name them.
const LIMIT: Duration = Duration::from_secs(10);

/// Those of the sandbox now. That they cannot be listed is said.
pub(super) async fn look(world: &World, target: &NukeTarget) -> Ignored {
    match tokio::time::timeout(LIMIT, measure(world, target)).await {
        Ok(measured) => of(&measured),
        Err(_) => Ignored::unknown(format!("git did not say it within {LIMIT:?}")),
    }
}

/// Those that a measurement shows.
fn of(measured: &Probed<Option<Measurement>>) -> Ignored {
    match measured {
        Probed::Known(Some(measured)) => measured.ignored.clone(),
        // With the sandbox they are gone, whichever there were.
        Probed::Known(None) => Ignored::default(),
        Probed::Unknown(why) => Ignored::unknown(why),
    }
}

/// Journals those of a sandbox that is about to go: whoever resumes the removal behind that finds them
/// here. What an earlier attempt saw is not forgotten for what a later one cannot see.
///
/// # Errors
/// The store's.
pub(super) async fn note(
    world: &World,
    saga: &mut Saga,
    plan: &mut Plan,
    measured: &Probed<Option<Measurement>>,
) -> Result<(), Refusal> {
    let now = of(measured);
    if now == plan.ignored || (plan.ignored.is_known() && !now.is_known()) {
        return Ok(());
    }
    plan.ignored = now;
    let at = saga.step.clone();
    step(world, saga, at, plan).await
}

/// The refusal of a removal that a person asked for, with what the removal would take along besides.
pub async fn named(world: &World, target: &NukeTarget, refused: Refusal) -> Refusal {
    let mut refused = refused;
    if refused.kind == RefusalKind::WorkAtRisk && target.cause == Cause::Operator {
        refused.losses.extend(look(world, target).await.line());
    }
    refused
}
