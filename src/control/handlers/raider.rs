//! `raider.*`: the list of raiders, and the two verbs that touch a sandbox.

use serde_json::Value;

use super::{names, status, to_json};
use crate::actors::ask;
use crate::actors::mail::{NukeTarget, WitnessMsg};
use crate::actors::sagas::nuke;
use crate::actors::sagas::repair;
use crate::actors::world::World;
use crate::control::protocol::args::{InRig, RaiderNuke};
use crate::control::protocol::{ControlError, ErrorKind, answers};
use crate::control::snapshot::Published;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::ids::{Incarnation, RigName};

/// The limit of a nuke: salvage of a large tree takes a while.
pub(super) const NUKE_LIMIT: std::time::Duration = std::time::Duration::from_secs(900);

pub(super) async fn list(
    published: &Published,
    world: &World,
    args: InRig,
) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    to_json(&all(published, world, rig.as_ref()).await?)
}

/// Returns the raiders of a rig, or of all.
async fn all(
    published: &Published,
    world: &World,
    rig: Option<&RigName>,
) -> Result<Vec<answers::Raider>, ControlError> {
    let snapshot = published.now(world).await?;
    let children = snapshot.children();
    let rigs = world.city.rigs.iter();
    let rigs = rigs.filter(|one| rig.is_none_or(|rig| one.name == *rig));
    let raiders = rigs.flat_map(|rig| status::of_rig(world, &snapshot, &children, rig));
    Ok(raiders.collect())
}

pub(super) async fn show(
    published: &Published,
    world: &World,
    name: &str,
) -> Result<Value, ControlError> {
    let hook = match names::raider(world, name).await {
        Err(other) if other.kind != ErrorKind::NotFound => return Err(other),
        hook => hook.ok(),
    };
    if let Some(hook) = &hook {
        names::configured(world, &hook.raider)?;
    }
    let mut found = all(published, world, None).await?;
    found.retain(|row| match &hook {
        Some(hook) => row.id == hook.raider,
        None => names::means(&row.id, name),
    });
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => to_json(&only),
        (Some(_), false) => Err(ControlError::conflict(format!(
            "several rigs have a raider {name}; use RIG/{name}"
        ))),
        // The raider may have gone between the two looks.
        (None, _) => Err(ControlError::not_found(format!("no raider named {name}"))
            .hint("`hd raider list` lists them")),
    }
}

/// Removes the raider of the given incarnation, whichever session it has by then: sessions may be replaced meanwhile,
/// and the safety protocol judges their work at the last moment.
pub(super) async fn nuke(
    world: &World,
    asker: Asker,
    args: RaiderNuke,
) -> Result<Value, ControlError> {
    let hook = match names::raider(world, &args.name).await {
        Ok(hook) => hook,
        Err(missing) => names::hookless(world, &args.name, missing).await?,
    };
    names::configured(world, &hook.raider)?;
    let meant = args.incarnation.map(Incarnation);
    if meant.is_some_and(|meant| meant != hook.incarnation) {
        let message = format!("{} is now at incarnation {}", hook.raider, hook.incarnation);
        let hint = "`--dry-run` shows what that incarnation would lose";
        return Err(ControlError::conflict(message).hint(hint));
    }
    let target = NukeTarget {
        asker: Some(asker),
        ..NukeTarget::of(&hook, Cause::Operator)
    };
    if args.dry_run {
        let rehearsed = nuke::rehearse(world, &target, args.salvage).await?;
        return to_json(&answers::Nuke::Rehearsed(rehearsed));
    }
    let witness = world.directory.witness(&hook.raider.rig);
    let message = |reply| WitnessMsg::Nuke {
        target: Box::new(target),
        salvage: args.salvage,
        reply,
    };
    let nuked = ask::ask(witness, message, NUKE_LIMIT).await??;
    to_json(&answers::Nuke::Done(nuked))
}

pub(super) async fn repair(world: &World, asker: Asker, name: &str) -> Result<Value, ControlError> {
    let raider = names::holder(world, name).await?;
    names::configured(world, &raider)?;
    to_json(&repair::run_for(world, raider, Some(&asker)).await?)
}
