//! Infrastructure actors: permanent children without state that matters. An actor that panics is started again and
//! rebuilds its state from the store and the world.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr};

use super::{Root, RootMsg};
use crate::domain::restart::{Answer, Backoff, DeathWindow, History, RestartPolicy};

/// Spawns an actor under the given supervisor and enters it in the directory.
pub type Spawn = Arc<
    dyn Fn(ActorCell) -> Pin<Box<dyn Future<Output = Result<ActorCell, SpawnErr>> + Send>>
        + Send
        + Sync,
>;

/// The name and the constructor of an infrastructure actor.
pub struct InfraSpec {
    /// The name for logs: `store`, `shaman`, `horde/witness`.
    pub name: String,
    /// Spawns the actor.
    pub spawn: Spawn,
}

/// The record of an infrastructure actor.
pub struct Infra {
    spec: InfraSpec,
    actor: Option<ActorCell>,
    deaths: DeathWindow,
    epoch: u64,
}

impl Infra {
    pub(super) fn new(spec: InfraSpec) -> Self {
        Self {
            spec,
            actor: None,
            deaths: DeathWindow::default(),
            epoch: 0,
        }
    }

    pub(super) fn is(&self, actor: ActorId) -> bool {
        self.actor
            .as_ref()
            .is_some_and(|cell| cell.get_id() == actor)
    }

    pub(super) fn name(&self) -> &str {
        &self.spec.name
    }

    pub(super) fn take(&mut self) -> Option<ActorCell> {
        self.actor.take()
    }
}

/// Limits a loop of panics without leaving infrastructure down for long: ten restarts within ten seconds, then a pause
/// until the oldest is ten seconds old.
fn policy() -> RestartPolicy {
    RestartPolicy {
        max_restarts: 10,
        window: Duration::from_secs(10),
        backoff: Backoff {
            first: Duration::ZERO,
            initial: Duration::from_millis(10),
            max: Duration::from_secs(1),
            multiplier: 2.0,
            jitter: 0.0,
        },
        stable_after: None,
        history: History::Memory,
    }
}

impl Root {
    /// Starts all infrastructure actors, in order.
    pub(super) async fn start_infra(&mut self, me: &ActorRef<RootMsg>) {
        for index in 0..self.infra.len() {
            self.spawn_infra(me, index).await;
        }
    }

    async fn spawn_infra(&mut self, me: &ActorRef<RootMsg>, index: usize) {
        let Some(infra) = self.infra.get_mut(index) else {
            return;
        };
        match (infra.spec.spawn)(me.get_cell()).await {
            Ok(cell) => infra.actor = Some(cell),
            Err(error) => self.infra_ended(me, index, Some(error.into())),
        }
    }

    /// Handles the end of an infrastructure actor: restarts it after a delay, unless the supervisor stops.
    pub(super) fn infra_ended(
        &mut self,
        me: &ActorRef<RootMsg>,
        index: usize,
        error: Option<ActorProcessingErr>,
    ) {
        let now = self.world.clock.mono();
        let stopping = self.stopping.is_some();
        let Some(infra) = self.infra.get_mut(index) else {
            return;
        };
        infra.actor = None;
        infra.epoch += 1;
        if stopping {
            return;
        }
        let why = error.map_or_else(|| "it stopped".to_owned(), |error| error.to_string());
        let delay = match infra.deaths.on_death(&policy(), now, 0.0) {
            Answer::Restart { after } => after,
            Answer::Quarantine { until } => until.saturating_sub(now),
        };
        tracing::error!(
            actor = infra.spec.name,
            why,
            ?delay,
            "an actor of the supervisor ended; it restarts after the delay"
        );
        let (name, epoch) = (infra.spec.name.clone(), infra.epoch);
        let _timer = me.send_after(delay, move || RootMsg::RestartInfra { name, epoch });
    }

    /// Restarts an infrastructure actor, unless the timer is of an earlier epoch.
    pub(super) async fn restart_infra(&mut self, me: &ActorRef<RootMsg>, name: &str, epoch: u64) {
        let due = |infra: &Infra| {
            infra.spec.name == name && infra.epoch == epoch && infra.actor.is_none()
        };
        if let (Some(index), None) = (self.infra.iter().position(due), &self.stopping) {
            self.spawn_infra(me, index).await;
        }
    }

    /// Starts the infrastructure actors of a rig that was added.
    pub(super) async fn add_infra(&mut self, me: &ActorRef<RootMsg>, specs: Vec<InfraSpec>) {
        for spec in specs {
            self.infra.push(Infra::new(spec));
            self.spawn_infra(me, self.infra.len() - 1).await;
        }
    }

    /// Stops the infrastructure actors of a rig that was removed.
    pub(super) fn remove_infra(&mut self, of: &dyn Fn(&str) -> bool) {
        self.infra.retain_mut(|infra| {
            let gone = of(infra.name());
            if let (true, Some(cell)) = (gone, infra.take()) {
                cell.stop(None);
            }
            !gone
        });
    }
}
