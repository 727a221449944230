//! Standing agents and pools, as `status` and `agent.list` show them.

use std::collections::BTreeMap;

use crate::actors::mail::{ChildState, ChildView, PoolView};
use crate::actors::records::operator_orders::OperatorOrders;
use crate::actors::world::World;
use crate::control::handlers::accounts;
use crate::control::protocol::answers::{Agent, AgentState, Pool, Today};
use crate::control::snapshot::Snapshot;
use crate::domain::attention::Attention;
use crate::domain::condition::Condition;
use crate::domain::ids::{AgentName, ChildId, RelicId};
use crate::domain::usage::ledger::Sum;

/// Returns every agent of the configuration, members of pools one by one, and agents that are no longer configured and
/// about to end.
pub(in crate::control::handlers) fn agents(
    world: &World,
    views: &[ChildView],
    orders: &OperatorOrders,
    hooks: &BTreeMap<AgentName, RelicId>,
    used: &BTreeMap<String, Sum>,
) -> Vec<Agent> {
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
    let suspended = orders.suspended.iter().filter_map(|id| match id {
        ChildId::Agent(name) => Some(name),
        ChildId::Raider(_) => None,
    });
    let pool = |name: &AgentName| {
        let mut agents = city.agents.iter();
        let of = agents.find(|agent| agent.member_number(name).is_some())?;
        Some(of.name.clone())
    };
    let laid = orders.resting.iter().chain(suspended);
    for name in laid.filter(|name| pool(name).is_some()) {
        rows.entry(name).or_insert(None);
    }
    let rows = rows.into_iter().map(|(name, view)| {
        let used = used.get(name.as_str()).copied().unwrap_or_default();
        let mut row = row(world, orders, (name, pool(name)), view, &used);
        row.hook = hooks.get(name).cloned();
        row
    });
    rows.collect()
}

/// Describes a standing agent, or a member of a pool.
fn row(
    world: &World,
    orders: &OperatorOrders,
    (name, pool): (&AgentName, Option<AgentName>),
    view: Option<&ChildView>,
    used: &Sum,
) -> Agent {
    let suspends = |name: &AgentName| orders.suspended.contains(&ChildId::Agent(name.clone()));
    let suspended = world.city.suspends(&ChildId::Agent(name.clone()))
        || suspends(name)
        || pool.as_ref().is_some_and(suspends);
    let session = view.and_then(|view| view.session.as_ref());
    let harness = view.and_then(|view| view.spec.harness());
    let shown = accounts::condition(world, view, harness);
    let attention = Attention {
        condition: shown.as_ref().map(Condition::word),
        is_quarantined: view.is_some_and(|view| view.quarantined_until.is_some()),
        ..Attention::default()
    };
    Agent {
        name: name.clone(),
        state: state(view, suspended),
        pid: session.map(|session| session.agent.pid),
        generation: session.map(|session| session.generation.0),
        restarts: view.map_or(0, |view| view.restarts),
        quarantined_until: view.and_then(|view| view.quarantined_until),
        died_of: view.and_then(|view| view.died_of.clone()),
        since: view.map(|view| view.since),
        retry_at: view.and_then(|view| view.retry_at),
        condition: shown.as_ref().map(|shown| shown.word().to_owned()),
        detail: match &shown {
            Some(shown) => Some(shown.text().to_owned()),
            None => view
                .filter(|view| view.put_off.is_some())
                .and_then(ChildView::absence),
        },
        needs_person: attention.of_agent(view.map(|view| view.state)),
        choices: accounts::choices(world, session, shown.as_ref()),
        screen: shown
            .as_ref()
            .and_then(Condition::screen)
            .map(str::to_owned),
        until: shown.as_ref().and_then(Condition::until),
        session: session.map(|session| session.handle.id.clone()),
        // Restarted with its new configuration once no client is attached and no question open.
        deferred: view.is_some_and(|view| view.drifted),
        pool,
        hook: None,
        usage: Today { today: used.into() },
    }
}

fn state(view: Option<&ChildView>, suspended: bool) -> AgentState {
    match view.map(|view| view.state) {
        Some(ChildState::Stopped) | None if suspended => AgentState::Suspended,
        Some(ChildState::Running) if view.is_some_and(|view| view.draining) => AgentState::Draining,
        Some(_) if view.is_some_and(|view| view.put_off.is_some()) => AgentState::Backoff,
        Some(ChildState::Blocked) => AgentState::Blocked,
        Some(ChildState::Running) => AgentState::Running,
        Some(ChildState::Starting) => AgentState::Starting,
        Some(ChildState::Backoff) => AgentState::Backoff,
        Some(ChildState::Quarantined) => AgentState::Quarantined,
        Some(ChildState::Ending) => AgentState::Draining,
        Some(ChildState::Finished | ChildState::Stopped) | None => AgentState::Stopped,
    }
}

/// Returns every pool: the desired number of members with its reason, and the present number.
pub(super) fn pools(world: &World, snapshot: &Snapshot) -> Vec<Pool> {
    let row = |pool: &PoolView| {
        let mut agents = world.city.agents.iter();
        let agent = agents.find(|agent| agent.name == pool.name);
        let members = snapshot.views.iter().filter(|view| match &view.spec.id {
            ChildId::Agent(name) => agent.is_some_and(|a| a.member_number(name).is_some()),
            ChildId::Raider(_) => false,
        });
        let up = members.filter(|view| view.state == ChildState::Running);
        let (draining, running): (Vec<_>, Vec<_>) = up.partition(|view| view.draining);
        Pool {
            name: pool.name.clone(),
            min: pool.pool.min,
            max: pool.pool.max,
            wanted: pool.wanted,
            asked: pool.asked,
            running: running.len(),
            draining: draining.len(),
            last_check: pool.checked,
            error: pool.failed.clone(),
        }
    };
    snapshot.pools.iter().map(row).collect()
}
