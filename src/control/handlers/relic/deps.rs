//! `relic.dep.*` and `relic.ready`: the order of work.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::edit::require_task;
use super::{guard, nudge_all, to_json};
use crate::actors::records::auto_charge;
use crate::actors::world::World;
use crate::control::handlers::{caller, names};
use crate::control::protocol::ControlError;
use crate::control::protocol::answers::{Deps, ReadyRelic, RelicLink};
use crate::control::protocol::args::{RelicDep, RelicDepList, RelicReady};
use crate::control::server::Caller;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::RelicId;
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::ports::relics::{StoreError, Txn};

/// Adds a dependency. A cycle is a conflict that names it. A dependency that is there already is no change. A caller with
/// the right to work adds and removes none where others are at work.
pub(in crate::control::handlers) async fn add(
    world: &World,
    caller: &Caller,
    args: &RelicDep,
) -> Result<Value, ControlError> {
    change(world, caller, args, |relic, on| {
        if relic.deps.contains(on) {
            return Ok(false);
        }
        relic.deps.push(on.clone());
        Ok(true)
    })
    .await
}

/// Removes a dependency.
pub(in crate::control::handlers) async fn remove(
    world: &World,
    caller: &Caller,
    args: &RelicDep,
) -> Result<Value, ControlError> {
    change(world, caller, args, |relic, on| {
        let before = relic.deps.len();
        relic.deps.retain(|dep| dep != on);
        match relic.deps.len() < before {
            true => Ok(true),
            false => Err(StoreError::NotFound {
                kind: "dependency",
                id: format!("{} on {on}", relic.id),
            }),
        }
    })
    .await
}

async fn change(
    world: &World,
    caller: &Caller,
    args: &RelicDep,
    apply: fn(&mut Relic, &RelicId) -> Result<bool, StoreError>,
) -> Result<Value, ControlError> {
    let (id, on) = (names::relic(&args.relic)?, names::relic(&args.on)?);
    let asker = caller::asker(world, caller).await;
    let speaker = caller::speaker(world, caller);
    let changed = world.store.run(move |txn| {
        let mut relic = txn.relic(&id)?;
        // A person may let a step wait, too.
        if relic.kind != RelicKind::Step {
            require_task(&relic)?;
        }
        let other = txn.relic(&on)?;
        if other.parent.as_ref() == Some(&id) && other.kind == RelicKind::Step {
            let why = format!("{on} is a step of {id}, which is done in its steps");
            return Err(StoreError::Conflict(why));
        }
        if let Err(refused) = guard::may_rewrite(txn, &relic, &speaker)? {
            return Ok(Err(refused));
        }
        let before = relic.deps.len();
        if apply(&mut relic, &on)? {
            if relic.deps.len() > before
                && let Err(refused) = names::few_deps(relic.deps.len())
            {
                return Ok(Err(refused));
            }
            txn.put_relic(&relic)?;
            let data = json!({ "changed": ["deps"], "deps": relic.deps });
            let event = NewEvent::new(EventType::RelicUpdated, &id, &asker);
            txn.record(&event.with(data))?;
        }
        Ok(Ok(relic))
    });
    let relic = changed.await??;
    nudge_all(world);
    to_json(&relic)
}

/// Returns what a relic waits for, and what waits for it.
pub(in crate::control::handlers) async fn list(
    world: &World,
    args: RelicDepList,
) -> Result<Value, ControlError> {
    let id = names::relic(&args.relic)?;
    let limit = most(args.limit);
    let read = move |txn: &mut dyn Txn| {
        let relic = txn.relic(&id)?;
        let mut ready = relic.status == RelicStatus::Open;
        for dep in &relic.deps {
            ready = ready && txn.relic(dep)?.status == RelicStatus::Closed;
        }
        let waiting = txn.dependents(&id)?;
        let shown = |of: &[RelicId]| of.len().min(limit);
        Ok(Deps {
            relic: id.clone(),
            status: relic.status,
            ready,
            deps: links(txn, &relic.deps[..shown(&relic.deps)])?,
            dependents: links(txn, &waiting[..shown(&waiting)])?,
            more_deps: (relic.deps.len() - shown(&relic.deps)) as u64,
            more_dependents: (waiting.len() - shown(&waiting)) as u64,
        })
    };
    to_json(&world.store.run(read).await?)
}

/// Returns the largest length of a list with this limit.
fn most(limit: Option<u64>) -> usize {
    let limit = limit.map(usize::try_from);
    limit.and_then(Result::ok).unwrap_or(usize::MAX)
}

fn links(txn: &mut dyn Txn, ids: &[RelicId]) -> Result<Vec<RelicLink>, StoreError> {
    let link = |id: &RelicId| {
        let Relic {
            id, title, status, ..
        } = txn.relic(id)?;
        Ok(RelicLink { id, title, status })
    };
    ids.iter().map(link).collect()
}

/// Returns the open tasks whose dependencies are all closed, by priority, then age, each with
/// the reason why it is not charged automatically.
pub(in crate::control::handlers) async fn ready(
    world: &World,
    args: RelicReady,
) -> Result<Value, ControlError> {
    let rigs = match args.rig.as_deref() {
        Some(rig) => vec![names::rig(world, Some(rig))?],
        None => world.city.rigs.iter().collect(),
    };
    let rigs: Vec<_> = rigs.into_iter().cloned().collect();
    let city = Arc::clone(&world.city);
    let read = move |txn: &mut dyn Txn| {
        let mut ready = Vec::new();
        for rig in &rigs {
            let relics = txn.ready(&rig.prefix, args.limit)?;
            ready.extend(relics.into_iter().map(|relic| (rig, relic)));
        }
        // Each rig's are in this order already.
        ready.sort_by_key(|(_, relic)| (Reverse(relic.priority), relic.created));
        ready.truncate(most(args.limit));
        let with_reason = |(rig, relic): (&Rig, Relic)| {
            let waits = auto_charge::waits(txn, &city, rig, &relic)?;
            let waits = waits.map(|waits| waits.brief());
            Ok(ReadyRelic { relic, waits })
        };
        ready
            .into_iter()
            .map(with_reason)
            .collect::<Result<Vec<_>, StoreError>>()
    };
    to_json(&world.store.run(read).await?)
}
