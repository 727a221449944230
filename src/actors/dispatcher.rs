//! The dispatcher: does what is due: automations, completions that `hd` left in the outbox while the supervisor was
//! away, and deferred relics whose time has come; each in a task of its own, so that none delays another. Expired
//! records go first (retention).
//!
//! ```text
//!   timer for the next gate ─┐
//!   events that gates wait for ─┼─► Look ─► gates (look.rs) ─► record, run (fire.rs) ─┐
//!   reload, patrol, end of a run ─┘   ▲                                               │
//!                                     └───────────────────────────────────────────────┘
//! ```

mod chain;
mod fire;
mod look;
mod ritual;
#[cfg(test)]
mod tests;

use crate::actors::mail::DispatcherMsg;
use crate::actors::outbox;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::broadcast::error::RecvError;

use super::look_timer::LookTimer;
use super::refusal::Refusal;
use super::retention;
use super::world::World;
use crate::domain::cause::Cause;
use crate::domain::event::{Event, EventType, NewEvent};
use crate::domain::gates::{Gate, event};
use crate::domain::message;
use crate::domain::relic::{RelicKind, RelicStatus};
use crate::ports::relics::RelicFilter;

/// Timeout of runs at the stop of the supervisor; they are killed well before.
const LAST_RUNS: Duration = Duration::from_secs(9);

/// The dispatcher's state; nothing that matters.
pub struct Dispatcher {
    world: Arc<World>,
    timer: LookTimer<DispatcherMsg>,
    expired: retention::LastRuns,
}

/// The actor. What is due stands in the store and the outbox.
pub struct DispatcherActor;

impl Actor for DispatcherActor {
    type Msg = DispatcherMsg;
    type State = Dispatcher;
    type Arguments = Arc<World>;

    async fn pre_start(
        &self,
        me: ActorRef<DispatcherMsg>,
        world: Arc<World>,
    ) -> Result<Dispatcher, ActorProcessingErr> {
        world.directory.set_dispatcher(&me);
        listen(&me, &world);
        me.cast(DispatcherMsg::Patrol)?;
        Ok(Dispatcher {
            world,
            timer: LookTimer::new("dispatcher", || DispatcherMsg::Look, DispatcherMsg::Looked),
            expired: retention::LastRuns::default(),
        })
    }

    async fn handle(
        &self,
        me: ActorRef<DispatcherMsg>,
        msg: DispatcherMsg,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), ActorProcessingErr> {
        dispatcher.world = dispatcher.world.newest();
        let world = &dispatcher.world;
        match msg {
            DispatcherMsg::Outbox => empty_outbox(world),
            DispatcherMsg::Reconciled => dispatcher.collect(&me),
            DispatcherMsg::Patrol => {
                empty_outbox(world);
                reopen_deferred(world);
                dispatcher.start_look(&me);
            }
            DispatcherMsg::Look => dispatcher.start_look(&me),
            DispatcherMsg::Looked(next) => dispatcher.timer.looked(&me, world, next),
            DispatcherMsg::Run(id, asker, reply) => {
                let world = Arc::clone(world);
                tokio::spawn(async move {
                    // The caller may have stopped waiting.
                    let _late = reply.send(fire::by_hand(&world, &id, asker).await);
                });
            }
            DispatcherMsg::Stop => world.directory.automations.stop_all(),
        }
        Ok(())
    }

    /// Runs end before the store does.
    async fn post_stop(
        &self,
        _me: ActorRef<DispatcherMsg>,
        dispatcher: &mut Dispatcher,
    ) -> Result<(), ActorProcessingErr> {
        let automations = &dispatcher.world.directory.automations;
        automations.stop_all();
        let ended = tokio::time::timeout(LAST_RUNS, automations.ended()).await;
        if ended.is_err() {
            let left = automations.under_way();
            tracing::error!(
                ?left,
                "a run of an automation did not end before the stop; the next start ends it"
            );
        }
        Ok(())
    }
}

impl Dispatcher {
    /// Handles the end of a patrol in the order of `rules.md`: wisps first, then what is due.
    fn collect(&mut self, me: &ActorRef<DispatcherMsg>) {
        if let Some(run) = self.expired.rest_due(&self.world) {
            let world = Arc::clone(&self.world);
            tokio::spawn(async move { retention::prune(&world, run).await });
        }
        let wisps = self.expired.wisps_due(&self.world);
        let (me, world) = (me.clone(), Arc::clone(&self.world));
        tokio::spawn(async move {
            if wisps && let Err(error) = retention::collect(&world).await {
                tracing::warn!(
                    %error,
                    "expired wisps could not be deleted; the next collection retries"
                );
            }
            // A restarted dispatcher looks by itself.
            let _restarted = me.cast(DispatcherMsg::Patrol);
        });
    }

    /// Starts a look. The patrol makes up for a look that fails.
    fn start_look(&mut self, me: &ActorRef<DispatcherMsg>) {
        let world = Arc::clone(&self.world);
        let look = async move { look::run_due(&world).await };
        self.timer.start(me, &self.world, look);
    }
}

/// Looks at the gates when an event comes that one of them waits for.
fn listen(me: &ActorRef<DispatcherMsg>, world: &Arc<World>) {
    let (me, world) = (me.clone(), Arc::downgrade(world));
    let Some(strong) = world.upgrade() else {
        return;
    };
    let mut events = strong.store.subscribe();
    drop(strong);
    tokio::spawn(async move {
        loop {
            let wanted = match events.recv().await {
                Ok(event) => match world.upgrade() {
                    Some(world) => is_wanted(&world.newest(), &event),
                    None => return,
                },
                Err(RecvError::Lagged(_)) => true,
                Err(RecvError::Closed) => return,
            };
            if wanted && me.cast(DispatcherMsg::Look).is_err() {
                return;
            }
        }
    });
}

fn is_wanted(world: &World, event: &Event) -> bool {
    world.city.automations.iter().any(|automation| {
        matches!(&automation.gate, Gate::Event { on } if on.matches(&event.kind))
            && !event::is_own(event, &automation.id)
    })
}

fn empty_outbox(world: &Arc<World>) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        or_warn!(
            outbox::empty(&world).await,
            "the outbox could not be read; the next patrol retries"
        );
    });
}

fn reopen_deferred(world: &Arc<World>) {
    let world = Arc::clone(world);
    tokio::spawn(async move {
        or_warn!(
            reopen_due(&world).await,
            "deferred relics could not be read; the next patrol retries"
        );
    });
}

/// Opens the deferred relics whose time has come.
async fn reopen_due(world: &World) -> Result<(), Refusal> {
    let filter = RelicFilter {
        kind: Some(RelicKind::Task),
        status: Some(RelicStatus::Deferred),
        ..RelicFilter::default()
    };
    let reopened = world.store.run(move |txn| {
        let now: Timestamp = txn.now();
        let mut reopened = 0;
        for mut relic in txn.relics(&filter)? {
            if relic.until.is_none_or(|until| until > now) {
                continue;
            }
            relic.status = RelicStatus::Open;
            relic.until = None;
            txn.put_relic(&relic)?;
            let data = serde_json::json!({ "status": "open" });
            let event = NewEvent::new(EventType::RelicUpdated, &relic.id, Cause::Deferred);
            txn.record(&event.with(data))?;
            reopened += 1;
        }
        Ok(reopened)
    });
    if reopened.await? > 0 {
        for rig in &world.city.rigs {
            world.nudge(&message::witness(&rig.name));
        }
    }
    Ok(())
}
