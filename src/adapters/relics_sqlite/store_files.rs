//! Checks that the store's files are those that were opened: a commit to a removed or replaced file would be lost.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::mark::{Mark, SAVED};
use crate::ports::relics::StoreError;

/// The minimum interval between two writes of the mark.
const MARK_EVERY: Duration = Duration::from_secs(2);

/// The time by which the store's file must outlive its log before the store is closed. A removal of the whole
/// directory may remove the log first; if the store were closed then, its content would be lost with it.
const OUTLIVES: Duration = Duration::from_secs(1);

/// The files of an open store.
pub(super) struct StoreFiles {
    path: PathBuf,
    /// The open directory of the store, which stays valid when it is moved.
    dir: File,
    /// Device and inode of the store's file.
    main: (u64, u64),
    /// Device and inode of the write-ahead log.
    log: Option<(u64, u64)>,
    /// The time since which the log is gone.
    log_gone: Option<Instant>,
    mark: Mark,
    marked: Instant,
    /// The path of the saved content, once the file was gone.
    saved: Option<PathBuf>,
    guard: Option<Guard>,
}

/// Returns the reason why the path of the store must not be used now, if there is one.
pub type Guard = Box<dyn Fn() -> Option<String> + Send>;

/// The state of the files.
enum FileState {
    InPlace,
    Removed,
    Replaced,
    LogGone,
}

impl StoreFiles {
    pub(super) fn new(path: &Path, mark: Mark) -> Result<Self, StoreError> {
        let gone = || StoreError::Unavailable("it was removed during its opening".to_owned());
        let dir = File::open(path.parent().unwrap_or(Path::new(".")));
        Ok(Self {
            dir: dir.map_err(|error| StoreError::Unavailable(error.to_string()))?,
            main: id(path).ok_or_else(gone)?,
            log: id(&log_of(path)),
            log_gone: None,
            path: path.to_owned(),
            mark,
            marked: Instant::now(),
            saved: None,
            guard: None,
        })
    }

    pub(super) fn set_guard(&mut self, guard: Guard) {
        self.guard = Some(guard);
    }

    /// Returns the store's path below its open directory, wherever that was moved.
    fn near(&self) -> PathBuf {
        let link = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        Path::new(&link).join(self.path.file_name().unwrap_or_default())
    }

    fn inspect(&mut self) -> FileState {
        let near = self.near();
        // If the directory was removed, another one may have been made in its place.
        match id(&near).or_else(|| id(&self.path)) {
            None => return FileState::Removed,
            Some(now) if now != self.main => return FileState::Replaced,
            Some(_) => {}
        }
        let now = id(&log_of(&near));
        if self.log.is_none() {
            self.log = now;
        }
        match self.log == now {
            true => FileState::InPlace,
            false => FileState::LogGone,
        }
    }

    /// Refuses a commit to files that no longer exist.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while the store is missing; [`StoreError::Failed`] when the store must be opened
    /// again: its content is then compared with the mark.
    pub(super) fn check(&mut self, conn: &Connection) -> Result<(), StoreError> {
        if let Some(why) = self.guard.as_ref().and_then(|guard| guard()) {
            // The files of that name are another city's.
            conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            return Err(StoreError::Unavailable(why));
        }
        let why = match self.inspect() {
            FileState::InPlace => return Ok(()),
            FileState::Removed => {
                let saved = match &self.saved {
                    Some(saved) if saved.exists() => Ok(saved.clone()),
                    _ => save(conn, &self.path),
                };
                self.saved = saved.as_ref().ok().cloned();
                let path = self.path.display();
                return Err(StoreError::Unavailable(match saved {
                    Ok(saved) => format!(
                        "{path} was removed while in use; its content is saved in {}: move that \
                        to {path}, and the supervisor uses it again",
                        saved.display()
                    ),
                    Err(error) => format!(
                        "{path} was removed while in use, and its content cannot be saved: \
                        {error}; restore it from a backup"
                    ),
                }));
            }
            FileState::Replaced => "another file is in its place".to_owned(),
            FileState::LogGone => {
                // Writes the content of the log, which is still open here, to the store's file.
                conn.pragma_update(None, "wal_checkpoint", "TRUNCATE")?;
                let why = "its write-ahead log was removed".to_owned();
                let since = *self.log_gone.get_or_insert_with(Instant::now);
                if since.elapsed() < OUTLIVES {
                    return Err(StoreError::Unavailable(why));
                }
                why
            }
        };
        // Closing would remove the log of that name, which belongs to another store now.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        Err(StoreError::Failed(format!(
            "{}: {why}",
            self.path.display()
        )))
    }

    /// Records that this event is on the disk.
    pub(super) fn reached(&mut self, seq: u64) {
        if self.marked.elapsed() < MARK_EVERY {
            return;
        }
        self.marked = Instant::now();
        if let Err(error) = self.mark.at(seq).write(&self.near()) {
            // An older mark only demands less.
            tracing::debug!(%error, "the mark of the store could not be updated; the old one is kept");
        }
    }
}

/// Copies the content of the store to a file beside it.
fn save(conn: &Connection, path: &Path) -> Result<PathBuf, String> {
    let seconds = jiff::Timestamp::now().as_second();
    let saved = path.with_file_name(format!("{SAVED}{seconds}.db"));
    let text = saved.to_str().ok_or("its path is not UTF-8")?;
    let done = conn.execute("VACUUM INTO ?", [text]);
    done.map(|_| saved.clone())
        .map_err(|error| error.to_string())
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn id(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
