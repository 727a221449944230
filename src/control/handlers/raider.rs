//! `raider.*`: who there is, and the two verbs that touch a sandbox.

use serde_json::{Value, json};

use super::{names, status, to_json};
use crate::actors::ask;
use crate::actors::sagas::nuke::{self, Target};
use crate::actors::sagas::repair;
use crate::actors::witness::WitnessMsg;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::args::{InRig, RaiderNuke};
use crate::domain::cause::Cause;
use crate::domain::relic::Hook;

/// Salvage of a large tree takes its time.
const NUKE_LIMIT: std::time::Duration = std::time::Duration::from_secs(900);

pub(super) async fn list(world: &World, args: InRig) -> Result<Value, ControlError> {
    let rig = names::rig_filter(world, args.rig.as_deref())?;
    Ok(Value::Array(status::raiders(world, rig.as_ref()).await?))
}

pub(super) async fn show(world: &World, name: &str) -> Result<Value, ControlError> {
    let hook = names::raider(world, name).await?;
    let raiders = status::raiders(world, Some(&hook.raider.rig)).await?;
    let id = hook.raider.to_string();
    let found = raiders
        .into_iter()
        .find(|raider| raider.get("id").is_some_and(|it| *it == id));
    // It may have gone between the two looks.
    found.ok_or_else(|| ControlError::not_found(format!("no raider named {name}")))
}

fn target(hook: &Hook) -> Target {
    Target {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        target: hook.target.clone(),
        cause: Cause::Operator,
        relic: Some(hook.relic.clone()),
    }
}

pub(super) async fn nuke(world: &World, args: RaiderNuke) -> Result<Value, ControlError> {
    let hook = names::raider(world, &args.name).await?;
    let target = target(&hook);
    if args.dry_run {
        return Ok(match nuke::check(world, &target).await {
            Ok(()) => json!({
                "raider": hook.raider, "safe": true, "losses": [], "status": null,
            }),
            Err(refused) => json!({
                "raider": hook.raider, "safe": false, "losses": refused.losses,
                "message": refused.message, "status": refused.status,
            }),
        });
    }
    let witness = world.directory.witness(&hook.raider.rig);
    let message = |reply| WitnessMsg::Nuke {
        target: Box::new(target),
        salvage: args.salvage,
        reply,
    };
    to_json(&ask::ask(witness, message, NUKE_LIMIT).await??)
}

pub(super) async fn repair(world: &World, name: &str) -> Result<Value, ControlError> {
    let raider = names::holder(world, name).await?;
    to_json(&repair::run(world, raider).await?)
}
