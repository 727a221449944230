//! `run` and `charge`: work for raiders.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{drums, names, to_json};
use crate::actors::ask;
use crate::actors::claims::{Claim, ClaimKey, Claims};
use crate::actors::mail::{BatchedCharge, ChargeBatch, ChargeRequest, WitnessMsg};
use crate::actors::records::{auto_charge, automation_chains};
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::charge;
use crate::actors::world::World;
use crate::control::protocol::answers::{
    Charged, FailedCharge, Started, StartedRelic, WaitingRelic,
};
use crate::control::protocol::args::{Charge, Run, Task};
use crate::control::protocol::{BATCH_MAX, ControlError};
use crate::domain::asker::Asker;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent, Origin};
use crate::domain::ids::{HarnessName, Incarnation, RelicId, SlotName};
use crate::domain::relic::{Relic, RelicKind};
use crate::ports::relics::{NewRelic, StoreError, Txn};

/// The limit of a charge, which fetches, checks out and starts a session.
const CHARGE_LIMIT: std::time::Duration = std::time::Duration::from_secs(900);

/// Returns the harness of this name, which must exist; an empty name means none.
pub(super) fn harness(
    world: &World,
    rig: &Rig,
    name: Option<&str>,
) -> Result<Option<HarnessName>, ControlError> {
    let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let parsed = HarnessName::new(name);
    let parsed = parsed.map_err(|_| ControlError::not_found(format!("no harness named {name}")))?;
    Ok(Some(charge::known_harness(world, rig, Some(&parsed))?))
}

async fn ask_charge(world: &World, rig: &Rig, request: ChargeRequest) -> Result<Charged, Refusal> {
    let witness = world.directory.witness(&rig.name);
    let message = |reply| WitnessMsg::Charge(request, reply);
    ask::ask(witness, message, CHARGE_LIMIT).await?
}

/// `charge`: returns when the raider works.
pub(super) async fn charge(
    world: &World,
    asker: Asker,
    args: Charge,
) -> Result<Value, ControlError> {
    let relic = names::relic(&args.relic);
    let rig = match args.rig.as_deref() {
        Some(name) => names::rig(world, Some(name))?,
        None => names::rig_of(world, relic.as_ref().map_err(Clone::clone)?)?,
    };
    let slot = |name: String| {
        SlotName::new(name).map_err(|error| ControlError::bad_request(error.to_string()))
    };
    let is_named = args.name.is_some();
    let request = ChargeRequest {
        relic: relic?,
        harness: harness(world, rig, args.harness.as_deref())?,
        name: args.name.map(slot).transpose()?,
        target: args.target,
        origin: Origin::from(&asker),
    };
    let charged = ask_charge(world, rig, request).await?;
    let is_first = charged.incarnation == Incarnation(1);
    let is_known = rig.raiders.names.contains(&charged.raider.name);
    to_json(&Charged {
        new_slot: is_named && is_first && !is_known,
        ..charged
    })
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
    let harness = harness(world, rig, args.harness.as_deref())?;
    // That of the rig, too.
    charge::known_harness(world, rig, harness.as_ref())?;
    let after = args.after.as_deref().map(names::relic).transpose()?;
    if args.task.len() > BATCH_MAX {
        let message = format!("a run has at most {BATCH_MAX} tasks");
        return Err(ControlError::bad_request(message));
    }
    let branch = names::branch(args.branch.as_deref())?;
    let usual = Extras {
        starts_on: branch,
        assignee: None,
        harness,
    };
    let tasks =
        (args.task.into_iter()).map(|task| checked(world, rig, task, after.as_ref(), &usual));
    let tasks = tasks.collect::<Result<Vec<_>, _>>()?;
    expect_branches(world, rig, &tasks).await?;
    let mut notes = BTreeMap::new();
    for assignee in tasks
        .iter()
        .filter_map(|(_, extras)| extras.assignee.clone())
    {
        if !notes.contains_key(&assignee)
            && let Some(note) = drums::unknown_note(world, &assignee).await?
        {
            notes.insert(assignee, note);
        }
    }
    let (own, all) = (asker.clone(), world.claims.clone());
    let (relics, claims) = world
        .store
        .run(move |txn| make(txn, &tasks, &own, &all))
        .await?;
    let mut charged = charge_each(world, rig, &asker, &relics, claims).await;
    let (own, made) = (rig.name.clone(), relics.clone());
    let read = move |txn: &mut dyn Txn| {
        let paused = auto_charge::pauses(txn)?.of(&own).is_some();
        let mut open_deps = BTreeMap::new();
        for relic in &made {
            open_deps.insert(relic.id.clone(), auto_charge::open_deps(txn, relic)?);
        }
        Ok((paused, open_deps))
    };
    let (paused, mut open_deps) = world.store.run(read).await?;
    let shown = relics.iter().map(|relic| match charged.remove(&relic.id) {
        Some(charged) => {
            let deps = open_deps.remove(&relic.id).unwrap_or_default();
            started(rig, paused, (relic, deps), charged)
        }
        None => assigned(rig, relic, &notes),
    });
    to_json(&Started {
        relics: shown.collect(),
    })
}

/// Charges the relics without an assignee, the most urgent first, then in their order. Returns the result of each.
async fn charge_each(
    world: &World,
    rig: &Rig,
    asker: &Asker,
    relics: &[Relic],
    mut claims: BTreeMap<RelicId, Claim>,
) -> BTreeMap<RelicId, Result<Charged, Refusal>> {
    let mut order: Vec<_> = relics.iter().filter(|it| it.assignee.is_none()).collect();
    order.sort_by_key(|relic| Reverse(relic.priority));
    let mut batched = |(relic, reply): (&&Relic, _)| BatchedCharge {
        request: ChargeRequest {
            relic: relic.id.clone(),
            harness: relic.harness.clone(),
            name: None,
            target: None,
            origin: Origin::from(asker),
        },
        own_branch: relic.starts_on.clone(),
        claim: claims.remove(&relic.id),
        reply,
    };
    let message = |replies: Vec<_>| {
        WitnessMsg::ChargeEach(ChargeBatch {
            charges: order.iter().zip(replies).map(&mut batched).collect(),
        })
    };
    let witness = world.directory.witness(&rig.name);
    let answers = ask::ask_each(witness, order.len(), message, CHARGE_LIMIT).await;
    let of_each = order.iter().zip(answers);
    let result = |answer: Result<Result<Charged, Refusal>, Refusal>| answer?;
    of_each
        .map(|(relic, answer)| (relic.id.clone(), result(answer)))
        .collect()
}

/// Returns a relic of a `run` that is assigned: its assignee does it.
fn assigned(rig: &Rig, relic: &Relic, notes: &BTreeMap<String, String>) -> StartedRelic {
    let assignee = relic.assignee.clone().unwrap_or_default();
    let doubt = notes.get(&assignee);
    let doubt = doubt.map_or_else(String::new, |note| format!(" ({note})"));
    StartedRelic::Waits(WaitingRelic {
        relic: relic.id.clone(),
        raider: (),
        note: format!("it is assigned to {assignee}{doubt}"),
        rig: rig.name.clone(),
        auto_charge: false,
        charge_paused: false,
        deps: Vec::new(),
        assignee: Some(assignee),
    })
}

/// Returns a relic of a `run`, which depends on these open ones, with the result of its charge.
fn started(
    rig: &Rig,
    paused: bool,
    (relic, deps): (&Relic, Vec<RelicId>),
    charged: Result<Charged, Refusal>,
) -> StartedRelic {
    let relic = relic.id.clone();
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
                deps,
                assignee: None,
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

/// Checks the branches that tasks begin on. One that cannot be used is an error before the first relic is made; a remote
/// that is away is not: then the charge tells.
async fn expect_branches(
    world: &World,
    rig: &Rig,
    tasks: &[(NewRelic, Extras)],
) -> Result<(), ControlError> {
    let named = tasks
        .iter()
        .filter_map(|(_, extras)| extras.starts_on.as_deref());
    let named: BTreeSet<&str> = named.collect();
    for branch in named {
        match charge::start_on(world, rig, branch, None).await {
            Err(refused) if !refused.is_passing() => return Err(refused.into()),
            // It would be waited for as long for each branch.
            Err(refused) if refused.kind == RefusalKind::Timeout => break,
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the relic that a task asks for. A field that the task omits has the value of the run.
fn checked(
    world: &World,
    rig: &Rig,
    task: Task,
    after: Option<&RelicId>,
    usual: &Extras,
) -> Result<(NewRelic, Extras), ControlError> {
    let fields = task.into_fields();
    names::few_labels(&fields.labels)?;
    let own = fields.deps.iter().map(|dep| names::relic(dep));
    let mut deps = own.collect::<Result<Vec<_>, _>>()?;
    deps.extend(after.cloned());
    deps.sort_unstable();
    deps.dedup();
    names::few_deps(deps.len())?;
    let own = Extras {
        starts_on: names::branch(fields.branch.as_deref())?,
        assignee: assignee(fields.assignee.as_deref()),
        harness: harness(world, rig, fields.harness.as_deref())?,
    };
    let new = NewRelic {
        prefix: rig.prefix.clone(),
        kind: RelicKind::Task,
        title: names::title(&fields.title)?,
        body: fields.body,
        priority: fields.priority,
        labels: fields.labels,
        parent: None,
        deps,
        by: None,
    };
    Ok((new, own.or(usual)))
}

/// Returns the assignee of this name; an empty one means none.
pub(super) fn assignee(name: Option<&str>) -> Option<String> {
    let name = name.map(str::trim).filter(|name| !name.is_empty());
    name.map(str::to_owned)
}

/// Makes a relic of each task. Its harness is stored with it, because a task that waits is charged later by
/// `auto_charge` or another `charge`. The claims keep automatic charging from those that the run is about to charge: they
/// are taken before the commit that shows the relics.
fn make(
    txn: &mut dyn Txn,
    tasks: &[(NewRelic, Extras)],
    asker: &Asker,
    claims: &Claims,
) -> Result<(Vec<Relic>, BTreeMap<RelicId, Claim>), StoreError> {
    let (mut relics, mut held) = (Vec::new(), BTreeMap::new());
    for (task, extras) in tasks {
        let new = NewRelic {
            by: Some(asker.name.clone()),
            ..task.clone()
        };
        let relic = created_with(txn, &new, asker, extras)?;
        if relic.assignee.is_none() {
            let claim = claims.claim(ClaimKey::Charge(relic.id.clone()));
            held.extend(claim.map(|claim| (relic.id.clone(), claim)));
        }
        relics.push(relic);
    }
    Ok((relics, held))
}

/// The fields of a new relic beside those that every kind of relic has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extras {
    /// The existing branch that the work begins on.
    pub(super) starts_on: Option<String>,
    /// The person, agent or pool that does it.
    pub(super) assignee: Option<String>,
    /// The harness of its raiders.
    pub(super) harness: Option<HarnessName>,
}

impl Extras {
    /// Returns these fields, with others where one is left out.
    fn or(self, usual: &Self) -> Self {
        Self {
            starts_on: self.starts_on.or_else(|| usual.starts_on.clone()),
            assignee: self.assignee.or_else(|| usual.assignee.clone()),
            harness: self.harness.or_else(|| usual.harness.clone()),
        }
    }
}

/// Makes a relic with these fields, and journals it.
pub(super) fn created_with(
    txn: &mut dyn Txn,
    new: &NewRelic,
    asker: &Asker,
    extras: &Extras,
) -> Result<Relic, StoreError> {
    let mut relic = created(txn, new, asker)?;
    if *extras != Extras::default() {
        let Extras {
            starts_on,
            assignee,
            harness,
        } = extras.clone();
        (relic.starts_on, relic.assignee, relic.harness) = (starts_on, assignee, harness);
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
