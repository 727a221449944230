//! Raiders that should work and have no session: they are stalled, too (`raider-lifecycle.md`), which is said
//! once each time, and why. Who starts them again is the root, or a person.

use std::collections::BTreeMap;

use super::super::world::World;
use crate::actors::mail::ChildView;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::ports::relics::{StoreError, Txn};

/// Those without a session, and why. Nobody expects work of who is suspended.
pub(super) fn absent(world: &World, views: &[ChildView]) -> BTreeMap<RaiderId, String> {
    let expected = views
        .iter()
        .filter(|view| !view.suspended && !world.city.suspends(&view.spec.id));
    let absent = expected.filter_map(|view| match &view.spec.id {
        ChildId::Raider(raider) => Some((raider.clone(), view.absence()?)),
        ChildId::Agent(_) => None,
    });
    absent.collect()
}

/// Says it of those of whom it was not said. What was said stands in the store, so that nobody says it again.
///
/// # Errors
/// The store's.
pub(super) fn note(
    txn: &mut dyn Txn,
    rig: &RigName,
    absent: &BTreeMap<RaiderId, String>,
) -> Result<(), StoreError> {
    let sagas = txn.sagas(Some(rig))?;
    for hook in txn.hooks(Some(rig))? {
        let subject = hook.raider.to_string();
        let busy = hook.done.is_some() || sagas.iter().any(|saga| saga.subject == subject);
        let mut why = absent.get(&hook.raider).filter(|_| !busy);
        if why.is_some() && !txn.relic(&hook.relic)?.status.is_bound() {
            why = None;
        }
        let key = format!("absent/{subject}");
        let now = why.map(|_| hook.incarnation.to_string());
        if txn.get(&key)? == now {
            continue;
        }
        txn.set(&key, now.as_deref())?;
        if let Some(why) = why {
            let data = serde_json::json!({
                "relic": hook.relic, "incarnation": hook.incarnation, "detail": why,
            });
            let event = NewEvent::new(EventType::RaiderStalled, &hook.raider, Cause::Patrol);
            txn.record(&event.with(data))?;
        }
    }
    Ok(())
}
