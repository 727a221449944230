//! `depends_on`: an agent starts when those that it depends on are up, and ends before them. A pool
//! is up when one of its members is.

use std::collections::BTreeSet;

use ractor::ActorRef;

use super::slot::{ChildState, Slot};
use super::{Root, RootMsg, Work};
use crate::domain::city::Agent;
use crate::domain::ids::{AgentName, ChildId};

impl Root {
    /// Whether everything that the child depends on is up.
    pub(super) fn may_start(&self, id: &ChildId) -> bool {
        let needs = self.slots.get(id).map(needs).unwrap_or_default();
        needs.iter().all(|need| self.is_up(need))
    }

    fn is_up(&self, need: &AgentName) -> bool {
        self.slots
            .iter()
            .any(|(id, slot)| slot.state == ChildState::Running && self.is_of(id, need))
    }

    /// Whether the child is that agent, or a member of that pool.
    fn is_of(&self, id: &ChildId, need: &AgentName) -> bool {
        let ChildId::Agent(name) = id else {
            return false;
        };
        let mut agents = self.world.city.agents.iter();
        let pool: Option<&Agent> = agents.find(|agent| agent.name == *need);
        name == need || pool.is_some_and(|pool| pool.member_number(name).is_some())
    }

    /// Somebody came up: those who waited for that may start.
    pub(super) async fn unblock(&mut self, me: &ActorRef<RootMsg>) {
        let blocked = |(id, slot): (&ChildId, &Slot)| {
            let waits = slot.state == ChildState::Blocked && !slot.has_actor();
            (waits && self.may_start(id)).then(|| id.clone())
        };
        let ready: Vec<_> = self.slots.iter().filter_map(blocked).collect();
        for id in ready {
            self.spawn_child(me, &id).await;
        }
    }

    /// Whether nobody who depends on the child, be it by way of others, is left to end before it.
    pub(super) fn may_end(&self, id: &ChildId) -> bool {
        let mut dependents = self.slots.iter().filter(|(other, slot)| {
            *other != id && slot.is_tended() && self.depend_on(needs(slot), id)
        });
        dependents.next().is_none()
    }

    /// Whether one of these, or what they depend on, is the child. The configuration has no cycles.
    fn depend_on(&self, mut needs: Vec<AgentName>, id: &ChildId) -> bool {
        let mut seen = BTreeSet::new();
        while let Some(need) = needs.pop() {
            if self.is_of(id, &need) {
                return true;
            }
            let mut agents = self.world.city.agents.iter();
            let agent = agents.find(|agent| agent.name == need);
            if let Some(agent) = agent.filter(|_| seen.insert(need)) {
                needs.extend(agent.depends_on.iter().cloned());
            }
        }
        false
    }

    /// How many ends may have to follow one another.
    pub(super) fn depth(&self) -> u32 {
        let agents = &self.world.city.agents;
        // Longest chain first found by walking at most as many steps as there are agents: the
        // configuration has no cycles.
        let mut depth: std::collections::BTreeMap<&AgentName, u32> = Default::default();
        for _ in agents {
            for agent in agents {
                let below = agent.depends_on.iter().filter_map(|need| depth.get(need));
                let own = below.max().map_or(1, |most| most + 1);
                depth.insert(&agent.name, own);
            }
        }
        depth.values().copied().max().unwrap_or(1)
    }
}

fn needs(slot: &Slot) -> Vec<AgentName> {
    match &slot.spec.work {
        Work::Agent(agent) => agent.depends_on.clone(),
        Work::Raider { .. } => Vec::new(),
    }
}
