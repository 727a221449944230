//! The configuration: watched, read again when it changes or on request, validated as a whole, then applied as a whole
//! or not at all (`health-patrol.md`, config reload).
//!
//! ```text
//!  a file changed ─► settles ─┐                    ┌─ invalid or refused ─► the old one stays, journalled once
//!  SIGHUP, patrol ────────────┼─► read, validate ──┤
//!  hd reload ─────────────────┘   (one at a time)  └─ rigs prepared ─► the root applies it ─► journalled
//! ```
//!
//! A service manager is told when a reload begins and ends. A patrol's check counts as a reload only when it finds a
//! change.
//!
//! A request during a check is answered by the next check, which reads the files again.

use crate::actors::mail::Applied;
use crate::actors::mail::ConfigMsg;
use crate::actors::mail::HeldRigs;
use crate::actors::mail::Outcome;
use crate::actors::mail::Reloaded;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::directory::NotInForce;
use super::refusal::Refusal;
use super::world::World;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::restart::Mono;
use crate::ports::config::ConfigSource;

mod reload;

/// Several writes of an editor within this time are one change.
const SETTLE: Duration = Duration::from_millis(100);
/// The maximum wait for files that keep changing.
const UNSETTLED: Duration = Duration::from_secs(1);

/// The messages to a service manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reloading {
    /// The files are being read.
    Begun,
    /// The files are in force, or they are refused.
    Over {
        /// The reason of the refusal.
        refused: Option<String>,
    },
}

/// Sends a message to the service manager.
pub type ReloadListener = Arc<dyn Fn(Reloading) + Send + Sync>;

/// The parts that the actor is made from.
#[derive(Clone)]
pub struct ConfigArgs {
    /// The world.
    pub world: Arc<World>,
    /// The files.
    pub source: Arc<dyn ConfigSource>,
    /// Notified of reloads.
    pub listener: ReloadListener,
}

/// A caller that waits for the outcome of a check.
struct Waiting {
    dry_run: bool,
    by: Asker,
    reply: RpcReplyPort<Result<Reloaded, Refusal>>,
}

/// Its state.
pub struct Config {
    args: ConfigArgs,
    /// The answer of the newest reload.
    last: Reloaded,
    /// The last error, so that it is journalled once.
    rejected: Option<String>,
    reading: bool,
    /// Set when another check must follow the one under way.
    again: bool,
    /// Set when that check counts as a reload, because it was requested.
    aloud: bool,
    waiting: Vec<Waiting>,
    /// When files began to change, and when they last did. A timer runs while this is set.
    unsettled: Option<(Mono, Mono)>,
}

/// The actor.
pub struct ConfigActor;

impl Actor for ConfigActor {
    type Msg = ConfigMsg;
    type State = Config;
    type Arguments = ConfigArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ConfigMsg>,
        args: ConfigArgs,
    ) -> Result<Config, ActorProcessingErr> {
        args.world.directory.set_config(&me);
        // A predecessor may have ended in the middle of a reload.
        (args.listener)(Reloading::Over { refused: None });
        // A check finds the changes that were missed while no actor ran.
        me.cast(ConfigMsg::Check)?;
        let last = Reloaded {
            revision: args.world.newest().city.revision.clone(),
            applied_at: Some(args.world.clock.now()),
            actions: Vec::new(),
            rigs: Vec::new(),
            raiders: Vec::new(),
            errors: Vec::new(),
            pending: Vec::new(),
            held: Vec::new(),
            prepared: Vec::new(),
            unchanged: true,
        };
        Ok(Config {
            args,
            last,
            rejected: None,
            reading: false,
            again: false,
            aloud: false,
            waiting: Vec::new(),
            unsettled: None,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<ConfigMsg>,
        msg: ConfigMsg,
        config: &mut Config,
    ) -> Result<(), ActorProcessingErr> {
        config.args.world = config.args.world.newest();
        match msg {
            ConfigMsg::Touched => {
                let now = config.args.world.clock.mono();
                match &mut config.unsettled {
                    Some((_, last)) => *last = now,
                    None => {
                        config.unsettled = Some((now, now));
                        settle_after(&me, SETTLE);
                    }
                }
            }
            ConfigMsg::Settled => match config.unsettled_for() {
                Some(wait) => settle_after(&me, wait),
                None => {
                    config.unsettled = None;
                    config.request_check(&me);
                }
            },
            ConfigMsg::Hangup => config.request_check(&me),
            ConfigMsg::Check => {
                config.again = true;
                config.next(&me);
            }
            ConfigMsg::Reload { dry_run, by, reply } => {
                config.aloud |= !dry_run;
                config.waiting.push(Waiting { dry_run, by, reply });
                config.next(&me);
            }
            ConfigMsg::Read {
                outcome,
                rigs,
                dry_run,
                by,
                replies,
            } => {
                config.reading = false;
                if !dry_run {
                    config.notify_listener(&outcome);
                }
                config.answer((outcome, rigs), (dry_run, by), replies);
                config.next(&me);
            }
        }
        Ok(())
    }
}

/// Arms the settle timer; one runs however much is written.
fn settle_after(me: &ActorRef<ConfigMsg>, wait: Duration) {
    let _timer = me.send_after(wait, || ConfigMsg::Settled);
}

impl Config {
    /// Returns how long to wait until changing files have settled.
    fn unsettled_for(&self) -> Option<Duration> {
        let (first, last) = self.unsettled?;
        let until = (last + SETTLE).min(first + UNSETTLED);
        let wait = until.saturating_sub(self.args.world.clock.mono());
        (!wait.is_zero()).then_some(wait)
    }

    /// Requests a check that counts as a reload.
    fn request_check(&mut self, me: &ActorRef<ConfigMsg>) {
        (self.again, self.aloud) = (true, true);
        self.next(me);
    }

    /// Begins the next check, if one is wanted and none is under way. All callers that wait for the same kind of answer
    /// get it from one check.
    fn next(&mut self, me: &ActorRef<ConfigMsg>) {
        if self.reading {
            return;
        }
        let dry_run = match self.waiting.first() {
            Some(waiting) => waiting.dry_run,
            None if self.again => false,
            None => return,
        };
        self.reading = true;
        if !dry_run {
            self.again = false;
            if std::mem::take(&mut self.aloud) {
                (self.args.listener)(Reloading::Begun);
            }
        }
        let (now, later) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.dry_run == dry_run);
        self.waiting = later;
        let now: Vec<_> = now;
        let by = now.first().map(|waiting| waiting.by.clone());
        let is_asked = !now.is_empty();
        let replies = now.into_iter().map(|waiting| waiting.reply).collect();
        let (args, me) = (self.args.clone(), me.clone());
        tokio::spawn(async move {
            let ConfigArgs { world, source, .. } = args;
            let read =
                tokio::spawn(async move { reload::read(&world, source, dry_run, is_asked).await });
            let panicked = |panic| {
                let refusal = Refusal::internal(format!("{panic}"));
                (Outcome::Failed(refusal), HeldRigs::default())
            };
            let (outcome, rigs) = read.await.unwrap_or_else(panicked);
            // A restarted actor checks by itself; callers learn that their request is gone.
            let _restarted = me.cast(ConfigMsg::Read {
                outcome,
                rigs,
                dry_run,
                by,
                replies,
            });
        });
    }

    /// Tells the service manager. A known error that persists is no news.
    fn notify_listener(&self, outcome: &Outcome) {
        let (is_new, refused) = match outcome {
            Outcome::Same => (false, None),
            Outcome::Applied(_) => (true, None),
            Outcome::Rejected(why) => (self.rejected.as_ref() != Some(why), Some(why.clone())),
            Outcome::Failed(refusal) => (false, Some(refusal.to_string())),
        };
        if is_new {
            (self.args.listener)(Reloading::Begun);
        }
        (self.args.listener)(Reloading::Over { refused });
    }

    fn answer(
        &mut self,
        (outcome, rigs): (Outcome, HeldRigs),
        (dry_run, by): (bool, Option<Asker>),
        replies: Vec<RpcReplyPort<Result<Reloaded, Refusal>>>,
    ) {
        let answer = match outcome {
            Outcome::Failed(refusal) => {
                tracing::warn!(
                    error = %refusal,
                    "the configuration files could not be checked; the configuration in force \
                    stays"
                );
                if !dry_run {
                    let why = format!("the configuration was not checked: {refusal}");
                    let why = Some(NotInForce::Refused(why));
                    self.args.world.directory.set_reload_error(why);
                }
                Err(refusal)
            }
            Outcome::Same => {
                if !dry_run {
                    self.journal_rejection(None);
                }
                Ok(self.newest(&replies))
            }
            Outcome::Applied(applied) if dry_run => Ok(applied.answer(None)),
            Outcome::Applied(applied) => {
                self.applied(applied, by.as_ref());
                Ok(self.newest(&replies))
            }
            Outcome::Rejected(why) => {
                if !dry_run {
                    self.journal_rejection(Some(why.clone()));
                }
                Ok(Reloaded {
                    actions: Vec::new(),
                    rigs: Vec::new(),
                    raiders: Vec::new(),
                    errors: vec![why],
                    unchanged: false,
                    ..self.last.clone()
                })
            }
        };
        let HeldRigs { held, prepared } = rigs;
        let answer = answer.map(|told| Reloaded {
            held,
            prepared,
            ..told
        });
        for reply in replies {
            let _gave_up = reply.send(answer.clone());
        }
    }

    /// Returns the newest reload. The first caller gets it as news, even if a change of a file triggered the reload
    /// before.
    fn newest<T>(&mut self, asked: &[T]) -> Reloaded {
        let newest = self.last.clone();
        self.last.unchanged |= !asked.is_empty();
        newest
    }

    fn applied(&mut self, applied: Applied, by: Option<&Asker>) {
        let world = &self.args.world;
        self.last = applied.answer(Some(world.clock.now()));
        let data = serde_json::json!({
            "revision": self.last.revision, "actions": self.last.actions,
            "rigs": self.last.rigs, "raiders": self.last.raiders, "pending": self.last.pending,
        });
        let event = NewEvent::new(EventType::ConfigReloaded, &world.city.name, Cause::Config);
        let event = event.with(data);
        world.store.journal(vec![match by {
            Some(asker) => event.asked_by(asker),
            None => event,
        }]);
        self.journal_rejection(None);
    }

    /// Journals an error of the files once, or that it is gone.
    fn journal_rejection(&mut self, rejected: Option<String>) {
        let world = &self.args.world;
        let refused = rejected.clone().map(NotInForce::Refused);
        let pending = (!self.last.pending.is_empty()).then(|| {
            NotInForce::AtNextStart(format!(
                "takes effect at the next start of the supervisor: {}",
                self.last.pending.join(", ")
            ))
        });
        world.directory.set_reload_error(refused.or(pending));
        if rejected == self.rejected {
            return;
        }
        if let Some(error) = &rejected {
            let data = serde_json::json!({ "error": error, "kept": world.city.revision });
            let event = NewEvent::new(EventType::ConfigRejected, &world.city.name, Cause::Config);
            world.store.journal(vec![event.with(data)]);
        }
        self.rejected = rejected;
    }
}

#[cfg(test)]
mod tests;
