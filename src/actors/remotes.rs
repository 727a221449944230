//! What the remotes were asked lately: a question costs a fetch, and its answer holds for a while.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::ids::{Oid, RaiderId};
use crate::domain::restart::Mono;

/// How long the answer of the remotes holds.
const ASK_AGAIN: Duration = Duration::from_secs(3600);

/// Heads that were on no target when the remotes were asked, and when that was.
#[derive(Default)]
pub struct Unlanded(Mutex<BTreeMap<RaiderId, (Oid, Mono)>>);

impl Unlanded {
    fn known(&self) -> MutexGuard<'_, BTreeMap<RaiderId, (Oid, Mono)>> {
        // At worst they are asked once more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the remotes were asked lately about this head, and no target had it.
    #[must_use]
    pub fn is_known(&self, raider: &RaiderId, head: &Oid, now: Mono) -> bool {
        let known = self.known();
        let asked = known.get(raider).filter(|(about, _)| about == head);
        asked.is_some_and(|(_, at)| now.saturating_sub(*at) < ASK_AGAIN)
    }

    /// Notes that no target has it now.
    pub fn note(&self, raider: RaiderId, head: Oid, now: Mono) {
        self.known().insert(raider, (head, now));
    }
}
