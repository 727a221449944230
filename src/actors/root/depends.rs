//! `depends_on`: an agent starts after the agents that it depends on, and ends before them. A pool is up when any of
//! its members is up.

use std::collections::{BTreeMap, BTreeSet};

use ractor::ActorRef;

use super::child_record::ChildRecord;
use super::{Root, RootMsg};
use crate::actors::mail::ChildState;
use crate::actors::mail::Work;
use crate::domain::child::{ChildPhase, Event};
use crate::domain::city::Agent;
use crate::domain::ids::{AgentName, ChildId};

impl Root {
    /// Returns true when everything that the child depends on is up.
    pub(super) fn may_start(&self, id: &ChildId) -> bool {
        let needs = self.children.get(id).map(needs).unwrap_or_default();
        needs.iter().all(|need| self.is_up(need))
    }

    fn is_up(&self, need: &AgentName) -> bool {
        // The agent and the members of its pool are adjacent in the order of names.
        let from = ChildId::Agent(need.clone());
        let alike = self
            .children
            .range(from..)
            .map_while(|(id, record)| match id {
                ChildId::Agent(name) if name.as_str().starts_with(need.as_str()) => {
                    Some((name, record))
                }
                ChildId::Agent(_) | ChildId::Raider(_) => None,
            });
        let mut running = alike.filter(|(_, record)| record.child.state() == ChildState::Running);
        running.any(|(name, _)| name == need || self.is_member(name, need))
    }

    fn is_member(&self, name: &AgentName, pool: &AgentName) -> bool {
        let mut agents = self.world.city.agents.iter();
        let pool = agents.find(|agent| agent.name == *pool);
        pool.is_some_and(|pool| pool.member_number(name).is_some())
    }

    /// Starts the blocked children whose dependencies are up by now, unless the supervisor stops.
    pub(super) async fn unblock(&mut self, me: &ActorRef<RootMsg>) {
        if self.stopping.is_some() {
            return;
        }
        let blocked = |(id, record): (&ChildId, &ChildRecord)| {
            let waits = *record.child.phase() == ChildPhase::Blocked;
            (waits && self.may_start(id)).then(|| id.clone())
        };
        let ready: Vec<_> = self.children.iter().filter_map(blocked).collect();
        for id in ready {
            self.step(me, &id, Event::Ready).await;
        }
    }

    /// Returns the agents on which a running child depends, directly or not: they end later.
    pub(super) fn needed(&self) -> BTreeSet<AgentName> {
        let agents = self.world.city.agents.iter();
        let agents: BTreeMap<_, _> = agents.map(|agent| (&agent.name, agent)).collect();
        let left = self.children.values().filter(|record| record.is_tended());
        let mut open: Vec<&AgentName> = left.flat_map(needs).collect();
        let mut needed = BTreeSet::new();
        while let Some(need) = open.pop() {
            if needed.insert(need)
                && let Some(agent) = agents.get(need)
            {
                open.extend(&agent.depends_on);
            }
        }
        needed.into_iter().cloned().collect()
    }

    /// Returns true when the child, or the pool that it is a member of, is among `names`.
    pub(super) fn is_one_of(&self, id: &ChildId, names: &BTreeSet<AgentName>) -> bool {
        let ChildId::Agent(name) = id else {
            return false;
        };
        let is_member =
            |agent: &Agent| agent.member_number(name).is_some() && names.contains(&agent.name);
        names.contains(name) || self.world.city.agents.iter().any(is_member)
    }

    /// Returns the length of the longest dependency chain: the number of ends that may have to follow one another.
    pub(super) fn depth(&self) -> u32 {
        let agents = &self.world.city.agents;
        // Relaxation in at most as many rounds as there are agents: the configuration has no cycles.
        let mut depth: BTreeMap<&AgentName, u32> = BTreeMap::new();
        for _ in agents {
            let mut deeper = false;
            for agent in agents {
                let below = agent.depends_on.iter().filter_map(|need| depth.get(need));
                let own = below.max().map_or(1, |most| most + 1);
                deeper |= depth.insert(&agent.name, own) != Some(own);
            }
            if !deeper {
                break;
            }
        }
        depth.values().copied().max().unwrap_or(1)
    }
}

fn needs(record: &ChildRecord) -> &[AgentName] {
    match &record.spec.work {
        Work::Agent(agent) => &agent.depends_on,
        Work::Raider { .. } => &[],
    }
}
