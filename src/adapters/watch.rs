//! Directories whose entries are watched by inotify. Directories, not files: editors replace a file
//! by renaming another one over it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

type Listener = Box<dyn Fn() + Send + Sync>;

/// A set of watched directories.
pub struct DirWatch {
    listener: Arc<OnceLock<Listener>>,
    watched: Mutex<(RecommendedWatcher, BTreeSet<PathBuf>)>,
}

impl DirWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The kernel has no watcher left.
    pub fn new() -> Result<Self, notify::Error> {
        let listener: Arc<OnceLock<Listener>> = Arc::default();
        let told = Arc::clone(&listener);
        let watcher = notify::recommended_watcher(move |event: Result<notify::Event, _>| {
            let read_only =
                matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_)));
            // An error means that events may be missing: one more reason to look.
            if let (false, Some(listener)) = (read_only, told.get()) {
                listener();
            }
        })?;
        Ok(Self {
            listener,
            watched: Mutex::new((watcher, BTreeSet::new())),
        })
    }

    /// Tells the listener of every change. Called once.
    pub fn listen(&self, listener: Listener) {
        // A second listener would be a mistake of the caller's.
        let _only_once = self.listener.set(listener);
    }

    /// Watches these and no others. A directory that was replaced by another of its name is found
    /// again, because each is watched anew when it had gone.
    pub fn watch(&self, dirs: &[PathBuf]) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let (watcher, known) = &mut *watched;
        let wanted: BTreeSet<_> = dirs.iter().filter(|dir| dir.is_dir()).cloned().collect();
        for gone in known.difference(&wanted) {
            // It may be watched no more because it is no more.
            let _gone_already = watcher.unwatch(gone);
        }
        let mut failed: Option<(&Path, notify::Error)> = None;
        let mut now = BTreeSet::new();
        for dir in &wanted {
            match watcher.watch(dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    now.insert(dir.clone());
                }
                Err(error) => failed = Some((dir, error)),
            }
        }
        if let Some((dir, error)) = failed {
            tracing::warn!(dir = %dir.display(), %error, "changes there are seen by the patrol only");
        }
        *known = now;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_renamed_into_place_is_seen_and_other_directories_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let (own, other) = (dir.path().join("own"), dir.path().join("other"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&other).unwrap();
        let (told, heard) = mpsc::channel();
        let watch = DirWatch::new().unwrap();
        watch.listen(Box::new(move || told.send(()).unwrap_or_default()));
        watch.watch(&[own.clone(), other.clone(), dir.path().join("absent")]);
        watch.watch(std::slice::from_ref(&own));
        fs::write(other.join("new"), "").unwrap();
        fs::rename(other.join("new"), own.join("city.toml")).unwrap();
        heard.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
