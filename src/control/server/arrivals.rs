//! Connections whose caller is not identified yet. Usually that takes a moment, and the next connection is accepted
//! after it. A process that keeps its readers waiting must neither delay other callers nor fill the table of
//! descriptors.
//!
//! | Connections of one process that wait | The next one |
//! |---|---|
//! | none | is waited for, but no longer than [`SWIFT`] |
//! | some | waits beside them, and the server accepts others |
//! | 8, or 64 of all processes | is not identified: its caller may only look |

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::connection_limits::{CONNECTIONS_MAX, CONNECTIONS_MAX_PER_SESSION};

/// The time that other connections wait for an identification.
const SWIFT: Duration = Duration::from_millis(250);

/// The number of waiting connections, by process.
#[derive(Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<BTreeMap<u32, usize>>>);

/// A connection that waits for its identification. Dropped when its caller is identified.
pub(super) struct Arrival {
    arrivals: Arrivals,
    pid: u32,
    /// Ends the server's wait when it is dropped.
    _told: oneshot::Sender<()>,
}

/// The server's wait for an arrival.
pub(super) struct Wait(Option<oneshot::Receiver<()>>);

impl Arrivals {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u32, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a connection of this process; none when too many wait.
    pub(super) fn enter(&self, pid: u32) -> (Option<Arrival>, Wait) {
        let mut waiting = self.waiting();
        let all: usize = waiting.values().sum();
        let own = waiting.entry(pid).or_default();
        if *own >= CONNECTIONS_MAX_PER_SESSION || all >= CONNECTIONS_MAX {
            if *own == 0 {
                waiting.remove(&pid);
            }
            return (None, Wait(None));
        }
        *own += 1;
        let (told, identified) = oneshot::channel();
        let wait = Wait((*own == 1).then_some(identified));
        drop(waiting);
        let arrival = Arrival {
            arrivals: self.clone(),
            pid,
            _told: told,
        };
        (Some(arrival), wait)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.waiting();
        if let Some(own) = waiting.get_mut(&self.pid) {
            *own -= 1;
            if *own == 0 {
                waiting.remove(&self.pid);
            }
        }
    }
}

impl Wait {
    /// Returns when the arrival is identified, or takes too long to be waited for.
    pub(super) async fn swift(self) {
        if let Some(identified) = self.0 {
            // The sender is dropped, not used.
            let _identified = tokio::time::timeout(SWIFT, identified).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn connections_of_a_slow_process_are_limited_and_waited_for_once() {
        let arrivals = Arrivals::default();
        let begun = tokio::time::Instant::now();
        let mut held = Vec::new();
        for _ in 0..CONNECTIONS_MAX_PER_SESSION {
            let (arrival, wait) = arrivals.enter(7);
            held.push(arrival.expect("a place"));
            wait.swift().await;
        }
        assert_eq!(begun.elapsed(), SWIFT, "only the first is waited for");
        assert!(arrivals.enter(7).0.is_none());
        let (other, wait) = arrivals.enter(8);
        drop(other);
        wait.swift().await;
        assert_eq!(begun.elapsed(), SWIFT, "the other is identified at once");
        held.pop();
        assert!(arrivals.enter(7).0.is_some());
        held.clear();
        assert!(arrivals.waiting().is_empty());
    }

    #[test]
    fn slow_processes_together_are_limited() {
        let arrivals = Arrivals::default();
        let pids = 0..u32::try_from(CONNECTIONS_MAX).unwrap();
        let held: Vec<_> = pids.map(|pid| arrivals.enter(pid)).collect();
        assert!(held.iter().all(|(arrival, _)| arrival.is_some()));
        assert!(arrivals.enter(1_000_000).0.is_none());
        drop(held);
        assert!(arrivals.enter(1_000_000).0.is_some());
        assert!(arrivals.waiting().is_empty());
    }
}
