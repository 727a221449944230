//! Watches the entries of directories with inotify. Directories, not files: editors replace a file by renaming
//! another one over it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::{ErrorKind, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

type Listener = Arc<dyn Fn() + Send + Sync>;
/// Returns true if a change of that entry matters.
type Filter = Box<dyn Fn(&Path) -> bool + Send + Sync>;

/// A set of watched directories.
pub struct DirWatch {
    listener: Listener,
    hearing: Arc<Mutex<Hearing>>,
    watched: Mutex<(RecommendedWatcher, BTreeSet<PathBuf>)>,
}

/// The treatment of changes.
enum Hearing {
    /// The listener is told if the change matters; always without a filter.
    Told(Option<Filter>),
    /// Changes are collected until a filter says whether they matter.
    Held(BTreeSet<PathBuf>),
}

impl Hearing {
    /// Returns true if the listener is to be told of these now.
    fn hear(&mut self, paths: Vec<PathBuf>) -> bool {
        match self {
            Self::Told(filter) => matter(filter.as_ref(), paths.iter()),
            Self::Held(held) => {
                held.extend(paths);
                false
            }
        }
    }
}

fn matter<'a>(filter: Option<&Filter>, mut paths: impl Iterator<Item = &'a PathBuf>) -> bool {
    paths.any(|path| filter.is_none_or(|matters| matters(path)))
}

/// The result of a call of [`DirWatch::watch`].
#[derive(Debug, PartialEq, Eq)]
pub struct Watched {
    /// Set when directories among them were not watched before.
    pub more: bool,
    /// The directories that are not watched, with the reason.
    pub failed: BTreeMap<PathBuf, String>,
}

impl DirWatch {
    /// Makes a watcher that watches nothing yet. The listener is told of changes.
    ///
    /// # Errors
    /// When the kernel has no watcher left.
    pub fn new(listener: Listener) -> Result<Self, notify::Error> {
        let hearing = Arc::new(Mutex::new(Hearing::Told(None)));
        let (told, heard) = (Arc::clone(&listener), Arc::clone(&hearing));
        let watcher = notify::recommended_watcher(move |event: Result<notify::Event, _>| {
            let tell = match event {
                Ok(event) if matches!(event.kind, EventKind::Access(_)) => false,
                Ok(event) if !event.paths.is_empty() => {
                    let mut hearing = heard.lock().unwrap_or_else(PoisonError::into_inner);
                    hearing.hear(event.paths)
                }
                // An error, or an event without a path, means that events may be missing: another reason to look.
                Ok(_) | Err(_) => true,
            };
            if tell {
                told();
            }
        })?;
        Ok(Self {
            listener,
            hearing,
            watched: Mutex::new((watcher, BTreeSet::new())),
        })
    }

    fn hearing(&self) -> MutexGuard<'_, Hearing> {
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds changes back until [`DirWatch::filter`] is called, which judges them.
    pub fn hold(&self) {
        let mut hearing = self.hearing();
        if let Hearing::Told(_) = *hearing {
            *hearing = Hearing::Held(BTreeSet::new());
        }
    }

    /// Tells only of entries that matter from now on; of every entry without a filter.
    pub fn filter(&self, filter: Option<Filter>) {
        let mut hearing = self.hearing();
        let tell = match &*hearing {
            Hearing::Held(held) => matter(filter.as_ref(), held.iter()),
            Hearing::Told(_) => false,
        };
        *hearing = Hearing::Told(filter);
        drop(hearing);
        if tell {
            (self.listener)();
        }
    }

    /// Watches exactly these directories. Each is watched again, so that a directory that was replaced by another one
    /// of its name is noticed.
    pub fn watch(&self, dirs: &[PathBuf]) -> Watched {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let (watcher, known) = &mut *watched;
        let wanted: BTreeSet<_> = dirs.iter().cloned().collect();
        for gone in known.difference(&wanted) {
            // The directory may be gone, and its watch with it.
            let _gone_already = watcher.unwatch(gone);
        }
        let (mut now, mut failed) = (BTreeSet::new(), BTreeMap::new());
        for dir in wanted {
            match watcher.watch(&dir, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    now.insert(dir);
                }
                // Its parent is watched, too, and has reported its end.
                Err(error) if matches!(error.kind, ErrorKind::PathNotFound) => {}
                Err(error) => drop(failed.insert(dir, error.to_string())),
            }
        }
        let more = !now.is_subset(known);
        *known = now;
        Watched { more, failed }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::{self, Receiver};
    use std::time::Duration;

    use super::*;

    fn watch() -> (DirWatch, Receiver<()>) {
        let (told, heard) = mpsc::channel();
        let listener = Arc::new(move || told.send(()).unwrap_or_default());
        (DirWatch::new(listener).unwrap(), heard)
    }

    fn until(condition: impl Fn() -> bool) {
        crate::testing::eventually("a change", || condition().then_some(()));
    }

    fn hear(heard: &Receiver<()>) {
        heard.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[test]
    fn a_file_renamed_into_place_is_seen_and_other_directories_are_not() {
        let dir = crate::testing::scratch();
        let (own, other) = (dir.path().join("own"), dir.path().join("other"));
        fs::create_dir(&own).unwrap();
        fs::create_dir(&other).unwrap();
        let (watch, heard) = watch();
        let absent = dir.path().join("absent");
        let mut dirs = vec![own.clone(), other.clone(), absent.clone()];
        let (more, failed) = (true, BTreeMap::new());
        assert_eq!(watch.watch(&dirs), Watched { more, failed });
        let nothing_new = Watched {
            more: false,
            failed: BTreeMap::new(),
        };
        assert_eq!(watch.watch(&dirs), nothing_new);
        dirs.truncate(1);
        assert_eq!(watch.watch(&dirs), nothing_new);
        fs::write(other.join("new"), "").unwrap();
        fs::rename(other.join("new"), own.join("city.toml")).unwrap();
        hear(&heard);
    }

    #[test]
    fn only_relevant_changes_are_notified() {
        let dir = crate::testing::scratch();
        let (watch, heard) = watch();
        let (saw, seen) = mpsc::channel();
        watch.filter(Some(Box::new(move |path| {
            let name = path.file_name().unwrap().to_string_lossy();
            saw.send(name.clone().into_owned()).unwrap_or_default();
            name == "city.toml"
        })));
        watch.watch(&[dir.path().to_owned()]);
        fs::write(dir.path().join("noise"), "").unwrap();
        assert_eq!(seen.recv().unwrap(), "noise");
        assert!(heard.try_recv().is_err());
        fs::rename(dir.path().join("noise"), dir.path().join("city.toml")).unwrap();
        hear(&heard);
    }

    /// Changes that arrive while the new filter is being prepared are judged by that filter.
    #[test]
    fn held_back_changes_are_judged_by_the_next_filter() {
        let dir = crate::testing::scratch();
        let (watch, heard) = watch();
        let only = |name: &'static str| -> Option<Filter> {
            Some(Box::new(move |path: &Path| path.ends_with(name)))
        };
        let held = |name: &'static str| match &*watch.hearing() {
            Hearing::Held(held) => held.contains(&dir.path().join(name)),
            Hearing::Told(_) => false,
        };
        watch.filter(only("old"));
        watch.watch(&[dir.path().to_owned()]);
        watch.hold();
        fs::write(dir.path().join("new"), "").unwrap();
        until(|| held("new"));
        watch.filter(only("other"));
        assert!(heard.try_recv().is_err());
        watch.hold();
        fs::write(dir.path().join("new"), "again").unwrap();
        until(|| held("new"));
        watch.filter(only("new"));
        hear(&heard);
    }
}
