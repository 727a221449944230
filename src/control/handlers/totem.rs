//! `ritual.*`, `totem.*` and `step.done`: work in steps.

mod step;

use std::collections::BTreeMap;

use serde_json::Value;

use super::relic::guard;
use super::{caller, names, served_elsewhere, to_json};
use crate::actors::briefs;
use crate::actors::records::totems;
use crate::actors::world::World;
use crate::control::protocol::args::{RitualRef, TotemStart};
use crate::control::protocol::{ControlError, Op, answers};
use crate::control::server::Caller;
use crate::domain::city::Rig;
use crate::domain::ids::RelicId;
use crate::domain::relic::{Hook, Relic};
use crate::domain::ritual::Ritual;
use crate::domain::suggest::closest;
use crate::domain::totem::{Step, Totem, orders};
use crate::ports::relics::{StoreError, Txn};

/// Dispatches the operations on rituals, totems and steps.
pub(super) async fn dispatch(
    world: &World,
    caller: &Caller,
    op: Op,
) -> Result<Value, ControlError> {
    match op {
        Op::RitualList(_) => list(world),
        Op::RitualShow(args) => show_ritual(world, &args),
        Op::TotemStart(args) => start(world, caller, args).await,
        Op::TotemShow(args) => show(world, &args.relic).await,
        Op::StepDone(args) => step::done(world, caller, args).await,
        _ => Err(served_elsewhere()),
    }
}

fn list(world: &World) -> Result<Value, ControlError> {
    let row = |ritual: &Ritual| answers::RitualRow {
        name: ritual.name.clone(),
        description: ritual.description.clone(),
        built_in: ritual.file.is_none(),
        file: file(ritual),
        steps: ritual.steps.len(),
        vars: ritual.vars.clone(),
    };
    let rows: Vec<_> = world.city.rituals.values().map(row).collect();
    to_json(&rows)
}

fn file(ritual: &Ritual) -> Option<String> {
    let file = ritual.file.as_ref();
    file.map(|path| path.display().to_string())
}

fn show_ritual(world: &World, args: &RitualRef) -> Result<Value, ControlError> {
    let ritual = ritual(world, &args.name)?;
    to_json(&answers::Ritual {
        name: ritual.name.clone(),
        description: ritual.description.clone(),
        built_in: ritual.file.is_none(),
        file: file(ritual),
        vars: ritual.vars.clone(),
        steps: ritual.steps.clone(),
    })
}

/// Returns the ritual of this name.
fn ritual<'a>(world: &'a World, name: &str) -> Result<&'a Ritual, ControlError> {
    let rituals = world.city.rituals.values();
    let found = rituals.clone().find(|it| it.name.as_str() == name);
    found.ok_or_else(|| {
        let known = || rituals.clone().map(|ritual| ritual.name.as_str());
        let hint = match closest(name, known()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("rituals: {}", known().collect::<Vec<_>>().join(", ")),
        };
        ControlError::not_found(format!("no ritual named {name}")).hint(hint)
    })
}

/// Reads `KEY=VALUE` pairs.
fn pairs(given: &[String]) -> Result<BTreeMap<String, String>, ControlError> {
    let mut pairs = BTreeMap::new();
    for pair in given {
        let Some((key, value)) = pair.split_once('=') else {
            let message = format!("{pair:?} is not KEY=VALUE");
            return Err(ControlError::bad_request(message));
        };
        if pairs.insert(key.to_owned(), value.to_owned()).is_some() {
            let message = format!("{key} is given twice");
            return Err(ControlError::bad_request(message));
        }
    }
    Ok(pairs)
}

/// Starts a totem on a relic. A raider that works on the relic already finds it in its task file and in `hd rally`.
async fn start(world: &World, caller: &Caller, args: TotemStart) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let ritual = ritual(world, &args.ritual)?.clone();
    let values = ritual.values(&pairs(&args.var)?);
    let values = values.map_err(|wrong| ControlError::bad_request(wrong.why).hint(wrong.hint))?;
    let rig = rig_of(world, &id)?.name.clone();
    let asker = caller::asker(world, caller).await;
    let speaker = caller::speaker(world, caller);
    let started = world.store.run(move |txn| {
        let relic = txn.relic(&id)?;
        if let Err(refused) = guard::may_rewrite(txn, &relic, &speaker)? {
            return Ok(Err(refused));
        }
        let hook = txn.hook_of_relic(&id)?;
        require_unfinished(txn, &relic, hook.as_ref())?;
        let totem = totems::start(txn, &ritual, &rig, &relic, values.clone(), &asker)?;
        Ok(Ok((relic, totem, hook)))
    });
    let (relic, totem, hook) = started.await??;
    if let Some(hook) = hook {
        refresh(world, &hook).await;
    }
    to_json(&shown(&relic, &totem))
}

/// Checks that the work on the relic is not finished: steps would come too late.
fn require_unfinished(
    txn: &mut dyn Txn,
    relic: &Relic,
    hook: Option<&Hook>,
) -> Result<(), StoreError> {
    let id = &relic.id;
    if let Some(hook) = hook.filter(|hook| hook.is_declared()) {
        let why = format!("{} has finished its work on {id}", hook.raider);
        return Err(StoreError::Conflict(why));
    }
    match txn.mrs_of(id)?.into_iter().find(|mr| !mr.is_final()) {
        Some(mr) => Err(StoreError::Conflict(format!(
            "the work on {id} waits to land ({})",
            mr.id
        ))),
        None => Ok(()),
    }
}

/// Returns the rig that the relic belongs to.
fn rig_of<'a>(world: &'a World, relic: &RelicId) -> Result<&'a Rig, ControlError> {
    let mut rigs = world.city.rigs.iter();
    let rig = rigs.find(|rig| rig.prefix == relic.prefix());
    rig.ok_or_else(|| ControlError::not_found(format!("no rig has the relic {relic}")))
}

/// Writes the task file of a raider again. A failure is no failure of the request: `hd rally` has the state, too.
async fn refresh(world: &World, hook: &Hook) {
    if let Err(error) = briefs::refresh_task(world, hook).await {
        tracing::warn!(
            raider = %hook.raider,
            %error,
            "the task file could not be written after a change of the totem; the raider reads its step with `hd rally`"
        );
    }
}

async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let read = move |txn: &mut dyn Txn| {
        // A step means the totem that it belongs to.
        let id = txn.totem_of_step(&id)?.unwrap_or_else(|| id.clone());
        Ok((txn.relic(&id)?, totems::read(txn, &id)?))
    };
    let (relic, totem) = world.store.run(read).await?;
    let totem = totem.ok_or_else(|| no_totem(&relic.id))?;
    to_json(&shown(&relic, &totem))
}

fn no_totem(relic: &RelicId) -> ControlError {
    ControlError::not_found(format!("{relic} has no totem"))
        .hint(format!("`hd totem start RITUAL {relic}` starts one"))
}

fn shown(relic: &Relic, totem: &Totem) -> answers::Totem {
    let step = |step: &Step| answers::TotemStep {
        id: step.relic.id.clone(),
        name: step.name.clone(),
        title: step.relic.title.clone(),
        status: step.relic.status,
        deps: step.relic.deps.clone(),
        ready: step.is_ready(),
        fresh_session: step.fresh_session,
        done: Totem::was_done(step, relic),
        closed: step.relic.closed,
    };
    let steps: Vec<_> = totem.steps.iter().map(step).collect();
    let done = steps.iter().filter(|step| step.done).count();
    answers::Totem {
        relic: relic.id.clone(),
        title: relic.title.clone(),
        status: relic.status,
        ritual: totem.row.ritual.clone(),
        vars: totem.row.vars.clone(),
        started: totem.row.started,
        by: totem.row.by.clone(),
        done,
        present: totem.present().map(|step| step.relic.id.clone()),
        finished: done == steps.len(),
        steps,
    }
}

/// Returns the state of a totem for the agent that works on it.
pub(super) fn progress(totem: &Totem, hd: &str) -> answers::Progress {
    let present = totem.present().map(|step| &step.name);
    let ready = |step: &Step| answers::ReadyStep {
        id: step.relic.id.clone(),
        name: step.name.clone(),
        title: step.relic.title.clone(),
        body: (present == Some(&step.name)).then(|| step.relic.body.clone()),
        fresh_session: step.fresh_session,
    };
    let later = totem.open().filter(|step| !step.is_ready());
    answers::Progress {
        ritual: totem.row.ritual.clone(),
        done: totem.done(),
        of: totem.steps.len(),
        next: totem.ready().map(ready).collect(),
        later: later.map(|step| step.relic.id.clone()).collect(),
        finished: totem.is_finished(),
        text: orders::orders(totem, hd),
    }
}
