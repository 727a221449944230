//! Hears of outcome files and the outbox by inotify, as far as the kernel has watches left.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use notify::{ErrorKind, EventKind, RecursiveMode, Watcher};
use rustix::io::Errno;

use super::links;
use crate::domain::task_names::OUTCOME;
use crate::ports::tasks::{TaskEvent, TaskListener};

pub(super) type Heard = Box<dyn FnMut(notify::Result<notify::Event>) + Send>;
pub(super) type Open = Box<dyn Fn(Heard) -> notify::Result<Box<dyn Watcher + Send>> + Send + Sync>;

/// The watched directories.
pub(super) struct Watches {
    open: Open,
    place: Arc<Place>,
    state: Mutex<State>,
    /// The reason why some are missing, as it was logged. Apart from the state, which is locked while a disk may hang.
    said: Mutex<Option<String>>,
}

/// The directories that events come from, and the listener that they go to.
struct Place {
    outbox: PathBuf,
    listener: Arc<OnceLock<TaskListener>>,
    /// The task directory of each watched sandbox.
    sandboxes: Mutex<BTreeMap<PathBuf, PathBuf>>,
}

#[derive(Default)]
struct State {
    /// None while the kernel has no watcher left.
    watcher: Option<Box<dyn Watcher + Send>>,
    /// Directories that should be watched and are not yet: the patrol finds their files anyway.
    missing: BTreeSet<PathBuf>,
}

impl Watches {
    /// Watches nothing yet. `open` makes the watcher, which is made when the first directory is to be watched.
    pub(super) fn new(open: Open, outbox: &Path, listener: &Arc<OnceLock<TaskListener>>) -> Self {
        let place = Place {
            outbox: outbox.to_owned(),
            listener: Arc::clone(listener),
            sandboxes: Mutex::default(),
        };
        Self {
            open,
            place: Arc::new(place),
            state: Mutex::default(),
            said: Mutex::default(),
        }
    }

    /// Returns the task directory for which a sandbox is watched.
    pub(super) fn dir_of(&self, sandbox: &Path) -> Option<PathBuf> {
        self.place.sandboxes().get(sandbox).cloned()
    }

    /// Watches directories (again).
    pub(super) fn watch(&self, dirs: impl IntoIterator<Item = PathBuf>) {
        let mut state = self.state();
        state.missing.extend(dirs);
        self.watch_missing(&mut state);
    }

    /// Watches a sandbox for outcome files that take the place of a link to this task directory.
    pub(super) fn watch_sandbox(&self, dir: &Path, sandbox: &Path) {
        self.place
            .sandboxes()
            .insert(sandbox.to_owned(), dir.to_owned());
        self.watch([sandbox.to_owned()]);
    }

    /// Stops watching the sandbox of a task directory.
    pub(super) fn unwatch_sandbox_of(&self, dir: &Path) {
        let mut sandboxes = self.place.sandboxes();
        let own: Vec<_> = sandboxes.extract_if(.., |_, of| of == dir).collect();
        drop(sandboxes);
        // These watches are of another rig, whose disk may hang.
        if own.is_empty() {
            return;
        }
        for (sandbox, _) in &own {
            self.unwatch(sandbox);
        }
        let mut state = self.state();
        if self.place.sandboxes().is_empty() {
            // A user has a limited number of watchers.
            state.watcher = None;
        }
    }

    /// Stops watching a directory.
    pub(super) fn unwatch(&self, dir: &Path) {
        let mut state = self.state();
        state.missing.remove(dir);
        if let Some(watcher) = &mut state.watcher {
            // A directory that is not watched is fine, too.
            let _unwatched = watcher.unwatch(dir);
        }
    }

    /// Watches what could not be watched before.
    pub(super) fn retry(&self) {
        let mut state = self.state();
        if !state.missing.is_empty() {
            self.watch_missing(&mut state);
        }
    }

    /// Returns the reason why some directories are not watched.
    pub(super) fn said(&self) -> Option<String> {
        self.said
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns the number of directories that are not watched yet.
    #[cfg(test)]
    pub(super) fn missing(&self) -> usize {
        self.state().missing.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch_missing(&self, state: &mut State) {
        let failed = self.try_missing(state).err();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = failed.as_ref().filter(|_| said.is_none()) {
            let hint = "raise the sysctl fs.inotify.max_user_instances or max_user_watches";
            tracing::warn!(
                error,
                hint,
                "outcome files and the outbox cannot be watched; only patrols find outcomes and intents"
            );
        }
        *said = failed;
    }

    /// Returns the first reason why a directory cannot be watched.
    fn try_missing(&self, state: &mut State) -> Result<(), String> {
        let watcher = match &mut state.watcher {
            Some(watcher) => watcher,
            none => {
                let place = Arc::clone(&self.place);
                let heard: Heard = Box::new(move |event| place.on_event(event));
                let opened = (self.open)(heard).map_err(|error| error.to_string())?;
                none.insert(opened)
            }
        };
        let mut failed = None;
        for dir in std::mem::take(&mut state.missing) {
            let Err(error) = watcher.watch(&dir, RecursiveMode::NonRecursive) else {
                continue;
            };
            match error.kind {
                // A directory that is gone needs no watch.
                ErrorKind::PathNotFound => continue,
                _ if is_scarce(&error) => {
                    failed = failed.or_else(|| Some(format!("{}: {error}", dir.display())));
                }
                // An agent has closed its sandbox, or made something else of it, as often as it likes.
                _ => {
                    tracing::debug!(dir = %dir.display(), %error, "a directory cannot be watched; patrols look at it");
                }
            }
            state.missing.insert(dir);
        }
        failed.map_or(Ok(()), Err)
    }
}

/// Returns true if the system has no watch left.
fn is_scarce(error: &notify::Error) -> bool {
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOSPC, Errno::NOMEM];
    match &error.kind {
        ErrorKind::MaxFilesWatch => true,
        ErrorKind::Io(error) => {
            let code = error.raw_os_error().map(Errno::from_raw_os_error);
            code.is_some_and(|code| scarce.contains(&code))
        }
        _ => false,
    }
}

impl Place {
    fn sandboxes(&self) -> MutexGuard<'_, BTreeMap<PathBuf, PathBuf>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on events of outcome files and the outbox. An error of the watcher means that events may be missing: the
    /// patrol looks anyway.
    fn on_event(&self, event: notify::Result<notify::Event>) {
        let Some(listener) = self.listener.get() else {
            return;
        };
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                return tracing::warn!(%error, "events of outcome files or the outbox were lost; patrols find the files");
            }
        };
        if event.need_rescan() {
            // Not louder: an agent decides how often that happens.
            tracing::debug!(
                "the kernel has dropped events of outcome files or the outbox; patrols find the files"
            );
            return listener(TaskEvent::Outbox);
        }
        if matches!(event.kind, EventKind::Access(_) | EventKind::Remove(_)) {
            return;
        }
        for told in event.paths.iter().filter_map(|path| self.told(path)) {
            listener(told);
        }
    }

    fn told(&self, path: &Path) -> Option<TaskEvent> {
        let (dir, name) = (path.parent()?, path.file_name()?);
        if dir == self.outbox {
            return Some(TaskEvent::Outbox);
        }
        if name == OsStr::new(OUTCOME) {
            return Some(TaskEvent::Outcome(dir.to_owned()));
        }
        if !links::is_outcome(name) {
            return None;
        }
        self.sandboxes().get(dir).cloned().map(TaskEvent::Outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watcher that cannot watch one directory.
    struct Picky(Arc<Mutex<Vec<PathBuf>>>);

    impl Watcher for Picky {
        fn new<F: notify::EventHandler>(_: F, _: notify::Config) -> notify::Result<Self> {
            Ok(Self(Arc::default()))
        }

        fn watch(&mut self, path: &Path, _: RecursiveMode) -> notify::Result<()> {
            if path.ends_with("closed") {
                let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
                return Err(notify::Error::io(denied));
            }
            self.0.lock().unwrap().push(path.to_owned());
            Ok(())
        }

        fn unwatch(&mut self, path: &Path) -> notify::Result<()> {
            self.0.lock().unwrap().retain(|watched| watched != path);
            Ok(())
        }

        fn kind() -> notify::WatcherKind {
            notify::WatcherKind::NullWatcher
        }
    }

    #[test]
    fn directory_that_an_agent_has_closed_keeps_no_other_from_being_watched() {
        let watched = Arc::<Mutex<Vec<PathBuf>>>::default();
        let own = Arc::clone(&watched);
        let open: Open = Box::new(move |_| Ok(Box::new(Picky(Arc::clone(&own)))));
        let watches = Watches::new(open, Path::new("/outbox"), &Arc::default());
        watches.watch_sandbox(Path::new("/tasks/1"), Path::new("/raiders/closed"));
        watches.watch_sandbox(Path::new("/tasks/2"), Path::new("/raiders/open"));
        assert_eq!(*watched.lock().unwrap(), [Path::new("/raiders/open")]);
        assert_eq!(watches.missing(), 1);
        assert_eq!(watches.said(), None);
        watches.unwatch_sandbox_of(Path::new("/tasks/1"));
        watches.unwatch_sandbox_of(Path::new("/tasks/2"));
        assert_eq!((watches.missing(), watched.lock().unwrap().len()), (0, 0));
        watches.retry();
    }
}
