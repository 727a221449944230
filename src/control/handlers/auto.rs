//! `auto.*`: automations.

use std::time::Duration;

use serde_json::Value;

use super::to_json;
use crate::actors::ask;
use crate::actors::boards::Role;
use crate::actors::mail::DispatcherMsg;
use crate::actors::records::automations;
use crate::actors::world::World;
use crate::control::protocol::{ControlError, answers};
use crate::control::snapshot::{self, Seen};
use crate::domain::asker::Asker;
use crate::domain::automation::Automation;
use crate::domain::gates::When;

/// The limit of recording a start, which is one commit.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);
/// The number of runs that `auto.history` shows of all automations together.
const SHOWN: usize = 200;

/// Returns every automation.
pub(super) async fn list(world: &World) -> Result<Value, ControlError> {
    let seen = snapshot::automations(world).await?;
    to_json(&rows(world, &seen))
}

/// Returns the automations, as `status` shows them too.
pub(super) fn rows(world: &World, seen: &[Seen]) -> Vec<answers::Automation> {
    seen.iter().map(|seen| row(world, seen)).collect()
}

fn row(world: &World, (automation, mark, last, waiting): &Seen) -> answers::Automation {
    let (now, last) = (world.clock.now(), last.as_ref());
    let checked = world.directory.automations.last_check(&automation.id);
    let next = match automation.next_opening(mark, last, checked, now) {
        When::Now => Some(now),
        When::At(time) => Some(time),
        When::Never => None,
    };
    answers::Automation {
        name: automation.id.to_string(),
        rig: automation.id.rig.as_ref().map(ToString::to_string),
        description: automation.description.clone(),
        gate: automation.gate.kind().to_string(),
        enabled: automation.enabled && !mark.disabled,
        last: last.map(|run| run.started),
        last_state: last.map(|run| run.state),
        next,
        running: world
            .directory
            .automations
            .is_busy(&automation.id, Role::Run),
        waits_for_place: world.directory.automations.waits_for_place(&automation.id),
        waiting_events: *waiting,
    }
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
pub(super) async fn run(world: &World, asker: Asker, name: &str) -> Result<Value, ControlError> {
    let id = find(world, name)?.id.clone();
    let message = |reply| DispatcherMsg::Run(id, asker, reply);
    let begun = ask::ask(world.directory.dispatcher(), message, BEGIN_LIMIT).await?;
    let (run, seq) = begun?;
    to_json(&answers::BegunRun {
        name: run.automation,
        run: run.id,
        started: run.started,
        seq,
    })
}

/// Returns the runs, the newest first.
pub(super) async fn history(world: &World, name: Option<&str>) -> Result<Value, ControlError> {
    let of = name.map(|name| find(world, name)).transpose()?;
    let of = of.map(|automation| automation.id.clone());
    let runs = world.store.run(move |txn| txn.runs(of.as_ref(), SHOWN));
    let runs = runs.await?.into_iter();
    to_json(&runs.map(answers::PastRun::from).collect::<Vec<_>>())
}

/// Enables or disables the automation; kept over restarts.
pub(super) async fn switch(
    world: &World,
    asker: Asker,
    name: &str,
    on: bool,
) -> Result<Value, ControlError> {
    let automation = find(world, name)?.clone();
    if on && !automation.enabled {
        let message = format!("the file of {} says `enabled = false`", automation.id);
        return Err(ControlError::conflict(message)
            .hint("remove that line; `hd auto run` runs it in any case"));
    }
    let id = automation.id.clone();
    let switched = world
        .store
        .run(move |txn| automations::switch(txn, &automation, on, &asker));
    switched.await?;
    world.directory.tell_dispatcher(DispatcherMsg::Look);
    to_json(&answers::Switched {
        name: id,
        enabled: on,
    })
}
