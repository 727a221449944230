//! The last answers of git about sandboxes, for displays.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::ids::{Incarnation, RaiderId, RigName};
use crate::domain::relic::Hook;
use crate::domain::restart::Mono;

/// Commits ahead of the target, dirty paths, untracked paths.
pub type Counts = (u64, u64, u64);

/// Git's last answer about a sandbox.
#[derive(Debug, Clone)]
struct Glance {
    incarnation: Incarnation,
    counts: Counts,
    /// The mark that `Repo::progress` returned before.
    mark: Option<String>,
    at: Mono,
}

#[derive(Debug, Default)]
struct GlanceTable {
    raiders: BTreeMap<RaiderId, Glance>,
    /// When the next refresh of a rig may begin.
    rest: BTreeMap<RigName, Mono>,
}

/// Git's last answers about all sandboxes.
#[derive(Debug, Default)]
pub struct Glances(Mutex<GlanceTable>);

impl Glances {
    fn known(&self) -> MutexGuard<'_, GlanceTable> {
        // Every change is one insert or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last counts of the sandbox that was made for this hook, and their age.
    #[must_use]
    pub fn of(&self, hook: &Hook, now: Mono) -> Option<(Counts, Duration)> {
        let known = self.known();
        let glance = known.raiders.get(&hook.raider)?;
        let same = glance.incarnation == hook.incarnation;
        same.then(|| (glance.counts, now.saturating_sub(glance.at)))
    }

    pub(in crate::actors) fn mark(&self, hook: &Hook) -> Option<String> {
        let known = self.known();
        let glance = known.raiders.get(&hook.raider)?;
        glance
            .mark
            .clone()
            .filter(|_| glance.incarnation == hook.incarnation)
    }

    /// Forgets the sandboxes of a rig that are no more.
    pub(in crate::actors) fn keep_only(&self, rig: &RigName, hooks: &[Hook]) {
        let there = |raider: &RaiderId| hooks.iter().any(|hook| hook.raider == *raider);
        let raiders = &mut self.known().raiders;
        raiders.retain(|raider, _| raider.rig != *rig || there(raider));
    }

    pub(in crate::actors) fn record(
        &self,
        hook: &Hook,
        counts: Counts,
        mark: Option<String>,
        at: Mono,
    ) {
        let glance = Glance {
            incarnation: hook.incarnation,
            counts,
            mark,
            at,
        };
        self.known().raiders.insert(hook.raider.clone(), glance);
    }

    pub(in crate::actors) fn rests(&self, rig: &RigName, now: Mono) -> bool {
        self.known().rest.get(rig).is_some_and(|until| *until > now)
    }

    /// Starts no refresh of this rig before `until`.
    pub(in crate::actors) fn set_rest(&self, rig: &RigName, until: Mono) {
        self.known().rest.insert(rig.clone(), until);
    }
}
