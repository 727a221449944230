//! Raiders that should work and have no session: they are stalled, too (`raider-lifecycle.md`), which is journalled
//! once each time, with the reason. The root or a person starts them again.

use std::collections::BTreeMap;

use super::super::world::World;
use crate::actors::mail::ChildView;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{ChildId, RaiderId, RigName};
use crate::domain::phase::WorkPhase;
use crate::ports::relics::{StoreError, Txn};

/// Returns the raiders without a session, with the reason. No work is expected of suspended raiders.
pub(super) fn sessionless(world: &World, views: &[ChildView]) -> BTreeMap<RaiderId, String> {
    let expected = views
        .iter()
        .filter(|view| !view.suspended && !world.city.suspends(&view.spec.id));
    let absent = expected.filter_map(|view| match &view.spec.id {
        ChildId::Raider(raider) => Some((raider.clone(), view.absence()?)),
        ChildId::Agent(_) => None,
    });
    absent.collect()
}

/// Journals absences that were not journalled yet. The store remembers each, so that it is journalled once.
///
/// # Errors
/// The store's.
pub(super) fn journal(
    txn: &mut dyn Txn,
    rig: &RigName,
    absent: &BTreeMap<RaiderId, String>,
) -> Result<(), StoreError> {
    for record in txn.raiders(Some(rig))? {
        let works = WorkPhase::of(&record).is_working();
        let hook = record.hook;
        let subject = hook.raider.to_string();
        let why = absent.get(&hook.raider).filter(|_| works);
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
