//! Fault points for crash sweeps (`rules.md`): with the cargo feature `fault-points`, `HORDE_FAULT=<step>[:n]` aborts
//! the process the n-th time the step is reached. Without the feature, the variable is not read.

use std::sync::Arc;

use crate::actors::world::FaultHook;
use crate::domain::saga::FaultPoint;

/// Returns the hook that this process calls at each fault point.
#[cfg(not(feature = "fault-points"))]
#[must_use]
pub fn hook() -> FaultHook {
    Arc::new(|_: FaultPoint| {})
}

/// Returns the hook that this process calls at each fault point.
#[cfg(feature = "fault-points")]
#[must_use]
#[expect(clippy::disallowed_methods, reason = "only in builds for tests")]
pub fn hook() -> FaultHook {
    use std::sync::atomic::{AtomicU64, Ordering};

    let wanted = std::env::var("HORDE_FAULT").unwrap_or_default();
    let (name, times) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    let (name, times) = (name.to_owned(), times.parse::<u64>().unwrap_or(1));
    let reached = AtomicU64::new(0);
    Arc::new(move |point: FaultPoint| {
        if point.as_str() == name && reached.fetch_add(1, Ordering::SeqCst) + 1 == times {
            // As abrupt as kill -9: no destructor, no flush.
            std::process::abort();
        }
    })
}

/// Lists all fault points, a line each.
#[must_use]
pub fn list() -> String {
    FaultPoint::ALL
        .iter()
        .map(|point| format!("{}\n", point.as_str()))
        .collect()
}
