//! The relic store on SQLite: one file, WAL, one connection, one owner.
//!
//! ```text
//!   commit(jobs) ── BEGIN ─┬─ SAVEPOINT ─ job ─ RELEASE      (Ok: its writes and events stay)
//!                          ├─ SAVEPOINT ─ job ─ ROLLBACK TO  (Err: its own are gone, no one else's)
//!                          └─ ... ─ COMMIT ─ results and events
//!                                     └─ refused (disk full, read-only, I/O): nothing took effect
//! ```

mod automations;
mod cv;
mod deaths;
mod hooks;
mod journal;
mod kv;
mod merge_requests;
mod messages;
mod relics;
mod retention;
mod sagas;
mod salvage;
mod schema;
mod txn;
mod usage;
mod value;

#[cfg(test)]
mod tests;

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::config::DbConfig;

use crate::ports::clock::Clock;
use crate::ports::relics::{Committed, Durability, Job, Relics, StoreError};

use txn::SqliteTxn;

/// How long a commit waits for another program that reads or writes the file (a backup, say).
const BUSY: Duration = Duration::from_secs(5);
/// The WAL is cut back to this size after a checkpoint, so that one large burst does not stay.
const WAL_LIMIT: i64 = 16 * 1024 * 1024;
/// Bytes of an SQLite file's header.
const HEADER: u64 = 100;

/// The relic store in one SQLite file, or in memory.
pub struct SqliteRelics {
    conn: Connection,
    clock: Arc<dyn Clock>,
    durability: Durability,
}

impl SqliteRelics {
    /// Opens the file (mode 0600), makes it if it is not there, brings an older schema up to date.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the file cannot be opened or written now;
    /// [`StoreError::Failed`] when it is damaged, is no relic store, or was written by a newer version.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let at = |error: StoreError| match error {
            StoreError::Unavailable(why) => {
                StoreError::Unavailable(format!("{}: {why}", path.display()))
            }
            StoreError::Failed(why) => StoreError::Failed(format!("{}: {why}", path.display())),
            other => other,
        };
        let length =
            private_file(path).map_err(|error| at(StoreError::Unavailable(error.to_string())))?;
        // SQLite takes such a stub for an empty database and would write over it.
        if (1..HEADER).contains(&length) {
            let why = format!("the file is damaged: it is cut to {length} bytes");
            return Err(at(StoreError::Failed(why)));
        }
        let conn = Connection::open(path).map_err(|error| at(error.into()))?;
        Self::over(conn, clock).map_err(at)
    }

    /// An empty store that lives as long as this value. The same code as with a file.
    ///
    /// # Errors
    /// [`StoreError`]: no memory.
    pub fn in_memory(clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::over(Connection::open_in_memory()?, clock)
    }

    fn over(mut conn: Connection, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        conn.busy_timeout(BUSY)?;
        conn.set_prepared_statement_cache_capacity(128);
        // Else a statement with `LIMIT ?` is compiled again whenever another value is bound to it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        schema::check(&conn)?;
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
        })
    }

    /// `FULL` syncs the WAL in every commit, `NORMAL` leaves that to the next full one.
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
        self.set_durability(durability)?;
        let now = value::whole_micros(self.clock.now());
        let mut results = Vec::with_capacity(jobs.len());
        let mut events = Vec::new();
        // Dropping the transaction on any way out rolls everything back.
        let mut transaction = self.conn.transaction()?;
        for job in jobs {
            let mut savepoint = transaction.savepoint()?;
            let mut txn = SqliteTxn::new(&savepoint, now);
            let result = job(&mut txn);
            let written = txn.into_events()?;
            match result {
                Ok(()) => events.extend(written),
                Err(_) => savepoint.rollback()?,
            }
            savepoint.commit()?;
            results.push(result);
        }
        transaction.commit()?;
        Ok((results, events))
    }
}

/// Makes the file unreadable to others before SQLite writes to it (`-wal` and `-shm` inherit that),
/// and says how long it is.
fn private_file(path: &Path) -> std::io::Result<u64> {
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.permissions().mode() & 0o777 != 0o600 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(metadata.len())
}
