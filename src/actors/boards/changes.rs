//! Counts of changes: a reader that has seen a count knows whether its copy is still the newest.

use tokio::sync::watch;

/// A count of changes. It grows with each change, and wakes its followers.
#[derive(Debug)]
pub struct Changes(watch::Sender<u64>);

impl Default for Changes {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Changes {
    /// Counts a change. A copy that is taken afterwards has it.
    pub fn note(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    /// Returns the number of changes so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Returns a follower, which is woken by the changes after this call.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
