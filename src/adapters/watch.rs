//! Directories whose entries are watched by inotify. Directories, not files: editors replace a file
//! by renaming another one over it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};

type Listener = Box<dyn Fn() + Send + Sync>;
/// Whether a change of that entry matters.
type Filter = Box<dyn Fn(&Path) -> bool + Send + Sync>;

/// A set of watched directories.
pub struct DirWatch {
    listener: Arc<OnceLock<Listener>>,
    filter: Arc<Mutex<Option<Filter>>>,
    watched: Mutex<(RecommendedWatcher, BTreeSet<PathBuf>)>,
}

impl DirWatch {
    /// Watches nothing yet.
    ///
    /// # Errors
    /// The kernel has no watcher left.
    pub fn new() -> Result<Self, notify::Error> {
        let listener: Arc<OnceLock<Listener>> = Arc::default();
        let filter: Arc<Mutex<Option<Filter>>> = Arc::default();
        let (told, filtered) = (Arc::clone(&listener), Arc::clone(&filter));
        let watcher = notify::recommended_watcher(move |event: Result<notify::Event, _>| {
            let read_only =
                matches!(&event, Ok(event) if matches!(event.kind, EventKind::Access(_)));
            let filter = filtered.lock().unwrap_or_else(PoisonError::into_inner);
            // An error, or an event without a path, means that events may be missing: one more reason
            // to look.
            let matters = match (&event, &*filter) {
                (Ok(event), Some(matters)) => {
                    event.paths.is_empty() || event.paths.iter().any(|path| matters(path))
                }
                (Err(_), _) | (_, None) => true,
            };
            if let (false, true, Some(listener)) = (read_only, matters, told.get()) {
                listener();
            }
        })?;
        Ok(Self {
            listener,
            filter,
            watched: Mutex::new((watcher, BTreeSet::new())),
        })
    }

    /// Tells the listener of every change. Called once.
    pub fn listen(&self, listener: Listener) {
        // A second listener would be a mistake of the caller's.
        let _only_once = self.listener.set(listener);
    }

    /// Tells the listener only of entries that matter from now on; of every one without a filter.
    pub fn filter(&self, matters: Option<Filter>) {
        let mut filter = self.filter.lock().unwrap_or_else(PoisonError::into_inner);
        *filter = matters;
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

    #[test]
    fn only_what_matters_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (told, heard) = mpsc::channel();
        let watch = DirWatch::new().unwrap();
        let seen = told.clone();
        watch.filter(Some(Box::new(move |path| {
            let name = path.file_name().unwrap().to_string_lossy();
            seen.send(name.clone().into_owned()).unwrap_or_default();
            name == "city.toml"
        })));
        watch.listen(Box::new(move || {
            told.send("told".to_owned()).unwrap_or_default()
        }));
        watch.watch(&[dir.path().to_owned()]);
        fs::write(dir.path().join("noise"), "").unwrap();
        fs::rename(dir.path().join("noise"), dir.path().join("city.toml")).unwrap();
        let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap();
        let before: Vec<_> =
            std::iter::from_fn(|| Some(next()).filter(|next| next != "told")).collect();
        assert_eq!(before[0], "noise");
        assert_eq!(before.last().unwrap(), "city.toml");
    }
}
