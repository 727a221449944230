//! For tests and benches only: fakes, and the conformance suites that keep them honest.
#![expect(
    clippy::disallowed_methods,
    reason = "tests measure real time and are told by variables how to run"
)]

pub mod conformance;
pub mod empty_repository;
pub mod fake_repo;
pub mod fake_runner;
pub mod fake_sessions;
pub mod fake_tasks;
#[cfg(test)]
pub mod first_thread;
#[cfg(test)]
pub mod hang;
pub mod json_schema;
#[cfg(test)]
pub mod jumpy_clock;
mod keeper;
pub mod poll;
pub mod program;
pub mod records;
pub mod samples;
pub mod scratch;
#[cfg(test)]
pub mod seeded;
pub mod tier;
#[cfg(test)]
pub mod tripwire;
pub mod watchdog;
pub mod world;

use std::time::Duration;

use self::poll::poll;
pub use self::scratch::{scratch, scratch_on_disk};

/// The limit of waits in tests: longer than any condition takes on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until the condition gives something.
///
/// # Panics
/// No value came within [`PATIENCE`].
pub fn eventually<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    poll(PATIENCE, condition).unwrap_or_else(|| panic!("waited in vain for: {what}"))
}
