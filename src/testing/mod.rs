//! For tests and benches only: fakes, and the conformance suites that keep them honest.

pub mod conformance;
pub mod fake_repo;
pub mod fake_runner;
pub mod fake_sessions;
pub mod fake_tasks;
#[cfg(test)]
pub mod jumpy_clock;
#[cfg(test)]
pub mod seeded;
#[cfg(test)]
mod theorem;
#[cfg(test)]
pub mod tripwire;
#[cfg(test)]
pub mod world;

use std::time::{Duration, Instant};

/// Longer than anything takes on a loaded machine; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the condition gives something.
///
/// # Panics
/// It did not within [`PATIENCE`].
pub fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
