//! A timer for looks: one at a time, another after each request, and at the latest when the last look asked for it.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorRef, Message};
use tokio::task::JoinHandle;

use super::world::World;

/// The longest wait; something due later gets a look in between, because timers are bounded.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Delay before a failed look is retried.
const RETRY: Duration = Duration::from_secs(30);

/// An actor's looks. No state that matters: a successor looks by itself.
pub struct LookTimer<M> {
    /// Builds the message that asks for a look.
    look: fn() -> M,
    /// Builds the message that a look has ended, with when the next is due.
    looked: fn(Option<Timestamp>) -> M,
    looking: bool,
    /// Set when a look was requested during the look.
    again: bool,
    timer: Option<JoinHandle<()>>,
}

/// Returns when a failed look is retried.
pub fn retry(world: &World) -> Option<Timestamp> {
    world.clock.now().checked_add(RETRY).ok()
}

impl<M: Message> LookTimer<M> {
    /// Creates it with the actor's messages.
    pub fn new(look: fn() -> M, looked: fn(Option<Timestamp>) -> M) -> Self {
        Self {
            look,
            looked,
            looking: false,
            again: false,
            timer: None,
        }
    }

    /// Looks now, or when the look under way has ended. The look returns when the next is due.
    pub fn start(
        &mut self,
        me: &ActorRef<M>,
        world: &World,
        look: impl Future<Output = Option<Timestamp>> + Send + 'static,
    ) {
        if self.looking {
            self.again = true;
            return;
        }
        self.looking = true;
        let (me, looked, retry) = (me.clone(), self.looked, retry(world));
        tokio::spawn(async move {
            // The hook logs a panic, which must not be the last look.
            let next = tokio::spawn(look).await.unwrap_or(retry);
            let _restarted = me.cast(looked(next));
        });
    }

    /// Handles the end of a look.
    pub fn looked(&mut self, me: &ActorRef<M>, world: &World, next: Option<Timestamp>) {
        self.looking = false;
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        let wait = match (std::mem::take(&mut self.again), next) {
            (true, _) => Duration::ZERO,
            (false, Some(next)) => {
                let wait = next.duration_since(world.clock.now());
                Duration::try_from(wait).unwrap_or_default().min(LONGEST)
            }
            (false, None) => return,
        };
        let (me, look) = (me.clone(), self.look);
        self.timer = Some(tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let _restarted = me.cast(look());
        }));
    }
}
