//! Waiting in tests: the only place where a test sleeps. Tests wait for conditions, with a limit; where
//! the moment itself is what is tested, [`pass`] lets a time pass.

use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at a condition at first, and at most: what comes at once is seen at once, and what
/// takes long costs little.
const STEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Looks until there is something, for as long as the limit says. Looks once more at its end.
pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    let mut step = STEPS.0;
    loop {
        let last = Instant::now() >= deadline;
        if let Some(found) = look() {
            return Some(found);
        }
        if last {
            return None;
        }
        thread::sleep(step);
        step = (step * 2).min(STEPS.1);
    }
}

/// Lets a time pass that no condition stands for: the moment of a fault, a window in which nothing may
/// happen.
pub fn pass(time: Duration) {
    thread::sleep(time);
}
