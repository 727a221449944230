//! Task directories and the outbox on the real file system, watched by inotify.

mod links;
mod logins;
mod moves;
mod outcome;
mod session_files;
mod set_up;
mod text;
mod transcript;
mod watches;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use jiff::Timestamp;
use notify::Watcher;

use self::text::{at, from_above, make_dir, read_some, write_whole};
use self::watches::{Heard, Open, Watches};
use super::removal::{self, Fate};
use super::trash::{self, Stays};
use super::{beneath, mounts, runs};
use crate::domain::task_names::{OUTCOME, REPLACED, TASK, TASK_ELSE};
use crate::domain::unattended::Trace;
use crate::ports::repo::Committed;
use crate::ports::tasks::{
    Expired, Leftovers, OutboxFile, OutcomeText, Part, Repaired, TaskError, TaskFiles, TaskListener,
};

/// The number of reads after which a file that git may be writing is told to its session: an agent can keep git's lock for ever.
const UNSETTLED_MAX: u32 = 60;

/// Task files of one city.
pub struct DiskTaskFiles {
    outbox: PathBuf,
    trash: PathBuf,
    set_ups: PathBuf,
    listener: Arc<OnceLock<TaskListener>>,
    committed: OnceLock<AskOfCommits>,
    watches: Watches,
    /// The watches on the sandboxes of each rig, by the directory of these: one rig whose disk hangs stops no other.
    of_rigs: Mutex<BTreeMap<PathBuf, Arc<Watches>>>,
    open: Arc<Open>,
    /// Locks of sandboxes, each held while its outcome is read or its links are repaired: a reader between the steps of a
    /// repair would find no outcome. A sandbox whose disk hangs holds up no other.
    turns: Mutex<BTreeMap<PathBuf, Arc<Mutex<()>>>>,
    /// Numbers of reads in a row in which the outcome of a task directory's session could not be told from a file of git.
    unsettled: Mutex<BTreeMap<PathBuf, u32>>,
    /// Entries that the last emptying of the trash left because they were written to.
    written: Mutex<BTreeMap<PathBuf, PathBuf>>,
}

/// Returns where a file of a sandbox is committed, as [`Repo::committed`](crate::ports::repo::Repo::committed) does. None
/// when that cannot be read.
pub type AskOfCommits = Box<dyn Fn(&Path, &str, Option<&[u8]>) -> Option<Committed> + Send + Sync>;

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
        let listener = Arc::default();
        let open = Arc::new(open);
        let own = Arc::clone(&open);
        let watches = Watches::new(Box::new(move |heard| own(heard)), &outbox, &listener);
        watches.watch([outbox.clone()]);
        Ok(Self {
            outbox,
            trash,
            set_ups,
            listener,
            committed: OnceLock::new(),
            watches,
            of_rigs: Mutex::default(),
            open,
            turns: Mutex::default(),
            unsettled: Mutex::default(),
            written: Mutex::default(),
        })
    }

    fn of_rigs(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Arc<Watches>>> {
        self.of_rigs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the watches on the sandboxes of this one's rig.
    fn of_rig(&self, sandbox: &Path) -> Arc<Watches> {
        let rig = sandbox.parent().unwrap_or(sandbox).to_owned();
        let new = || {
            let open = Arc::clone(&self.open);
            let open: Open = Box::new(move |heard| open(heard));
            Arc::new(Watches::new(open, &self.outbox, &self.listener))
        };
        Arc::clone(self.of_rigs().entry(rig).or_insert_with(new))
    }

    /// Sets the check for committed files. Before that, no file counts as committed.
    pub fn ask_of_commits(&self, committed: AskOfCommits) {
        // A second call is ignored.
        let _first = self.committed.set(committed);
    }

    /// Returns the lock of a sandbox. Sandboxes have the names of slots, which are few.
    fn turn(&self, sandbox: &Path) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(sandbox.to_owned()).or_default())
    }

    fn unsettled(&self) -> MutexGuard<'_, BTreeMap<PathBuf, u32>> {
        let unsettled = self.unsettled.lock();
        unsettled.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where a file of a sandbox is committed. None when that cannot be told now.
    fn committed(&self, sandbox: &Path, name: &str, bytes: Option<&[u8]>) -> Option<Committed> {
        let Some(committed) = self.committed.get() else {
            return Some(Committed::No);
        };
        committed(sandbox, name, bytes).filter(|found| *found != Committed::Unsettled)
    }

    fn written(&self) -> MutexGuard<'_, BTreeMap<PathBuf, PathBuf>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskFiles for DiskTaskFiles {
    fn listen(&self, listener: TaskListener) {
        // Called once; a second listener would be a mistake of the caller.
        let _only_once = self.listener.set(listener);
    }

    fn write_task(&self, dir: &Path, text: &str) -> Result<(), TaskError> {
        make_dir(dir)?;
        write_whole(&dir.join(TASK), text)?;
        // A charge that was taken back may have left anything in the file's place.
        write_whole(&dir.join(OUTCOME), "")?;
        self.watches.watch([dir.to_owned()]);
        Ok(())
    }

    fn task_file(&self, sandbox: &Path) -> &'static str {
        match sandbox.join(TASK_ELSE).symlink_metadata() {
            Ok(_) => TASK_ELSE,
            Err(_) => TASK,
        }
    }

    fn watch(&self, dir: &Path, sandbox: &Path) {
        self.watches.watch([dir.to_owned()]);
        self.of_rig(sandbox).watch_sandbox(dir, sandbox);
    }

    fn repair_links(&self, dir: &Path, sandbox: &Path) -> Repaired {
        let is_own = |name: &str, bytes: Option<&[u8]>| {
            self.committed(sandbox, name, bytes) == Some(Committed::No)
        };
        let watches = self.of_rig(sandbox);
        watches.retry();
        let turn = self.turn(sandbox);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        match watches.dir_of(sandbox) {
            // Its rig was held when its session was adopted.
            None => self.watch(dir, sandbox),
            // Work that waited may come for an incarnation that is over.
            Some(now) if now != dir => return Repaired::default(),
            Some(_) => {}
        }
        links::repair(dir, sandbox, &is_own)
    }

    fn unwatched(&self) -> Option<String> {
        let of_rigs = self.of_rigs().values().cloned().collect::<Vec<_>>();
        let of_rigs = of_rigs.iter().filter_map(|watches| watches.said());
        self.watches.said().into_iter().chain(of_rigs).next()
    }

    fn unwatch(&self, dir: &Path) {
        self.unsettled().remove(dir);
        self.watches.unwatch(dir);
        let of_rigs = self.of_rigs().values().cloned().collect::<Vec<_>>();
        for watches in of_rigs {
            watches.unwatch_sandbox_of(dir);
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
        session_files::write_beside(dir, OUTCOME, text).map(drop)
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
        let waits = Cell::new(false);
        let committed = |name: &str, bytes: Option<&[u8]>| {
            let found = self.committed(sandbox, name, bytes);
            waits.set(waits.get() || matches!(found, Some(Committed::Unsettled) | None));
            found
        };
        let turn = self.turn(sandbox);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let times = self.unsettled().get(dir).copied().unwrap_or_default();
        let found = outcome::read(dir, sandbox, &committed, times < UNSETTLED_MAX)?;
        match waits.get() {
            true => self.unsettled().insert(dir.to_owned(), times + 1),
            // It is judged, or gone.
            false => self.unsettled().remove(dir),
        };
        Ok(found)
    }

    fn set_outcome_aside(
        &self,
        dir: &Path,
        sandbox: &Path,
        until: Option<Timestamp>,
    ) -> Result<(), TaskError> {
        let turn = self.turn(sandbox);
        let _alone = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |name: &str, bytes: Option<&[u8]>| {
            self.committed(sandbox, name, bytes) == Some(Committed::No)
        };
        links::set_aside(dir, sandbox, until, &is_own).map_err(at(dir))
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
        self.watches.retry();
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

    fn prune(&self, dir: &Path, expired: Expired, but: &[PathBuf]) -> Result<usize, TaskError> {
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
            false if is_expired(path, found, expired) => Fate::Goes,
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
                true => trash::tidy(&room, &name),
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
    // Where the trash is now: the city may have been moved.
    let room_now = fs::read_link(format!("/proc/self/fd/{}", room.as_raw_fd()))?;
    mounts::none_in(&room_now.join(name))?;
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
    match trash::tidy(room, &trash::note_of(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Returns true for a file that a pruning deletes. A rename keeps the time of the last write, which a session may set to
/// any: a file that was moved here is as old as its last change.
fn is_expired(path: &Path, found: &rustix::fs::Stat, expired: Expired) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (before, time) = match name.contains(REPLACED) {
        true => (expired.replaced_before, found.st_ctime),
        false => (expired.before, found.st_mtime),
    };
    before.is_some_and(|before| time < before.as_second())
}

#[cfg(test)]
mod tests;
