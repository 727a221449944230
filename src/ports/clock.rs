//! Time, as an argument.

use std::time::Duration;

use jiff::Timestamp;

/// Two clocks: one for windows and back-off, one for people.
pub trait Clock: Send + Sync {
    /// Time since some fixed instant; never goes back, not even when the wall clock does.
    fn mono(&self) -> Duration;

    /// As [`Clock::mono`], with the time in which the machine was suspended.
    fn since_boot(&self) -> Duration {
        self.mono()
    }

    /// Wall-clock time, for display and records.
    fn now(&self) -> Timestamp;
}
