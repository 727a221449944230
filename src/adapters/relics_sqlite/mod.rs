//! The relic store on SQLite: one file, WAL, one connection, one owner.
//!
//! ```text
//!   commit(jobs) ── BEGIN ─┬─ SAVEPOINT ─ job ─ RELEASE      (Ok: its writes and events stay)
//!                          ├─ SAVEPOINT ─ job ─ ROLLBACK TO  (Err: only this job's are undone)
//!                          └─ ... ─ COMMIT ─ results and events
//!                                     └─ refused (disk full, read-only, I/O): nothing took effect
//! ```

mod automations;
mod deaths;
mod drums;
mod hooks;
mod identities;
mod journal;
mod key_values;
pub mod mark;
mod merge_requests;
mod messages;
mod moved_chains;
mod raiders;
mod ready;
mod relics;
mod retention;
#[cfg(any(test, feature = "testing"))]
pub mod reword;
mod sagas;
mod salvage;
mod schema;
mod self_reviews;
mod store_files;
mod totems;
mod txn;
mod usage;
mod value;

#[cfg(test)]
mod tests;

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::domain::event::Event;
use crate::ports::clock::Clock;
use crate::ports::relics::{Committed, Durability, Job, Relics, StoreError};
use crate::regular;

pub use mark::Expectation;
pub use store_files::Guard;
use store_files::StoreFiles;
use txn::SqliteTxn;

/// The timeout of a commit while another program (a backup, for example) locks the file.
const BUSY: Duration = Duration::from_millis(if cfg!(test) { 1_000 } else { 5_000 });
/// The size to which the WAL is truncated after a checkpoint, so that one large burst does not stay.
const WAL_LIMIT: i64 = 16 * 1024 * 1024;
/// The number of bytes of an SQLite file's header.
const HEADER: u64 = 100;

/// The relic store in one SQLite file, or in memory.
pub struct SqliteRelics {
    conn: Connection,
    clock: Arc<dyn Clock>,
    durability: Durability,
    /// None in memory.
    place: Option<StoreFiles>,
}

impl SqliteRelics {
    /// Opens the file (mode 0600), makes it if needed, and migrates an older schema.
    ///
    /// # Errors
    /// As [`SqliteRelics::open_known`].
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_known(path, clock, Expectation::Any)
    }

    /// As [`Self::open`], but with an expectation: a store that was lost is not made anew.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be opened or written now, [`StoreError::Locked`]; [`StoreError::Failed`] when it is
    /// damaged, is not a relic store, was written by a newer version, or is not the expected store.
    pub fn open_known(
        path: &Path,
        clock: Arc<dyn Clock>,
        known: Expectation,
    ) -> Result<Self, StoreError> {
        let at = |error: StoreError| match error {
            StoreError::Unavailable(why) => {
                StoreError::Unavailable(format!("{}: {why}", path.display()))
            }
            StoreError::Locked(why) => StoreError::Locked(format!("{}: {why}", path.display())),
            StoreError::Failed(why) => StoreError::Failed(format!("{}: {why}", path.display())),
            other => other,
        };
        let there = std::fs::symlink_metadata(path).map_or(0, |found| found.len());
        mark::refuse_missing(path, known, there).map_err(at)?;
        let length = private_file(path).map_err(|error| {
            let is_link = Errno::from_io_error(&error) == Some(Errno::LOOP);
            at(match error.kind() {
                _ if is_link => StoreError::Failed("it is a link".to_owned()),
                ErrorKind::InvalidData => StoreError::Failed(error.to_string()),
                _ => StoreError::Unavailable(error.to_string()),
            })
        })?;
        // SQLite takes such a stub for an empty database and would write over it.
        if (1..HEADER).contains(&length) {
            let why = format!("the file is damaged: it is truncated to {length} bytes");
            return Err(at(StoreError::Failed(why)));
        }
        let conn = Connection::open(path).map_err(|error| at(error.into()))?;
        let is_known = |conn: &Connection| mark::refuse_empty(conn, known, path);
        let mut store = Self::from_connection(conn, clock, is_known).map_err(at)?;
        let mark = mark::verify(&store.conn, known, path).map_err(at)?;
        store.place = Some(StoreFiles::new(path, mark).map_err(at)?);
        Ok(store)
    }

    /// Refuses every write for as long as `guard` gives a reason: the path of the store leads elsewhere then.
    #[must_use]
    pub fn guarded(mut self, guard: Guard) -> Self {
        if let Some(place) = &mut self.place {
            place.set_guard(guard);
        }
        self
    }

    /// Makes an empty store in memory, with the same code as for a file.
    ///
    /// # Errors
    /// [`StoreError`]: no memory.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::from_connection(Connection::open_in_memory()?, clock, |_| Ok(()))
    }

    fn from_connection(
        mut conn: Connection,
        clock: Arc<dyn Clock>,
        is_known: impl FnOnce(&Connection) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(128);
        // Otherwise a statement with `LIMIT ?` is compiled again whenever another value is bound to it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        schema::check(&conn)?;
        is_known(&conn)?;
        conn.pragma_update(None, "journal_mode", "WAL")?;
        conn.pragma_update(None, "journal_size_limit", WAL_LIMIT)?;
        conn.pragma_update(None, "synchronous", "FULL")?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.pragma_update(None, "trusted_schema", false)?;
        schema::migrate(&mut conn)?;
        Ok(Self {
            conn,
            clock,
            durability: Durability::Full,
            place: None,
        })
    }

    /// Sets the durability: `FULL` syncs the WAL in every commit, `NORMAL` leaves that to the next full one.
    fn set_durability(&mut self, durability: Durability) -> Result<(), StoreError> {
        if self.durability != durability {
            let level = match durability {
                Durability::Full => "FULL",
                Durability::Behind => "NORMAL",
            };
            self.conn.pragma_update(None, "synchronous", level)?;
            self.durability = durability;
        }
        Ok(())
    }
}

impl Relics for SqliteRelics {
    fn commit(
        &mut self,
        jobs: &mut [Job<'_>],
        durability: Durability,
    ) -> Result<Committed, StoreError> {
        let place = self.place.as_mut();
        let checked = place.map_or(Ok(()), |place| place.check(&self.conn));
        if let Err(StoreError::Failed(why)) = checked {
            return Err(StoreError::Failed(why));
        }
        self.set_durability(durability)?;
        let before = self.conn.total_changes();
        let now = value::whole_micros(self.clock.now());
        let mut results = Vec::with_capacity(jobs.len());
        let mut events = Vec::new();
        // Dropping the transaction on any way out rolls everything back.
        let transaction = self.conn.transaction()?;
        // Statements of the cache: SQLite would parse those of rusqlite's `Savepoint` for each job.
        let run = |sql| transaction.prepare_cached(sql)?.execute([]).map(drop);
        for job in jobs {
            run("SAVEPOINT job")?;
            let mut txn = SqliteTxn::new(&transaction, now);
            let result = job(&mut txn);
            let written = txn.into_events()?;
            match result {
                Ok(()) => events.extend(written),
                Err(_) => run("ROLLBACK TO job")?,
            }
            run("RELEASE job")?;
            results.push(result);
        }
        // Jobs that only read are served: their data is still here.
        let wrote = transaction.total_changes() != before;
        if wrote {
            checked?;
        }
        transaction.commit()?;
        let newest = events.last().map(|event: &Event| event.seq);
        if let (Some(place), Some(seq), Durability::Full) = (&mut self.place, newest, durability) {
            place.reached(seq);
        }
        Ok(Committed {
            results,
            events,
            wrote,
        })
    }
}

/// Makes the file unreadable to others before SQLite writes to it (`-wal` and `-shm` inherit that). Returns its
/// length.
fn private_file(path: &Path) -> std::io::Result<u64> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    let metadata = file.metadata()?;
    regular::regular(&metadata)?;
    if metadata.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(metadata.len())
}
