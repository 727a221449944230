//! `salvage.*`: the salvaged contents of removed sandboxes.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::{names, to_json};
use crate::actors::claims::ClaimKey;
use crate::actors::effects;
use crate::actors::refusal::Refusal;
use crate::actors::sagas::prune;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{Kept, Pruned, Restored, Salvage, ShownSalvage, Stashes};
use crate::control::protocol::args::{InRig, SalvagePrune, SalvageRestore};
use crate::domain::asker::Asker;
use crate::domain::ids::{Oid, RigName};
use crate::ports::relics::SalvageEntry;

pub(super) async fn list(world: &World, args: InRig) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    let entries = world.store.run(|txn| txn.salvages()).await?;
    let wanted = |entry: &SalvageEntry| rig.as_ref().is_none_or(|rig| &entry.rig == rig);
    let wanted = entries.into_iter().filter(wanted);
    let mut rows: Vec<Salvage> = wanted.map(Salvage::from).collect();
    let rigs: BTreeSet<RigName> = rows.iter().map(|row| row.rig.clone()).collect();
    for rig in rigs {
        let mut rows: Vec<_> = rows.iter_mut().filter(|row| row.rig == rig).collect();
        let names: Vec<String> = rows.iter().flat_map(|row| row.refs.clone()).collect();
        let Some(found) = present(world, &rig, names).await else {
            continue;
        };
        for row in &mut rows {
            row.present = Some(row.refs.iter().all(|name| found.contains(name)));
        }
    }
    to_json(&rows)
}

/// The time that a list waits for the repository of a rig.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Returns those of these refs whose commits the supervisor's repository of a rig has. None when it cannot be read now.
async fn present(world: &World, rig: &RigName, names: Vec<String>) -> Option<BTreeSet<String>> {
    let tips = effects::repo(world, rig, move |repo| repo.present_tips(&names));
    let tips = tokio::time::timeout(LOOK_LIMIT, tips).await.ok()?;
    let tips = tips.inspect_err(|error| {
        tracing::debug!(%rig, %error, "the salvages of a rig cannot be looked at; whether they are there is unknown");
    });
    Some(tips.ok()?.into_iter().map(|(name, _)| name).collect())
}

impl From<SalvageEntry> for Salvage {
    fn from(entry: SalvageEntry) -> Self {
        Self {
            id: entry.id,
            rig: entry.rig,
            raider: entry.raider,
            incarnation: entry.incarnation,
            relic: entry.relic,
            reason: entry.reason,
            created: entry.created,
            refs: entry.refs,
            bytes: entry.bytes,
            ignored: entry.ignored,
            work: entry.work,
            present: None,
        }
    }
}

/// Lists the stash entries that are kept without a sandbox and without a salvage.
pub(super) async fn pinned(world: &World, args: InRig) -> Result<Value, ControlError> {
    let wanted = names::rig_filter(world, args.rig.as_deref())?;
    let mut rows = Vec::new();
    for rig in world.city.rigs.iter().map(|rig| &rig.name) {
        if wanted.as_ref().is_some_and(|wanted| wanted != rig) {
            continue;
        }
        let pinned = effects::repo(world, rig, |repo| repo.pinned_stashes()).await;
        let pinned = pinned.map_err(Refusal::from)?.into_iter();
        rows.extend(pinned.map(|entries| Stashes {
            rig: rig.clone(),
            raider: entries.raider,
            incarnation: entries.incarnation,
            ids: entries.ids,
        }));
    }
    to_json(&rows)
}

async fn find(world: &World, id: &str) -> Result<SalvageEntry, ControlError> {
    pick(&world.store.run(|txn| txn.salvages()).await?, id)
}

fn pick(entries: &[SalvageEntry], id: &str) -> Result<SalvageEntry, ControlError> {
    let found = entries.iter().find(|entry| entry.id == id);
    found.cloned().ok_or_else(|| {
        ControlError::not_found(format!("no salvage {id}")).hint("`hd salvage list` lists them")
    })
}

pub(super) async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    let entry = find(world, id).await?;
    let ids = stash_ids(world, &entry).await.map_err(|error| {
        tracing::debug!(salvage = %entry.id, %error, "the ids of its stash entries cannot be read; they are not shown");
    });
    to_json(&ShownSalvage {
        salvage: entry.into(),
        stash_ids: ids.ok(),
    })
}

/// Returns the commits of the stash entries of a salvage. Their refs are in the supervisor's repository only, so a
/// restored worktree knows the entries by their ids.
async fn stash_ids(world: &World, entry: &SalvageEntry) -> Result<Vec<Oid>, Refusal> {
    let names: Vec<String> = stashes(&entry.refs).cloned().collect();
    let tips = effects::repo(world, &entry.rig, move |repo| repo.present_tips(&names)).await?;
    Ok(tips.into_iter().map(|(_, id)| id).collect())
}

fn stashes(refs: &[String]) -> impl Iterator<Item = &String> {
    refs.iter().filter(|name| is_stash(name))
}

fn is_stash(name: &str) -> bool {
    name.contains("/stash-")
}

/// Makes a worktree equal to the salvaged sandbox.
pub(super) async fn restore(world: &World, args: SalvageRestore) -> Result<Value, ControlError> {
    let entry = find(world, &args.id).await?;
    if world.city.rig(&entry.rig).is_none() {
        let message = format!("rig {} of this salvage is not configured", entry.rig);
        let hint = format!(
            "`hd rig add PATH --name {}` makes its repository usable again",
            entry.rig
        );
        return Err(ControlError::not_found(message).hint(hint));
    }
    let used = || Refusal::conflict(format!("{} is in use", entry.id));
    let claim = world.claims.claim(ClaimKey::Salvage(entry.id.clone()));
    let _not_pruned_meanwhile = claim.ok_or_else(used)?;
    let to = match args.to {
        Some(dir) => world.city.root.join(dir),
        None => world
            .city
            .rig_dir(&entry.rig)
            .join("restored")
            .join(&entry.id),
    };
    let record = entry.record();
    let path = to.clone();
    let restored = effects::repo_for(world, &entry.rig, effects::WorkKind::Sandbox, move |repo| {
        repo.restore(&record, &path)
    })
    .await;
    restored.map_err(Refusal::from)?;
    let names = entry.refs.clone();
    let found = effects::repo(world, &entry.rig, move |repo| repo.present_tips(&names)).await;
    let found = found.map_err(Refusal::from)?;
    let (names, ids): (Vec<String>, Vec<Oid>) = found.into_iter().unzip();
    let stash_ids = names.iter().zip(&ids).filter(|(name, _)| is_stash(name));
    to_json(&Restored {
        path: to,
        stashes: stashes(&names).cloned().collect(),
        stash_ids: stash_ids.map(|(_, id)| id.clone()).collect(),
        lost: entry
            .refs
            .iter()
            .filter(|name| !names.contains(name))
            .cloned()
            .collect(),
        id: entry.id,
        refs: entry.refs,
    })
}

/// Destroys the named salvages, or else those that are old enough. A salvage that cannot be destroyed now stays whole
/// and holds up no other.
pub(super) async fn prune(
    world: &World,
    asker: Asker,
    args: SalvagePrune,
) -> Result<Value, ControlError> {
    let entries = world.store.run(|txn| txn.salvages()).await?;
    let named = !args.id.is_empty();
    let (mut pruned, mut kept) = (Vec::new(), Vec::new());
    for entry in doomed(world, entries, args)? {
        match prune::prune(world, entry.clone(), &asker).await {
            Ok(()) => pruned.push(entry.into()),
            Err(error) if error.is_passing() => return Err(error.into()),
            Err(error) => kept.push(Kept {
                id: entry.id,
                why: error.message,
            }),
        }
    }
    if named && !kept.is_empty() {
        let lines = kept
            .iter()
            .map(|Kept { id, why }| format!("\n  {id}: {why}"));
        let lines: String = lines.collect();
        return Err(Refusal::conflict(format!("some salvages could not be pruned:{lines}")).into());
    }
    to_json(&Pruned { pruned, kept })
}

fn doomed(
    world: &World,
    mut entries: Vec<SalvageEntry>,
    mut args: SalvagePrune,
) -> Result<Vec<SalvageEntry>, ControlError> {
    if !args.id.is_empty() {
        if args.older_than.is_some() {
            let message = "give salvage ids or an age, not both";
            return Err(ControlError::bad_request(message));
        }
        args.id.sort();
        args.id.dedup();
        return args.id.iter().map(|id| pick(&entries, id)).collect();
    }
    let age = match (args.older_than, world.city.retention.salvage) {
        (Some(text), _) => humantime::parse_duration(&text).map_err(|_| {
            ControlError::bad_request(format!("older_than {text:?} is not a duration"))
                .hint("durations have a unit: \"12h\", \"30d\"")
        })?,
        (None, Some(age)) => age,
        (None, None) => {
            let message = "no salvages are selected";
            return Err(ControlError::bad_request(message)
                .hint("give their ids, pass --older-than, or set `[retention] salvage`"));
        }
    };
    let now = world.clock.now();
    entries.retain(|entry| {
        let due = entry.created.checked_add(age);
        due.is_ok_and(|due| due <= now)
    });
    Ok(entries)
}
