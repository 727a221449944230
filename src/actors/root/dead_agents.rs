//! Standing agents whose program died inside its wrapper (`health-patrol.md`, zombie capture): the session is up, and
//! the agent not among its processes. Found as a raider's is (`domain/zombie/agent_dead.rs`): in two patrols in a row,
//! because a wrapper that restarts its agent has none for a moment. The executables are those of the agent's
//! `process_names`, or of its harness. The last output is kept, and a fresh session starts in its place, which counts as a
//! death.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::world::World;
use super::super::{ask, effects};
use super::Root;
use super::desired::Want;
use crate::actors::mail::{ChildRef, Work};
use crate::domain::facts::{RunState, SessionFacts};
use crate::domain::ids::{ChildId, SessionId};
use crate::domain::reconcile::Mode;
use crate::domain::restart::Mono;
use crate::domain::zombie::is_lasting;

/// A session of an agent, and the names of its agent's program.
#[derive(Debug, Clone)]
pub(super) struct DeadAgent {
    session: SessionId,
    token: String,
    programs: Vec<String>,
}

impl DeadAgent {
    fn question(&self) -> (SessionId, Vec<String>) {
        (self.session.clone(), self.programs.clone())
    }
}

/// Sessions of agents whose agent is gone, and since when.
pub(super) type DeadAgents = BTreeMap<ChildId, (DeadAgent, Mono)>;

/// Returns the agents whose sessions run without their agent. A harness has its start timeout until its agent must run;
/// a session with a person attached is left alone.
///
/// None when the look is not a patrol's: processes are not inspected for every event.
pub(super) async fn find(
    world: &World,
    patrol: bool,
    wants: &[Want],
    by_id: &BTreeMap<&SessionId, &SessionFacts>,
) -> Option<BTreeMap<ChildId, DeadAgent>> {
    if !patrol {
        return None;
    }
    let up = wants
        .iter()
        .filter(|(wanted, _)| matches!(wanted.mode, Mode::Run | Mode::Drain));
    let asked = up.filter_map(|(_, spec)| {
        let Work::Agent(agent) = &spec.work else {
            return None;
        };
        let facts = by_id.get(&spec.session)?;
        let age = world.age(&format!("up/{}", facts.token), facts.started_at);
        let runs = facts.state == RunState::Running && !facts.attached;
        let dead_agent = DeadAgent {
            session: facts.id.clone(),
            token: facts.token.clone(),
            programs: world.city.process_names(agent).to_vec(),
        };
        let old = age >= world.city.session.startup_timeout;
        (runs && old).then(|| (spec.id.clone(), dead_agent))
    });
    let asked: Vec<_> = asked.collect();
    let lives = live(
        world,
        asked
            .iter()
            .map(|(_, dead_agent)| dead_agent.question())
            .collect(),
    )
    .await;
    let known = asked.into_iter().zip(lives);
    let dead_agents =
        known.filter_map(|(dead_agent, lives)| (lives == Some(false)).then_some(dead_agent));
    Some(dead_agents.collect())
}

/// Returns, for each session, whether its agent is among its processes; none where unknown.
async fn live(world: &World, asked: Vec<(SessionId, Vec<String>)>) -> Vec<Option<bool>> {
    match asked.is_empty() {
        true => Vec::new(),
        false => effects::agents_live(world, asked).await,
    }
}

impl Root {
    /// Replaces the sessions that the patrol before also saw without their agent.
    pub(super) fn replace_dead_agents(&mut self, seen: BTreeMap<ChildId, DeadAgent>) {
        let mono = self.world.clock.mono();
        let interval = self.world.city.daemon.patrol_interval;
        let before = std::mem::take(&mut self.dead_agents);
        for (id, dead_agent) in seen {
            let same = before
                .get(&id)
                .filter(|(of, _)| of.token == dead_agent.token);
            let since = same.map_or(mono, |(_, since)| *since);
            if is_lasting(mono.saturating_sub(since), interval) {
                let world = Arc::clone(&self.world);
                tokio::spawn(replace(world, id.clone(), dead_agent.clone()));
            }
            self.dead_agents.insert(id, (dead_agent, since));
        }
    }
}

/// Checks once more that a session has no agent, and has its session replaced.
async fn replace(world: Arc<World>, id: ChildId, dead_agent: DeadAgent) {
    if live(&world, vec![dead_agent.question()]).await.first() != Some(&Some(false)) {
        return;
    }
    let tail = effects::tail(&world, &dead_agent.session).await;
    let meant = ChildRef::any(id.clone(), dead_agent.session).only(dead_agent.token);
    if let Err(error) = ask::replace_dead(&world, meant, tail).await {
        tracing::warn!(
            child = %id,
            %error,
            "a session without its agent could not be replaced; the next patrol retries"
        );
    }
}
