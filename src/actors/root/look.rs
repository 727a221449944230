//! One look at the world, in a task of its own: sessions, hooks and sagas, planned by
//! `domain::reconcile`. The root applies what comes of it (recovery.rs).

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
use super::history::Left;
use super::shells::{self, Shell};
use super::wanted::{Standing, Want, raiders};
use crate::actors::mail::ChildSpec;
use crate::actors::records::quarantine;
use crate::actors::records::standing;
use crate::actors::session::launch;
use crate::domain::condition::Condition;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::reconcile::{Decision, Mode, Seen, Tended, Wanted, idle_at, plan};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::saga::Saga;
use crate::ports::sessions::{SessionEvent, SessionHandle};

/// What the root knew when it set out to look.
pub(super) struct Known {
    pub(super) tended: BTreeMap<ChildId, Tended>,
    pub(super) sizes: BTreeMap<AgentName, u32>,
    /// Agents that a person stopped; the store may not say so yet.
    pub(super) resting: BTreeSet<AgentName>,
    /// Sessions that were up, and which of that name.
    pub(super) up: BTreeMap<SessionId, String>,
    /// What an earlier supervisor counted has been read.
    pub(super) histories: bool,
    /// It is a patrol's look.
    pub(super) patrol: bool,
}

/// One look at the world, planned. Nothing when it cannot be seen: then nothing is done.
#[derive(Default)]
pub struct Look {
    pub(super) decisions: Vec<Decision>,
    /// What every wanted child is made from now.
    pub(super) specs: BTreeMap<ChildId, ChildSpec>,
    /// Sessions that were up when it began, and which of that name.
    pub(super) up: BTreeMap<SessionId, String>,
    /// Ends of sessions that were thought to be up. Events are hints; here is where a lost one is
    /// made up for.
    pub(super) ended: Vec<SessionEvent>,
    /// Raiders that hold a slot; none when that is not known.
    pub(super) hooked: Option<BTreeSet<RaiderId>>,
    /// Of these it cannot be seen whether they run, and why.
    pub(super) unseen: BTreeMap<ChildId, String>,
    /// What persons said; none when that is not known.
    pub(super) standing: Option<standing::Said>,
    /// What an earlier supervisor counted, as long as that was not read.
    pub(super) deaths: Option<Left>,
    /// Agents whose sessions run without them; none when that was not looked at.
    pub(super) shells: Option<BTreeMap<ChildId, Shell>>,
    /// When the next session will have been idle for as long as it may.
    pub(super) idle_at: Option<Timestamp>,
}

struct Stored {
    /// Hooks, and whether their work was closed elsewhere.
    hooks: Vec<(Hook, bool)>,
    sagas: Vec<Saga>,
    said: standing::Said,
    deaths: Option<Left>,
}

async fn see(world: &World, histories: bool) -> Option<(Vec<SessionFacts>, Stored)> {
    let sessions = effects::list(world).await;
    let runs =
        |facts: &&SessionFacts| matches!(facts.state, RunState::Running | RunState::Unknown { .. });
    let seen = sessions.iter().flatten().filter(runs);
    // Where sessions cannot be seen, nothing is concluded.
    let running: Option<BTreeSet<_>> = sessions
        .is_ok()
        .then(|| seen.map(|facts| facts.id.clone()).collect());
    let city = Arc::clone(&world.city);
    let stored = world
        .store
        .run(move |txn| {
            let mut hooks = Vec::new();
            for mut hook in txn.hooks(None)? {
                let rests =
                    |running: &BTreeSet<SessionId>| !running.contains(&hook.raider.session_id());
                if running.as_ref().is_some_and(rests) {
                    launch::move_on(txn, &city, &mut hook)?;
                }
                // Work that was closed elsewhere asks for no session any more.
                let over = txn.relic(&hook.relic)?.status == RelicStatus::Closed;
                hooks.push((hook, over));
            }
            let deaths = match histories {
                true => None,
                false => Some(Left {
                    deaths: txn.deaths()?,
                    quarantined: quarantine::held(txn)?,
                }),
            };
            Ok(Stored {
                hooks,
                sagas: txn.sagas(None)?,
                said: standing::read(txn)?,
                deaths,
            })
        })
        .await;
    match (sessions, stored) {
        (Ok(sessions), Ok(stored)) => Some((sessions, stored)),
        (Err(error), _) => {
            tracing::warn!(%error, "the sessions cannot be seen; nothing is concluded from that");
            None
        }
        (_, Err(error)) => {
            tracing::warn!(%error, "the store cannot be read; nothing is concluded from that");
            None
        }
    }
}

/// Looks.
pub(super) async fn look(world: &World, known: Known) -> Look {
    let city = Arc::clone(&world.city);
    accounts::load(world).await;
    let moment = world.directory.conditions.moment();
    let Some((sessions, stored)) = see(world, known.histories).await else {
        return Look::default();
    };
    let (hooks, sagas, mut said) = (stored.hooks, stored.sagas, stored.said);
    said.resting.extend(known.resting);
    let hooked = hooks.iter().map(|(hook, _)| hook.raider.clone()).collect();
    let rested = |(hook, over): (Hook, bool)| {
        let mended = world
            .claims
            .is_claimed(&ClaimKey::Repair(hook.raider.clone()));
        (hook, over || mended)
    };
    let hooks = hooks.into_iter().map(rested).collect();
    let (mut wants, mut busy) = raiders(&city, hooks, &sagas, &said.suspended);
    let agents = Standing {
        sessions: &sessions,
        tended: &known.tended,
        resting: &said.resting,
        suspended: &said.suspended,
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
    let shells = shells::look(world, known.patrol, &wants, &by_id).await;
    let now = world.clock.now();
    let sessions: Vec<_> = sessions
        .into_iter()
        .map(|facts| steady(world, facts, now))
        .collect();
    let (wanted, specs): (Vec<Wanted>, Vec<ChildSpec>) = wants.into_iter().unzip();
    let idle_at = next_idle(&wanted, &sessions, now);
    let decisions = plan(&Seen {
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
        standing: Some(said),
        deaths: stored.deaths,
        shells,
        idle_at,
    }
}

/// Has the transcripts of all sessions read on. They may be long: no look waits for them.
fn read_transcripts(world: &World, wants: &[Want], by_id: &BTreeMap<&SessionId, &SessionFacts>) {
    let runs = by_id
        .values()
        .filter(|facts| matches!(facts.state, RunState::Running | RunState::Unknown { .. }));
    let runs = runs.map(|facts| facts.id.clone()).collect();
    let specs = wants.iter().map(|(_, spec)| spec.clone()).collect();
    tokio::spawn(usage::patrol(world.clone(), specs, runs));
}

/// A limit that ends later than this is cheaper to wait for without a session.
const LONG: Duration = Duration::from_secs(30 * 60);

/// Marks the children whose account is parked: none of them is started. A session that runs is kept, but
/// for one at a limit that lasts, if its conversation can be gone on with and no person is attached.
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

/// Sessions that are not to be disturbed: they have a condition.
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

/// Who is wanted, and cannot be seen.
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

/// A session whose silence is as old as a clock says that does not jump.
fn steady(world: &World, mut facts: SessionFacts, now: Timestamp) -> SessionFacts {
    if let Some(last) = facts.last_activity {
        let age = world.age(&facts.token, last.max(facts.started_at));
        let since = now.checked_sub(age).unwrap_or(last);
        facts.last_activity = Some(since);
        facts.started_at = facts.started_at.min(since);
    }
    facts
}

/// When the first of the sessions that are not idle yet will be.
fn next_idle(wanted: &[Wanted], sessions: &[SessionFacts], now: Timestamp) -> Option<Timestamp> {
    let due = wanted.iter().filter_map(|wanted| {
        wanted.idle_timeout?;
        let facts = sessions.iter().find(|facts| facts.id == wanted.session)?;
        idle_at(wanted, facts).filter(|due| *due > now && facts.state == RunState::Running)
    });
    due.min()
}

/// Sessions that were up when the look began and are not any more.
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
            Some(_) => Some(SessionEvent::Lost(handle, "another took its name".into())),
            None => Some(SessionEvent::Lost(handle, "no trace is left of it".into())),
        }
    });
    ended.collect()
}
