//! Relics whose raider is gone, or works on something else: patrols do not find them, because nothing of that raider can be
//! observed.

use std::collections::{BTreeMap, BTreeSet};

use super::super::effects;
use super::super::refusal::Refusal;
use super::super::world::World;
use crate::domain::asker::Asker;
use crate::domain::attempt::Attempt;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::merge::MrState;
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::SagaKind;
use crate::ports::relics::{RelicFilter, StoreError, Txn};

/// The observed sandboxes, and the rigs whose sandboxes could be listed.
pub(super) struct Sandboxes {
    /// The relic that each was made for; none where that cannot be read.
    seen: BTreeMap<RaiderId, Option<RelicId>>,
    rigs: BTreeSet<RigName>,
}

impl Sandboxes {
    /// Lists the sandboxes of all rigs.
    pub(super) async fn list(world: &World) -> Self {
        let (mut seen, mut rigs) = (BTreeMap::new(), BTreeSet::new());
        for rig in &world.city.rigs {
            let listed = effects::repo(world, &rig.name, |repo| {
                let found = repo.sandboxes()?.into_iter();
                let owned = found.map(|(name, dir)| {
                    let origin = repo.provenance(&dir).ok().flatten();
                    (name, origin.map(|origin| origin.relic))
                });
                Ok(owned.collect::<Vec<_>>())
            });
            if let Ok(found) = listed.await {
                let found = found.into_iter();
                seen.extend(
                    found.map(|(name, relic)| (RaiderId::new(rig.name.clone(), name), relic)),
                );
                rigs.insert(rig.name.clone());
            }
        }
        Self { seen, rigs }
    }

    /// Returns true when the raider is known to have no sandbox for this relic.
    fn lack(&self, raider: &RaiderId, relic: &RelicId) -> bool {
        let is_for_other = |owned: &Option<RelicId>| owned.as_ref().is_some_and(|it| it != relic);
        self.rigs.contains(&raider.rig) && self.seen.get(raider).is_none_or(is_for_other)
    }
}

/// Returns relics that are hooked to a raider that does not work on them, whatever else its slot holds by now.
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
    let mut lost = Vec::new();
    for relic in txn.relics(&hooked)? {
        let raider = relic.assignee.as_deref().and_then(|who| who.parse().ok());
        let Some(raider) = raider else { continue };
        let is_elsewhere = sandboxes.lack(&raider, &relic.id)
            && txn.hook_of_relic(&relic.id)?.is_none()
            && !is_being_removed(txn, &raider)?;
        if is_elsewhere && !is_submitted(txn, &relic.id, &raider)? {
            lost.push((relic.id, raider));
        }
    }
    Ok(lost)
}

/// Returns true while the sandbox of a raider without hook is removed, which opens its relic.
fn is_being_removed(txn: &mut dyn Txn, raider: &RaiderId) -> Result<bool, StoreError> {
    let removal = txn.saga_of(SagaKind::Nuke, &raider.to_string())?;
    Ok(removal.is_some() && txn.hook(raider)?.is_none())
}

/// Returns true when work of that raider on the relic is in the queue, or its end is not handled yet: that has consequences
/// of its own. A rejection or an earlier attempt has none.
fn is_submitted(txn: &mut dyn Txn, relic: &RelicId, raider: &RaiderId) -> Result<bool, StoreError> {
    let requests = txn.mrs_of(relic)?;
    if requests.iter().any(|mr| !mr.is_final()) {
        return Ok(true);
    }
    let Some(newest) = requests.last() else {
        return Ok(false);
    };
    let attempts = txn.attempts_of(relic, raider)?;
    let newer = |attempt: &Attempt| attempt.incarnation > newest.incarnation;
    let is_present = newest.raider == *raider && !attempts.iter().any(newer);
    Ok(match newest.state {
        MrState::Rejected => false,
        MrState::Merged => newest.settled_at.is_none(),
        _ => is_present,
    })
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
        let attempts = txn.attempts_of(&id, &meant.1)?;
        let newest = attempts
            .into_iter()
            .max_by_key(|attempt| attempt.incarnation);
        relic.assignee = newest.and_then(|attempt| attempt.assignee);
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
