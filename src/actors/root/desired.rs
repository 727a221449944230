//! The desired children: raiders by their hooks, agents by the configuration, members of pools by the desired size.
//! `domain::reconcile` decides from these.

use crate::actors::mail::agent_spec;
use crate::actors::mail::raider_spec;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::actors::mail::ChildSpec;
use crate::domain::city::{Agent, City};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::phase::{RaiderRecord, WorkPhase};
use crate::domain::pools::{self, Member};
use crate::domain::reconcile::{Mode, Tended, Wanted};
use crate::domain::saga::{Saga, SagaKind};

/// A desired child and its spec.
pub(super) type Want = (Wanted, ChildSpec);

/// The inputs of the desired set besides the configuration.
pub(super) struct DesiredInputs<'a> {
    pub(super) sessions: &'a [SessionFacts],
    pub(super) tended: &'a BTreeMap<ChildId, Tended>,
    /// Agents that an operator stopped.
    pub(super) resting: &'a BTreeSet<AgentName>,
    /// Children that an operator suspended.
    pub(super) suspended: &'a BTreeSet<ChildId>,
    /// The desired number of members of each pool, where known.
    pub(super) sizes: &'a BTreeMap<AgentName, u32>,
}

impl DesiredInputs<'_> {
    /// Returns the desired agents.
    pub(super) fn agents(&self, city: &City) -> Vec<Want> {
        let mut wants = Vec::new();
        for agent in &city.agents {
            let id = ChildId::Agent(agent.name.clone());
            let off = city.suspended || agent.suspended || self.suspended.contains(&id);
            if agent.pool.is_some() {
                wants.extend(self.pool(city, agent, off));
            } else {
                wants.extend(self.one(city, agent, if off { Mode::Suspended } else { Mode::Run }));
            }
        }
        wants
    }

    /// Returns none for a resting agent that has no record: it stays as it is.
    fn one(&self, city: &City, agent: &Agent, mode: Mode) -> Option<Want> {
        let spec = agent_spec(city, agent);
        let mode = match mode {
            Mode::Run if self.suspended.contains(&spec.id) => Mode::Suspended,
            mode => mode,
        };
        if self.resting.contains(&agent.name) && !self.tended.contains_key(&spec.id) {
            return None;
        }
        let wanted = Wanted {
            id: spec.id.clone(),
            session: spec.session.clone(),
            incarnation: Default::default(),
            mode,
            fingerprint: Some(agent.fingerprint.clone()),
            idle_timeout: agent.idle_timeout,
        };
        Some((wanted, spec))
    }

    fn pool(&self, city: &City, agent: &Agent, off: bool) -> Vec<Want> {
        let Some(pool) = &agent.pool else {
            return Vec::new();
        };
        let stopped = self.stopped_members(agent);
        let mut present = self.members(city, agent);
        present.retain(|member| !stopped.contains(&member.number));
        let kept = count(present.len());
        // Until the first check has come back, the present members are wanted.
        let size = self.sizes.get(&agent.name).copied().unwrap_or(kept);
        // Other members replace those that an operator stopped, as far as `max` allows.
        let room = pool.max - count(stopped.range(..=pool.max).count());
        let wanted = match off {
            true => kept,
            false => pool.bounded(size).min(room),
        };
        let rests = |number: &u32| Member {
            number: *number,
            draining: false,
            up: true,
            // Chosen first, so that no other member gets its number.
            last_activity: Some(Timestamp::MAX),
        };
        present.extend(stopped.iter().map(rests));
        let chosen = pools::choose(wanted + count(stopped.len()), &present);
        let run = if off { Mode::Suspended } else { Mode::Run };
        let run = chosen.run.into_iter().map(|number| (number, run));
        let drain = chosen.drain.into_iter().map(|n| (n, Mode::Drain));
        run.chain(drain)
            .filter_map(|(number, mode)| self.one(city, &agent.member(number).ok()?, mode))
            .collect()
    }

    /// Returns the numbers of the pool's members that an operator stopped or suspended.
    fn stopped_members(&self, agent: &Agent) -> BTreeSet<u32> {
        let suspended = self.suspended.iter().filter_map(|id| match id {
            ChildId::Agent(name) => Some(name),
            ChildId::Raider(_) => None,
        });
        let stopped = self.resting.iter().chain(suspended);
        stopped
            .filter_map(|name| agent.member_number(name))
            .collect()
    }

    /// Returns the members of a pool that have a record or a running session.
    fn members(&self, city: &City, agent: &Agent) -> Vec<Member> {
        let mut numbers: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
        for facts in self.sessions {
            let runs = facts.state == RunState::Running;
            let name = agent_of(city, &facts.id).filter(|_| runs);
            if let Some(number) = name.and_then(|name| agent.member_number(&name)) {
                numbers.insert(number, (false, true));
            }
        }
        for (id, tended) in self.tended {
            if let ChildId::Agent(name) = id
                && let Some(number) = agent.member_number(name)
            {
                let draining = matches!(tended, Tended::Up { draining: true, .. });
                // A member whose session is being adopted counts as working.
                let runs = numbers.contains_key(&number) && *tended == Tended::Waiting;
                let up = runs || matches!(tended, Tended::Up { .. });
                numbers.insert(number, (draining, up));
            }
        }
        let member = |(number, (draining, up))| {
            let id = ChildId::Agent(agent.member(number).ok()?.name).session_id(&city.name);
            let facts = self.sessions.iter().find(|facts| facts.id == id);
            Some(Member {
                number,
                draining,
                up,
                last_activity: facts.and_then(|facts| facts.last_activity),
            })
        };
        numbers.into_iter().filter_map(member).collect()
    }
}

fn count(members: usize) -> u32 {
    u32::try_from(members).unwrap_or(u32::MAX)
}

/// Returns the agent that a session id belongs to: `<workspace>-<agent>`.
fn agent_of(city: &City, session: &SessionId) -> Option<AgentName> {
    let name = session.as_str().strip_prefix(city.name.as_str())?;
    AgentName::new(name.strip_prefix('-')?).ok()
}

/// Returns the raiders that need a session, and the sessions that a saga is busy with. Each hook comes with whether its
/// work is over.
pub(super) fn raiders(
    city: &City,
    records: Vec<(RaiderRecord, bool)>,
    sagas: &[Saga],
    suspended: &BTreeSet<ChildId>,
) -> (Vec<Want>, BTreeSet<SessionId>) {
    let mut busy: BTreeSet<_> = sagas
        .iter()
        .filter(|saga| saga.kind != SagaKind::Land)
        .filter_map(|saga| saga.subject.parse::<RaiderId>().ok())
        .map(|raider| raider.session_id())
        .collect();
    let mut wants = Vec::new();
    for (record, is_repaired) in records {
        let mode = match WorkPhase::of(&record) {
            WorkPhase::Working | WorkPhase::Unbound => (!is_repaired).then_some(Mode::Run),
            // A person may talk to it until the review is over.
            WorkPhase::InReview { .. } => (!is_repaired).then_some(Mode::Keep),
            // A relic that was closed elsewhere needs no session any more.
            WorkPhase::Orphaned { .. }
            | WorkPhase::Charging { .. }
            | WorkPhase::Removing { .. }
            | WorkPhase::Submitting { .. }
            | WorkPhase::Validating { .. }
            | WorkPhase::Over { .. } => None,
        };
        let hook = record.hook;
        let Some(mode) = mode else {
            busy.insert(hook.raider.session_id());
            continue;
        };
        if let Some(rig) = city.rig(&hook.raider.rig) {
            let (incarnation, spec) = (hook.incarnation, raider_spec(city, hook, None));
            let off = city.suspended || rig.suspended || suspended.contains(&spec.id);
            let wanted = Wanted {
                id: spec.id.clone(),
                session: spec.session.clone(),
                incarnation,
                mode: if off { Mode::Suspended } else { mode },
                // For raiders drift always waits for the next session (`rules.md`, drift hash).
                fingerprint: None,
                // A silent raider is nudged first, and then an operator is called: a session that is always fresh would
                // never be found stalled.
                idle_timeout: match rig.raiders.stall_after {
                    Some(_) => None,
                    None => rig.raiders.idle_timeout,
                },
            };
            wants.push((wanted, spec));
        }
    }
    (wants, busy)
}
