//! The size of each pool: its check runs off the root, at its own interval. The last good answer stays in force until
//! the next; a failed check means `min`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::ActorRef;

use super::super::effects;
use super::super::mail::PoolView;
use super::super::records::agent_hooks;
use super::{Root, RootMsg};
use crate::domain::child::Token;
use crate::domain::city::Agent;
use crate::domain::ids::{AgentName, ChildId};

/// The known sizes of all pools.
#[derive(Default)]
pub(super) struct Pools {
    known: BTreeMap<AgentName, Sized>,
}

struct Sized {
    /// The number of members that the check wants; none until the first check has come back.
    size: Option<u32>,
    /// The mark under which it is asked: answers to earlier questions are void.
    token: Token,
    check: Option<String>,
    interval: Duration,
    /// When the last check came back.
    checked: Option<Timestamp>,
    /// Why the last check failed; logged once.
    failed: Option<String>,
}

impl Root {
    /// Gives the relics of agents that are gone back to their pools. The agents are those that the root has when this has
    /// its place in the store's queue: the requests of an agent that starts later come after it.
    pub(super) fn release_hooks(&self) {
        let sizes = self.sizes();
        let pools = self.world.city.agents.iter();
        // A pool whose size is not known yet may have every member.
        let unknown: Vec<Agent> = pools
            .filter(|agent| agent.pool.is_none() || !sizes.contains_key(&agent.name))
            .cloned()
            .collect();
        let agents = self.children.keys().filter_map(|id| match id {
            ChildId::Agent(name) => Some(name.clone()),
            ChildId::Raider(_) => None,
        });
        let present: BTreeSet<AgentName> = agents.chain(self.resting.iter().cloned()).collect();
        let is_gone = move |name: &AgentName| {
            let may_come =
                |agent: &Agent| agent.name == *name || agent.member_number(name).is_some();
            !present.contains(name) && !unknown.iter().any(may_come)
        };
        let released =
            (self.world.store).begin(move |txn| agent_hooks::release_gone(txn, &is_gone));
        tokio::spawn(async move {
            if let Err(error) = released.await {
                tracing::warn!(
                    %error,
                    "the work of agents that are gone could not be given back; the next patrol tries again"
                );
            }
        });
    }

    /// Returns the known sizes.
    pub(super) fn sizes(&self) -> BTreeMap<AgentName, u32> {
        let sized = self.pools.known.iter();
        sized
            .filter_map(|(name, pool)| Some((name.clone(), pool.size?)))
            .collect()
    }

    /// Returns a view of every pool of the current configuration.
    pub(super) fn pool_views(&self) -> Vec<PoolView> {
        let view = |agent: &Agent| {
            let pool = agent.pool.clone()?;
            let sized = self.pools.known.get(&agent.name);
            let size = sized.and_then(|sized| sized.size);
            Some(PoolView {
                name: agent.name.clone(),
                wanted: size.map(|size| pool.bounded(size)),
                asked: size,
                pool,
                checked: sized.and_then(|sized| sized.checked),
                failed: sized.and_then(|sized| sized.failed.clone()),
            })
        };
        self.world.city.agents.iter().filter_map(view).collect()
    }

    /// Begins to ask the pools of the current configuration, and stops asking pools that are gone or whose check
    /// changed.
    pub(super) fn ask_pools(&mut self, me: &ActorRef<RootMsg>) {
        if !self.ready {
            return;
        }
        let city = Arc::clone(&self.world.city);
        let pools = city.agents.iter().filter(|agent| agent.pool.is_some());
        let names: Vec<_> = pools.clone().map(|agent| &agent.name).collect();
        self.pools.known.retain(|name, _| names.contains(&name));
        for agent in pools {
            let Some(pool) = &agent.pool else { continue };
            let known = self.pools.known.get(&agent.name);
            let known = known.filter(|known| pool.check.is_some() && known.check == pool.check);
            if known.is_some_and(|known| known.interval == pool.check_interval) {
                continue;
            }
            // If only the interval changed, the last answer holds until the next.
            let size = known.and_then(|known| known.size);
            let (checked, failed) =
                known.map_or((None, None), |known| (known.checked, known.failed.clone()));
            let token = self.token();
            let sized = Sized {
                // Without a check the size is known at once.
                size: if pool.check.is_none() {
                    Some(pool.min)
                } else {
                    size
                },
                token,
                check: pool.check.clone(),
                interval: pool.check_interval,
                checked,
                failed,
            };
            self.pools.known.insert(agent.name.clone(), sized);
            if pool.check.is_some() {
                self.ask_pool(me, agent, token);
            }
        }
    }

    pub(super) fn pool_due(&mut self, me: &ActorRef<RootMsg>, name: AgentName, token: Token) {
        let city = Arc::clone(&self.world.city);
        let current = self
            .pools
            .known
            .get(&name)
            .is_some_and(|pool| pool.token == token);
        let agent = city.agents.iter().find(|agent| agent.name == name);
        if let (true, Some(agent), None) = (current, agent, &self.stopping) {
            self.ask_pool(me, agent, token);
        }
    }

    fn ask_pool(&self, me: &ActorRef<RootMsg>, agent: &Agent, token: Token) {
        let (world, me, agent) = (Arc::clone(&self.world), me.clone(), agent.clone());
        tokio::spawn(async move {
            let name = agent.name.clone();
            // In a task of its own: a check that panics must not be the last one.
            let asked = tokio::spawn(async move { effects::pool_size(&world, &agent).await });
            let size = asked.await.unwrap_or_else(|panic| Err(panic.to_string()));
            let agent = name;
            // The root lives as long as the process.
            let _gone = me.cast(RootMsg::PoolSized { agent, token, size });
        });
    }

    pub(super) fn pool_sized(
        &mut self,
        me: &ActorRef<RootMsg>,
        name: &AgentName,
        token: Token,
        size: Result<u32, String>,
    ) {
        let mut agents = self.world.city.agents.iter();
        let agent = agents.find(|agent| agent.name == *name);
        let Some(pool) = agent.and_then(|agent| agent.pool.clone()) else {
            return;
        };
        let Some(sized) = self
            .pools
            .known
            .get_mut(name)
            .filter(|sized| sized.token == token)
        else {
            return;
        };
        let before = sized.size;
        sized.checked = Some(self.world.clock.now());
        match size {
            Ok(size) => {
                sized.failed = None;
                sized.size = Some(size);
            }
            Err(error) => {
                if sized.failed.is_none() {
                    tracing::warn!(
                        pool = %name,
                        error,
                        "a pool's check failed; the pool shrinks or grows to `min` until a check \
                        succeeds"
                    );
                }
                sized.failed = Some(error);
                sized.size = Some(pool.min);
            }
        }
        let changed = before.map(|size| pool.bounded(size)) != sized.size.map(|s| pool.bounded(s));
        let agent = name.clone();
        let _timer = me.send_after(pool.check_interval, move || RootMsg::PoolDue {
            agent,
            token,
        });
        if changed && self.stopping.is_none() {
            self.start_look(me);
        }
    }
}
