//! Files hidden by ignore rules are removed with the sandbox, whatever else is salvaged (`product.md`, promise 1, is
//! about work): `hd raider nuke` lists them before a removal, and the journal after each.

use std::time::Duration;

use super::super::Plan;
use super::measure::measure;
use crate::actors::mail::NukeTarget;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::step;
use crate::actors::world::World;
use crate::domain::cause::Cause;
use crate::domain::facts::Probed;
use crate::domain::ignored::Ignored;
use crate::domain::saga::Saga;
use crate::ports::repo::Measurement;

/// The longest time that a refusal waits to name these files.
const LIMIT: Duration = Duration::from_secs(10);

/// Returns the sandbox's ignored files now, or that they cannot be listed.
pub(in crate::actors::sagas::nuke) async fn list(world: &World, target: &NukeTarget) -> Ignored {
    match tokio::time::timeout(LIMIT, measure(world, target)).await {
        Ok(Ok(measured)) => of(&measured),
        Ok(Err(refused)) => Ignored::unknown(refused.message),
        Err(_) => Ignored::unknown(format!("git did not answer within {LIMIT:?}")),
    }
}

/// Returns the ignored files of a measurement.
fn of(measured: &Probed<Option<Measurement>>) -> Ignored {
    match measured {
        Probed::Known(Some(measured)) => measured.ignored.clone(),
        // They are gone with the sandbox.
        Probed::Known(None) => Ignored::default(),
        Probed::Unknown(why) => Ignored::unknown(why),
    }
}

/// Journals the ignored files of a sandbox before its removal, so that a resumed removal finds them. An earlier list is
/// not replaced by an unknown one.
///
/// # Errors
/// The store's.
pub(in crate::actors::sagas::nuke) async fn record(
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

/// Adds the ignored files to the refusal of a removal that a person asked for.
pub async fn named(world: &World, target: &NukeTarget, refused: Refusal) -> Refusal {
    let mut refused = refused;
    if refused.kind == RefusalKind::WorkAtRisk && target.cause == Cause::Operator {
        refused.losses.extend(list(world, target).await.line());
    }
    refused
}
