//! `auto.*`: automations.

use std::time::Duration;

use serde_json::{Value, json};

use super::to_json;
use crate::actors::ask;
use crate::actors::boards::Role;
use crate::actors::mail::DispatcherMsg;
use crate::actors::records::automations;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::domain::automation::{Automation, Mark, Run};
use crate::domain::gates::When;

/// The limit of recording a start, which is one commit.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);
/// The number of runs that `auto.history` shows of all automations together.
const SHOWN: usize = 200;

/// Returns every automation, also as `status` shows it.
pub(super) async fn list(world: &World) -> Result<Vec<Value>, ControlError> {
    let automations = world.city.automations.clone();
    let seen = world.store.run(move |txn| {
        let seen = automations.iter().map(|automation| {
            let mark = automations::recall(txn, automation)?;
            let last = txn.runs(Some(&automation.id), 1)?.pop();
            Ok((automation.clone(), mark, last))
        });
        seen.collect::<Result<Vec<_>, _>>()
    });
    let seen = seen.await?;
    let line = |(automation, mark, last): &(Automation, Mark, Option<Run>)| {
        line(world, automation, mark, last.as_ref())
    };
    Ok(seen.iter().map(line).collect())
}

fn line(world: &World, automation: &Automation, mark: &Mark, last: Option<&Run>) -> Value {
    let now = world.clock.now();
    let checked = world.directory.automations.last_check(&automation.id);
    let next = match automation.next_opening(mark, last, checked, now) {
        When::Now => Some(now),
        When::At(time) => Some(time),
        When::Never => None,
    };
    json!({
        "name": automation.id, "rig": automation.id.rig, "description": automation.description,
        "gate": automation.gate.word(), "enabled": automation.enabled && !mark.disabled,
        "last": last.map(|run| run.started), "last_state": last.map(|run| run.state),
        "next": next, "running": world.directory.automations.is_busy(&automation.id, Role::Run),
    })
}

/// Finds the automation of this name; that of a rig also without the rig, if the name is unique.
fn find<'a>(world: &'a World, name: &str) -> Result<&'a Automation, ControlError> {
    let all = &world.city.automations;
    if let Some(exact) = all.iter().find(|one| one.id.to_string() == name) {
        return Ok(exact);
    }
    let short: Vec<_> = all
        .iter()
        .filter(|one| one.id.name.as_str() == name)
        .collect();
    match short.as_slice() {
        [only] => Ok(only),
        [] => Err(ControlError::not_found(format!("no automation {name}"))
            .hint("`hd auto list` lists them")),
        several => {
            let ids: Vec<_> = several.iter().map(|one| one.id.to_string()).collect();
            let ids = ids.join(" or ");
            Err(ControlError::conflict(format!(
                "{name} is ambiguous: {ids}"
            )))
        }
    }
}

/// Starts a run. Returns when the start is recorded; `seq` is the number of its first event.
pub(super) async fn run(world: &World, name: &str) -> Result<Value, ControlError> {
    let id = find(world, name)?.id.clone();
    let message = |reply| DispatcherMsg::Run(id, reply);
    let begun = ask::ask(world.directory.dispatcher(), message, BEGIN_LIMIT).await?;
    let (run, seq) = begun?;
    Ok(json!({ "name": run.automation, "run": run.id, "started": run.started, "seq": seq }))
}

/// Returns the runs, the newest first.
pub(super) async fn history(world: &World, name: Option<&str>) -> Result<Value, ControlError> {
    let of = name.map(|name| find(world, name)).transpose()?;
    let of = of.map(|automation| automation.id.clone());
    let runs = world.store.run(move |txn| txn.runs(of.as_ref(), SHOWN));
    to_json(&runs.await?)
}

/// Enables or disables the automation; kept over restarts.
pub(super) async fn switch(world: &World, name: &str, on: bool) -> Result<Value, ControlError> {
    let automation = find(world, name)?.clone();
    if on && !automation.enabled {
        let message = format!("the file of {} says `enabled = false`", automation.id);
        return Err(ControlError::conflict(message)
            .hint("remove that line; `hd auto run` runs it in any case"));
    }
    let id = automation.id.clone();
    let switched = world
        .store
        .run(move |txn| automations::switch(txn, &automation, on));
    switched.await?;
    world.directory.tell_dispatcher(DispatcherMsg::Look);
    Ok(json!({ "name": id, "enabled": on }))
}
