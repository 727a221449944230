//! The automations whose check or command runs, how to end it, and when each was checked last. Written by the
//! dispatcher; it outlives a restart of that actor.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::domain::automation::AutomationId;
use crate::ports::runner::Stop;

/// The part of an automation that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Its check.
    Check,
    /// A run, from before it is recorded until its end is.
    Run,
    /// The end of a run whose supervisor was killed, until its automation is checked again.
    Interrupted,
}

type Key = (AutomationId, Role);
type Table = watch::Sender<BTreeMap<Key, UnderWay>>;

/// A check or run that is under way.
#[derive(Default)]
struct UnderWay {
    /// Ends its command early; none before it has one.
    stop: Option<Stop>,
    /// Set while its command waits for a place.
    waits: bool,
}

/// Automations as they run.
#[derive(Default)]
pub struct Automations {
    busy: Arc<Table>,
    checks: Mutex<BTreeMap<AutomationId, Timestamp>>,
}

impl Automations {
    /// Returns true when it is under way.
    #[must_use]
    pub fn is_busy(&self, id: &AutomationId, role: Role) -> bool {
        self.busy.borrow().contains_key(&(id.clone(), role))
    }

    /// Returns true while the command of its run waits for a place among those of its rig or of the city.
    #[must_use]
    pub fn waits_for_place(&self, id: &AutomationId) -> bool {
        let busy = self.busy.borrow();
        let run = busy.get(&(id.clone(), Role::Run));
        run.is_some_and(|run| run.waits)
    }

    /// Claims it; none while it is under way.
    pub(in crate::actors) fn claim(&self, id: &AutomationId, role: Role) -> Option<Busy> {
        let key = (id.clone(), role);
        let claimed = self.busy.send_if_modified(|busy| {
            let free = !busy.contains_key(&key);
            if free {
                busy.insert(key.clone(), UnderWay::default());
            }
            free
        });
        claimed.then(|| Busy {
            busy: Arc::clone(&self.busy),
            key,
        })
    }

    /// Tells everything that runs to end.
    pub(in crate::actors) fn stop_all(&self) {
        let busy = self.busy.borrow();
        let stops = busy.values().filter_map(|it| it.stop.clone());
        let stops: Vec<_> = stops.collect();
        // A stop may end a run, which changes the table.
        drop(busy);
        stops.iter().for_each(|stop| stop());
    }

    /// Returns what is under way, for messages.
    pub(in crate::actors) fn under_way(&self) -> Vec<String> {
        let busy = self.busy.borrow();
        let shown = busy.keys().map(|(id, role)| format!("{id} ({role:?})"));
        shown.collect()
    }

    /// Waits until nothing runs.
    pub(in crate::actors) async fn ended(&self) {
        let mut busy = self.busy.subscribe();
        // The sender is our own, so it is not dropped.
        let _open = busy.wait_for(BTreeMap::is_empty).await;
    }

    /// Returns when it was last checked.
    #[must_use]
    pub fn last_check(&self, id: &AutomationId) -> Option<Timestamp> {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.get(id).copied()
    }

    pub(in crate::actors) fn checked(&self, id: &AutomationId, at: Timestamp) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.insert(id.clone(), at);
    }
}

/// Held while a check or run goes on; freed when dropped, even by a panic.
pub(in crate::actors) struct Busy {
    busy: Arc<Table>,
    key: Key,
}

impl Busy {
    /// Makes it possible to end the run early.
    pub(in crate::actors) fn stoppable(&self, stop: &Stop) {
        self.busy.send_modify(|busy| {
            busy.entry(self.key.clone()).or_default().stop = Some(Arc::clone(stop));
        });
    }

    /// Notes that its command waits for a place, until the returned function is called.
    pub(in crate::actors) fn waits(&self) -> impl FnOnce() + Send + 'static {
        let set = |table: &Table, key: &Key, waits: bool| {
            table.send_modify(|busy| {
                if let Some(under_way) = busy.get_mut(key) {
                    under_way.waits = waits;
                }
            });
        };
        set(&self.busy, &self.key, true);
        let (table, key) = (Arc::clone(&self.busy), self.key.clone());
        move || set(&table, &key, false)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.busy.send_modify(|busy| {
            busy.remove(&self.key);
        });
    }
}
