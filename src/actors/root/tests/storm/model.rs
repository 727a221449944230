//! The oracle: the configuration, the persons' orders, and what follows from them. Written from the specification; it
//! calls nothing that decides in the supervisor.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::WINDOW;
use crate::domain::city::{City, Group, Pool, RestartType, Strategy};
use crate::domain::ids::{AgentName, ChildId, RaiderId, SessionId};
use crate::domain::restart::History;
use crate::testing::world::{Scenario, TestCity, agent, raider};

/// The possible agents; each may depend on those before it.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];
pub(super) const SLOTS: [&str; 2] = ["Toast", "Shadow"];
pub(super) const CHECK: &str = "how many";
/// More than any pool's size.
const MEMBERS: u32 = 6;

/// A configured agent.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) there: bool,
    pub(super) command: u8,
    pub(super) env: u8,
    pub(super) restart: RestartType,
    pub(super) idle: bool,
    pub(super) grace: u64,
    /// A bit mask of the agents before it.
    pub(super) needs: u8,
    pub(super) suspended: bool,
    /// Minimum, maximum, and whether its check is asked.
    pub(super) pool: Option<(u32, u32, bool)>,
}

pub(super) struct Model {
    pub(super) agents: [Entry; 4],
    pub(super) group: Option<(Strategy, u8)>,
    pub(super) city_suspended: bool,
    pub(super) rig_suspended: bool,
    pub(super) rig_draining: bool,
    pub(super) history: History,
    /// The output of the pools' check; none when it fails.
    pub(super) answer: Option<u32>,
    /// Stopped by a person.
    pub(super) resting: BTreeSet<&'static str>,
    /// A person's order was refused half way: both results are acceptable.
    pub(super) unsure: BTreeSet<&'static str>,
    /// Suspended by a person.
    pub(super) suspended: BTreeSet<ChildId>,
}

impl Default for Model {
    fn default() -> Self {
        let entry = |there| Entry {
            there,
            command: 0,
            env: 0,
            restart: RestartType::Permanent,
            idle: false,
            grace: 5,
            needs: 0,
            suspended: false,
            pool: None,
        };
        Self {
            agents: [entry(true), entry(true), entry(true), entry(false)],
            group: None,
            city_suspended: false,
            rig_suspended: false,
            rig_draining: false,
            history: History::Memory,
            answer: None,
            resting: BTreeSet::new(),
            unsure: BTreeSet::new(),
            suspended: BTreeSet::new(),
        }
    }
}

/// The final state that is asked for.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Sessions that must run.
    pub(super) must: BTreeSet<SessionId>,
    /// Sessions that may run, with their command lines; no others.
    pub(super) may: BTreeMap<SessionId, Vec<String>>,
    /// The number of running sessions of each set.
    pub(super) pools: Vec<(BTreeSet<SessionId>, RangeInclusive<usize>)>,
}

fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |bit| mask & (1 << bit) != 0)
}

impl Model {
    /// Returns the configured agents that an agent depends on.
    fn needs(&self, who: usize) -> impl Iterator<Item = usize> {
        bits(self.agents[who].needs).filter(move |need| *need < who && self.agents[*need].there)
    }

    pub(super) fn argv(&self, who: usize) -> Vec<String> {
        let entry = &self.agents[who];
        vec!["agent".into(), format!("{}-{}", NAMES[who], entry.command)]
    }

    pub(super) fn scenario(&self) -> Scenario {
        let mut scenario = Scenario::new();
        for who in (0..NAMES.len()).filter(|who| self.agents[*who].there) {
            scenario = scenario.agent(NAMES[who], self.agents[who].restart);
        }
        scenario.with(|city| self.configure(city))
    }

    /// Writes the model into a configuration.
    pub(super) fn configure(&self, city: &mut City) {
        let mut agents = self.scenario_agents();
        std::mem::swap(&mut city.agents, &mut agents);
        let members = |mask: u8| {
            let single = |who: &usize| self.agents[*who].there && self.agents[*who].pool.is_none();
            let members = bits(mask).filter(|who| *who < NAMES.len()).filter(single);
            members.map(|who| AgentName::new(NAMES[who]).unwrap())
        };
        city.groups = (self.group.iter())
            .map(|(strategy, mask)| Group {
                name: "group".into(),
                strategy: *strategy,
                members: members(*mask).collect(),
            })
            .collect();
        city.suspended = self.city_suspended;
        city.rigs[0].suspended = self.rig_suspended;
        city.rigs[0].draining = self.rig_draining;
        city.rigs[0].raiders.max = SLOTS.len();
        city.daemon.restart.history = self.history;
        city.daemon.restart.window = WINDOW;
        city.daemon.restart.max_restarts = 3;
    }

    fn scenario_agents(&self) -> Vec<crate::domain::city::Agent> {
        let mut scenario = Scenario::new();
        for (who, entry) in self
            .agents
            .iter()
            .enumerate()
            .filter(|(_, entry)| entry.there)
        {
            scenario = scenario.agent(NAMES[who], entry.restart);
            let agent = scenario.city.agents.last_mut().unwrap();
            agent.command = self.argv(who);
            agent.env = BTreeMap::from([("ENV".into(), entry.env.to_string())]);
            agent.fingerprint = format!("{:?} {:?}", agent.command, agent.env);
            agent.idle_timeout = entry.idle.then_some(Duration::from_secs(120));
            agent.shutdown_timeout = Duration::from_secs(entry.grace);
            agent.suspended = entry.suspended;
            let needs = self
                .needs(who)
                .map(|need| AgentName::new(NAMES[need]).unwrap());
            agent.depends_on = needs.collect();
            agent.pool = entry.pool.map(|(min, max, asks)| Pool {
                min,
                max,
                check: asks.then(|| CHECK.to_owned()),
                check_interval: Duration::from_secs(60),
                drain_timeout: Duration::from_secs(50),
            });
        }
        scenario.city.agents
    }

    /// Returns true when the agent must have no session.
    fn is_off(&self, who: usize) -> bool {
        let entry = &self.agents[who];
        let said = self.suspended.contains(&agent(NAMES[who]));
        !entry.there || self.city_suspended || entry.suspended || said
    }

    fn size(&self, who: usize) -> usize {
        let Some((min, max, asks)) = self.agents[who].pool else {
            return 0;
        };
        let answer = self.answer.filter(|_| asks).unwrap_or(min);
        answer.clamp(min, max) as usize
    }

    /// Returns true when a session of it is certainly up. An agent that rests after its end by its type is not.
    fn is_certain(&self, who: usize) -> bool {
        let entry = &self.agents[who];
        let wanted = match entry.pool {
            Some(_) => self.size(who) > 0,
            None => !self.resting.contains(NAMES[who]) && entry.restart == RestartType::Permanent,
        };
        let sure = !self.unsure.contains(NAMES[who]);
        wanted && sure && !self.is_off(who) && self.needs(who).all(|need| self.is_certain(need))
    }

    pub(super) async fn asked(&self, city: &TestCity) -> Asked {
        let mut asked = Asked::default();
        for who in (0..NAMES.len()).filter(|who| !self.is_off(*who)) {
            let certain = self.is_certain(who);
            if self.agents[who].pool.is_some() {
                let number = |n| city.session(&agent(&format!("{}-{n}", NAMES[who])));
                let members: BTreeSet<_> = (1..=MEMBERS).map(number).collect();
                let argv = |id: &SessionId| (id.clone(), self.argv(who));
                asked.may.extend(members.iter().map(argv));
                let size = self.size(who);
                let range = if certain { size..=size } else { 0..=size };
                asked.pools.push((members, range));
            } else if !self.resting.contains(NAMES[who]) || self.unsure.contains(NAMES[who]) {
                let session = city.session(&agent(NAMES[who]));
                if certain {
                    asked.must.insert(session.clone());
                }
                asked.may.insert(session, self.argv(who));
            }
        }
        for record in SLOTS.map(raider) {
            self.ask_raider(&mut asked, city, record).await;
        }
        asked
    }

    async fn ask_raider(&self, asked: &mut Asked, city: &TestCity, record: RaiderId) {
        let (session, hook) = (record.session_id(), city.hook(&record).await);
        let said = self.suspended.contains(&ChildId::Raider(record));
        if hook.is_some() && !said && !self.city_suspended && !self.rig_suspended {
            asked.must.insert(session.clone());
            asked.may.insert(session, vec!["script".into()]);
        }
    }
}
