//! A look at the world, in a task of its own: observes sessions, hooks and sagas, and plans with `domain::reconcile`.
//! The root applies the plan (patrol.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::super::boards::Moment;
use super::super::claims::ClaimKey;
use super::super::conditions::{self, Observed};
use super::super::usage;
use super::super::world::World;
use super::super::{accounts, effects};
use super::dead_agents::{self, DeadAgent};
use super::desired::{DesiredInputs, Want, raiders};
use super::history::StoredHistories;
use crate::actors::mail::ChildSpec;
use crate::actors::records::operator_orders;
use crate::actors::records::quarantine;
use crate::actors::session::launch;
use crate::domain::condition::Condition;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::phase::RaiderRecord;
use crate::domain::reconcile::{Decision, Mode, PlanInputs, Tended, Wanted, idle_at, plan};
use crate::domain::saga::Saga;
use crate::ports::sessions::{SessionEvent, SessionHandle};

/// The root's state when a look began.
pub(super) struct RootState {
    pub(super) tended: BTreeMap<ChildId, Tended>,
    pub(super) sizes: BTreeMap<AgentName, u32>,
    /// Agents that an operator stopped; the store may not have the stop yet.
    pub(super) resting: BTreeSet<AgentName>,
    /// Sessions that were up, with their tokens.
    pub(super) up: BTreeMap<SessionId, String>,
    /// Set when the stored death histories have been read.
    pub(super) histories: bool,
    /// Set when a patrol asked for this look.
    pub(super) patrol: bool,
}

/// The result of a look: what was observed, and the plan. Empty when the world cannot be observed: then nothing is
/// done.
#[derive(Default)]
pub struct Look {
    pub(super) decisions: Vec<Decision>,
    /// The spec of every wanted child, from the current configuration.
    pub(super) specs: BTreeMap<ChildId, ChildSpec>,
    /// Sessions that were up when the look began, with their tokens.
    pub(super) up: BTreeMap<SessionId, String>,
    /// Ends of sessions that the root believed up. Events are hints; a lost event is made up for here.
    pub(super) ended: Vec<SessionEvent>,
    /// Raiders that hold a slot; none when unknown.
    pub(super) hooked: Option<BTreeSet<RaiderId>>,
    /// Wanted children whose run state is unknown, with the reason.
    pub(super) unseen: BTreeMap<ChildId, String>,
    /// The operators' suspensions and stops; none when unknown.
    pub(super) standing: Option<operator_orders::OperatorOrders>,
    /// Death histories of an earlier supervisor; none once they have been read.
    pub(super) deaths: Option<StoredHistories>,
    /// Agents whose sessions run without the agent's process; none when processes were not looked at.
    pub(super) dead_agents: Option<BTreeMap<ChildId, DeadAgent>>,
    /// When the next session reaches its idle timeout.
    pub(super) idle_at: Option<Timestamp>,
}

struct StoredState {
    records: Vec<RaiderRecord>,
    sagas: Vec<Saga>,
    orders: operator_orders::OperatorOrders,
    deaths: Option<StoredHistories>,
}

async fn observe_world(world: &World, histories: bool) -> Option<(Vec<SessionFacts>, StoredState)> {
    let sessions = effects::list(world).await;
    let runs =
        |facts: &&SessionFacts| matches!(facts.state, RunState::Running | RunState::Unknown { .. });
    let seen = sessions.iter().flatten().filter(runs);
    // Sessions that cannot be listed prove nothing.
    let running: Option<BTreeSet<_>> = sessions
        .is_ok()
        .then(|| seen.map(|facts| facts.id.clone()).collect());
    let city = Arc::clone(&world.city);
    let stored = world
        .store
        .run(move |txn| {
            let mut records = txn.raiders(None)?;
            for hook in records.iter_mut().map(|record| &mut record.hook) {
                let rests =
                    |running: &BTreeSet<SessionId>| !running.contains(&hook.raider.session_id());
                if running.as_ref().is_some_and(rests) {
                    launch::move_on(txn, &city, hook)?;
                }
            }
            let deaths = match histories {
                true => None,
                false => Some(StoredHistories {
                    deaths: txn.deaths()?,
                    quarantined: quarantine::held(txn)?,
                }),
            };
            Ok(StoredState {
                records,
                sagas: txn.sagas(None)?,
                orders: operator_orders::read(txn)?,
                deaths,
            })
        })
        .await;
    match (sessions, stored) {
        (Ok(sessions), Ok(stored)) => Some((sessions, stored)),
        (Err(error), _) => {
            tracing::warn!(%error, "the sessions cannot be listed; this look changes nothing");
            None
        }
        (_, Err(error)) => {
            tracing::warn!(%error, "the store cannot be read; this look changes nothing");
            None
        }
    }
}

/// Observes the world and returns the plan.
pub(super) async fn observe(world: &World, known: RootState) -> Look {
    let city = Arc::clone(&world.city);
    accounts::load(world).await;
    let moment = world.directory.conditions.moment();
    let Some((sessions, stored)) = observe_world(world, known.histories).await else {
        return Look::default();
    };
    let (records, sagas, mut orders) = (stored.records, stored.sagas, stored.orders);
    orders.resting.extend(known.resting);
    let names = records.iter().map(|record| record.hook.raider.clone());
    let hooked = names.collect();
    let repaired = |record: RaiderRecord| {
        let claim = ClaimKey::Repair(record.hook.raider.clone());
        let is_repaired = world.claims.is_claimed(&claim);
        (record, is_repaired)
    };
    let records = records.into_iter().map(repaired).collect();
    let (mut wants, mut busy) = raiders(&city, records, &sagas, &orders.suspended);
    let agents = DesiredInputs {
        sessions: &sessions,
        tended: &known.tended,
        resting: &orders.resting,
        suspended: &orders.suspended,
        sizes: &known.sizes,
    };
    wants.extend(agents.agents(&city));
    let ending = |facts: &&SessionFacts| {
        world
            .claims
            .is_claimed(&ClaimKey::Orphan(facts.token.clone()))
    };
    busy.extend(sessions.iter().filter(ending).map(|facts| facts.id.clone()));
    let ended = ended(&sessions, &known.up);
    let by_id: BTreeMap<_, _> = sessions.iter().map(|facts| (&facts.id, facts)).collect();
    let asking = asking(world, moment, &wants, &by_id).await;
    read_transcripts(world, &wants, &by_id);
    let unseen = unseen(&wants, &by_id);
    park(world, &mut wants, &by_id).await;
    let dead_agents = dead_agents::find(world, known.patrol, &wants, &by_id).await;
    let now = world.clock.now();
    let sessions: Vec<_> = sessions
        .into_iter()
        .map(|facts| steady(world, facts, now))
        .collect();
    let (wanted, specs): (Vec<Wanted>, Vec<ChildSpec>) = wants.into_iter().unzip();
    let idle_at = next_idle(&wanted, &sessions, now);
    let decisions = plan(&PlanInputs {
        sessions,
        wanted,
        busy,
        asking,
        tended: known.tended,
        now,
    });
    Look {
        decisions,
        specs: specs
            .into_iter()
            .map(|spec| (spec.id.clone(), spec))
            .collect(),
        up: known.up,
        ended,
        hooked: Some(hooked),
        unseen,
        standing: Some(orders),
        deaths: stored.deaths,
        dead_agents,
        idle_at,
    }
}

/// Starts reading the new parts of all transcripts. They may be long, so the look does not wait.
fn read_transcripts(world: &World, wants: &[Want], by_id: &BTreeMap<&SessionId, &SessionFacts>) {
    let runs = by_id
        .values()
        .filter(|facts| matches!(facts.state, RunState::Running | RunState::Unknown { .. }));
    let runs = runs.map(|facts| facts.id.clone()).collect();
    let specs = wants.iter().map(|(_, spec)| spec.clone()).collect();
    tokio::spawn(usage::patrol(world.clone(), specs, runs));
}

/// A limit that lasts longer than this is waited for without a session.
const LONG: Duration = Duration::from_secs(30 * 60);

/// Marks the children whose account is parked: they are not started. A running session is kept, except at a lasting
/// limit when its conversation can be resumed and no person is attached.
async fn park(world: &World, wants: &mut [Want], by_id: &BTreeMap<&SessionId, &SessionFacts>) {
    let directory = &world.directory;
    for (wanted, spec) in wants
        .iter_mut()
        .filter(|(wanted, _)| wanted.mode == Mode::Run)
    {
        let Some(harness) = spec.harness() else {
            continue;
        };
        let Some(why) = directory.accounts.held(&world.city, harness, &spec.id) else {
            continue;
        };
        let ends = match by_id.get(&spec.session) {
            Some(facts) if matches!(facts.state, RunState::Unknown { .. }) => false,
            Some(facts) if facts.state == RunState::Running => {
                let limited = directory.conditions.of(&SessionHandle {
                    id: facts.id.clone(),
                    token: facts.token.clone(),
                });
                let limited = matches!(limited, Some(Condition::RateLimited { .. }));
                let until = directory.accounts.parked(&world.city, harness);
                let until = until.and_then(|park| park.until);
                let lasts = until.is_some_and(|until| {
                    let left = until.duration_since(world.clock.now());
                    Duration::try_from(left).is_ok_and(|left| left >= LONG)
                });
                limited
                    && lasts
                    && !facts.attached
                    && launch::can_go_on(world, harness, facts).await
            }
            Some(_) | None => true,
        };
        if ends {
            wanted.mode = Mode::Parked(why);
        }
    }
}

/// Returns the sessions that must not be disturbed because they have a condition.
async fn asking(
    world: &World,
    moment: Moment,
    wants: &[(Wanted, ChildSpec)],
    by_id: &BTreeMap<&SessionId, &SessionFacts>,
) -> BTreeSet<SessionId> {
    let askers = wants.iter().filter_map(|(_, spec)| {
        let harness = spec.harness()?;
        Some(Observed {
            child: spec.id.clone(),
            harness: harness.clone(),
            facts: (*by_id.get(&spec.session)?).clone(),
        })
    });
    conditions::look_at_all(world, moment, askers.collect()).await
}

/// Returns the wanted children whose run state is unknown, with the reason.
fn unseen(
    wants: &[(Wanted, ChildSpec)],
    by_id: &BTreeMap<&SessionId, &SessionFacts>,
) -> BTreeMap<ChildId, String> {
    let unseen = wants.iter().filter_map(|(wanted, _)| {
        let RunState::Unknown { why } = &by_id.get(&wanted.session)?.state else {
            return None;
        };
        Some((wanted.id.clone(), why.clone()))
    });
    unseen.collect()
}

/// Replaces the last activity by one that is computed from a monotonic age, so that clock jumps do not count.
fn steady(world: &World, mut facts: SessionFacts, now: Timestamp) -> SessionFacts {
    if let Some(last) = facts.last_activity {
        let age = world.age(&facts.token, last.max(facts.started_at));
        let since = now.checked_sub(age).unwrap_or(last);
        facts.last_activity = Some(since);
        facts.started_at = facts.started_at.min(since);
    }
    facts
}

/// Returns when the first session that is not idle yet reaches its idle timeout.
fn next_idle(wanted: &[Wanted], sessions: &[SessionFacts], now: Timestamp) -> Option<Timestamp> {
    let due = wanted.iter().filter_map(|wanted| {
        wanted.idle_timeout?;
        let facts = sessions.iter().find(|facts| facts.id == wanted.session)?;
        idle_at(wanted, facts).filter(|due| *due > now && facts.state == RunState::Running)
    });
    due.min()
}

/// Returns the ends of sessions that were up when the look began and are up no more.
fn ended(sessions: &[SessionFacts], up: &BTreeMap<SessionId, String>) -> Vec<SessionEvent> {
    let ended = up.iter().filter_map(|(id, token)| {
        let facts = sessions.iter().find(|facts| facts.id == *id);
        let handle = SessionHandle {
            id: id.clone(),
            token: token.clone(),
        };
        match facts {
            Some(facts) if facts.token == handle.token => match &facts.state {
                RunState::Exited(exit) => Some(SessionEvent::Exited(handle, exit.clone())),
                RunState::Lost { why } => Some(SessionEvent::Lost(handle, why.clone())),
                RunState::Running | RunState::Unknown { .. } => None,
            },
            Some(_) => Some(SessionEvent::Lost(
                handle,
                "another session has its name".into(),
            )),
            None => Some(SessionEvent::Lost(
                handle,
                "its records and processes are gone".into(),
            )),
        }
    });
    ended.collect()
}
