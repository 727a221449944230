//! Task directories and the outbox on the real file system, watched by inotify.

mod logins;
mod outcome;
mod session_files;
mod set_up;
mod text;
mod transcript;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use notify::{ErrorKind, EventKind, RecursiveMode, Watcher};

use self::text::{at, from_above, make_dir, read_some, write_whole};
use super::removal::{self, Fate};
use super::trash::{self, Stays};
use super::{beneath, mounts, runs};
use crate::domain::unattended::Trace;
use crate::ports::tasks::{
    Leftovers, OutboxFile, OutcomeText, Part, TaskError, TaskEvent, TaskFiles, TaskListener,
};

/// Task files of one city.
pub struct DiskTaskFiles {
    outbox: PathBuf,
    trash: PathBuf,
    set_ups: PathBuf,
    listener: Arc<OnceLock<TaskListener>>,
    open: Open,
    committed: OnceLock<Committed>,
    watching: Mutex<Watching>,
    /// Entries that the last emptying of the trash left because they were written to.
    written: Mutex<BTreeMap<PathBuf, PathBuf>>,
}

/// Returns true if the HEAD of a sandbox has these bytes under a name; without bytes, if it has the name.
pub type Committed = Box<dyn Fn(&Path, &str, Option<&[u8]>) -> bool + Send + Sync>;

type Heard = Box<dyn FnMut(notify::Result<notify::Event>) + Send>;
type Open = Box<dyn Fn(Heard) -> notify::Result<Box<dyn Watcher + Send>> + Send + Sync>;

#[derive(Default)]
struct Watching {
    /// None while the kernel has no watcher left.
    watcher: Option<Box<dyn Watcher + Send>>,
    /// Directories that should be watched and are not yet: the patrol finds their files anyway.
    missing: BTreeSet<PathBuf>,
    /// The reason why some are missing, as it was logged.
    said: Option<String>,
}

impl DiskTaskFiles {
    /// Opens the outbox and trash of a city, making them if needed, and the records of its set-up commands: processes
    /// that a killed daemon left are ended.
    ///
    /// # Errors
    /// When a directory cannot be made.
    pub fn new(outbox: PathBuf, trash: PathBuf, set_ups: PathBuf) -> Result<Self, TaskError> {
        let open = |heard| -> notify::Result<Box<dyn Watcher + Send>> {
            Ok(Box::new(notify::recommended_watcher::<Heard>(heard)?))
        };
        Self::with(outbox, trash, set_ups, Box::new(open))
    }

    fn with(
        outbox: PathBuf,
        trash: PathBuf,
        set_ups: PathBuf,
        open: Open,
    ) -> Result<Self, TaskError> {
        if let Err(error) = runs::end_leftovers(&set_ups) {
            tracing::error!(
                record = %set_ups.display(),
                %error,
                "processes of earlier set-up commands could not be ended and may run on; the next start retries"
            );
        }
        for dir in [&outbox, &trash] {
            beneath::make_room(dir).map_err(at(dir))?;
        }
        let files = Self {
            outbox,
            trash,
            set_ups,
            listener: Arc::default(),
            open,
            committed: OnceLock::new(),
            watching: Mutex::default(),
            written: Mutex::default(),
        };
        files.watch(&files.outbox);
        Ok(files)
    }

    /// Sets the check for committed files. Before that, no file counts as committed.
    pub fn ask_of_commits(&self, committed: Committed) {
        // A second call is ignored.
        let _first = self.committed.set(committed);
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<PathBuf, PathBuf>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watching(&self) -> MutexGuard<'_, Watching> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Watches the missing directories, as far as the kernel has watches left.
    fn watch_missing(&self, watching: &mut Watching) {
        let failed = self.try_missing(watching).err();
        let failed = failed.map(|error| error.to_string());
        if let Some(error) = failed.as_ref().filter(|_| watching.said.is_none()) {
            let hint = "raise the sysctl fs.inotify.max_user_instances or max_user_watches";
            tracing::warn!(
                error,
                hint,
                "outcome files and the outbox cannot be watched; only patrols find outcomes and intents"
            );
        }
        watching.said = failed;
    }

    fn try_missing(&self, watching: &mut Watching) -> notify::Result<()> {
        let watcher = match &mut watching.watcher {
            Some(watcher) => watcher,
            none => {
                let (told, own) = (Arc::clone(&self.listener), self.outbox.clone());
                let heard: Heard = Box::new(move |event| on_event(&told, &own, event));
                none.insert((self.open)(heard)?)
            }
        };
        while let Some(dir) = watching.missing.first() {
            match watcher.watch(dir, RecursiveMode::NonRecursive) {
                Err(error) if !matches!(error.kind, ErrorKind::PathNotFound) => return Err(error),
                // A directory that is gone needs no watch.
                Ok(()) | Err(_) => watching.missing.pop_first(),
            };
        }
        Ok(())
    }
}

/// Passes on events of outcome files and the outbox. An error of the watcher means that events may be missing: the
/// patrol looks anyway.
fn on_event(
    listener: &OnceLock<TaskListener>,
    outbox: &Path,
    event: Result<notify::Event, notify::Error>,
) {
    let Some(listener) = listener.get() else {
        return;
    };
    let event = match event {
        Ok(event) => event,
        Err(error) => {
            return tracing::warn!(%error, "events of outcome files or the outbox were lost; patrols find the files");
        }
    };
    if matches!(event.kind, EventKind::Access(_) | EventKind::Remove(_)) {
        return;
    }
    for path in &event.paths {
        match path.parent() {
            Some(dir) if dir == outbox => listener(TaskEvent::Outbox),
            Some(dir) if path.file_name() == Some(OsStr::new("outcome")) => {
                listener(TaskEvent::Outcome(dir.to_owned()));
            }
            _ => {}
        }
    }
}

impl TaskFiles for DiskTaskFiles {
    fn listen(&self, listener: TaskListener) {
        // Called once; a second listener would be a mistake of the caller.
        let _only_once = self.listener.set(listener);
    }

    fn write_task(&self, dir: &Path, text: &str) -> Result<(), TaskError> {
        make_dir(dir)?;
        write_whole(&dir.join("TASK.md"), text)?;
        // A charge that was taken back may have left anything in the file's place.
        write_whole(&dir.join("outcome"), "")?;
        self.watch(dir);
        Ok(())
    }

    fn task_file(&self, sandbox: &Path) -> &'static str {
        let own = sandbox.join(".horde-task.md");
        if own.symlink_metadata().is_ok() {
            ".horde-task.md"
        } else {
            "TASK.md"
        }
    }

    fn watch(&self, dir: &Path) {
        let mut watching = self.watching();
        watching.missing.insert(dir.to_owned());
        self.watch_missing(&mut watching);
    }

    fn unwatched(&self) -> Option<String> {
        self.watching().said.clone()
    }

    fn unwatch(&self, dir: &Path) {
        let mut watching = self.watching();
        watching.missing.remove(dir);
        if let Some(watcher) = &mut watching.watcher {
            // A directory that is not watched is fine, too.
            let _unwatched = watcher.unwatch(dir);
        }
    }

    fn write_prompt(&self, dir: &Path, text: &str) -> Result<PathBuf, TaskError> {
        let path = dir.join("prompt.md");
        write_whole(&path, text)?;
        Ok(path)
    }

    fn write_beside(&self, dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError> {
        session_files::write_beside(dir, name, text)
    }

    fn write_unless_there(
        &self,
        sandbox: &Path,
        path: &str,
        text: &str,
    ) -> Result<bool, TaskError> {
        session_files::write_unless_there(sandbox, path, text)
    }

    fn exclude(&self, sandbox: &Path, patterns: &[String]) -> Result<(), TaskError> {
        session_files::exclude_all(sandbox, patterns)
    }

    fn write_outcome(&self, dir: &Path, text: &str) -> Result<(), TaskError> {
        session_files::write_beside(dir, "outcome", text).map(drop)
    }

    fn git_dirs(&self, sandbox: &Path) -> Option<(PathBuf, PathBuf)> {
        session_files::git_dirs(sandbox)
    }

    fn transcript(
        &self,
        path: &Path,
        root: &Path,
        from: u64,
        limit: usize,
    ) -> Result<Option<Part>, TaskError> {
        transcript::read(path, root, from, limit).map_err(at(path))
    }

    fn newest(&self, dir: &Path, ending: &str) -> Result<Option<PathBuf>, TaskError> {
        transcript::newest(dir, ending).map_err(at(dir))
    }

    fn shows(&self, trace: &Trace) -> bool {
        logins::shows(trace)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|meta| meta.is_file())
    }

    fn outcome(&self, dir: &Path, sandbox: &Path) -> Result<OutcomeText, TaskError> {
        let committed = |name: &str, bytes: Option<&[u8]>| {
            let committed = self.committed.get();
            committed.is_some_and(|committed| committed(sandbox, name, bytes))
        };
        outcome::read(dir, sandbox, &committed)
    }

    fn set_up(
        &self,
        sandbox: &Path,
        commands: &[String],
        env: &BTreeMap<String, String>,
    ) -> Result<(), TaskError> {
        for command in commands {
            set_up::run(sandbox, command, env, &self.set_ups).map_err(|why| TaskError {
                path: sandbox.to_owned(),
                why: format!("set-up {command:?}: {why}"),
            })?;
        }
        Ok(())
    }

    fn outbox(&self) -> Result<Vec<OutboxFile>, TaskError> {
        // First of all, so that files that come after the listing raise an event.
        let mut watching = self.watching();
        if !watching.missing.is_empty() {
            self.watch_missing(&mut watching);
        }
        drop(watching);
        let mut files = Vec::new();
        let listed = match beneath::open_room(&self.outbox) {
            // The outbox was removed; a patrol makes its directory again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            listed => listed.and_then(|dir| beneath::names(&dir)),
        };
        for name in listed.map_err(at(&self.outbox))? {
            let path = self.outbox.join(name);
            // Half-written intents have another file extension until they are renamed.
            if path.extension() == Some(OsStr::new("json")) {
                let meta = path.symlink_metadata();
                let written = meta.and_then(|meta| meta.modified()).ok();
                files.push((written, path));
            }
        }
        files.sort();
        let some = |path: &Path| {
            let (root, file) = from_above(path, 2);
            read_some(root, file)
        };
        let read = |(_, path): (_, PathBuf)| match some(&path) {
            Ok(Some(file)) => {
                let intent = serde_json::from_str(&file.text);
                let intent = intent.map_err(|error| at(&path)(error.into()));
                Some((path, intent))
            }
            Err(error) if beneath::is_odd(&error) => {
                let none = at(&path)(error);
                Some((path, Err(none)))
            }
            // Carried out meanwhile.
            Ok(None) => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "an intent in the outbox cannot be read; it stays there and is tried again");
                None
            }
        };
        Ok(files.into_iter().filter_map(read).collect())
    }

    fn remove_intent(&self, file: &Path) -> Result<(), TaskError> {
        let (root, name) = from_above(file, 2);
        beneath::remove(root, name).map_err(at(file))
    }

    fn set_aside(&self, file: &Path) -> Result<(), TaskError> {
        let aside = file.with_extension("refused");
        let ((root, name), (_, aside)) = (from_above(file, 2), from_above(&aside, 2));
        match beneath::rename(root, name, aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(file)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn is_within(&self, dir: &Path, of: &Path) -> bool {
        let real = (fs::canonicalize(dir), fs::canonicalize(of));
        matches!(real, (Ok(dir), Ok(of)) if dir.starts_with(&of))
    }

    fn prune(&self, dir: &Path, before: Timestamp, but: &[PathBuf]) -> Result<usize, TaskError> {
        let top = match beneath::open_room(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            top => top.map_err(at(dir))?,
        };
        let used: BTreeSet<&Path> = but
            .iter()
            .filter_map(|it| it.strip_prefix(dir).ok())
            .collect();
        let fate = |path: &Path, found: &rustix::fs::Stat| match used.contains(path) {
            true => Fate::Apart,
            // A new directory may have been made for a file that is yet to come.
            false if found.st_mtime < before.as_second() => Fate::Goes,
            false => Fate::Stays,
        };
        removal::sweep(top, &fate).map_err(at(dir))
    }

    fn leftovers(&self) -> Result<Leftovers, TaskError> {
        let written = |path: &Path| {
            let meta = path.symlink_metadata().ok()?;
            Timestamp::try_from(meta.modified().ok()?).ok()
        };
        let entries = |dir: &Path| -> Result<Vec<PathBuf>, TaskError> {
            let names = beneath::open_room(dir).and_then(|it| beneath::names(&it));
            let names = names.map_err(at(dir))?.into_iter();
            Ok(names.map(|name| dir.join(name)).collect())
        };
        let outbox = entries(&self.outbox)?.into_iter();
        let kept = self.written().clone();
        Ok(Leftovers {
            trash: entries(&self.trash)?
                .into_iter()
                .filter(|path| !path.file_name().is_some_and(trash::is_note))
                .filter(|path| !kept.contains_key(path))
                .collect(),
            outbox: outbox.map(|path| (path.clone(), written(&path))).collect(),
        })
    }

    fn empty_trash(&self) -> Result<(), TaskError> {
        let mut first = None;
        let mut written = BTreeMap::new();
        let room = beneath::open_room(&self.trash).map_err(at(&self.trash))?;
        let names = beneath::names(&room).map_err(at(&self.trash))?;
        if names.is_empty() {
            *self.written() = written;
            return Ok(());
        }
        let uses = trash::Uses::default();
        for name in names {
            let path = self.trash.join(&name);
            let removed = match trash::is_note(&name) {
                true => trash::tidy(&room, &path),
                false => throw_away(&room, &name, &path, &uses).map(|late| {
                    written.extend(late.map(|late| (path.clone(), late)));
                }),
            };
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                first.get_or_insert_with(|| at(&path)(error));
            }
        }
        *self.written() = written;
        first.map_or(Ok(()), Err)
    }

    fn written_in_trash(&self) -> BTreeMap<PathBuf, PathBuf> {
        self.written().clone()
    }
}

/// Removes an entry of the trash and its note. An entry in use stays, and so does one that was written to since it
/// was thrown away: the written file is returned.
fn throw_away(
    room: &OwnedFd,
    name: &OsStr,
    path: &Path,
    uses: &trash::Uses,
) -> io::Result<Option<PathBuf>> {
    let shown = path.display();
    mounts::none_in(path)?;
    match trash::stays(room, path, uses)? {
        Some(Stays::Used(used)) => {
            let used = used.display();
            tracing::info!(%used, "{shown} is in the trash, but a process still uses it; it is deleted later");
            return Ok(None);
        }
        Some(Stays::Written(written)) => return Ok(Some(written)),
        None => {}
    }
    removal::remove_at(room, name)?;
    // Another entry may have taken the name meanwhile: its note stays.
    match trash::tidy(room, &path.with_file_name(trash::note_of(name))) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests;
