//! A clock whose wall time can be set, as by an administrator or a time server.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::ports::clock::Clock;

/// Wraps another clock with an offset of its wall time.
pub struct JumpyClock {
    inner: Arc<dyn Clock>,
    seconds: AtomicI64,
}

impl JumpyClock {
    /// Makes a clock that equals the wrapped one, until it is set.
    #[must_use]
    pub fn on(inner: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            seconds: AtomicI64::new(0),
        })
    }

    /// Moves the wall time by this number of seconds, forth or back.
    pub fn jump(&self, seconds: i64) {
        self.seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for JumpyClock {
    fn mono(&self) -> Duration {
        self.inner.mono()
    }

    fn now(&self) -> Timestamp {
        self.inner.now() + SignedDuration::from_secs(self.seconds.load(Ordering::SeqCst))
    }
}
