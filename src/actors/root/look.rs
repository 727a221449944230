//! One look at the world, in a task of its own: sessions, hooks and sagas, planned by
//! `domain::reconcile`. The root applies what comes of it (recovery.rs).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::super::effects;
use super::super::questions::{self, Asker};
use super::super::sagas::repair;
use super::super::world::World;
use super::recovery::ending_orphan;
use super::wanted::{Standing, raiders};
use super::{ChildSpec, Work, standing};
use crate::domain::city::Harness;
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::reconcile::{Decision, Seen, Tended, Wanted, idle_at, plan};
use crate::domain::relic::{Hook, RelicStatus};
use crate::domain::restart::Deaths;
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
    pub(super) deaths: Option<Vec<Deaths>>,
    /// When the next session will have been idle for as long as it may.
    pub(super) idle_at: Option<Timestamp>,
}

struct Stored {
    /// Hooks, and whether their work was closed elsewhere.
    hooks: Vec<(Hook, bool)>,
    sagas: Vec<Saga>,
    said: standing::Said,
    deaths: Option<Vec<Deaths>>,
}

async fn see(world: &World, histories: bool) -> Option<(Vec<SessionFacts>, Stored)> {
    let sessions = effects::list(world).await;
    let stored = world
        .store
        .run(move |txn| {
            let mut hooks = Vec::new();
            for hook in txn.hooks(None)? {
                // Work that was closed elsewhere asks for no session any more.
                let over = txn.relic(&hook.relic)?.status == RelicStatus::Closed;
                hooks.push((hook, over));
            }
            Ok(Stored {
                hooks,
                sagas: txn.sagas(None)?,
                said: standing::read(txn)?,
                deaths: (!histories).then(|| txn.deaths()).transpose()?,
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
    let Some((sessions, stored)) = see(world, known.histories).await else {
        return Look::default();
    };
    let Stored {
        hooks,
        sagas,
        mut said,
        deaths,
    } = stored;
    said.resting.extend(known.resting);
    let hooked = hooks.iter().map(|(hook, _)| hook.raider.clone()).collect();
    let rested = |(hook, over): (Hook, bool)| {
        let mended = world.claims.is_claimed(&repair::mending(&hook.raider));
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
    let ending = |facts: &&SessionFacts| world.claims.is_claimed(&ending_orphan(&facts.token));
    busy.extend(sessions.iter().filter(ending).map(|facts| facts.id.clone()));
    let ended = ended(&sessions, &known.up);
    let by_id: BTreeMap<_, _> = sessions.iter().map(|facts| (&facts.id, facts)).collect();
    let asking = asking(world, &wants, &by_id).await;
    let unseen = unseen(&wants, &by_id);
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
        deaths,
        idle_at,
    }
}

/// Sessions that are not to be disturbed: their agents ask something.
async fn asking(
    world: &World,
    wants: &[(Wanted, ChildSpec)],
    by_id: &BTreeMap<&SessionId, &SessionFacts>,
) -> BTreeSet<SessionId> {
    let askers = wants.iter().filter_map(|(_, spec)| {
        let harness = match &spec.work {
            Work::Raider { hook, .. } => &hook.harness,
            Work::Agent(agent) => agent.harness.as_ref()?,
        };
        // Of most programs nothing is looked for.
        let asks = |known: &Harness| !known.needs_input.is_empty();
        let asks = world.city.harnesses.get(harness).is_some_and(asks);
        Some(Asker {
            child: spec.id.clone(),
            harness: harness.clone(),
            facts: (*by_id.get(&spec.session).filter(|_| asks)?).clone(),
        })
    });
    questions::look_at_all(world, askers.collect()).await
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
