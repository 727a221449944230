//! The directory of a session, `.horde/sessions/<id>/` (0700): its files and how they are written.
//!
//! | File | Written by | Holds |
//! |---|---|---|
//! | `alive.lock` | no process; flock | held ⇔ a process of the session lives; never removed |
//! | `spec.json` | holder, before the agent | the session to start; environment by name only |
//! | `state.json` | holder, once the agent runs | [`SessionRecord`]: the identity of the session and its processes |
//! | `meta.json` | holder, then daemon | [`Meta`]: facts kept with the session |
//! | `sock` | holder | the holder's socket |
//! | `attached` | holder | exists while a terminal is attached |
//! | `log.0`, `log.1` | holder | terminal output, newest in `log.0`, across generations |
//! | `exit.json` | holder, before it announces | [`Ended`] |
//! | `holder.err` | holder | the errors of a holder that failed |
//!
//! Each record carries the session's token. A record with another token than `state.json` belongs to an earlier
//! session and is ignored, so a start need not remove anything.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::domain::facts::ProcessId;
use crate::domain::holder_wire::Ended;
use crate::domain::ids::{Generation, Incarnation, SessionId};

/// The directory of all sessions, in [`CITY_STATE`].
pub const SESSIONS: &str = "sessions";
/// The supervisor's directory in that of a city.
pub const CITY_STATE: &str = ".horde";
/// The lock that lives as long as any process of the session.
pub const LOCK: &str = "alive.lock";
/// The session to start.
pub const SPEC: &str = "spec.json";
/// The identity of the running session.
pub const STATE: &str = "state.json";
/// Facts kept with the session.
pub const META: &str = "meta.json";
/// The holder's socket.
pub const SOCK: &str = "sock";
/// Exists while a terminal is attached.
pub const ATTACHED: &str = "attached";
/// Newest terminal output.
pub const LOG: &str = "log.0";
/// Terminal output before that.
pub const OLDER_LOG: &str = "log.1";
/// The file from which a pane's holder reads its instructions.
pub const START: &str = "start";
/// The end of the session.
pub const EXIT: &str = "exit.json";
/// The errors of a holder that failed.
pub const COMPLAINT: &str = "holder.err";
/// The largest record that is read: none is ever longer.
const RECORD_MAX: u64 = 4 * 1024 * 1024;
/// The variable that marks every process of a session.
pub const TOKEN_VARIABLE: &str = "HD_SESSION_TOKEN";

/// The session to start: `spec.json`. Environment values are secrets and are not written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The session's id.
    pub id: SessionId,
    /// Its token.
    pub token: String,
    /// Its generation.
    pub generation: Generation,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Names of the variables of its environment.
    pub env_names: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Its cgroup, where it has one of its own.
    pub cgroup: Option<PathBuf>,
    /// The time of its start.
    pub started_at: Timestamp,
}

/// The identity of a session: `state.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The session's id.
    pub id: SessionId,
    /// Its token.
    pub token: String,
    /// Its generation.
    pub generation: Generation,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The boot id of the machine when its processes were started.
    pub boot: String,
    /// The agent's process.
    pub agent: ProcessId,
    /// The holder's process.
    pub holder: ProcessId,
    /// Its cgroup, where it has one of its own.
    pub cgroup: Option<PathBuf>,
    /// The tmux pane that is its terminal, unless its holder owns the terminal itself.
    #[serde(default)]
    pub pane: Option<PaneId>,
    /// The time of its start.
    pub started_at: Timestamp,
}

/// Identifies a tmux pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaneId {
    /// The socket of its server.
    pub socket: PathBuf,
    /// Its id there (`%3`).
    pub id: String,
}

/// Facts kept with a session: `meta.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The session they belong to.
    pub token: String,
    /// The facts.
    pub facts: BTreeMap<String, String>,
}

/// The result of reading a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordRead<T> {
    /// The record.
    Record(T),
    /// No record exists.
    Nothing,
    /// The record exists and is invalid.
    Garbage(String),
}

impl<T> RecordRead<T> {
    /// Returns the record, if it exists and is valid.
    pub fn record(self) -> Option<T> {
        match self {
            Self::Record(record) => Some(record),
            Self::Nothing | Self::Garbage(_) => None,
        }
    }
}

/// Makes the directory of a session, 0700, in that of all sessions. That one is never made here: it is missing because
/// the city was moved or removed, and a directory at its path would be in the way of the original.
///
/// # Errors
/// When the file system refuses, or there is no directory of sessions.
pub fn make_own_dir(dir: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes a directory and those above it, 0700.
///
/// # Errors
/// When the file system refuses.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    city_root::make_dirs_with(dir, 0o700)
}

/// Splits a path for [`beneath`]: an agent may put a link in place of the directory, too. A holder uses a relative
/// path, because the directory is its working directory.
fn place(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    match (dir.parent(), dir.file_name()) {
        (Some(above), Some(own)) if above.is_absolute() => {
            (above.to_owned(), Path::new(own).join(name))
        }
        _ => (dir.to_owned(), name.into()),
    }
}

/// Returns true if this is a directory or does not exist: never for a link that leads elsewhere.
#[must_use]
pub fn is_private_dir(dir: &Path) -> bool {
    match fs::symlink_metadata(dir) {
        Ok(found) => found.is_dir(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Reads a record. Anything but a plain file in its place is invalid.
///
/// # Errors
/// When it exists and cannot be read: then nothing is known.
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> io::Result<RecordRead<T>> {
    let (root, file) = place(dir, name);
    let bytes = match beneath::read(&root, &file, RECORD_MAX) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(RecordRead::Nothing),
        Err(error) if beneath::is_odd(&error) => {
            return Ok(RecordRead::Garbage(format!("{name}: {error}")));
        }
        Err(error) => return Err(error),
    };
    Ok(match serde_json::from_slice(&bytes) {
        Ok(record) => RecordRead::Record(record),
        Err(error) => RecordRead::Garbage(format!("{name}: {error}")),
    })
}

/// Reads the end of the session with this token; none while it runs.
///
/// # Errors
/// When the record exists and cannot be read.
pub fn read_end(dir: &Path, token: &str) -> io::Result<Option<Ended>> {
    let ended: Option<Ended> = read(dir, EXIT)?.record();
    Ok(ended.filter(|ended| ended.token == token))
}

/// Writes a record atomically: a reader sees the old one or the new one.
///
/// # Errors
/// When the file system refuses.
pub fn write<T: Serialize>(dir: &Path, name: &str, record: &T) -> io::Result<()> {
    let (root, file) = place(dir, name);
    beneath::replace(&root, &file, &line(record)?).map(drop)
}

/// Like [`write`], and syncs the record to the disk before it returns.
///
/// # Errors
/// When the file system refuses.
pub fn write_durably<T: Serialize>(dir: &Path, name: &str, record: &T) -> io::Result<()> {
    let (root, file) = place(dir, name);
    beneath::replace_durably(&root, &file, &line(record)?)
}

fn line<T: Serialize>(record: &T) -> io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(record)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Opens a session's file for reading; none if it does not exist.
///
/// # Errors
/// When it is not a plain file, or cannot be read.
pub fn open(dir: &Path, name: &str) -> io::Result<Option<File>> {
    let (root, file) = place(dir, name);
    beneath::open(&root, &file)
}

/// Reads a session's text file of at most `max` bytes; none if it does not exist.
///
/// # Errors
/// When it is not a plain file, is larger, or cannot be read.
pub fn read_text(dir: &Path, name: &str, max: u64) -> io::Result<Option<String>> {
    let (root, file) = place(dir, name);
    beneath::read_text(&root, &file, max)
}

/// Opens a session's file for appending. Removes a link or pipe in its place.
///
/// # Errors
/// When the file system refuses.
pub fn append(dir: &Path, name: &str) -> io::Result<File> {
    let (root, file) = place(dir, name);
    beneath::append(&root, &file)
}

/// Makes a session's file anew, empty.
///
/// # Errors
/// When the file system refuses.
pub fn create_anew(dir: &Path, name: &str) -> io::Result<File> {
    let (root, file) = place(dir, name);
    beneath::create_anew(&root, &file)
}

/// Removes a file. Succeeds if it does not exist.
///
/// # Errors
/// When the file system refuses.
pub fn remove(dir: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(dir.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns true if the error means that nothing more can be written to the file system by any process.
#[must_use]
pub fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        error.kind(),
        FileTooLarge | QuotaExceeded | ReadOnlyFilesystem | StorageFull
    )
}

/// Opens the alive-lock, making it if needed. Removes anything else in its place: no process can hold that.
///
/// # Errors
/// When the file system refuses.
pub fn open_lock(dir: &Path) -> io::Result<File> {
    let (root, file) = place(dir, LOCK);
    beneath::open_lock(&root, &file)
}

/// Returns true if a process holds the alive-lock. Call this only while no start of this session can be in progress,
/// because it takes the lock for a moment.
///
/// # Errors
/// When the file system refuses.
pub fn is_locked(dir: &Path) -> io::Result<bool> {
    let lock = match open_lock(dir) {
        // The whole directory is gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        lock => lock?,
    };
    match lock.try_lock() {
        Ok(()) => {
            // Closing is not enough: a process that another thread is just starting has a copy of
            // the descriptor until it executes its program, and the copy would hold the lock.
            lock.unlock()?;
            Ok(false)
        }
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_another_session_count_for_nothing() {
        let dir = crate::testing::scratch();
        let ended = Ended {
            token: "old".to_owned(),
            exit: crate::domain::facts::SessionExit {
                code: Some(0),
                signal: None,
                at: Timestamp::UNIX_EPOCH,
                by_person: false,
                stopped: false,
            },
            killed: false,
            stragglers: 0,
            undead: 0,
        };
        write_durably(dir.path(), EXIT, &ended).unwrap();
        assert_eq!(read_end(dir.path(), "old").unwrap(), Some(ended));
        assert_eq!(read_end(dir.path(), "new").unwrap(), None);
    }

    #[test]
    fn garbage_is_told_from_nothing() {
        let dir = crate::testing::scratch();
        assert_eq!(
            read::<SessionRecord>(dir.path(), STATE).unwrap(),
            RecordRead::Nothing
        );
        fs::write(dir.path().join(STATE), b"{\"id\":").unwrap();
        assert!(matches!(
            read::<SessionRecord>(dir.path(), STATE).unwrap(),
            RecordRead::Garbage(_)
        ));
    }

    /// An agent of the same user can put anything there.
    #[test]
    fn link_in_place_of_a_record_is_neither_read_nor_written_through() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let (dir, secret) = (root.join("sessions/a"), root.join("secret"));
        make_dir(&dir).unwrap();
        let meta = Meta::default();
        write(&root, "secret", &meta).unwrap();
        let kept = fs::read(&secret).unwrap();
        for name in [META, "meta.json.new", LOCK, LOG] {
            std::os::unix::fs::symlink(&secret, dir.join(name)).unwrap();
        }
        assert!(matches!(
            read::<Meta>(&dir, META),
            Ok(RecordRead::Garbage(_))
        ));
        assert!(open_lock(&dir).is_err());
        assert!(open(&dir, LOG).is_err());
        let other = Meta {
            token: "other".to_owned(),
            ..Meta::default()
        };
        write(&dir, META, &other).unwrap();
        assert_eq!(read(&dir, META).unwrap(), RecordRead::Record(other));
        append(&dir, LOG).unwrap();
        assert_eq!(fs::read(&secret).unwrap(), kept);
        let elsewhere = root.join("elsewhere");
        fs::rename(&dir, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &dir).unwrap();
        assert!(matches!(
            read::<Meta>(&dir, META),
            Ok(RecordRead::Garbage(_))
        ));
    }

    #[test]
    fn a_look_leaves_nothing_locked_while_others_start_processes() {
        let dir = crate::testing::scratch();
        let done = std::sync::atomic::AtomicBool::new(false);
        let free = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        std::process::Command::new("true").status().unwrap();
                    }
                });
            }
            let free = (0..3000).all(|_| {
                assert!(!is_locked(dir.path()).unwrap());
                let holder = open_lock(dir.path()).unwrap();
                let taken = holder.try_lock().is_ok();
                holder.unlock().unwrap();
                taken
            });
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            free
        });
        assert!(free, "the look kept the lock from a holder");
    }

    #[test]
    fn a_lock_is_seen_while_it_is_held() {
        let dir = crate::testing::scratch();
        let held = open_lock(dir.path()).unwrap();
        held.lock().unwrap();
        assert!(is_locked(dir.path()).unwrap());
        drop(held);
        assert!(!is_locked(dir.path()).unwrap());
    }
}
