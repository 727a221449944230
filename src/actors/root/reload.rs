//! Reload: a new configuration replaces the old one as a whole, between two messages. Its consequences are found by the
//! look that follows.

use std::collections::BTreeSet;
use std::sync::Arc;

use ractor::ActorRef;

use super::super::world::World;
use super::infra::InfraSpec;
use super::{Root, RootMsg};
use crate::actors::mail::Reload;
use crate::actors::mail::agent_spec;
use crate::actors::rig_settings;
use crate::domain::cause::Cause;
use crate::domain::child::{ChildPhase, Rest};
use crate::domain::city::{City, RestartType, Rig};
use crate::domain::event::{EventType, NewEvent};
use crate::domain::ids::{AgentName, ChildId, RigName, SessionId};
use crate::domain::reload::{Running, changes};
use crate::ports::relics::{StoreError, Txn};

/// Makes the witness and the forge of a rig.
pub type RigInfra = Arc<dyn Fn(&Arc<World>, &RigName) -> Vec<InfraSpec> + Send + Sync>;

impl Root {
    pub(super) async fn reload(&mut self, me: &ActorRef<RootMsg>, reload: Reload) {
        let Reload {
            city,
            shown,
            repos,
            undisturbed,
            dry_run,
            reply,
        } = reload;
        let running = self.running(&undisturbed);
        let old = Arc::clone(&self.world);
        let changes = changes(&old.city, &city, &running, &self.held(&city));
        if dry_run {
            let _gave_up = reply.send(changes);
            return;
        }
        if self.stopping.is_some() {
            return;
        }
        let world = Arc::new(World {
            city,
            shown,
            repos,
            ..World::clone(&old)
        });
        world.directory.set_newest(&world);
        // From now on sessions start with this provider. Sessions of the other provider have drifted: standing agents
        // are replaced at the next look, raiders when their next session begins.
        world.sessions.prefer(world.city.session.provider);
        resize(&old, &world);
        if old.city.harnesses != world.city.harnesses {
            world.directory.conditions.look_again();
        }
        self.world = Arc::clone(&world);
        // At once: the restart of a changed group under the same name would forget the members that have left it.
        self.dissolve(me).await;
        self.switch_history(old.city.daemon.restart.outlives());
        self.change_rigs(me, &old).await;
        self.ask_pools(me);
        if old.city.daemon.patrol_interval != world.city.daemon.patrol_interval {
            self.arm_patrol(me);
        }
        self.tell_all_to_look();
        self.start_look(me);
        close_notices(&world, rig_settings::close_decided);
        // A harness may have left an account.
        self.look_at_accounts(me);
        let _gave_up = reply.send(changes);
    }

    /// Returns the agents that have no session and get none by this configuration.
    fn held(&self, city: &City) -> BTreeSet<AgentName> {
        let mut held = self.resting.clone();
        held.extend(self.suspended.iter().filter_map(agent).cloned());
        for (name, record) in self
            .children
            .iter()
            .filter_map(|(id, record)| Some((agent(id)?, record)))
        {
            let Some(new) = city.agents.iter().find(|agent| agent.name == *name) else {
                continue;
            };
            let changed = !record.spec.is_same(&agent_spec(city, new));
            let stays = match record.child.phase() {
                ChildPhase::Quarantined { .. }
                | ChildPhase::Backoff { .. }
                | ChildPhase::Blocked => !changed,
                // It came to rest by its restart type.
                ChildPhase::Resting(Rest::Over) => {
                    !changed || new.restart != RestartType::Permanent
                }
                ChildPhase::Resting(Rest::Order(cause)) => *cause == Cause::Operator,
                _ => false,
            };
            if stays {
                held.insert(name.clone());
            }
        }
        held
    }

    fn running(&self, undisturbed: &BTreeSet<SessionId>) -> Vec<Running> {
        let agents = self.children.iter().filter_map(|(id, record)| {
            let name = agent(id)?;
            record.has_actor().then(|| Running {
                name: name.clone(),
                fingerprint: record.session.as_ref().and_then(|s| s.fingerprint.clone()),
                undisturbed: undisturbed.contains(&record.spec.session),
            })
        });
        agents.collect::<Vec<Running>>()
    }

    /// Starts witness and forge of new rigs, ends those of removed rigs, and journals which rigs are suspended and
    /// resumed.
    async fn change_rigs(&mut self, me: &ActorRef<RootMsg>, old: &World) {
        let new = Arc::clone(&self.world);
        for rig in &new.city.rigs {
            let before = old.city.rig(&rig.name);
            if before.is_none() {
                let specs = (self.rig_infra)(&new, &rig.name);
                self.add_infra(me, specs).await;
            }
            let was = before.is_some_and(|before| before.suspended) || old.city.suspended;
            let is = rig.suspended || new.city.suspended;
            match (was, is) {
                (false, true) => {
                    let event = NewEvent::new(EventType::RigSuspended, &rig.name, Cause::Suspended);
                    self.journal(event);
                }
                (true, false) => {
                    let event = NewEvent::new(EventType::RigResumed, &rig.name, Cause::Unsuspended);
                    self.journal(event);
                }
                (true, true) | (false, false) => {}
            }
        }
        for rig in old
            .city
            .rigs
            .iter()
            .filter(|rig| new.city.rig(&rig.name).is_none())
        {
            let own = format!("{}/", rig.name);
            self.remove_infra(&|name| name.starts_with(&own));
            new.directory.remove_rig(&rig.name);
        }
    }
}

fn agent(id: &ChildId) -> Option<&AgentName> {
    match id {
        ChildId::Agent(name) => Some(name),
        ChildId::Raider(_) => None,
    }
}

/// Resizes the semaphore of `start_concurrency`, which all worlds share.
fn resize(old: &World, new: &World) {
    let had = old.city.daemon.start_concurrency;
    let has = new.city.daemon.start_concurrency;
    new.starts.add_permits(has.saturating_sub(had));
    let fewer = u32::try_from(had.saturating_sub(has)).unwrap_or(u32::MAX);
    let starts = Arc::clone(&new.starts);
    tokio::spawn(async move {
        // Permits in use are removed when they are returned. The semaphore is closed only at the stop.
        if let Ok(permits) = starts.acquire_many(fewer).await {
            permits.forget();
        }
    });
}

/// Closes the escalations about default branches that this configuration decides, in a task: the root waits for no store.
pub(super) fn close_notices(
    world: &Arc<World>,
    close: fn(&mut dyn Txn, &[Rig]) -> Result<(), StoreError>,
) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        let rigs = world.city.rigs.clone();
        or_warn!(
            world.store.run(move |txn| close(txn, &rigs)).await,
            "escalations about default branches cannot be closed; the next reload closes them"
        );
    });
}
