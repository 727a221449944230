//! `status`: one look at everything (`2-contract.md`, 2.4). States are derived here, from facts, at the moment of
//! asking.

mod blocked;

use crate::actors::sandboxes;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::blocked::Blocked;
use super::accounts;
use crate::actors::mail::{ChildState, ChildView, PoolView, SessionView};
use crate::actors::records::operator_orders::{self, OperatorOrders};
use crate::actors::records::{escalations, stalls};
use crate::actors::sandbox_faults;
use crate::actors::sandboxes::Hookless;
use crate::actors::world::World;
use crate::actors::{ask, glances, usage};
use crate::control::protocol::ControlError;
use crate::domain::budget::OnExceed;
use crate::domain::city::Rig;
use crate::domain::condition::Condition;
use crate::domain::facts::Probed;
use crate::domain::ids::{AgentName, ChildId, RaiderId, RigName};
use crate::domain::merge::{self, MergeRequest};
use crate::domain::raider::{RaiderFacts, RaiderState, SessionPresence, derive};
use crate::domain::relic::{Hook, RelicKind, RelicStatus};
use crate::domain::saga::{Saga, SagaKind};
use crate::domain::sandbox_fault::SandboxFault;
use crate::domain::stall::{Steps, Wait};
use crate::domain::usage::ledger::Sum;
use crate::ports::relics::RelicFilter;

/// The time within which an automatic continuation follows the end of a turn.
const FOLLOWS: Duration = Duration::from_secs(10);
/// The limit of waiting for the disk.
const GLANCE_LIMIT: Duration = Duration::from_secs(2);

/// Everything in the store that `status` shows.
pub(super) struct StatusRecords {
    pub(super) hooks: Vec<Hook>,
    pub(super) sagas: Vec<Saga>,
    pub(super) queue: Vec<MergeRequest>,
    /// Tasks that are not closed, as counted by prefix and status.
    pub(super) relics: BTreeMap<(String, RelicStatus), usize>,
    pub(super) escalations: usize,
    blocked: Vec<Blocked>,
    seq: u64,
    /// The steps taken against stalled raiders.
    stalled: BTreeMap<RaiderId, Steps>,
    /// The last wait of each raider.
    waits: BTreeMap<RaiderId, Wait>,
    pub(super) said: operator_orders::OperatorOrders,
    /// Tokens and money.
    pub(super) usage: usage::Now,
}

pub(super) async fn stored(world: &World) -> Result<StatusRecords, ControlError> {
    let tasks = RelicFilter {
        kind: Some(RelicKind::Task),
        ..RelicFilter::default()
    };
    let stored = world.store.run(move |txn| {
        let mut relics = BTreeMap::new();
        let tasks = txn.relics(&tasks)?;
        let open = escalations::open(txn)?;
        for relic in &tasks {
            let prefix = relic.id.prefix().to_owned();
            *relics.entry((prefix, relic.status)).or_default() += 1;
        }
        let (mut stalled, mut waits) = (BTreeMap::new(), BTreeMap::new());
        let hooks = txn.hooks(None)?;
        for hook in &hooks {
            let raider = || hook.raider.clone();
            stalled.extend(stalls::steps(txn, hook)?.map(|steps| (raider(), steps)));
            waits.extend(stalls::wait(txn, &hook.raider)?.map(|wait| (raider(), wait)));
        }
        Ok(StatusRecords {
            usage: usage::now(txn, &hooks)?,
            relics,
            hooks,
            stalled,
            waits,
            sagas: txn.sagas(None)?,
            queue: txn.mrs(None, true)?,
            escalations: open.len(),
            blocked: blocked::of(&tasks, &open),
            seq: txn.last_seq()?,
            said: operator_orders::read(txn)?,
        })
    });
    Ok(stored.await?)
}

pub(super) async fn status(world: &World, started: Duration) -> Result<Value, ControlError> {
    let all = ask::views(world).await?;
    let stored = stored(world).await?;
    let views: BTreeMap<_, _> = all
        .iter()
        .map(|view| (view.spec.id.clone(), view))
        .collect();
    let mut rigs = Vec::new();
    for rig in &world.city.rigs {
        rigs.push(rig_status(world, rig, &views, &stored).await?);
    }
    let agents = agents(world, &all, &stored.said, &stored.usage.agents);
    let pools = pools(world, &all).await?;
    let uptime = world.clock.mono().saturating_sub(started);
    let budgets = usage::spent(world).await?;
    let budgets = budgets.iter().map(|(over, until)| {
        let parks = over.budget.on_exceed == OnExceed::Park;
        json!({
            "of": over.scope.to_string(), "usd_per_day": over.budget.usd_per_day,
            "spent": over.spent, "detail": over.says(), "parks": parks,
            "until": parks.then_some(until),
        })
    });
    let budgets: Vec<_> = budgets.collect();
    Ok(json!({
        "city": world.city.name, "pid": std::process::id(), "uptime_s": uptime.as_secs(),
        "version": env!("CARGO_PKG_VERSION"), "config_revision": world.city.revision,
        "last_reload_error": world.directory.reload_error(),
        "ground": world.directory.ground.troubles(), "agents": agents, "pools": pools,
        "rigs": rigs, "accounts": accounts::list(world), "budgets": budgets,
        "automations": super::auto::list(world).await?,
        "escalations": stored.escalations, "usage": { "today": stored.usage.sum().to_json() }, "seq": stored.seq, "socket": world.socket,
    }))
}

async fn rig_status(
    world: &World,
    rig: &Rig,
    views: &BTreeMap<ChildId, &ChildView>,
    stored: &StatusRecords,
) -> Result<Value, ControlError> {
    let hooks: Vec<&Hook> = stored
        .hooks
        .iter()
        .filter(|hook| hook.raider.rig == rig.name)
        .collect();
    let lone = hookless(world, rig).await;
    let was = lone.iter().filter_map(Hookless::hook);
    let all = hooks.iter().copied().chain(was).cloned();
    glances::refresh(world, &rig.name, all.collect());
    let ailing = ailing(world, rig).await;
    let rows = hooks.iter().map(|hook| {
        let view = views.get(&ChildId::Raider(hook.raider.clone())).copied();
        raider_json(world, hook, view, stored, ailing.get(&hook.raider))
    });
    let lone = lone.iter().map(|lone| hookless_json(world, lone));
    let raiders: Vec<_> = rows.chain(lone).collect();
    let mut queue: Vec<_> = stored
        .queue
        .iter()
        .filter(|mr| mr.rig == rig.name)
        .collect();
    queue.sort_by(|a, b| merge::order(a).cmp(&merge::order(b)));
    let now = world.clock.now();
    let relics = |status| {
        stored
            .relics
            .get(&(rig.prefix.clone(), status))
            .unwrap_or(&0)
    };
    Ok(json!({
        "name": rig.name, "raiders": raiders, "draining": rig.draining,
        "suspended": rig.suspended || world.city.suspended,
        "relics": {
            "open": relics(RelicStatus::Open), "hooked": relics(RelicStatus::Hooked),
            "blocked": relics(RelicStatus::Blocked), "deferred": relics(RelicStatus::Deferred),
        },
        "blocked": blocked::json(&stored.blocked, &rig.prefix),
        "forge": {
            "paused": rig.suspended || world.city.suspended,
            "queue": queue.iter().map(|mr| mr_json(mr, now)).collect::<Vec<_>>(),
        },
        "witness": { "last_patrol": world.directory.last_patrol(&rig.name) },
    }))
}

/// Returns the sandboxes without a hook, as far as they are found in time.
pub(super) async fn hookless(world: &World, rig: &Rig) -> Vec<Hookless> {
    match tokio::time::timeout(GLANCE_LIMIT, sandboxes::hookless(world, rig)).await {
        Ok(Ok(lone)) => lone,
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Returns raiders whose sandbox is missing or broken, as far as that is seen in time.
async fn ailing(world: &World, rig: &Rig) -> BTreeMap<RaiderId, SandboxFault> {
    let looked = sandbox_faults::by_raider(world, &rig.name);
    let seen = match tokio::time::timeout(GLANCE_LIMIT, looked).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(_)) | Err(_) => BTreeMap::new(),
    };
    let seen = seen.into_iter();
    seen.filter_map(|(raider, what)| Some((raider, what.ok()?)))
        .collect()
}

/// Describes a raider of which only the sandbox is left: it should be at work, and has no hook.
fn hookless_json(world: &World, lone: &Hookless) -> Value {
    let was = lone.hook();
    let detail = match &lone.was {
        Probed::Known(Some(hook)) => format!("its hook is gone; it was made for {}", hook.relic),
        Probed::Known(None) => "its hook is gone, and its owner is unknown".to_owned(),
        Probed::Unknown(why) => format!("its hook is gone, and its owner cannot be read: {why}"),
    };
    json!({
        "name": lone.raider.name, "id": lone.raider, "rig": lone.raider.rig,
        "incarnation": was.map(|hook| hook.incarnation), "state": RaiderState::Stalled,
        "condition": null, "detail": detail, "until": null, "stalled_since": null,
        "hook": null, "branch": was.map(|hook| &hook.branch),
        "target": was.map(|hook| &hook.target), "harness": null, "session": null,
        "sandbox": world.city.sandbox(&lone.raider), "git": was.and_then(|was| git_json(world, was)),
        "restarts": 0, "quarantined_until": null, "since": was.map(|hook| hook.charged_at),
        "suspended": false,
    })
}

/// Returns git's last figures of the sandbox and their age in seconds; none before the first look.
fn git_json(world: &World, hook: &Hook) -> Option<Value> {
    let seen = world.directory.glances.of(hook, world.clock.mono());
    let ((ahead, dirty, untracked), age) = seen?;
    Some(json!({
        "ahead": ahead, "dirty": dirty, "untracked": untracked, "age_s": age.as_secs(),
    }))
}

/// Returns a merge request as a row of the queue.
pub(super) fn mr_json(mr: &MergeRequest, now: Timestamp) -> Value {
    json!({
        "id": mr.id, "rig": mr.rig, "relic": mr.relic, "raider": mr.raider, "branch": mr.branch,
        "head": mr.head, "target": mr.target, "state": mr.shown(now), "priority": mr.priority,
        "review": mr.review, "attempts": mr.attempts, "note": mr.note, "not_before": mr.not_before,
        "needs_person": mr.needs_person(),
    })
}

/// Returns the state of the raider that holds this hook.
pub(super) fn raider_state(
    world: &World,
    hook: &Hook,
    view: Option<&ChildView>,
    stored: &StatusRecords,
) -> RaiderState {
    let presence = match view.map(|view| view.state) {
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
    let subject = hook.raider.to_string();
    let under_way = |kind| saga_of(&stored.sagas, kind, &subject).is_some();
    derive(RaiderFacts {
        charging: under_way(SagaKind::Charge),
        done: hook.done.is_some(),
        finishing: under_way(SagaKind::Done) || under_way(SagaKind::Nuke),
        silent: stored.stalled.contains_key(&hook.raider) && !is_fresh(world, hook, view),
        suspended: is_suspended(world, &hook.raider, stored),
        session: presence,
    })
}

fn is_suspended(world: &World, raider: &RaiderId, stored: &StatusRecords) -> bool {
    let id = ChildId::Raider(raider.clone());
    world.city.suspends(&id) || stored.said.suspended.contains(&id)
}

/// Returns when a raider's turn ended without an end of its work; none while an automatic continuation may follow.
fn idle(world: &World, hook: &Hook, session: &SessionView) -> Option<Timestamp> {
    let ended = world.directory.conditions.turn_over(&session.handle)?;
    let age = Duration::try_from(world.clock.now().duration_since(ended)).ok()?;
    (hook.done.is_none() && age >= FOLLOWS).then_some(ended)
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

fn saga_of<'a>(sagas: &'a [Saga], kind: SagaKind, subject: &str) -> Option<&'a Saga> {
    let mut sagas = sagas.iter();
    sagas.find(|saga| saga.kind == kind && saga.subject == subject)
}

/// Returns a raider as `status`, `raider.list` and `raider.show` print it.
fn raider_json(
    world: &World,
    hook: &Hook,
    view: Option<&ChildView>,
    stored: &StatusRecords,
    ailment: Option<&SandboxFault>,
) -> Value {
    let state = raider_state(world, hook, view, stored);
    let blocked =
        saga_of(&stored.sagas, SagaKind::Done, &hook.raider.to_string()).and_then(Saga::push_error);
    let session = view.and_then(|view| view.session.as_ref());
    let waits = stored.waits.get(&hook.raider).filter(|wait| {
        let same = session.is_some_and(|session| session.handle.token == wait.session);
        same && hook.done.is_none() && wait.until > world.clock.now()
    });
    let shown = accounts::condition(world, view, Some(&hook.harness));
    let sandbox = world.city.sandbox(&hook.raider);
    let ailing = ailment.map(|what| {
        let detail = format!("{}; {}", what.says(&sandbox), what.advice(&hook.raider));
        (Some(what.condition()), Some(detail))
    });
    let (condition, detail) = ailing.unwrap_or_else(|| match (blocked, &shown, waits) {
        (Some(why), ..) => (Some("push_blocked"), Some(why.to_owned())),
        (None, Some(shown), _) => (Some(shown.word()), Some(shown.text().to_owned())),
        (None, None, Some(wait)) => (
            Some("waiting"),
            Some(format!("{}, until {:.0}", wait.reason, wait.until)),
        ),
        (None, None, None) => match session.and_then(|session| idle(world, hook, session)) {
            Some(since) => (
                Some("waiting"),
                Some(format!("its turn ended at {since:.0}; it waits for input")),
            ),
            None => {
                let absence = view.filter(|_| hook.done.is_none());
                (None, absence.and_then(ChildView::absence))
            }
        },
    });
    json!({
        "name": hook.raider.name, "id": hook.raider, "rig": hook.raider.rig,
        "incarnation": hook.incarnation, "state": state,
        "condition": condition, "detail": detail, "choices": accounts::choices(world, session, shown.as_ref()),
        "screen": shown.as_ref().and_then(Condition::screen),
        "until": shown.as_ref().and_then(Condition::until).or(waits.map(|wait| wait.until)),
        "stalled_since": stored.stalled.get(&hook.raider).map(|steps| steps.since),
        "blocked": stored.blocked.iter().any(|blocked| blocked.id == hook.relic),
        "hook": hook.relic, "branch": hook.branch, "target": hook.target,
        "harness": hook.harness,
        "usage": json!({
            "raider": stored.usage.raiders.get(&hook.raider).map(Sum::to_json),
            "relic": stored.usage.relics.get(&hook.raider).map(Sum::to_json),
        }),
        "session": session.map(|session| json!({
            "id": session.handle.id, "pid": session.agent.pid,
            "holder_pid": session.holder.as_ref().map(|holder| holder.pid),
            "generation": session.generation, "since": session.since,
        })),
        "sandbox": sandbox,
        "git": git_json(world, hook),
        "restarts": view.map_or(0, |view| view.restarts),
        "quarantined_until": view.and_then(|view| view.quarantined_until),
        "died_of": view.and_then(|view| view.died_of.as_ref()),
        "since": view.map_or(hook.charged_at, |view| view.since),
        "retry_at": view.and_then(|view| view.retry_at),
        "suspended": is_suspended(world, &hook.raider, stored),
    })
}

/// Returns every agent of the configuration, members of pools one by one, and agents that are no longer configured and
/// about to end.
pub(super) fn agents(
    world: &World,
    views: &[ChildView],
    said: &OperatorOrders,
    used: &BTreeMap<String, Sum>,
) -> Vec<Value> {
    let city = &world.city;
    let mut rows: BTreeMap<&AgentName, Option<&ChildView>> = BTreeMap::new();
    for agent in city.agents.iter().filter(|agent| agent.pool.is_none()) {
        rows.insert(&agent.name, None);
    }
    for view in views {
        if let ChildId::Agent(name) = &view.spec.id {
            rows.insert(name, Some(view));
        }
    }
    // Pool members that were laid to rest before this start have no view.
    let suspended = said.suspended.iter().filter_map(|id| match id {
        ChildId::Agent(name) => Some(name),
        ChildId::Raider(_) => None,
    });
    let laid = said.resting.iter().chain(suspended);
    let is_member = |name: &AgentName| {
        let mut agents = city.agents.iter();
        agents.any(|of| of.member_number(name).is_some())
    };
    for name in laid.filter(|name| is_member(name)) {
        rows.entry(name).or_insert(None);
    }
    let pool = |name: &AgentName| {
        let mut agents = city.agents.iter();
        let of = agents.find(|agent| agent.member_number(name).is_some())?;
        Some(of.name.clone())
    };
    let suspended = |name: &AgentName| {
        let said = |name| said.suspended.contains(&ChildId::Agent(name));
        city.suspends(&ChildId::Agent(name.clone()))
            || said(name.clone())
            || pool(name).is_some_and(said)
    };
    let row = |(name, view)| {
        let mut row = agent_json(world, name, view, suspended(name));
        row["pool"] = json!(pool(name));
        let today = used.get(name.as_str()).copied().unwrap_or_default();
        row["usage"] = json!({ "today": today.to_json() });
        row
    };
    rows.into_iter().map(row).collect()
}

/// Returns every pool: the desired number of members with its reason, and the present number.
async fn pools(world: &World, views: &[ChildView]) -> Result<Vec<Value>, ControlError> {
    let pools = ask::pools(world).await?;
    let row = |pool: PoolView| {
        let mut agents = world.city.agents.iter();
        let agent = agents.find(|agent| agent.name == pool.name);
        let members = views.iter().filter(|view| match &view.spec.id {
            ChildId::Agent(name) => agent.is_some_and(|a| a.member_number(name).is_some()),
            ChildId::Raider(_) => false,
        });
        let up = members.filter(|view| view.state == ChildState::Running);
        let (draining, running): (Vec<_>, Vec<_>) = up.partition(|view| view.draining);
        json!({
            "name": pool.name, "min": pool.pool.min, "max": pool.pool.max,
            "wanted": pool.wanted, "asked": pool.asked, "running": running.len(), "draining": draining.len(),
            "last_check": pool.checked, "error": pool.failed,
        })
    };
    Ok(pools.into_iter().map(row).collect())
}

/// Returns a standing agent as `status` prints it.
fn agent_json(world: &World, name: &AgentName, view: Option<&ChildView>, suspended: bool) -> Value {
    let state = match view.map(|view| view.state) {
        Some(ChildState::Stopped) | None if suspended => "suspended",
        Some(ChildState::Running) if view.is_some_and(|view| view.draining) => "draining",
        Some(ChildState::Blocked) => "blocked",
        Some(ChildState::Running) => "running",
        Some(ChildState::Starting) => "starting",
        Some(ChildState::Backoff) => "backoff",
        Some(ChildState::Quarantined) => "quarantined",
        Some(ChildState::Ending) => "draining",
        Some(ChildState::Finished | ChildState::Stopped) | None => "stopped",
    };
    let session = view.and_then(|view| view.session.as_ref());
    let harness = view.and_then(|view| view.spec.harness());
    let shown = accounts::condition(world, view, harness);
    json!({
        "name": name, "state": state, "pid": session.map(|session| session.agent.pid),
        "generation": session.map(|session| session.generation),
        "restarts": view.map_or(0, |view| view.restarts),
        "quarantined_until": view.and_then(|view| view.quarantined_until),
        "died_of": view.and_then(|view| view.died_of.as_ref()),
        "since": view.map(|view| view.since), "retry_at": view.and_then(|view| view.retry_at),
        "condition": shown.as_ref().map(Condition::word),
        "detail": shown.as_ref().map(Condition::text), "choices": accounts::choices(world, session, shown.as_ref()),
        "screen": shown.as_ref().and_then(Condition::screen),
        "until": shown.as_ref().and_then(Condition::until),
        "session": session.map(|session| session.handle.id.clone()),
        // Restarted with its new configuration once no client is attached and no question open.
        "deferred": view.is_some_and(|view| view.drifted),
    })
}

/// Returns several raiders, for `raider.list`.
pub(super) async fn raiders(
    world: &World,
    rig: Option<&RigName>,
) -> Result<Vec<Value>, ControlError> {
    let status = status(world, world.clock.mono()).await?;
    let rigs = status
        .get("rigs")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    let wanted = |value: &&Value| {
        rig.is_none_or(|rig| value.get("name").is_some_and(|name| name == rig.as_str()))
    };
    let raiders = rigs
        .iter()
        .filter(wanted)
        .filter_map(|rig| rig.get("raiders")?.as_array());
    Ok(raiders.flatten().cloned().collect())
}
