//! `run` and `charge`: work for raiders.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{names, to_json};
use crate::actors::ask;
use crate::actors::mail::WitnessMsg;
use crate::actors::mail::{self, ChargeRequest};
use crate::actors::records::{automation_chains, charging};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::charge;
use crate::actors::world::World;
use crate::control::protocol::answers::{
    Charged, FailedCharge, Started, StartedRelic, WaitingRelic,
};
use crate::control::protocol::args::{Charge, Run, Task, TaskFields};
use crate::control::protocol::{BATCH_MAX, ControlError};
use crate::domain::asker::Asker;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{HarnessName, RelicId, SlotName};
use crate::domain::relic::{Relic, RelicKind};
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// The limit of a charge, which fetches, checks out and starts a session.
const CHARGE_LIMIT: std::time::Duration = std::time::Duration::from_secs(900);

fn harness(name: Option<&str>) -> Result<Option<HarnessName>, ControlError> {
    let parse = |name: &str| {
        HarnessName::new(name)
            .map_err(|_| ControlError::not_found(format!("no harness named {name}")))
    };
    name.map(parse).transpose()
}

impl From<mail::Charged> for Charged {
    fn from(charged: mail::Charged) -> Self {
        Self {
            raider: charged.raider,
            incarnation: charged.incarnation,
            relic: charged.relic,
            branch: charged.branch,
            start: charged.start,
            sandbox: charged.sandbox,
            session: charged.session,
        }
    }
}

async fn ask_charge(world: &World, rig: &Rig, request: ChargeRequest) -> Result<Charged, Refusal> {
    let witness = world.directory.witness(&rig.name);
    let message = |reply| WitnessMsg::Charge(request, reply);
    let charged = ask::ask(witness, message, CHARGE_LIMIT).await??;
    Ok(charged.into())
}

/// `charge`: returns when the raider works.
pub(super) async fn charge(
    world: &World,
    asker: Asker,
    args: Charge,
) -> Result<Value, ControlError> {
    let rig = names::rig(world, Some(&args.rig))?;
    let slot = |name: String| {
        SlotName::new(name).map_err(|error| ControlError::bad_request(error.to_string()))
    };
    let request = ChargeRequest {
        relic: names::relic(&args.relic)?,
        harness: harness(args.harness.as_deref())?,
        name: args.name.map(slot).transpose()?,
        target: args.target,
        origin: Origin::from(&asker),
    };
    to_json(&ask_charge(world, rig, request).await?)
}

/// `run`: a relic per task, charged where there is a free slot. Without a free slot the relic is ready and the answer
/// says so (`rules.md`, charge). Everything that can be checked beforehand is checked before the first relic is made.
/// From then on the answer names every relic, even if its charge failed: otherwise a second `run` would duplicate the
/// work.
pub(super) async fn run(world: &World, asker: Asker, args: Run) -> Result<Value, ControlError> {
    let rig = names::rig(world, args.rig.as_deref())?;
    if rig.draining {
        let message = format!("rig {} is no longer configured", rig.name);
        return Err(
            ControlError::conflict(message).hint("it is removed when its last work is done")
        );
    }
    let harness = harness(args.harness.as_deref())?;
    charge::known_harness(world, rig, harness.as_ref())?;
    let after = args.after.as_deref().map(names::relic).transpose()?;
    if args.task.len() > BATCH_MAX {
        let message = format!("a run has at most {BATCH_MAX} tasks");
        return Err(ControlError::bad_request(message));
    }
    let tasks = args
        .task
        .into_iter()
        .map(|task| checked(task, after.as_ref()));
    let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
    let branch = names::branch(args.branch.as_deref())?;
    let tasks = with_branches(world, rig, tasks, branch).await?;
    let (prefix, own, asked) = (rig.prefix.clone(), asker.clone(), harness.clone());
    let relics = world
        .store
        .run(move |txn| make(txn, &prefix, (&tasks, asked.as_ref()), &own))
        .await?;
    let charges = relics.iter().map(|relic| {
        let request = ChargeRequest {
            relic: relic.id.clone(),
            harness: harness.clone(),
            name: None,
            target: None,
            origin: Origin::from(&asker),
        };
        ask_charge(world, rig, request)
    });
    let charged = futures_util::future::join_all(charges).await;
    let own = rig.name.clone();
    let paused = move |txn: &mut dyn Txn| Ok(charging::pauses(txn)?.of(&own).is_some());
    let paused = world.store.run(paused).await?;
    let shown = relics.into_iter().zip(charged);
    let shown = shown.map(|(relic, charged)| started(rig, paused, relic.id, charged));
    to_json(&Started {
        relics: shown.collect(),
    })
}

/// Returns a relic of a `run` with the result of its charge.
fn started(
    rig: &Rig,
    paused: bool,
    relic: RelicId,
    charged: Result<Charged, Refusal>,
) -> StartedRelic {
    match charged {
        Ok(charged) => StartedRelic::Charged(charged),
        // No free slot, or the relic waits for another: it is ready, and that is no failure.
        Err(refused) if refused.kind == RefusalKind::Conflict => {
            StartedRelic::Waits(WaitingRelic {
                relic,
                raider: (),
                note: refused.message,
                rig: rig.name.clone(),
                auto_charge: rig.raiders.auto_charge && !paused,
                charge_paused: rig.raiders.auto_charge && paused,
            })
        }
        Err(refused) => StartedRelic::Failed(FailedCharge {
            relic,
            raider: (),
            note: refused.message.clone(),
            error: refused.into(),
        }),
    }
}

/// Gives each task the branch that it begins on: its own, else that of the run. A branch that cannot be used is an error
/// before the first relic is made; a remote that is away is not: then the charge tells.
async fn with_branches(
    world: &World,
    rig: &Rig,
    mut tasks: Vec<(TaskFields, Vec<RelicId>)>,
    usual: Option<String>,
) -> Result<Vec<(TaskFields, Vec<RelicId>)>, ControlError> {
    let mut named = BTreeSet::new();
    for (task, _) in &mut tasks {
        task.branch = names::branch(task.branch.as_deref())?.or_else(|| usual.clone());
        named.extend(task.branch.clone());
    }
    for branch in named {
        match charge::start_on(world, rig, &branch, None).await {
            Err(refused) if !refused.is_passing() => return Err(refused.into()),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(tasks)
}

/// Returns the fields of a task, and the relics that must be closed first.
fn checked(
    task: Task,
    after: Option<&RelicId>,
) -> Result<(TaskFields, Vec<RelicId>), ControlError> {
    let mut fields = task.into_fields();
    fields.title = names::title(&fields.title)?;
    names::few_labels(&fields.labels)?;
    let own = fields.deps.iter().map(|dep| names::relic(dep));
    let mut deps = own.collect::<Result<Vec<_>, _>>()?;
    deps.extend(after.cloned());
    deps.sort_unstable();
    deps.dedup();
    Ok((fields, deps))
}

/// Makes a relic of each task. The harness is stored with it, because a task that waits is charged later by
/// `auto_charge` or another `charge`.
fn make(
    txn: &mut dyn Txn,
    prefix: &str,
    (tasks, harness): (&[(TaskFields, Vec<RelicId>)], Option<&HarnessName>),
    asker: &Asker,
) -> Result<Vec<Relic>, StoreError> {
    let mut relics = Vec::new();
    for (task, deps) in tasks {
        let new = NewRelic {
            prefix: prefix.to_owned(),
            kind: RelicKind::Task,
            title: task.title.clone(),
            body: task.body.clone(),
            priority: task.priority,
            labels: task.labels.clone(),
            parent: None,
            deps: deps.clone(),
            by: Some(asker.name.clone()),
        };
        let mut relic = created_on(txn, &new, asker, task.branch.clone())?;
        if harness.is_some() {
            relic.harness = harness.cloned();
            txn.put_relic(&relic)?;
        }
        relics.push(relic);
    }
    Ok(relics)
}

/// Makes a relic whose work begins on an existing branch, if one is given, and journals it.
pub(super) fn created_on(
    txn: &mut dyn Txn,
    new: &NewRelic,
    asker: &Asker,
    branch: Option<String>,
) -> Result<Relic, StoreError> {
    let mut relic = created(txn, new, asker)?;
    if branch.is_some() {
        relic.starts_on = branch;
        txn.put_relic(&relic)?;
    }
    Ok(relic)
}

/// Makes a relic and journals it.
pub(super) fn created(
    txn: &mut dyn Txn,
    new: &NewRelic,
    asker: &Asker,
) -> Result<Relic, StoreError> {
    let relic = txn.create_relic(new)?;
    let data = json!({ "title": relic.title, "priority": relic.priority, "deps": relic.deps });
    automation_chains::note_made(txn, &relic, asker)?;
    txn.record(&NewEvent::new(EventType::RelicCreated, &relic.id, asker).with(data))?;
    Ok(relic)
}
