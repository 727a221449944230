//! The shaman: receives escalations, keeps one open per subject and cause, raises unanswered ones again, closes those
//! whose problem has vanished (`witness-patrol.md`, escalate), and notifies people (`notify.rs`).
//!
//! ```text
//!   message in the inbox ──┐
//!   event that may end one ─┼─► Look: one transaction (reraise.rs) ──► timer for the next that is due
//!   timer, reload, patrol ──┘
//!   event that people are told of, each Look ─► Tell: the command, one at a time, apart from all that
//! ```

mod notify;
mod reraise;
#[cfg(test)]
mod tests;
mod unkillable;

use crate::actors::mail::ShamanMsg;
use std::sync::Arc;

use jiff::Timestamp;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::broadcast::error::RecvError;

use super::look_timer::{self, LookTimer};
use super::world::World;
use crate::domain::event::{Event, EventType};

pub use self::notify::Notices;

/// The arguments of each start of the shaman.
#[derive(Clone)]
pub struct ShamanArgs {
    /// The world.
    pub world: Arc<World>,
    /// The memory of notices that outlives a restart of the shaman.
    pub notices: Arc<Notices>,
}

/// The state of the shaman. A restarted one reads everything again.
pub struct Shaman {
    args: ShamanArgs,
    timer: LookTimer<ShamanMsg>,
}

/// The actor. Its inbox and its book are rows.
pub struct ShamanActor;

impl Actor for ShamanActor {
    type Msg = ShamanMsg;
    type State = Shaman;
    type Arguments = ShamanArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ShamanMsg>,
        args: ShamanArgs,
    ) -> Result<Shaman, ActorProcessingErr> {
        args.world.directory.set_shaman(&me);
        listen(&me, &args.world);
        me.cast(ShamanMsg::Look)?;
        self::notify::end_leftovers(&args);
        self::notify::send_waiting(&args);
        Ok(Shaman {
            args,
            timer: LookTimer::new("shaman", || ShamanMsg::Look, ShamanMsg::Looked),
        })
    }

    async fn handle(
        &self,
        me: ActorRef<ShamanMsg>,
        msg: ShamanMsg,
        shaman: &mut Shaman,
    ) -> Result<(), ActorProcessingErr> {
        shaman.args.world = shaman.args.world.newest();
        match msg {
            ShamanMsg::Look => {
                shaman.start_look(&me);
                // A notification that failed with the store waits for no further event.
                if shaman.args.world.city.notify.command.is_some() {
                    self::notify::send_waiting(&shaman.args);
                }
            }
            // In a task of its own, because such a session may hang.
            ShamanMsg::Unkillable { session, why } => {
                let world = Arc::clone(&shaman.args.world);
                tokio::spawn(unkillable::call(world, session, why));
            }
            ShamanMsg::Tell => self::notify::send_waiting(&shaman.args),
            ShamanMsg::Looked(next) => shaman.timer.looked(&me, &shaman.args.world, next),
        }
        Ok(())
    }

    /// A command ends before the store does.
    async fn post_stop(
        &self,
        _me: ActorRef<ShamanMsg>,
        shaman: &mut Shaman,
    ) -> Result<(), ActorProcessingErr> {
        shaman.args.notices.stop().await;
        Ok(())
    }
}

impl Shaman {
    fn start_look(&mut self, me: &ActorRef<ShamanMsg>) {
        let world = Arc::clone(&self.args.world);
        let look = async move { run_look(&world).await };
        self.timer.start(me, &self.args.world, look);
    }
}

/// Processes the inbox and the open escalations, and returns when the next look is due.
async fn run_look(world: &Arc<World>) -> Option<Timestamp> {
    let (own, notify) = (Arc::clone(world), world.city.notify.clone());
    let age = move |key: &str, stamp| own.age(key, stamp);
    let looked = world.store.run(move |txn| reraise::run(txn, &notify, &age));
    or_warn!(
        unkillable::close_ended(world).await,
        "the sessions that could not be ended cannot be checked; their escalations stay open"
    );
    match looked.await {
        // A time beyond the calendar never comes.
        Ok(next) => world.clock.now().checked_add(next?).ok(),
        Err(error) => {
            tracing::warn!(
                %error,
                "the shaman could not read its inbox and escalations; it retries"
            );
            look_timer::retry(world)
        }
    }
}

/// Has the shaman act on events that may end a problem, change a due time, or must be notified.
fn listen(me: &ActorRef<ShamanMsg>, world: &Arc<World>) {
    let (me, mut events) = (me.clone(), world.store.subscribe());
    let world = Arc::downgrade(world);
    tokio::spawn(async move {
        loop {
            let (look, tell) = match events.recv().await {
                Ok(event) => match world.upgrade() {
                    Some(world) => {
                        let reloaded = event.known() == Some(EventType::ConfigReloaded);
                        let told = world.newest().city.notify.tells(&event.kind);
                        (reloaded || may_end_one(&event), reloaded || told)
                    }
                    None => return,
                },
                Err(RecvError::Lagged(_)) => (true, true),
                Err(RecvError::Closed) => return,
            };
            let wanted = [(look, ShamanMsg::Look), (tell, ShamanMsg::Tell)];
            for (_, msg) in wanted.into_iter().filter(|(wanted, _)| *wanted) {
                if me.cast(msg).is_err() {
                    return;
                }
            }
        }
    });
}

/// Hooks go with a nuke; relics are closed and opened again; merge requests end.
fn may_end_one(event: &Event) -> bool {
    const ENDS: &[EventType] = &[
        EventType::RaiderNuked,
        EventType::RaiderMerged,
        EventType::RelicClosed,
        EventType::RelicUpdated,
        EventType::MrRejected,
    ];
    event.known().is_some_and(|kind| ENDS.contains(&kind))
}
