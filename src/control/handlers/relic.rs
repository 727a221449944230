//! `relic.*`: units of work.

use serde_json::{Value, json};

use super::work::created;
use super::{agent, caller, escalation, names, to_json};
use crate::actors::records::escalations::Entry;
use crate::actors::records::quarantine;
use crate::actors::sagas::land;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::Shown;
use crate::control::protocol::args::{RelicClose, RelicCreate, RelicList};
use crate::control::server::Caller;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::message;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

pub(super) async fn create(
    world: &World,
    asker: Asker,
    args: RelicCreate,
) -> Result<Value, ControlError> {
    let rig = names::rig(world, args.rig.as_deref())?;
    names::require_non_empty(&args.title)?;
    let deps = args
        .dep
        .iter()
        .map(|dep| names::relic(dep))
        .collect::<Result<Vec<_>, _>>()?;
    let new = NewRelic {
        prefix: rig.prefix.clone(),
        kind: RelicKind::Task,
        title: args.title,
        body: args.body,
        priority: args.priority,
        labels: args.label,
        parent: args.parent.as_deref().map(names::relic).transpose()?,
        deps,
        by: Some(asker.name.clone()),
    };
    let make = move |txn: &mut dyn Txn| created(txn, &new, &asker);
    let relic = world.store.run(make).await?;
    world.nudge(&message::witness(&rig.name));
    to_json(&relic)
}

pub(super) async fn show(world: &World, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let read = move |txn: &mut dyn Txn| {
        let relic = txn.relic(&id)?;
        let calls = relic.kind == RelicKind::Escalation && relic.status != RelicStatus::Closed;
        let entry = calls.then(|| Entry::read(txn, relic.clone())).transpose()?;
        Ok((relic, entry))
    };
    let (relic, entry) = world.store.run(read).await?;
    to_json(&match entry {
        Some(entry) => Shown::Escalation(Box::new(escalation::shown(&entry))),
        None => Shown::Relic(Box::new(relic)),
    })
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
        if let Err(refused) = may_close(txn, &relic, for_person, args.yes)? {
            return Ok(Err(refused));
        }
        end(txn, relic, args.reason.as_deref(), &asker).map(Ok)
    });
    let relic = closed.await??;
    nudge_all(world);
    to_json(&relic)
}

/// Checks that the caller may close the relic, and consents to the end of its work.
fn may_close(
    txn: &mut dyn Txn,
    relic: &Relic,
    for_person: bool,
    yes: bool,
) -> Result<Result<(), ControlError>, StoreError> {
    let id = &relic.id;
    if relic.status == RelicStatus::Closed {
        return Ok(Ok(()));
    }
    if relic.kind == RelicKind::Escalation && !for_person {
        return Ok(Err(ControlError::forbidden(format!(
            "{id} waits for a person"
        ))));
    }
    let hook = txn.hook_of_relic(id)?.map(|hook| hook.raider);
    let open = txn.mrs_of(id)?.into_iter().find(|mr| !mr.is_final());
    let work = match (&hook, &open) {
        (Some(raider), _) => format!("{id} is hooked to {raider}: closing it ends that work"),
        (None, Some(mr)) => format!(
            "the work on {id} waits to land ({}): closing it withdraws the work",
            mr.id
        ),
        (None, None) => return Ok(Ok(())),
    };
    Ok(match (for_person, yes) {
        (false, _) => Err(ControlError::forbidden(work).hint("ask a person to close it")),
        (true, false) if relic.status == RelicStatus::Hooked => {
            Err(ControlError::bad_request(work).hint("pass --yes to close it"))
        }
        (true, _) => Ok(()),
    })
}

/// Closes the relic in the store, and takes its work out of the queue.
fn end(
    txn: &mut dyn Txn,
    mut relic: Relic,
    reason: Option<&str>,
    asker: &Asker,
) -> Result<Relic, StoreError> {
    if relic.status == RelicStatus::Closed {
        return Ok(relic);
    }
    relic.status = RelicStatus::Closed;
    relic.closed = Some(txn.now());
    for mut mr in txn.mrs_of(&relic.id)? {
        let why = Some("its relic was closed");
        if land::withdraw(txn, &mut mr, why, Cause::RelicClosed)? {
            // A reopened relic continues from this branch.
            relic.branch = Some(mr.branch);
        }
    }
    txn.put_relic(&relic)?;
    let data = json!({ "reason": reason, "raider": relic.raider });
    let event = NewEvent::new(EventType::RelicClosed, &relic.id, asker);
    txn.record(&event.with(data))?;
    Ok(relic)
}

pub(super) async fn reopen(world: &World, asker: Asker, id: &str) -> Result<Value, ControlError> {
    let id = names::relic(id)?;
    let relic = world
        .store
        .run(move |txn| {
            let mut relic = txn.relic(&id)?;
            match relic.status {
                RelicStatus::Open => return Ok(relic),
                RelicStatus::Hooked => {
                    let who = relic.assignee.unwrap_or_default();
                    return Err(StoreError::Conflict(format!("{id} is hooked to {who}")));
                }
                RelicStatus::Blocked | RelicStatus::Deferred | RelicStatus::Closed => {}
            }
            // A raider that still holds the relic continues with it.
            let hook = txn.hook_of_relic(&id)?.filter(|hook| hook.done.is_none());
            relic.status = match hook {
                Some(_) => RelicStatus::Hooked,
                None => RelicStatus::Open,
            };
            relic.assignee = hook.map(|hook| hook.raider.to_string());
            relic.closed = None;
            relic.until = None;
            // After a person's look every attempt counts from zero.
            (relic.reworks, relic.charge_failures) = (0, 0);
            txn.put_relic(&relic)?;
            let data = json!({ "status": relic.status, "raider": relic.assignee });
            let event = NewEvent::new(EventType::RelicUpdated, &relic.id, &asker);
            txn.record(&event.with(data))?;
            quarantine::close(txn, &id)?;
            Ok(relic)
        })
        .await?;
    if relic.status == RelicStatus::Hooked {
        agent::try_again(world, relic.raider.as_ref()).await?;
    }
    nudge_all(world);
    to_json(&relic)
}

/// Wakes all witnesses: work may have become ready, or a hook's relic closed.
fn nudge_all(world: &World) {
    for rig in &world.city.rigs {
        world.nudge(&message::witness(&rig.name));
    }
}
