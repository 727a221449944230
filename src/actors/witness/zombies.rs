//! Zombies: detected by observation, noted once, handled (`domain::zombie` decides).
//!
//! ```text
//!  patrol, event, timer ──► suspect ──► observed anew ──► no zombie: left alone
//!                                         └──► noted ──► session ended or replaced, or sandbox removed;
//!                                                        a sandbox with work stays, and a person is called
//! ```
//!
//! Between observation and act the session may have been recreated, or the name reused: the act is bound to the
//! observed session or incarnation, and refused for anything newer (`witness-patrol.md`, TOCTOU guard). A session
//! without its agent is replaced when two patrols in a row have seen it so.

use crate::actors::mail::NukeTarget;
use crate::actors::sandboxes::hookless;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::refusal::{Refusal, RefusalKind};
use super::super::{ask, effects};
use super::inbox::{Handled, raise};
use super::kept_sandboxes::{self, KeptSandbox};
use super::observe::{self, Observation};
use super::{WitnessArgs, nuke_now, quarantined, wisps};
use crate::actors::mail::ChildRef;
use crate::actors::records::key_values;
use crate::domain::cause::Cause;
use crate::domain::city::Rig;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{Incarnation, RaiderId};
use crate::domain::message::Escalation;
use crate::domain::phase::{RaiderRecord, WorkPhase};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::Hook;
use crate::domain::zombie::{Act, Class, Policy, WorkState, is_lasting, judge};
use crate::ports::relics::Txn;

fn policy(rig: &Rig) -> Policy {
    Policy {
        spawn_grace: rig.witness.spawn_grace,
        done_intent_timeout: rig.witness.done_intent_timeout,
    }
}

/// Returns the raiders that seem to be zombies now.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn suspects(args: &WitnessArgs) -> Result<Vec<RaiderId>, Refusal> {
    let Some(rig) = args.world.city.rig(&args.rig) else {
        return Ok(Vec::new());
    };
    let world = &args.world;
    let (mut suspects, mut dead_agents) = (Vec::new(), BTreeMap::new());
    for sight in observe::gather(world, rig, None).await? {
        let Some((class, _)) = judge(&sight.facts, &policy(rig)) else {
            continue;
        };
        if class.needs_second_observation() {
            dead_agents.insert(sight.raider.clone(), sight.token.unwrap_or_default());
        }
        suspects.push(sight.raider);
    }
    args.memory
        .judged_sandboxes
        .record_dead_agents(dead_agents, world.clock.mono());
    Ok(suspects)
}

/// Returns true when the previous patrol saw this session without its agent as well. Observations of an earlier
/// supervisor are made again.
fn was_seen_before(args: &WitnessArgs, sight: &Observation) -> bool {
    let world = &args.world;
    let token = sight.token.as_deref().unwrap_or_default();
    let since = args
        .memory
        .judged_sandboxes
        .agent_missing_since(&sight.raider, token);
    let lasted = since.map(|since| world.clock.mono().saturating_sub(since));
    lasted.is_some_and(|lasted| is_lasting(lasted, world.city.daemon.patrol_interval))
}

/// Observes a suspect anew, and acts.
///
/// # Errors
/// The store, the root or the nuke failed.
pub(super) async fn suspect(args: &WitnessArgs, raider: &RaiderId) -> Result<Handled, Refusal> {
    let world = &args.world;
    let Some(rig) = world.city.rig(&args.rig) else {
        return Ok(Handled::AtPatrol);
    };
    let seen = observe::gather(world, rig, Some(raider)).await?.pop();
    let Some((sight, (class, act))) = seen.and_then(|sight| {
        let verdict = judge(&sight.facts, &policy(rig))?;
        Some((sight, verdict))
    }) else {
        return Ok(Handled::AtPatrol);
    };
    let Some(hook) = &sight.hook else {
        return nameless(args, raider).await;
    };
    if class.needs_second_observation() && !was_seen_before(args, &sight) {
        return Ok(Handled::AtPatrol);
    }
    let noted = journal_class(args, hook, class, sight.facts.work).await?;
    let cause = class.cause(sight.facts.work);
    let meant = ChildRef::raider(raider, hook.incarnation);
    let seen = sight.token.clone().unwrap_or_default();
    let done = match act {
        Act::Remove if !quarantined::may_go(args, &sight, hook).await? => {
            quarantined::keep(args, &sight, hook).await
        }
        Act::Remove => remove(args, &sight, hook, cause, noted).await,
        Act::EndAndRemove => match ask::end(world, meant.only(seen), cause).await {
            Ok(()) => remove(args, &sight, hook, cause, noted).await,
            Err(refused) => Err(refused),
        },
        Act::End => ask::end(world, meant.only(seen), cause)
            .await
            .map(|()| Handled::Yes),
        Act::Replace => {
            let tail = effects::tail(world, &raider.session_id()).await;
            let replaced = ask::replace_dead(world, meant.only(seen), tail).await;
            replaced.map(|()| Handled::AtPatrol)
        }
    };
    match done {
        // Its incarnation changed, or another task has claimed it and tells the witness when it ends.
        Err(other) if other.is_for_the_patrol() => Ok(Handled::AtPatrol),
        done => done,
    }
}

/// Removes the sandbox, if nothing is lost by it; otherwise calls a person.
async fn remove(
    args: &WitnessArgs,
    sight: &Observation,
    hook: &Hook,
    cause: Cause,
    noted: Timestamp,
) -> Result<Handled, Refusal> {
    let work = sight.facts.work;
    let detected = Some(sight.at);
    let target = NukeTarget {
        detected,
        ..NukeTarget::of(hook, cause)
    };
    let refused = match nuke_now(args, target, false).await {
        Ok(_) => return Ok(Handled::Yes),
        Err(refused) if matches!(refused.kind, RefusalKind::WorkAtRisk | RefusalKind::NoRoom) => {
            refused
        }
        Err(error) => return Err(error),
    };
    let problem = match work {
        WorkState::Gone => ProblemKind::Hookless,
        WorkState::Closed => ProblemKind::RelicClosed,
        WorkState::Open | WorkState::Done { .. } => ProblemKind::Quarantined,
    };
    let kept = KeptSandbox {
        hook,
        owns: work != WorkState::Gone,
        since: match work {
            // The wisp of its first quarantine without recovery holds the start.
            WorkState::Open => sight.at,
            WorkState::Gone | WorkState::Closed | WorkState::Done { .. } => {
                sight.since.unwrap_or(noted)
            }
        },
        detected,
        problem,
        refused,
        may_go: true,
    };
    kept_sandboxes::retain(args, kept).await
}

/// Calls a person: the sandbox's incarnation is unknown, so it must never be removed automatically.
async fn nameless(args: &WitnessArgs, raider: &RaiderId) -> Result<Handled, Refusal> {
    let Some(rig) = args.world.city.rig(&args.rig) else {
        return Ok(Handled::Yes);
    };
    // The observation may be of a sandbox that was removed, or given to a raider, while its owner was looked up.
    let now = hookless(&args.world, rig).await?;
    if !now
        .iter()
        .any(|it| it.raider == *raider && it.hook().is_none())
    {
        return Ok(Handled::Yes);
    }
    let path = args.world.city.sandbox(raider);
    let evidence = format!(
        "the owner of {} is unknown; look at its content and move it elsewhere",
        path.display()
    );
    wisps::track_unowned(args, raider, &evidence).await?;
    call(args, raider, ProblemKind::Nameless, evidence).await?;
    Ok(Handled::AtPatrol)
}

async fn call(
    args: &WitnessArgs,
    raider: &RaiderId,
    problem: ProblemKind,
    evidence: String,
) -> Result<(), Refusal> {
    let body = Escalation::high(raider, problem, evidence);
    raise(args, body).await
}

/// The classes under which an incarnation was noted, and when.
#[derive(Debug, Serialize, Deserialize)]
struct Noted {
    incarnation: Incarnation,
    classes: BTreeMap<Class, Timestamp>,
}

/// Journals each class of an incarnation once, because handling it may take several attempts.
///
/// Returns when it was noted first.
async fn journal_class(
    args: &WitnessArgs,
    hook: &Hook,
    class: Class,
    work: WorkState,
) -> Result<Timestamp, Refusal> {
    let (subject, cause) = (hook.raider.to_string(), class.cause(work));
    let data = serde_json::json!({
        "class": class, "incarnation": hook.incarnation, "relic": hook.relic,
    });
    let (key, incarnation) = (format!("zombie/{subject}"), hook.incarnation);
    let note = move |txn: &mut dyn Txn| {
        let noted: Option<Noted> = key_values::read(txn, &key)?;
        let own = noted.filter(|noted| noted.incarnation == incarnation);
        let mut noted = own.unwrap_or(Noted {
            incarnation,
            classes: BTreeMap::new(),
        });
        if let Some(at) = noted.classes.get(&class) {
            return Ok(*at);
        }
        noted.classes.insert(class, txn.now());
        key_values::write(txn, &key, &noted)?;
        let event = NewEvent::new(EventType::RaiderZombie, &subject, cause);
        txn.record(&event.with(data.clone()))?;
        Ok(txn.now())
    };
    Ok(args.world.store.run(note).await?)
}

/// Returns the raiders whose completion may be stuck by now, and when the next may be.
pub(super) fn overdue(
    records: &[RaiderRecord],
    rig: &Rig,
    now: Timestamp,
) -> (Vec<RaiderId>, Option<Timestamp>) {
    let (mut late, mut next) = (Vec::new(), None);
    for record in records {
        let Some(since) = WorkPhase::of(record).done_since() else {
            continue;
        };
        // A time beyond the calendar never comes.
        let Ok(due) = since.checked_add(rig.witness.done_intent_timeout) else {
            continue;
        };
        if due < now {
            late.push(record.hook.raider.clone());
        } else {
            next = Some(next.map_or(due, |next: Timestamp| next.min(due)));
        }
    }
    (late, next)
}
