//! The faults that are known of the supervisor's own files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::domain::doctor::{Finding, Kind};
use crate::domain::escalation::gist;
use crate::domain::ground::{FileFault, Look, Part};

/// The troubles that are known, by part; and the requests for a look before the next patrol.
#[derive(Default)]
pub struct Ground {
    faults: Mutex<Faults>,
    wanted: Notify,
    /// Callers that wait for a look that begins after their request.
    waiting: Mutex<Vec<LookWaits>>,
}

/// A caller that waits for a look: dropped at its end.
pub type LookWaits = oneshot::Sender<()>;

#[derive(Default)]
struct Faults {
    /// The faults that the last look found.
    looked: BTreeMap<FaultKey, FileFault>,
    /// Faults reported by the code that noticed them, until it withdraws them.
    standing: BTreeMap<Part, FileFault>,
    /// The reported faults, with the words that people were called with.
    said: BTreeMap<FaultKey, FileFault>,
    /// The reported faults about which the call could not be stored.
    uncalled: BTreeSet<FaultKey>,
}

/// A part may have several, for example one per rig.
type FaultKey = (Part, PathBuf);

fn place(trouble: &FileFault) -> FaultKey {
    (trouble.part, trouble.path.clone())
}

impl Ground {
    fn known(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a look now.
    pub fn look_soon(&self) {
        self.wanted.notify_one();
    }

    /// Requests a look now, and waits for its end, not longer than the limit.
    pub async fn look_now(&self, limit: Duration) {
        let over = self.wait();
        self.look_soon();
        // It is over when the sender is dropped.
        let _in_time = tokio::time::timeout(limit, over).await;
    }

    /// Notes a caller, and returns the receiver that it waits on. Its sender is dropped when the next look that begins has ended.
    fn wait(&self) -> oneshot::Receiver<()> {
        let (waits, over) = oneshot::channel();
        let mut waiting = self.waiting();
        // Callers that gave up need no place.
        waiting.retain(|waits| !waits.is_closed());
        waiting.push(waits);
        over
    }

    /// Waits until a look is requested.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Returns the callers that wait for the look that begins now.
    #[must_use]
    pub fn take_waiting(&self) -> Vec<LookWaits> {
        std::mem::take(&mut *self.waiting())
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<LookWaits>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true when the fault of a rig is known.
    #[must_use]
    pub fn has_rig(&self, dir: &Path) -> bool {
        let known = self.known();
        known.looked.contains_key(&(Part::Rig, dir.to_owned()))
    }

    /// Returns all known faults.
    #[must_use]
    pub fn troubles(&self) -> Vec<FileFault> {
        let known = self.known();
        let all = known.looked.values().chain(known.standing.values());
        all.cloned().collect()
    }

    /// Notes that a part has a fault, or none any more; the next look reports it.
    pub fn set_fault(&self, part: Part, trouble: Option<FileFault>) {
        let mut known = self.known();
        match trouble {
            Some(trouble) => known.standing.insert(part, trouble),
            None => known.standing.remove(&part),
        };
    }

    /// Notes that the call about a fault could not be stored: the next look calls again, while the fault lasts.
    pub(in crate::actors) fn call_failed(&self, trouble: &FileFault) {
        self.known().uncalled.insert(place(trouble));
    }

    /// Returns the findings for `doctor`.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let finding = |trouble: FileFault| {
            let FileFault {
                path, says, hint, ..
            } = trouble;
            Finding::new(Kind::Ground, path.display(), says, hint)
        };
        self.troubles().into_iter().map(finding).collect()
    }

    /// Merges the result of a look.
    pub(in crate::actors) fn take(&self, look: &Look) -> Changed {
        let mut known = self.known();
        let left = look.left.iter().cloned();
        known.looked = left.map(|trouble| (place(&trouble), trouble)).collect();
        let standing = known.standing.values().cloned();
        let standing = standing.map(|trouble| (place(&trouble), trouble));
        let mut now: BTreeMap<FaultKey, FileFault> = standing.collect();
        now.extend(known.looked.clone());
        let before = std::mem::replace(&mut known.said, now.clone());
        let new = now.iter().filter(|(at, it)| before.get(at) != Some(it));
        let over = before.iter().filter(|(at, _)| !now.contains_key(at));
        let replaced = before.iter().filter(|(at, it)| {
            let now = now.get(at);
            now.is_some_and(|now| gist(&now.says) != gist(&it.says))
        });
        let uncalled = std::mem::take(&mut known.uncalled);
        let calls = now
            .iter()
            .filter(|(at, it)| before.get(at) != Some(it) || uncalled.contains(at));
        Changed {
            calls: calls.map(|(_, it)| it.clone()).collect(),
            over: over.map(|(_, it)| it.clone()).collect(),
            replaced: replaced.map(|(_, it)| it.clone()).collect(),
            new: new.map(|(_, it)| it.clone()).collect(),
        }
    }
}

/// Changes that a look brings.
pub(in crate::actors) struct Changed {
    pub new: Vec<FileFault>,
    /// The new ones, and those about which the last call could not be stored.
    pub calls: Vec<FileFault>,
    pub over: Vec<FileFault>,
    /// Another fault is there now: people are called again.
    pub replaced: Vec<FileFault>,
}
