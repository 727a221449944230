//! The clocks: the machine's, and one that follows Tokio's (paused) time for simulations.

use std::time::Duration;

use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::ports::clock::Clock;

/// The machine's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    origin: Instant,
    /// The wall clock's reading at `origin`, so that earlier instants can be represented, too.
    start: Duration,
}

impl SystemClock {
    /// Makes a clock whose monotonic time starts at the current wall time.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: Instant::now(),
            start: Duration::try_from(Timestamp::now().as_duration()).unwrap_or_default(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn mono(&self) -> Duration {
        self.start + self.origin.elapsed()
    }

    fn since_boot(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or_default();
        Duration::new(u64::try_from(now.tv_sec).unwrap_or_default(), nanoseconds)
    }

    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still and jumps with Tokio's paused time, on both scales. Threads outside of the runtime see
/// the same time, because the clock remembers its runtime.
#[derive(Debug, Clone)]
pub struct PausedClock {
    runtime: Handle,
    origin: Instant,
    start: Timestamp,
}

impl PausedClock {
    /// Makes a clock that shows `start` now.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self {
            runtime: Handle::current(),
            origin: Instant::now(),
            start,
        }
    }
}

impl Clock for PausedClock {
    fn mono(&self) -> Duration {
        let _inside = self.runtime.enter();
        self.origin.elapsed()
    }

    fn now(&self) -> Timestamp {
        self.start
            .saturating_add(self.mono())
            .unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::new();
        let (first, second) = (clock.mono(), clock.mono());
        assert!(first <= second);
        let (first, second) = (clock.since_boot(), clock.since_boot());
        assert!(Duration::ZERO < first && first <= second);
        assert!(clock.now() > Timestamp::UNIX_EPOCH);
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_is_the_same_on_every_thread() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = PausedClock::starting_at(start);
        tokio::time::advance(Duration::from_secs(90)).await;
        let seen = {
            let clock = clock.clone();
            std::thread::spawn(move || (clock.mono(), clock.now()))
                .join()
                .unwrap()
        };
        assert_eq!(seen, (clock.mono(), clock.now()));
        assert_eq!(seen.0, Duration::from_secs(90));
        assert_eq!(seen.1.to_string(), "2026-01-01T00:01:30Z");
    }
}
