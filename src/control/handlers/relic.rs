//! `relic.*`: units of work.

mod cancel;
mod deps;
mod edit;
pub(super) mod guard;
mod transfer;

use std::sync::Arc;

use serde_json::{Value, json};

pub(super) use self::cancel::cancel;
pub(super) use self::deps::{add as add_dep, list as deps, ready, remove as remove_dep};
pub(super) use self::edit::edit;
pub(super) use self::transfer::{export, import};
use super::work::{self, Extras};
use super::{agent, auto_charge, caller, drums, escalation, names, to_json};
use crate::actors::records::escalations::Entry;
use crate::actors::records::quarantine;
use crate::actors::sagas::closing::{self, Landing};
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{NotedRelic, RelicDetails, Shown};
use crate::control::protocol::args::{RelicClose, RelicCreate, RelicList, RelicReopen};
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RaiderId;
use crate::domain::message;
use crate::domain::prompt;
use crate::domain::relic::{PRIORITIES, Relic, RelicKind, RelicStatus};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

pub(super) async fn create(
    world: &World,
    asker: Asker,
    args: RelicCreate,
) -> Result<Value, ControlError> {
    let rig = names::rig(world, args.rig.as_deref())?;
    let title = names::title(&args.title)?;
    names::few_labels(&args.label)?;
    names::few_deps(args.dep.len())?;
    let deps = args
        .dep
        .iter()
        .map(|dep| names::relic(dep))
        .collect::<Result<Vec<_>, _>>()?;
    let extras = Extras {
        starts_on: names::branch(args.branch.as_deref())?,
        assignee: work::assignee(args.assignee.as_deref()),
        harness: work::harness(world, rig, args.harness.as_deref())?,
    };
    let note = match &extras.assignee {
        Some(name) => drums::unknown_note(world, name).await?,
        None => None,
    };
    let note = joined(note, priority_note(args.priority));
    let new = NewRelic {
        prefix: rig.prefix.clone(),
        kind: RelicKind::Task,
        title,
        body: args.body,
        priority: args.priority,
        labels: args.label,
        parent: args.parent.as_deref().map(names::relic).transpose()?,
        deps,
        by: Some(asker.name.clone()),
    };
    let make = move |txn: &mut dyn Txn| work::created_with(txn, &new, &asker, &extras);
    let relic = world.store.run(make).await?;
    world.nudge(&message::witness(&rig.name));
    to_json(&NotedRelic { relic, note })
}

/// Returns a hint at a priority outside the usual range, which counts all the same.
fn priority_note(priority: i64) -> Option<String> {
    (!PRIORITIES.contains(&priority)).then(|| {
        let (least, most) = (PRIORITIES.start(), PRIORITIES.end());
        format!(
            "priority {priority} is outside of {least} to {most}; it is kept, and sorts the same way: a larger number is \
            more urgent"
        )
    })
}

/// Joins two hints.
fn joined(first: Option<String>, second: Option<String>) -> Option<String> {
    let both: Vec<_> = first.into_iter().chain(second).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

pub(super) async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let city = Arc::clone(&world.city);
    let read = move |txn: &mut dyn Txn| {
        let relic = txn.relic(&id)?;
        if relic.kind == RelicKind::Escalation && relic.status != RelicStatus::Closed {
            let entry = Entry::read(txn, relic)?;
            let shown = escalation::with_next(txn, &city, &entry)?;
            return Ok(Shown::Escalation(Box::new(shown)));
        }
        Ok(Shown::Relic(Box::new(RelicDetails {
            children: txn.children(&id)?,
            dependents: txn.dependents(&id)?,
            waits: auto_charge::told(txn, &city, &relic)?,
            relic,
        })))
    };
    to_json(&world.store.run(read).await?)
}

/// Lists relics; without filters the tasks that are not closed.
pub(super) async fn list(world: &World, args: RelicList) -> Result<Value, ControlError> {
    let prefix = match args.rig.as_deref() {
        Some(rig) => Some(names::rig(world, Some(rig))?.prefix.clone()),
        None => None,
    };
    let filter = RelicFilter {
        kind: Some(args.kind.unwrap_or(RelicKind::Task)),
        status: args.status,
        prefix,
        label: args.label,
        limit: args.limit,
    };
    let relics = world.store.run(move |txn| txn.relics(&filter)).await?;
    to_json(&relics)
}

/// Closes a relic. A caller with the right to work may end no other caller's work and answer no escalation: both are
/// checked in the transaction that closes.
pub(super) async fn close(
    world: &World,
    caller: &Caller,
    args: RelicClose,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let asker = caller::asker(world, caller).await;
    let for_person = caller::speaks_for_person(world, caller);
    let closed = world.store.run(move |txn| {
        let relic = txn.relic(&id)?;
        if let Err(refused) = guard::no_merge_request(txn, &relic, true)? {
            return Ok(Err(refused));
        }
        if let Err(refused) = guard::may_close(txn, &relic, for_person, args.yes)? {
            return Ok(Err(refused));
        }
        // "Closed" would be untrue of work that arrives a moment later.
        let open = relic.status != RelicStatus::Closed;
        if let Some(landing @ (Landing::Lands(_) | Landing::Unknown(_))) =
            closing::landing(txn, &id)?.filter(|_| open)
        {
            return Err(StoreError::Conflict(landing.refusal(&id)));
        }
        closing::close(txn, relic, args.reason.as_deref(), &asker).map(Ok)
    });
    let closed = closed.await??;
    nudge_all(world);
    to_json(&closed.relic)
}

/// Reopens a relic. One that is open stays so, and takes no note. A caller with the right to work may not reopen what a
/// raider is still hooked to.
pub(super) async fn reopen(
    world: &World,
    caller: &Caller,
    args: RelicReopen,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let asker = caller::asker(world, caller).await;
    let speaker = caller::speaker(world, caller);
    let own = asker.clone();
    let reopened = world.store.run(move |txn| {
        let relic = txn.relic(&id)?;
        if let Err(refused) = guard::no_merge_request(txn, &relic, false)? {
            return Ok(Err(refused));
        }
        if let Err(refused) = guard::not_of_closed(txn, &relic)? {
            return Ok(Err(refused));
        }
        let note = args.note.as_deref().map(str::trim);
        let note = note.filter(|note| !note.is_empty());
        if relic.status == RelicStatus::Open {
            return Ok(match note {
                None => Ok(relic),
                Some(_) => Err(ControlError::conflict(format!(
                    "{id} is open already: its next raider would not read the note"
                ))
                .hint("`hd relic edit --body` changes what it reads")),
            });
        }
        if let Err(refused) = guard::may_reopen(txn, &relic, &speaker)? {
            return Ok(Err(refused));
        }
        open(txn, relic, note, &own).map(Ok)
    });
    let relic = reopened.await??;
    if relic.status == RelicStatus::Hooked {
        agent::try_again(world, &asker, relic.raider.as_ref()).await?;
    }
    nudge_all(world);
    to_json(&relic)
}

/// Opens the relic in the store. A raider that still holds it continues with it; a person or agent that it is assigned to
/// keeps it, so that it is not charged automatically.
fn open(
    txn: &mut dyn Txn,
    mut relic: Relic,
    note: Option<&str>,
    asker: &Asker,
) -> Result<Relic, StoreError> {
    closing::reopen_steps(txn, &relic, &asker.into())?;
    let hook = txn.hook_of_relic(&relic.id)?;
    let hook = hook.filter(|hook| !hook.is_declared());
    relic.status = match hook {
        Some(_) => RelicStatus::Hooked,
        None => RelicStatus::Open,
    };
    let raider = hook.map(|hook| hook.raider.to_string());
    let is_raider = |name: &String| name.parse::<RaiderId>().is_ok();
    let kept = relic.assignee.take().filter(|name| !is_raider(name));
    relic.assignee = raider.clone().or(kept);
    relic.closed = None;
    relic.until = None;
    // After a person's look every attempt counts from zero.
    (relic.reworks, relic.charge_failures) = (0, 0);
    if let Some(note) = note {
        relic.context = Some(prompt::reopened(relic.context.as_deref(), note));
    }
    txn.put_relic(&relic)?;
    let data = json!({ "status": relic.status, "raider": raider, "note": note });
    let event = NewEvent::new(EventType::RelicUpdated, &relic.id, asker);
    txn.record(&event.with(data))?;
    quarantine::close(txn, &relic.id)?;
    Ok(relic)
}

/// Wakes all witnesses: work may have become ready, or a hook's relic closed.
fn nudge_all(world: &World) {
    for rig in &world.city.rigs {
        world.nudge(&message::witness(&rig.name));
        // It may be testing work that is withdrawn.
        world.nudge(&message::forge(&rig.name));
    }
}
