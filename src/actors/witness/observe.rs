//! The observable state of a rig's raiders: the union of hooks in the store, sandboxes on disk, sessions of the
//! provider and open sagas, observed anew each time (`witness-patrol.md`, discovery over tracking). A failed probe is
//! `Unknown`, and proves nothing.

use crate::actors::sandboxes::hookless;
use std::collections::BTreeMap;

use jiff::Timestamp;

use super::super::claims::ClaimKey;
use super::super::refusal::Refusal;
use super::super::world::World;
use super::super::{ask, effects};
use crate::actors::mail::{ChildState, ChildView};
use crate::domain::city::Rig;
use crate::domain::facts::{Probed, RunState, SessionFacts};
use crate::domain::ids::{ChildId, RaiderId, RigName, SessionId};
use crate::domain::phase::WorkPhase;
use crate::domain::relic::Hook;
use crate::domain::zombie::{Facts, Session, WorkState};
use crate::ports::relics::{StoreError, Txn};
use crate::ports::sessions::SessionError;

/// Sessions by id, or why they cannot be listed.
type SessionListing = Result<BTreeMap<SessionId, SessionFacts>, SessionError>;

/// The observed state of a raider.
#[derive(Debug)]
pub struct Observation {
    /// The raider.
    pub raider: RaiderId,
    /// Its hook; without one, the hook that its sandbox was made for.
    pub hook: Option<Hook>,
    /// The token of the observed session.
    pub token: Option<String>,
    /// The facts that it is judged by.
    pub facts: Facts,
    /// Since when its work and its child are in their present state, if known.
    pub since: Option<Timestamp>,
    /// When its quarantine ends; none outside a quarantine.
    pub quarantined_until: Option<Timestamp>,
    /// When it was observed. A session that began later is another one.
    pub at: Timestamp,
}

/// Observes all raiders of a rig, or one. Raiders that a saga or a repair is busy with are left out.
///
/// # Errors
/// The store cannot be read.
pub(super) async fn gather(
    world: &World,
    rig: &Rig,
    only: Option<&RaiderId>,
) -> Result<Vec<Observation>, Refusal> {
    let at = world.clock.now();
    // Listed before the store is read: a later session has another token, and is not judged.
    let sessions = list_sessions(world, only).await;
    let lone = match hookless(world, rig).await {
        Ok(lone) => lone,
        Err(error) => {
            tracing::warn!(rig = %rig.name, %error, "sandboxes without hook cannot be listed; skipped");
            Vec::new()
        }
    };
    let name = rig.name.clone();
    let read = move |txn: &mut dyn Txn| hooked(txn, &name);
    let mut found: Vec<(RaiderId, Option<Hook>, StoredWork)> = world.store.run(read).await?;
    let gone = lone.into_iter().filter_map(|lone| match lone.was {
        Probed::Known(was) => Some((lone.raider, was, StoredWork::Gone)),
        Probed::Unknown(why) => {
            tracing::warn!(raider = %lone.raider, why, "a sandbox of unknown owner is left alone");
            None
        }
    });
    found.extend(gone);
    found.retain(|(raider, _, stored)| {
        let child = ChildId::Raider(raider.clone());
        let wanted = only.is_none_or(|only| only == raider);
        let mended = world.claims.is_claimed(&ClaimKey::Repair(raider.clone()));
        // A suspended child keeps its sandbox.
        let unfinished = matches!(stored, StoredWork::Gone | StoredWork::Open);
        wanted && !mended && !(unfinished && world.city.suspends(&child))
    });
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let agents = agents(world, rig, &found, &sessions).await;
    let quarantined = quarantined(world).await;
    let mut seen = Vec::new();
    for (raider, hook, stored) in found {
        let (facts, session) = session(world, &raider, &sessions, &agents);
        let made = hook.as_ref().map(|hook| {
            let key = format!("made/{raider}/{}", hook.incarnation.0);
            world.age(&key, hook.charged_at)
        });
        let quarantined = quarantined.get(&raider).copied();
        seen.push(Observation {
            since: match &stored {
                StoredWork::Closed(closed) => *closed,
                StoredWork::Gone | StoredWork::Open | StoredWork::Done { .. } => {
                    quarantined.map(|(since, _)| since)
                }
            },
            quarantined_until: quarantined.map(|(_, until)| until),
            facts: Facts {
                work: stored.work(world, &raider),
                session,
                age: made,
                quarantined: quarantined.is_some(),
            },
            // A clock may be set back; the observed session began before.
            at: facts.map_or(at, |facts| at.max(facts.started_at)),
            token: facts.map(|facts| facts.token.clone()),
            raider,
            hook,
        });
    }
    Ok(seen)
}

/// Returns all sessions, or one raider's.
async fn list_sessions(world: &World, only: Option<&RaiderId>) -> SessionListing {
    let seen = match only {
        Some(raider) => {
            let own = effects::facts(world, &raider.session_id()).await?;
            own.into_iter().collect()
        }
        None => effects::list(world).await?,
    };
    let by_id = seen.into_iter().map(|facts| (facts.id.clone(), facts));
    Ok(by_id.collect())
}

/// A raider's relation to its work, from the store.
enum StoredWork {
    Gone,
    Open,
    Done { since: Timestamp, excused: bool },
    Closed(Option<Timestamp>),
}

impl StoredWork {
    fn work(self, world: &World, raider: &RaiderId) -> WorkState {
        match self {
            Self::Gone => WorkState::Gone,
            Self::Open => WorkState::Open,
            Self::Done { since, excused } => WorkState::Done {
                silent: world.age(&format!("done/{raider}"), since),
                excused,
            },
            Self::Closed(_) => WorkState::Closed,
        }
    }
}

/// Returns the raiders with a hook, and their relation to their work. Those that are being charged or removed are left
/// out.
fn hooked(
    txn: &mut dyn Txn,
    rig: &RigName,
) -> Result<Vec<(RaiderId, Option<Hook>, StoredWork)>, StoreError> {
    let found = txn.raiders(Some(rig))?.into_iter().filter_map(|record| {
        let stored = match WorkPhase::of(&record) {
            WorkPhase::Charging { .. } | WorkPhase::Removing { .. } => return None,
            WorkPhase::Working | WorkPhase::Unbound => StoredWork::Open,
            WorkPhase::Orphaned { since } => StoredWork::Closed(since),
            WorkPhase::Submitting {
                since,
                is_blocked,
                keeps_session,
            } => {
                let excused = is_blocked || keeps_session;
                StoredWork::Done { since, excused }
            }
            WorkPhase::Validating { since } | WorkPhase::Over { since } => {
                let excused = false;
                StoredWork::Done { since, excused }
            }
            WorkPhase::InReview { since, .. } => {
                let excused = true;
                StoredWork::Done { since, excused }
            }
        };
        Some((record.hook.raider.clone(), Some(record.hook), stored))
    });
    Ok(found.collect())
}

/// Returns the session of a raider, and the facts about it.
fn session<'a>(
    world: &World,
    raider: &RaiderId,
    sessions: &'a SessionListing,
    agents: &BTreeMap<SessionId, bool>,
) -> (Option<&'a SessionFacts>, Probed<Session>) {
    let id = raider.session_id();
    let facts = match sessions {
        Ok(sessions) => sessions.get(&id),
        Err(error) => return (None, Probed::Unknown(error.to_string())),
    };
    let Some(seen) = facts else {
        return (None, Probed::Known(Session::Dead));
    };
    let session = match &seen.state {
        RunState::Exited(_) | RunState::Lost { .. } => Probed::Known(Session::Dead),
        RunState::Unknown { why } => Probed::Unknown(why.clone()),
        RunState::Running => Probed::Known(Session::Up {
            age: world.age(&format!("up/{}", seen.token), seen.started_at),
            agent: agents.get(&id).copied(),
        }),
    };
    (facts, session)
}

/// Returns, for running sessions, whether the agent is among their processes, where known.
async fn agents(
    world: &World,
    rig: &Rig,
    found: &[(RaiderId, Option<Hook>, StoredWork)],
    sessions: &SessionListing,
) -> BTreeMap<SessionId, bool> {
    let asked = found.iter().filter_map(|(raider, hook, _)| {
        let own = &rig.raiders.harness;
        let harness = hook.as_ref().map_or(own, |hook| &hook.harness);
        let names = world.city.harnesses.get(harness)?.process_names.clone();
        let seen = sessions.as_ref().ok()?.get(&raider.session_id())?;
        (seen.state == RunState::Running).then(|| (seen.id.clone(), names))
    });
    let asked: Vec<_> = asked.collect();
    let lives = effects::agents_live(world, asked.clone()).await;
    let known = asked.into_iter().zip(lives);
    known
        .filter_map(|((id, _), lives)| Some((id, lives?)))
        .collect()
}

/// Returns the raiders that count as recovered: with a session and without deaths in the window. A session between two
/// deaths is no recovery.
pub(super) fn well(views: &[ChildView]) -> Vec<RaiderId> {
    let well = views
        .iter()
        .filter(|view| view.session.is_some() && view.restarts == 0);
    let raiders = well.filter_map(|view| match &view.spec.id {
        ChildId::Raider(raider) => Some(raider.clone()),
        ChildId::Agent(_) => None,
    });
    raiders.collect()
}

/// Returns the quarantined raiders, since when and until when. Empty when the root does not answer.
async fn quarantined(world: &World) -> BTreeMap<RaiderId, (Timestamp, Timestamp)> {
    let views = ask::views(world).await.unwrap_or_default();
    let held = views
        .into_iter()
        .filter(|view| view.state == ChildState::Quarantined);
    let raiders = held.filter_map(|view| match view.spec.id {
        ChildId::Raider(raider) => Some((raider, (view.since, view.quarantined_until?))),
        ChildId::Agent(_) => None,
    });
    raiders.collect()
}
