//! Counts of what the supervisor changed about the sandboxes of each rig.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::domain::ids::RigName;

/// The number of sandboxes of each rig that the supervisor made, repaired or removed since its start.
#[derive(Default)]
pub struct SandboxChanges(Mutex<BTreeMap<RigName, u64>>);

impl SandboxChanges {
    /// Counts a change: an older look at the disk of this rig is void.
    pub fn note(&self, rig: &RigName) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(rig.clone()).or_default() += 1;
    }

    /// Returns the number of changes.
    #[must_use]
    pub fn count(&self, rig: &RigName) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(rig).copied().unwrap_or_default()
    }
}
