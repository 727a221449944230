//! One look at a time at what is due: another when something comes up, and at the latest when the last one
//! said.

use std::future::Future;
use std::time::Duration;

use jiff::Timestamp;
use ractor::{ActorRef, Message};
use tokio::task::JoinHandle;

use super::world::World;

/// What is due later than this is looked at in between: timers have an end.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// A look that failed is made up for after this.
const RETRY: Duration = Duration::from_secs(30);

/// An actor's looks. Nothing of it matters: a successor looks for itself.
pub struct Lookout<M> {
    /// Asks for a look.
    look: fn() -> M,
    /// Says that one is over, and when the next is due.
    looked: fn(Option<Timestamp>) -> M,
    looking: bool,
    /// Something came up during the look.
    again: bool,
    timer: Option<JoinHandle<()>>,
}

/// When a look that failed is made up for.
pub fn retry(world: &World) -> Option<Timestamp> {
    world.clock.now().checked_add(RETRY).ok()
}

impl<M: Message> Lookout<M> {
    /// The actor's messages for it.
    pub fn new(look: fn() -> M, looked: fn(Option<Timestamp>) -> M) -> Self {
        Self {
            look,
            looked,
            looking: false,
            again: false,
            timer: None,
        }
    }

    /// Looks, or will when the look under way is over. The look says when the next is due.
    pub fn look(
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
            // A panic is logged by the hook, and must not be the last look.
            let next = tokio::spawn(look).await.unwrap_or(retry);
            let _restarted = me.cast(looked(next));
        });
    }

    /// A look is over.
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
