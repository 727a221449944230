//! The directories in which the rigs of this process have their agents' files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The directories, each with its number of rigs: a reload makes a rig anew, before it drops the former one.
static DIRS: Mutex<BTreeMap<PathBuf, usize>> = Mutex::new(BTreeMap::new());

fn dirs() -> MutexGuard<'static, BTreeMap<PathBuf, usize>> {
    DIRS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns all of them.
pub(super) fn all() -> BTreeSet<PathBuf> {
    dirs().keys().cloned().collect()
}

/// The directory of a rig, which is known as long as this lives.
#[derive(Debug)]
pub(super) struct RigDir(PathBuf);

impl RigDir {
    /// Notes the directory, `<city>/<rig>`.
    pub(super) fn note(dir: PathBuf) -> Self {
        *dirs().entry(dir.clone()).or_default() += 1;
        Self(dir)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RigDir {
    fn drop(&mut self) {
        let mut all = dirs();
        let Some(rigs) = all.get_mut(&self.0) else {
            return;
        };
        *rigs = rigs.saturating_sub(1);
        if *rigs == 0 {
            all.remove(&self.0);
        }
    }
}
