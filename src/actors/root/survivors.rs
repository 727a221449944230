//! Sessions that a stop has not ended, so that "stopped" is reported only when none is left.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sessions that are not known to have ended, and why.
#[derive(Default)]
pub struct Survivors(Mutex<BTreeMap<String, String>>);

impl Survivors {
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Every change is a single call, so a panic elsewhere left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a session that is not known to have ended, with the reason.
    pub(super) fn add(&self, name: impl ToString, why: impl ToString) {
        self.names().insert(name.to_string(), why.to_string());
    }

    /// Notes that a session has ended.
    pub(super) fn ended(&self, name: &str) {
        self.names().remove(name);
    }

    /// Clears the findings of an earlier look.
    pub(super) fn clear(&self) {
        self.names().clear();
    }

    /// Returns each session that is left, with the reason.
    #[must_use]
    pub fn list(&self) -> Vec<String> {
        let names = self.names();
        names
            .iter()
            .map(|(name, why)| format!("{name} ({why})"))
            .collect()
    }
}
