//! `charge.pause` and `charge.resume`: automatic charging by a person's order.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{names, to_json};
use crate::actors::records::auto_charge;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::Charging;
use crate::control::protocol::args::InRigFlag;
use crate::domain::asker::Asker;
use crate::domain::auto_charge::{CityIsPaused, Pause};
use crate::domain::city::City;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RigName;
use crate::domain::message;
use crate::domain::relic::{Relic, RelicKind};
use crate::ports::relics::{StoreError, Txn};

/// Returns why a task is not charged automatically, with what a person can do; none for a relic of another kind, or of no
/// configured rig.
pub(super) fn told(
    txn: &mut dyn Txn,
    city: &City,
    relic: &Relic,
) -> Result<Option<String>, StoreError> {
    let rig = city.rigs.iter().find(|rig| rig.prefix == relic.id.prefix());
    let Some(rig) = rig.filter(|_| relic.kind == RelicKind::Task) else {
        return Ok(None);
    };
    let waits = auto_charge::waits(txn, city, rig, relic)?;
    Ok(waits.map(|waits| waits.text(&relic.id, &rig.name)))
}

/// Pauses automatic charging of a rig, or of the city. Charges on request go on, as do those that have begun.
pub(super) async fn pause(
    world: &World,
    asker: Asker,
    args: InRigFlag,
) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    let (subject, of) = (subject(world, rig.as_ref()), rig.clone());
    let known: BTreeSet<RigName> = world.city.rigs.iter().map(|rig| rig.name.clone()).collect();
    let pause = move |txn: &mut dyn Txn| {
        let mut pauses = auto_charge::pauses(txn)?;
        pauses.keep(&known);
        let pause = Pause {
            since: txn.now(),
            by: asker.name.clone(),
        };
        let changed = pauses.pause(of.as_ref(), pause);
        if changed {
            auto_charge::put_pauses(txn, &pauses)?;
            txn.record(&NewEvent::new(EventType::ChargePaused, &subject, &asker))?;
        }
        Ok(changed)
    };
    let changed = world.store.run(pause).await?;
    to_json(&Charging {
        rig,
        paused: true,
        changed,
    })
}

/// Resumes automatic charging of a rig, or of all: the witnesses look for ready relics at once.
pub(super) async fn resume(
    world: &World,
    asker: Asker,
    args: InRigFlag,
) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    let (subject, of) = (subject(world, rig.as_ref()), rig.clone());
    let resume = move |txn: &mut dyn Txn| {
        let mut pauses = auto_charge::pauses(txn)?;
        let changed = match pauses.resume(of.as_ref()) {
            Ok(changed) => changed,
            Err(refused) => return Ok(Err(refused)),
        };
        if changed {
            auto_charge::put_pauses(txn, &pauses)?;
            txn.record(&NewEvent::new(EventType::ChargeResumed, &subject, &asker))?;
        }
        Ok(Ok(changed))
    };
    let changed = world.store.run(resume).await?;
    let changed = changed.map_err(|CityIsPaused| {
        ControlError::conflict("automatic charging is paused in the whole city")
            .hint("`hd charge resume` without --rig resumes it in every rig")
    })?;
    for rig in &world.city.rigs {
        world.nudge(&message::witness(&rig.name));
    }
    to_json(&Charging {
        rig,
        paused: false,
        changed,
    })
}

/// Returns the subject of the event: the rig or the city.
fn subject(world: &World, rig: Option<&RigName>) -> String {
    rig.map_or_else(|| world.city.name.clone(), ToString::to_string)
}
