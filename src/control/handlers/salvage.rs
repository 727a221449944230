//! `salvage.*`: what removed sandboxes contained.

use serde_json::{Value, json};

use super::{names, to_json};
use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::args::{InRig, SalvageRestore};
use crate::ports::relics::SalvageEntry;
use crate::ports::repo::SalvageRecord;

pub(super) async fn list(world: &World, args: InRig) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    let entries = world.store.run(|txn| txn.salvages()).await?;
    let wanted = |entry: &SalvageEntry| rig.as_ref().is_none_or(|rig| &entry.rig == rig);
    to_json(&entries.into_iter().filter(wanted).collect::<Vec<_>>())
}

async fn find(world: &World, id: &str) -> Result<SalvageEntry, ControlError> {
    let entries = world.store.run(|txn| txn.salvages()).await?;
    let found = entries.into_iter().find(|entry| entry.id == id);
    found.ok_or_else(|| {
        ControlError::not_found(format!("no salvage {id}"))
            .hint("`hd salvage list` shows what there is")
    })
}

pub(super) async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    to_json(&find(world, id).await?)
}

/// Makes a worktree that is as the sandbox was.
pub(super) async fn restore(world: &World, args: SalvageRestore) -> Result<Value, ControlError> {
    let entry = find(world, &args.id).await?;
    let to = match args.to {
        Some(dir) => world.city.root.join(dir),
        None => world
            .city
            .rig_dir(&entry.rig)
            .join("restored")
            .join(&entry.id),
    };
    let record = SalvageRecord {
        id: entry.id.clone(),
        refs: entry.refs.clone(),
        bytes: entry.bytes,
        ignored: entry.ignored.clone(),
    };
    let path = to.clone();
    let restored = effects::repo(world, &entry.rig, move |repo| repo.restore(&record, &path)).await;
    restored.map_err(Refusal::from)?;
    let stashes: Vec<_> = entry
        .refs
        .iter()
        .filter(|name| name.contains("/stash"))
        .collect();
    Ok(json!({ "id": entry.id, "path": to, "stashes": stashes, "refs": entry.refs }))
}
