//! Totems in the store: started on a relic, read with their steps, and moved on step by step.

use std::collections::BTreeMap;

use serde_json::json;

use crate::domain::asker::Asker;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::relic::{Relic, RelicKind, RelicStatus};
use crate::domain::ritual::{Ritual, RitualStep, Subject};
use crate::domain::totem::{Step, StepRow, Totem, TotemRow};
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// Returns the totem of a relic, with its steps.
///
/// # Errors
/// The store's.
pub fn read(txn: &mut dyn Txn, relic: &RelicId) -> Result<Option<Totem>, StoreError> {
    let Some(row) = txn.totem(relic)? else {
        return Ok(None);
    };
    let mut steps = Vec::new();
    for step in &row.steps {
        let relic = txn.relic(&step.relic)?;
        let mut waits_for = Vec::new();
        for dep in &relic.deps {
            if txn.relic(dep)?.status != RelicStatus::Closed {
                waits_for.push(dep.clone());
            }
        }
        steps.push(Step {
            name: step.name.clone(),
            fresh_session: step.fresh_session,
            relic,
            waits_for,
        });
    }
    Ok(Some(Totem { row, steps }))
}

/// Starts a totem on a task: makes the relics of its steps. Their dependencies are the needs of the ritual.
///
/// # Errors
/// [`StoreError::Conflict`] when the relic has a totem, is closed or is no task, and when the texts become too long with
/// these values.
pub fn start(
    txn: &mut dyn Txn,
    ritual: &Ritual,
    rig: &RigName,
    relic: &Relic,
    values: BTreeMap<String, String>,
    asker: &Asker,
) -> Result<Totem, StoreError> {
    let id = &relic.id;
    if relic.kind != RelicKind::Task {
        return Err(StoreError::Conflict(format!("{id} is not a task")));
    }
    if relic.status == RelicStatus::Closed {
        return Err(StoreError::Conflict(format!("{id} is closed")));
    }
    if let Some(totem) = txn.totem(id)? {
        let why = format!("{id} has a totem already, of the ritual {}", totem.ritual);
        return Err(StoreError::Conflict(why));
    }
    let subject = Subject {
        relic: id.as_str(),
        title: &relic.title,
        rig: rig.as_str(),
    };
    let steps = ritual.steps_for(&subject, &values);
    let steps = steps.map_err(|wrong| StoreError::Conflict(wrong.why))?;
    let row = TotemRow {
        relic: id.clone(),
        ritual: ritual.name.clone(),
        vars: values,
        started: txn.now(),
        by: Some(asker.name.clone()),
        steps: make_steps(txn, relic, &steps, asker)?,
    };
    txn.add_totem(&row)?;
    let ids: Vec<&RelicId> = row.steps.iter().map(|step| &step.relic).collect();
    let data = json!({ "ritual": row.ritual, "vars": row.vars, "steps": ids });
    txn.record(&NewEvent::new(EventType::TotemStarted, id, asker).with(data))?;
    let missing = || StoreError::Failed(format!("the totem of {id} was not stored"));
    read(txn, id)?.ok_or_else(missing)
}

/// Makes the relics of the steps.
fn make_steps(
    txn: &mut dyn Txn,
    relic: &Relic,
    steps: &[RitualStep],
    asker: &Asker,
) -> Result<Vec<StepRow>, StoreError> {
    let id = &relic.id;
    let mut made = BTreeMap::new();
    for step in steps {
        let new = NewRelic {
            prefix: id.prefix().to_owned(),
            kind: RelicKind::Step,
            title: step.title.clone(),
            body: step.body.clone(),
            priority: relic.priority,
            labels: Vec::new(),
            parent: Some(id.clone()),
            deps: Vec::new(),
            by: Some(asker.name.clone()),
        };
        made.insert(&step.id, txn.create_relic(&new)?);
    }
    let mut rows = Vec::new();
    for step in steps {
        // A step may need a later one, so dependencies are stored when all relics are made.
        let deps = step.needs.iter().filter_map(|need| made.get(need));
        let deps: Vec<RelicId> = deps.map(|relic| relic.id.clone()).collect();
        let Some(mut own) = made.get(&step.id).cloned() else {
            continue;
        };
        own.deps = deps;
        txn.put_relic(&own)?;
        let data =
            json!({ "title": own.title, "priority": own.priority, "deps": own.deps, "relic": id });
        txn.record(&NewEvent::new(EventType::RelicCreated, &own.id, asker).with(data))?;
        rows.push(StepRow {
            relic: own.id,
            name: step.id.clone(),
            fresh_session: step.fresh_session,
        });
    }
    Ok(rows)
}

/// Closes a step that is ready, and returns the totem as it is then.
///
/// # Errors
/// The store's.
pub fn close_step(
    txn: &mut dyn Txn,
    totem: &Totem,
    step: &Step,
    note: Option<&str>,
    asker: &Asker,
) -> Result<Totem, StoreError> {
    let id = &totem.row.relic;
    let mut relic = step.relic.clone();
    relic.status = RelicStatus::Closed;
    relic.closed = Some(txn.now());
    relic.raider = asker.name.parse::<RaiderId>().ok();
    txn.put_relic(&relic)?;
    let data = json!({ "reason": note, "raider": relic.raider, "relic": id });
    txn.record(&NewEvent::new(EventType::RelicClosed, &relic.id, asker).with(data))?;
    let missing = || StoreError::Failed(format!("the totem of {id} is gone"));
    let totem = read(txn, id)?.ok_or_else(missing)?;
    let next: Vec<&RelicId> = totem.ready().map(|step| &step.relic.id).collect();
    let data = json!({
        "step": relic.id, "name": step.name, "raider": relic.raider, "next": next,
        "done": totem.done(), "of": totem.steps.len(), "note": note,
    });
    txn.record(&NewEvent::new(EventType::TotemStepDone, id, asker).with(data))?;
    Ok(totem)
}
