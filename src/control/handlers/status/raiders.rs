//! Raiders, as `status`, `raider.list` and `raider.show` show them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::actors::effects;
use crate::actors::mail::{ChildState, ChildView, SessionView};
use crate::actors::sandboxes::Hookless;
use crate::actors::world::World;
use crate::control::handlers::accounts;
use crate::control::protocol::answers::{Git, OpenEscalation, Raider, RaiderUsage, Session};
use crate::control::snapshot::{Records, Snapshot};
use crate::domain::attention::{Attention, PUSH_BLOCKED, WAITING};
use crate::domain::city::Rig;
use crate::domain::condition::Condition;
use crate::domain::facts::Probed;
use crate::domain::ids::{ChildId, RaiderId};
use crate::domain::phase::WorkPhase;
use crate::domain::raider::{RaiderFacts, RaiderState, SessionPresence};
use crate::domain::relic::Hook;
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::stall::Wait;

/// The time within which an automatic continuation follows the end of a turn.
const FOLLOWS: Duration = Duration::from_secs(10);

/// The reasons why a raider of a held rig has no session; that of the hold is told once, with the rig.
const START_WAITS: &str = "its rig is held; its session starts when the rig is prepared";
const COMPLETION_WAITS: &str =
    "its rig is held; its completion is handled when the rig is prepared";

/// Returns the raiders of a rig: those with a hook, then the sandboxes without one.
pub(in crate::control::handlers) fn of_rig(
    world: &World,
    snapshot: &Snapshot,
    children: &BTreeMap<&ChildId, &ChildView>,
    rig: &Rig,
) -> Vec<Raider> {
    let hooks = snapshot.records.hooks.iter();
    let hooks = hooks.filter(|hook| hook.raider.rig == rig.name);
    let hooked = hooks.map(|hook| {
        let view = children.get(&ChildId::Raider(hook.raider.clone())).copied();
        hooked(world, snapshot, hook, view)
    });
    let lone = snapshot.hookless_of(&rig.name).iter();
    hooked
        .chain(lone.map(|lone| hookless(world, lone)))
        .collect()
}

/// Describes a raider of which only the sandbox is left: it should be at work, and has no hook.
fn hookless(world: &World, lone: &Hookless) -> Raider {
    let was = lone.hook();
    let detail = match &lone.was {
        Probed::Known(Some(hook)) => format!("its hook is gone; it was made for {}", hook.relic),
        Probed::Known(None) => "its hook is gone, and its owner is unknown".to_owned(),
        Probed::Unknown(why) => format!("its hook is gone, and its owner cannot be read: {why}"),
    };
    Raider {
        name: lone.raider.name.clone(),
        id: lone.raider.clone(),
        rig: lone.raider.rig.clone(),
        incarnation: was.map(|hook| hook.incarnation.0),
        state: RaiderState::Stalled,
        condition: None,
        detail: Some(detail),
        choices: Vec::new(),
        screen: None,
        until: None,
        stalled_since: None,
        needs_person: Attention::default().of_raider(RaiderState::Stalled),
        blocked: false,
        escalation: None,
        hook: None,
        branch: was.map(|hook| hook.branch.clone()),
        target: was.map(|hook| hook.target.clone()),
        harness: None,
        usage: None,
        session: None,
        sandbox: world.city.sandbox(&lone.raider),
        git: was.and_then(|was| git(world, was)),
        restarts: 0,
        quarantined_until: None,
        died_of: None,
        since: was.map(|hook| hook.charged_at),
        retry_at: None,
        suspended: false,
    }
}

/// Returns git's last figures of the sandbox and their age; none before the first look.
fn git(world: &World, hook: &Hook) -> Option<Git> {
    let seen = world.directory.glances.of(hook, world.clock.mono());
    let ((ahead, dirty, untracked), age) = seen?;
    Some(Git {
        ahead,
        dirty,
        untracked,
        age_s: age.as_secs(),
    })
}

/// Describes the raider that holds this hook.
fn hooked(world: &World, snapshot: &Snapshot, hook: &Hook, view: Option<&ChildView>) -> Raider {
    let records = &snapshot.records;
    let session = view.and_then(|view| view.session.as_ref());
    let waits = records.waits.get(&hook.raider).filter(|wait| {
        let same = session.is_some_and(|session| session.handle.token == wait.session);
        same && !hook.is_declared() && wait.until > world.clock.now()
    });
    let shown = accounts::condition(world, view, Some(&hook.harness));
    let (condition, detail) = condition(world, snapshot, hook, view, waits, shown.as_ref());
    let state = raider_state(world, hook, view, records);
    let is_suspended = is_suspended(world, &hook.raider, records);
    let quarantined_until = view.and_then(|view| view.quarantined_until);
    let retry_at = view.and_then(|view| view.retry_at);
    let blocked = records.is_blocked(&hook.relic);
    let call = records.sandbox_call(hook);
    let attention = Attention {
        condition,
        has_problem: blocked || call.is_some(),
        is_quarantined: quarantined_until.is_some(),
        is_suspended,
        is_retried: view.is_some_and(ChildView::is_retried)
            || waits_for_rig(world, hook, view).is_some(),
    };
    let used = &records.usage;
    Raider {
        name: hook.raider.name.clone(),
        id: hook.raider.clone(),
        rig: hook.raider.rig.clone(),
        incarnation: Some(hook.incarnation.0),
        state,
        condition: condition.map(str::to_owned),
        detail,
        choices: accounts::choices(world, session, shown.as_ref()),
        screen: shown
            .as_ref()
            .and_then(Condition::screen)
            .map(str::to_owned),
        until: shown
            .as_ref()
            .and_then(Condition::until)
            .or(waits.map(|wait| wait.until)),
        stalled_since: records.stalled.get(&hook.raider).map(|steps| steps.since),
        needs_person: attention.of_raider(state),
        blocked,
        escalation: call.map(|(id, problem)| OpenEscalation {
            id: id.clone(),
            problem: problem.to_owned(),
        }),
        hook: Some(hook.relic.clone()),
        branch: Some(hook.branch.clone()),
        target: Some(hook.target.clone()),
        harness: Some(hook.harness.clone()),
        usage: Some(RaiderUsage {
            raider: used.raiders.get(&hook.raider).map(Into::into),
            relic: used.relics.get(&hook.raider).map(Into::into),
        }),
        session: session.map(session_row),
        sandbox: world.city.sandbox(&hook.raider),
        git: git(world, hook),
        restarts: view.map_or(0, |view| view.restarts),
        quarantined_until,
        died_of: view.and_then(|view| view.died_of.clone()),
        since: Some(view.map_or(hook.charged_at, |view| view.since)),
        retry_at,
        suspended: is_suspended,
    }
}

fn session_row(session: &SessionView) -> Session {
    Session {
        id: session.handle.id.clone(),
        pid: session.agent.pid,
        holder_pid: session.holder.as_ref().map(|holder| holder.pid),
        generation: session.generation.0,
        since: session.since,
    }
}

/// Returns the condition of a raider and its text: of its sandbox, its push, its session, its wait, or its absence.
fn condition(
    world: &World,
    snapshot: &Snapshot,
    hook: &Hook,
    view: Option<&ChildView>,
    waits: Option<&Wait>,
    shown: Option<&Condition>,
) -> (Option<&'static str>, Option<String>) {
    if let Some(fault) = snapshot.faults.get(&hook.raider) {
        let sandbox = world.city.sandbox(&hook.raider);
        let detail = format!("{}; {}", fault.says(&sandbox), fault.advice(&hook.raider));
        return (Some(fault.condition()), Some(detail));
    }
    let saga = snapshot
        .records
        .saga(SagaKind::Done, &hook.raider.to_string());
    match (saga.and_then(Saga::push_error), shown, waits) {
        (Some(why), ..) => return (Some(PUSH_BLOCKED), Some(why.to_owned())),
        (None, Some(shown), _) => return (Some(shown.word()), Some(shown.text().to_owned())),
        (None, None, Some(wait)) => {
            let detail = format!("{}, until {:.0}", wait.reason, wait.until);
            return (Some(WAITING), Some(detail));
        }
        (None, None, None) => {}
    }
    let session = view.and_then(|view| view.session.as_ref());
    match session.and_then(|session| idle(world, hook, session)) {
        Some(since) => {
            let detail = format!("its turn ended at {since:.0}; it waits for input");
            (Some(WAITING), Some(detail))
        }
        None => {
            let absence = view.filter(|_| !hook.is_declared());
            let absence = waits_for_rig(world, hook, view)
                .map(str::to_owned)
                .or_else(|| absence.and_then(ChildView::absence));
            let phase = snapshot.records.phase(&hook.raider);
            let stays = session.filter(|_| phase.is_some_and(WorkPhase::is_in_review));
            let stays = stays.map(|_| {
                let name = &hook.raider.name;
                format!("its session stays for the review of its work: hd attach {name}")
            });
            (None, absence.or(stays))
        }
    }
}

/// Returns the reason if the raider has no session because its rig is held: no start succeeds, and no completion is handled.
fn waits_for_rig(world: &World, hook: &Hook, view: Option<&ChildView>) -> Option<&'static str> {
    let view = view.filter(|_| !hook.is_declared())?;
    let why = match view.state {
        _ if view.put_off.is_some() => START_WAITS,
        ChildState::Finished => COMPLETION_WAITS,
        _ => return None,
    };
    effects::is_held(world, &hook.raider.rig).then_some(why)
}

/// Returns the state of the raider that holds this hook.
pub(in crate::control::handlers) fn raider_state(
    world: &World,
    hook: &Hook,
    view: Option<&ChildView>,
    records: &Records,
) -> RaiderState {
    let presence = match view.map(|view| view.state) {
        Some(_) if view.is_some_and(|view| view.put_off.is_some()) => SessionPresence::Absent,
        Some(ChildState::Running | ChildState::Ending) => SessionPresence::Up,
        Some(ChildState::Starting) => SessionPresence::Coming,
        Some(
            ChildState::Backoff
            | ChildState::Blocked
            | ChildState::Quarantined
            | ChildState::Finished
            | ChildState::Stopped,
        )
        | None => SessionPresence::Absent,
    };
    let facts = RaiderFacts {
        is_silent: records.stalled.contains_key(&hook.raider) && !is_fresh(world, hook, view),
        is_suspended: is_suspended(world, &hook.raider, records),
        session: presence,
    };
    // The hook and its phase are of one read.
    let phase = records.phase(&hook.raider);
    phase.map_or(RaiderState::Stalled, |phase| RaiderState::of(phase, facts))
}

fn is_suspended(world: &World, raider: &RaiderId, records: &Records) -> bool {
    let id = ChildId::Raider(raider.clone());
    world.city.suspends(&id) || records.orders.suspended.contains(&id)
}

/// Returns when a raider's turn ended without an end of its work; none while an automatic continuation may follow.
fn idle(world: &World, hook: &Hook, session: &SessionView) -> Option<Timestamp> {
    let ended = world.directory.conditions.turn_over(&session.handle)?;
    let age = Duration::try_from(world.clock.now().duration_since(ended)).ok()?;
    (!hook.is_declared() && age >= FOLLOWS).then_some(ended)
}

/// Returns whether the session is younger than `stall_after`. The steps against a stalled raider are remembered over
/// its next session, which must not count as stalled from its start.
fn is_fresh(world: &World, hook: &Hook, view: Option<&ChildView>) -> bool {
    let rig = world.city.rig(&hook.raider.rig);
    let after = rig.and_then(|rig| rig.raiders.stall_after);
    let session = view.and_then(|view| view.session.as_ref());
    session.zip(after).is_some_and(|(session, after)| {
        let age = world.clock.now().duration_since(session.since);
        Duration::try_from(age).is_ok_and(|age| age < after)
    })
}
