//! A nuke that fails again and again in a way that may pass: it is tried for ever, and after a few tries
//! a person knows.

use super::super::super::refusal::Refusal;
use super::super::super::world::World;
use super::super::step;
use super::Plan;
use crate::actors::records::escalations;
use crate::domain::message::{self, Escalation, Severity};
use crate::domain::problem::ProblemKind;
use crate::domain::saga::Saga;

/// As many as a charge has before it is given up.
const TRIES: u32 = 3;

/// Counts the tries of this step, and calls a person after a few; the shaman says it once.
///
/// # Errors
/// The store's.
pub(super) async fn count(
    world: &World,
    saga: &mut Saga,
    mut plan: Plan,
    failure: &Refusal,
) -> Result<(), Refusal> {
    let target = plan.target.clone();
    plan.tries += 1;
    let (tries, at) = (plan.tries, saga.step.clone());
    step(world, saga, at, &plan).await?;
    if tries < TRIES {
        return Ok(());
    }
    let body = Escalation {
        agent: target.raider.to_string(),
        relic: None,
        problem: ProblemKind::NukeStuck.into(),
        severity: Severity::High,
        evidence: format!("{failure}\nnothing is removed meanwhile; it is tried again and again"),
    };
    escalations::call(world, &message::witness(&target.raider.rig), body).await
}
