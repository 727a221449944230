//! `relic.*`: units of work.

use serde_json::{Value, json};

use super::work::created;
use super::{agent, escalation, names, to_json};
use crate::actors::quarantine;
use crate::actors::sagas::land;
use crate::actors::shaman::Entry;
use crate::actors::world::World;
use crate::control::protocol::ControlError;
use crate::control::protocol::args::{RelicClose, RelicCreate, RelicList};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::message;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError, Txn};

pub(super) async fn create(world: &World, args: RelicCreate) -> Result<Value, ControlError> {
    let rig = names::rig(world, args.rig.as_deref())?;
    names::said(&args.title)?;
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
    };
    let relic = world.store.run(move |txn| created(txn, &new)).await?;
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
    match entry {
        Some(entry) => escalation::shown(&entry),
        None => to_json(&relic),
    }
}

/// Without filters: tasks that are not closed.
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

pub(super) async fn close(world: &World, args: RelicClose) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let wanted = id.clone();
    let now = world.store.run(move |txn| txn.relic(&wanted)).await?;
    if now.status == RelicStatus::Hooked && !args.yes {
        let who = now.assignee.unwrap_or_default();
        let message = format!("{id} is hooked to {who}: closing it ends that work");
        return Err(ControlError::bad_request(message).hint("--yes closes it all the same"));
    }
    let reason = args.reason;
    let relic = world
        .store
        .run(move |txn| {
            let mut relic = txn.relic(&id)?;
            if relic.status == RelicStatus::Closed {
                return Ok(relic);
            }
            relic.status = RelicStatus::Closed;
            relic.closed = Some(txn.now());
            for mut mr in txn.mrs_of(&id)? {
                let why = Some("its relic was closed");
                if land::withdraw(txn, &mut mr, why, Cause::RelicClosed)? {
                    // Where it is taken up, should somebody reopen it.
                    relic.branch = Some(mr.branch);
                }
            }
            txn.put_relic(&relic)?;
            let data = json!({ "reason": reason, "raider": relic.raider });
            let event = NewEvent::new(EventType::RelicClosed, &relic.id, Cause::Operator);
            txn.record(&event.with(data))?;
            Ok(relic)
        })
        .await?;
    nudge_all(world);
    to_json(&relic)
}

pub(super) async fn reopen(world: &World, id: &str) -> Result<Value, ControlError> {
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
            // A raider that was not let go of goes on with it.
            let hook = txn.hook_of_relic(&id)?.filter(|hook| hook.done.is_none());
            relic.status = match hook {
                Some(_) => RelicStatus::Hooked,
                None => RelicStatus::Open,
            };
            relic.assignee = hook.map(|hook| hook.raider.to_string());
            relic.closed = None;
            relic.until = None;
            // A person looked: everything may be tried as often as before.
            (relic.reworks, relic.charge_failures) = (0, 0);
            txn.put_relic(&relic)?;
            let data = json!({ "status": relic.status, "raider": relic.assignee });
            let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::Operator);
            txn.record(&event.with(data))?;
            quarantine::settle(txn, &id)?;
            Ok(relic)
        })
        .await?;
    if relic.status == RelicStatus::Hooked {
        agent::try_again(world, relic.raider.as_ref()).await?;
    }
    nudge_all(world);
    to_json(&relic)
}

/// Work may have become ready, or a hook's relic closed.
fn nudge_all(world: &World) {
    for rig in &world.city.rigs {
        world.nudge(&message::witness(&rig.name));
    }
}
