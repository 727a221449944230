//! Waiting in tests: the only place where a test sleeps. Tests wait for conditions, with a limit; if the moment itself
//! is under test, [`pass`] lets a time pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The first and the longest pause between two looks at a condition: a quick result is seen quickly, and a slow one
/// costs little.
const STEPS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Looks until there is a value, for as long as the limit says. Looks once more at its end.
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

/// Lets a time pass that no condition can express: the moment of a fault, a window in which nothing may happen.
pub fn pass(time: Duration) {
    thread::sleep(time);
}

/// Wakes a thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the output of a future that another thread completes, if that happens within the limit. This thread, and a
/// runtime that runs on it alone, does nothing else meanwhile.
pub fn ready_within<F: Future + Unpin>(limit: Duration, future: &mut F) -> Option<F::Output> {
    let deadline = Instant::now() + limit;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = Pin::new(&mut *future).poll(&mut context) {
            return Some(value);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        thread::park_timeout(left);
    }
}
