//! `prune`: ends one salvage, by an order or because it is older than `[retention] salvage`. Its refs go first, all of them or
//! none, and its row after them, so that a listed salvage exists or is just being deleted.
//!
//! ```text
//!   refs and their targets ─► intent ─► refs gone ─► row gone, journalled
//!                                         └── a ref was moved meanwhile: nothing is gone
//! ```

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::claims::{Claim, ClaimKey};
use super::super::effects;
use super::super::refusal::{Refusal, RefusalKind};
use super::super::world::World;
use super::{claimed, pack, unpack};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{Oid, RaiderId};
use crate::domain::saga::{FaultPoint, Saga, SagaKind};
use crate::ports::relics::{SalvageEntry, StoreError};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Plan {
    entry: SalvageEntry,
    /// Its refs and their targets.
    tips: Vec<(String, Oid)>,
    cause: Cause,
    /// The caller that asked for it, if any.
    #[serde(default)]
    by: Option<String>,
}

/// Returns the age of a salvage.
#[must_use]
pub fn age(world: &World, salvage: &str, created: Timestamp) -> Duration {
    world.age(&format!("salvage/{salvage}"), created)
}

/// Destroys a salvage.
///
/// # Errors
/// [`RefusalKind::Conflict`] while it is in use or what it holds may still be relied upon;
/// [`RefusalKind::NotFound`] when it, or its rig, is gone.
pub async fn prune(
    world: &World,
    entry: SalvageEntry,
    origin: impl Into<Origin>,
) -> Result<(), Refusal> {
    let used = || Refusal::conflict(format!("{} is in use", entry.id));
    let _alone = world
        .claims
        .claim(ClaimKey::Salvage(entry.id.clone()))
        .ok_or_else(used)?;
    let (saga, _until_run) = begin(world, entry.clone(), origin.into()).await?;
    run(world, saga).await
}

async fn begin(
    world: &World,
    entry: SalvageEntry,
    origin: Origin,
) -> Result<(Saga, Claim), Refusal> {
    let names = entry.refs.clone();
    let tips = effects::repo(world, &entry.rig, move |repo| repo.tips(&names)).await?;
    world.at(FaultPoint::PruneIntentBefore);
    let plan = Plan {
        entry,
        tips,
        cause: origin.cause(),
        by: origin.by().cloned(),
    };
    let claims = world.claims.clone();
    let begun = world.store.run(move |txn| {
        let entry = &plan.entry;
        if !txn.salvages()?.contains(entry) {
            return Err(missing(entry));
        }
        let raider = RaiderId::new(entry.rig.clone(), entry.raider.clone()).to_string();
        let mut sagas = txn.sagas(Some(&entry.rig))?.into_iter();
        if let Some(saga) = sagas.find(|saga| saga.subject == raider) {
            // A nuke may be about to remove a sandbox because this salvage holds its work.
            let why = format!("{raider} is busy: {} is running", saga.kind.as_str());
            return Err(StoreError::Conflict(why));
        }
        let (rig, data) = (&entry.rig, pack(&plan));
        let saga = txn.open_saga(SagaKind::Prune, rig, &entry.id, "intent", &data)?;
        claimed(&claims, saga)
    });
    let begun = begun.await?;
    world.at(FaultPoint::PruneIntentAfter);
    Ok(begun)
}

fn missing(entry: &SalvageEntry) -> StoreError {
    StoreError::NotFound {
        kind: "salvage",
        id: entry.id.clone(),
    }
}

/// Runs the saga to its end from its current step.
///
/// # Errors
/// Why the salvage was kept. The saga is closed then, except after a transient failure.
pub async fn run(world: &World, saga: Saga) -> Result<(), Refusal> {
    let Plan {
        entry,
        tips,
        cause,
        by,
    } = unpack(&saga)?;
    let doomed = tips.clone();
    let gone = effects::repo_for(world, &entry.rig, effects::WorkKind::Upkeep, move |repo| {
        repo.delete_refs(&doomed)
    })
    .await;
    let id = saga.id;
    if let Err(failure) = gone.map_err(Refusal::from) {
        // The salvage of an unconfigured rig is kept until the rig is configured again.
        let later = failure.is_passing() || failure.kind == RefusalKind::NotFound;
        if !later && !world.is_stopping() {
            world.store.run(move |txn| txn.close_saga(id)).await?;
        }
        return Err(failure);
    }
    world.at(FaultPoint::PruneDropBefore);
    let dropped = world.store.run(move |txn| {
        if txn.drop_salvage(&entry.id)? {
            let raider = RaiderId::new(entry.rig.clone(), entry.raider.clone());
            let refs: serde_json::Map<_, _> = tips
                .iter()
                .map(|(name, tip)| (name.clone(), tip.to_string().into()))
                .collect();
            let data = serde_json::json!({
                "id": entry.id, "refs": refs, "bytes": entry.bytes, "relic": entry.relic,
                "incarnation": entry.incarnation, "created": entry.created,
            });
            let origin = Origin::new(cause, by.clone());
            let event = NewEvent::new(EventType::SalvagePruned, raider, origin);
            txn.record(&event.with(data))?;
        }
        txn.close_saga(id)
    });
    dropped.await?;
    world.at(FaultPoint::PruneDropAfter);
    Ok(())
}
