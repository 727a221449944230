//! Relics whose raider does not exist: patrols do not find them, because nothing of the raider can be observed.

use crate::actors::records::slots;
use std::collections::BTreeSet;

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::world::World;
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::merge::MrState;
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// The observed sandboxes, and the rigs whose sandboxes could be listed.
pub(super) struct Sandboxes {
    seen: BTreeSet<RaiderId>,
    rigs: BTreeSet<RigName>,
}

impl Sandboxes {
    /// Lists the sandboxes of all rigs.
    pub(super) async fn list(world: &World) -> Self {
        let (mut seen, mut rigs) = (BTreeSet::new(), BTreeSet::new());
        for rig in &world.city.rigs {
            if let Ok(found) = effects::repo(world, &rig.name, |repo| repo.sandboxes()).await {
                let found = found.into_iter();
                seen.extend(found.map(|(name, _)| RaiderId::new(rig.name.clone(), name)));
                rigs.insert(rig.name.clone());
            }
        }
        Self { seen, rigs }
    }

    /// Returns true when the raider is known to have no sandbox.
    fn lack(&self, raider: &RaiderId) -> bool {
        self.rigs.contains(&raider.rig) && !self.seen.contains(raider)
    }
}

/// Returns relics that are hooked to a raider that does not exist. Queued work of that raider counts as owned until a
/// person rejects it: its end has consequences of its own.
///
/// # Errors
/// The store's.
pub(super) fn lost(
    txn: &mut dyn Txn,
    sandboxes: &Sandboxes,
) -> Result<Vec<(RelicId, RaiderId)>, StoreError> {
    let hooked = RelicFilter {
        status: Some(RelicStatus::Hooked),
        ..RelicFilter::default()
    };
    let held = slots::held(txn, None)?;
    let mut lost = Vec::new();
    for relic in txn.relics(&hooked)? {
        let raider = relic.assignee.as_deref().and_then(|who| who.parse().ok());
        let Some(raider) = raider else { continue };
        if held.contains(&raider) || !sandboxes.lack(&raider) {
            continue;
        }
        let mut mrs = txn.mrs_of(&relic.id)?.into_iter();
        if mrs.all(|mr| mr.state == MrState::Rejected) && txn.hook_of_relic(&relic.id)?.is_none() {
            lost.push((relic.id, raider));
        }
    }
    Ok(lost)
}

/// Opens the relic again, as a nuke of its raider would have.
///
/// # Errors
/// The relic has an owner by now, or the store's.
pub(super) async fn reopen(
    world: &World,
    id: RelicId,
    raider: RaiderId,
    asker: &Asker,
) -> Result<(), Refusal> {
    let (sandboxes, rig) = (Sandboxes::list(world).await, raider.rig.clone());
    let (meant, asker) = ((id.clone(), raider), asker.clone());
    let opened = world.store.run(move |txn| {
        if !lost(txn, &sandboxes)?.contains(&meant) {
            let why = format!("a raider works on {id} by now, or it is closed");
            return Err(StoreError::Conflict(why));
        }
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Open;
        relic.assignee = None;
        txn.put_relic(&relic)?;
        let data = serde_json::json!({ "status": "open" });
        let event = NewEvent::new(EventType::RelicUpdated, &relic.id, &asker);
        txn.record(&event.with(data)).map(drop)
    });
    opened.await?;
    // The relic may be charged at once.
    world.nudge(&message::witness(&rig));
    Ok(())
}
