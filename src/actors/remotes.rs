//! A cache of answers from the remotes: a question costs a fetch, and its answer is valid for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::ids::{Oid, RaiderId};
use crate::domain::restart::Mono;

/// The time for which an answer of the remotes is valid.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// Heads that no target had when the remotes were asked, and when that was.
#[derive(Default)]
pub struct Unlanded(Mutex<BTreeMap<RaiderId, (Oid, Mono)>>);

impl Unlanded {
    fn known(&self) -> MutexGuard<'_, BTreeMap<RaiderId, (Oid, Mono)>> {
        // A poisoned lock costs at most another question.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when the remotes were asked recently about this head, and no target had it.
    #[must_use]
    pub fn is_known(&self, raider: &RaiderId, head: &Oid, now: Mono) -> bool {
        let known = self.known();
        let asked = known.get(raider).filter(|(about, _)| about == head);
        asked.is_some_and(|(_, at)| now.saturating_sub(*at) < ASK_AGAIN)
    }

    /// Notes that no target has the head now.
    pub fn record(&self, raider: RaiderId, head: Oid, now: Mono) {
        self.known().insert(raider, (head, now));
    }
}
