//! The harness of a charge: the requested one, that of a label, or the rig's. Of several harnesses of a label, the one with
//! the better record is chosen (`domain/routing.rs`).

use std::sync::Arc;

use super::super::super::{accounts, usage};
use crate::actors::records::identities;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::city::Rig;
use crate::domain::ids::HarnessName;
use crate::domain::relic::Relic;
use crate::domain::routing::Choice;
use crate::domain::suggest::closest;
use crate::ports::relics::Txn;

/// Returns the harness of a charge: the requested one, else the rig's.
///
/// # Errors
/// [`RefusalKind::NotFound`] when there is none of that name.
pub fn known_harness(
    world: &World,
    rig: &Rig,
    asked: Option<&HarnessName>,
) -> Result<HarnessName, Refusal> {
    let harness = asked.unwrap_or(&rig.raiders.harness);
    let harnesses = &world.city.harnesses;
    if harnesses.contains_key(harness) {
        return Ok(harness.clone());
    }
    let known = || harnesses.keys().map(HarnessName::as_str);
    let message = format!("no harness named {harness}");
    let hint = match closest(harness.as_str(), known()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("harnesses: {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(Refusal::new(RefusalKind::NotFound, message).hint(hint))
}

/// Returns the harness for a relic, and the choice that gave it if there were several. A route by label is not kept with
/// the relic: its labels may change.
///
/// # Errors
/// [`RefusalKind::NotFound`] when there is no such harness; [`RefusalKind::Parked`] when none of them can take work now.
pub(super) async fn of_charge(
    world: &World,
    rig: &Rig,
    relic: &Relic,
    asked: Option<&HarnessName>,
) -> Result<(HarnessName, Option<Choice>), Refusal> {
    let routed = rig.raiders.route(&relic.labels);
    let (label, routed) = match (asked, routed) {
        (None, Some((label, routed))) if routed.len() > 1 => (label, routed),
        (asked, routed) => {
            let routed = routed.and_then(|(_, routed)| routed.first());
            let harness = known_harness(world, rig, asked.or(routed))?;
            can_take_work(world, rig, &harness).await?;
            return Ok((harness, None));
        }
    };
    let (mut open, mut refused) = (Vec::new(), None);
    for harness in routed {
        let known = known_harness(world, rig, Some(harness))?;
        match can_take_work(world, rig, &known).await {
            Ok(()) => open.push(known),
            Err(parked) if parked.kind == RefusalKind::Parked => refused = refused.or(Some(parked)),
            Err(other) => return Err(other),
        }
    }
    let (city, of, label) = (Arc::clone(&world.city), rig.name.clone(), label.to_owned());
    let choose = move |txn: &mut dyn Txn| identities::choose(txn, &city, &of, &label, &open);
    match (world.store.run(choose).await?, refused) {
        (Some(choice), _) => Ok((choice.harness.clone(), Some(choice))),
        (None, Some(parked)) => Err(parked),
        (None, None) => Err(Refusal::conflict("the label of the relic has no harness")),
    }
}

/// Checks that the account of a harness is open and no budget is spent.
async fn can_take_work(world: &World, rig: &Rig, harness: &HarnessName) -> Result<(), Refusal> {
    accounts::refuse_parked(world, harness)?;
    usage::afford(world, rig, harness).await
}
