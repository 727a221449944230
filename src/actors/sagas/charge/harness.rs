//! The harness of a charge: the requested one, that of a label, or the rig's. Of several harnesses of a label, the one
//! with the better record is chosen (`domain/routing.rs`).

use super::super::super::{accounts, usage};
use crate::actors::records::identities;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::world::World;
use crate::domain::city::{City, Rig};
use crate::domain::ids::{HarnessName, RigName};
use crate::domain::relic::Relic;
use crate::domain::routing::Choice;
use crate::domain::suggest::closest;
use crate::ports::relics::{StoreError, Txn};

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

/// The harnesses that a relic may be charged to now: one, or several of a label.
pub(super) struct Candidates {
    harnesses: Vec<HarnessName>,
    label: Option<String>,
}

impl Candidates {
    /// Chooses among several by the records of their identities, and counts the choice. In the transaction that takes the
    /// slot: charges that begin at the same time have different numbers.
    ///
    /// # Errors
    /// The store's.
    pub fn choose(
        &self,
        txn: &mut dyn Txn,
        city: &City,
        rig: &RigName,
    ) -> Result<(HarnessName, Option<Choice>), StoreError> {
        let choice = match &self.label {
            Some(label) => identities::choose(txn, city, rig, label, &self.harnesses)?,
            None => None,
        };
        let chosen = choice.as_ref().map(|choice| &choice.harness);
        let missing = || StoreError::Failed("a charge has no harness".to_owned());
        let harness = chosen.or(self.harnesses.first()).ok_or_else(missing)?;
        Ok((harness.clone(), choice))
    }
}

/// Returns the harnesses that a relic may be charged to now. A route by label is not kept with the relic: its labels may
/// change.
///
/// # Errors
/// [`RefusalKind::NotFound`] when there is no such harness; [`RefusalKind::Parked`] when none of them can take work now.
pub(super) async fn candidates(
    world: &World,
    rig: &Rig,
    relic: &Relic,
    asked: Option<&HarnessName>,
) -> Result<Candidates, Refusal> {
    let routed = rig.raiders.route(&relic.labels);
    let (label, routed) = match (asked, routed) {
        (None, Some((label, routed))) if routed.len() > 1 => (label, routed),
        (asked, routed) => {
            let routed = routed.and_then(|(_, routed)| routed.first());
            let harness = known_harness(world, rig, asked.or(routed))?;
            can_take_work(world, rig, &harness).await?;
            return Ok(Candidates {
                harnesses: vec![harness],
                label: None,
            });
        }
    };
    let (mut harnesses, mut refused) = (Vec::new(), None);
    for harness in routed {
        let known = known_harness(world, rig, Some(harness))?;
        match can_take_work(world, rig, &known).await {
            Ok(()) => harnesses.push(known),
            Err(parked) if parked.kind == RefusalKind::Parked => refused = refused.or(Some(parked)),
            Err(other) => return Err(other),
        }
    }
    match refused {
        Some(parked) if harnesses.is_empty() => Err(parked),
        _ => Ok(Candidates {
            harnesses,
            label: Some(label.to_owned()),
        }),
    }
}

/// Checks that the account of a harness is open and no budget is spent.
async fn can_take_work(world: &World, rig: &Rig, harness: &HarnessName) -> Result<(), Refusal> {
    accounts::refuse_parked(world, harness)?;
    usage::afford(world, rig, harness).await
}
