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

/// A look that takes longer than this many patrol intervals hangs.
const LOOK_MAX: u32 = 10;
/// The least time that a look has, however often patrols are.
const LOOK_LEAST: Duration = Duration::from_secs(60);

/// A look rests for this many times of what it took.
const REST_FACTOR: u32 = 3;
/// The longest rest: a person waits for what the next look begins.
const REST_MAX: Duration = Duration::from_millis(150);

/// The reason why a look has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoLook {
    /// It panicked; the hook logs it.
    Panicked,
    /// It did not end in time and was given up. Blocking work that it had started continues on its thread, within its
    /// budget.
    Hangs,
}

/// Runs a look in a task of its own, with a watchdog: a look that panics or hangs must not be the last one.
///
/// # Errors
/// [`NoLook`].
pub async fn watched<T: Send + 'static>(
    world: &World,
    whose: &str,
    look: impl Future<Output = T> + Send + 'static,
) -> Result<T, NoLook> {
    let limit = (world.city.daemon.patrol_interval * LOOK_MAX).max(LOOK_LEAST);
    let mut looking = tokio::spawn(look);
    match tokio::time::timeout(limit, &mut looking).await {
        Ok(looked) => looked.map_err(|_panic| NoLook::Panicked),
        Err(_) => {
            looking.abort();
            tracing::error!(
                actor = whose,
                ?limit,
                "the check of an actor took longer than its limit, as when a disk or git does not answer; it is aborted and starts again"
            );
            Err(NoLook::Hangs)
        }
    }
}

/// As [`watched`], and then rests before it returns, so that looks at a large city, requested one after another, leave
/// most of a core to other work. A look that hangs or panics does not rest: its caller has a back-off.
///
/// # Errors
/// [`NoLook`].
pub async fn watched_with_rest<T: Send + 'static>(
    world: &World,
    whose: &str,
    look: impl Future<Output = T> + Send + 'static,
) -> Result<T, NoLook> {
    let begun = world.clock.mono();
    let looked = watched(world, whose, look).await?;
    let took = world.clock.mono().saturating_sub(begun);
    let rest = took.saturating_mul(REST_FACTOR).min(REST_MAX);
    if !rest.is_zero() {
        tokio::time::sleep(rest).await;
    }
    Ok(looked)
}

/// An actor's looks. No state that matters: a successor looks by itself.
pub struct LookTimer<M> {
    /// The actor's name, for the log.
    whose: &'static str,
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
    /// Creates it with the actor's name and messages.
    pub fn new(whose: &'static str, look: fn() -> M, looked: fn(Option<Timestamp>) -> M) -> Self {
        Self {
            whose,
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
        let (me, looked, world) = (me.clone(), self.looked, world.clone());
        let whose = self.whose;
        tokio::spawn(async move {
            let next = watched(&world, whose, look).await;
            let next = next.unwrap_or_else(|_| retry(&world));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::world::Scenario;

    #[tokio::test(start_paused = true)]
    async fn look_that_hangs_or_panics_ends_and_others_have_their_time() {
        let city = Scenario::new().start().await;
        let limit = city.world.city.daemon.patrol_interval * LOOK_MAX;
        let begun = tokio::time::Instant::now();
        let hung = watched(&city.world, "a test", std::future::pending::<()>()).await;
        assert_eq!(hung, Err(NoLook::Hangs));
        assert_eq!(begun.elapsed(), limit);
        let slow = async move {
            tokio::time::timeout(limit - Duration::from_secs(1), std::future::pending::<()>()).await
        };
        assert!(watched(&city.world, "a test", slow).await.is_ok());
        let panics = async move { assert!(begun.elapsed().is_zero(), "on purpose") };
        let ended = watched(&city.world, "a test", panics).await;
        assert_eq!(ended, Err(NoLook::Panicked));
    }

    #[tokio::test(start_paused = true)]
    async fn look_rests_for_three_times_of_what_it_took_but_not_long() {
        let city = Scenario::new().start().await;
        for (takes, with_rest) in [(0, 0), (5, 20), (40, 160), (50, 200), (1000, 1150)] {
            let begun = tokio::time::Instant::now();
            let look = async move {
                if takes > 0 {
                    tokio::time::sleep(Duration::from_millis(takes)).await;
                }
            };
            let looked = watched_with_rest(&city.world, "a test", look).await;
            assert_eq!(looked, Ok(()));
            assert_eq!(begun.elapsed(), Duration::from_millis(with_rest), "{takes}");
        }
    }
}
