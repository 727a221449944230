//! The schema's versions: `PRAGMA user_version` counts them, and migrations only go forward. A file that is not a
//! relic store, is damaged or comes from a newer version is refused before anything is written.

use rusqlite::{Connection, TransactionBehavior};

use crate::ports::relics::StoreError;

use super::moved_chains;

/// Every step from an empty file to the current schema. Append only.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
    include_str!("schema/0010.sql"),
    include_str!("schema/0011.sql"),
    include_str!("schema/0012.sql"),
    include_str!("schema/0013.sql"),
    include_str!("schema/0014.sql"),
    include_str!("schema/0015.sql"),
    include_str!("schema/0016.sql"),
    include_str!("schema/0017.sql"),
    include_str!("schema/0018.sql"),
    include_str!("schema/0019.sql"),
    include_str!("schema/0020.sql"),
    include_str!("schema/0021.sql"),
    include_str!("schema/0022.sql"),
    include_str!("schema/0023.sql"),
];

/// The schema after the last step, for a new store: to alter each table in turn takes several times as long.
const CURRENT: &str = include_str!("schema/current.sql");

/// "hord": marks the file as a relic store (`file` and SQLite's own tools show it).
const APPLICATION: i64 = 0x686f_7264;

/// Checks that the file may be used: readable, undamaged, a relic store, not newer than this program.
pub(super) fn check(conn: &Connection) -> Result<(), StoreError> {
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(damaged)?;
    let version = number("user_version").map_err(damaged)?;
    let tables: i64 = conn
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(damaged)?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(());
    }
    if application != APPLICATION {
        return Err(StoreError::Failed(
            "this is a database, but not a relic store".to_owned(),
        ));
    }
    let known = MIGRATIONS.len();
    if usize::try_from(version).is_ok_and(|version| version > known) {
        return Err(StoreError::Failed(format!(
            "its schema has version {version}, this program knows up to {known}: \
             it was written by a newer horde-supervisor"
        )));
    }
    let verdict: String = conn
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(damaged)?;
    if verdict != "ok" {
        return Err(StoreError::Failed(format!(
            "the file is damaged: {verdict}"
        )));
    }
    Ok(())
}

/// Migrates the file to the current schema: an empty one in one transaction, an older one step by step.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), StoreError> {
    if version(conn)? > 0 {
        return migrate_to(conn, MIGRATIONS.len());
    }
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another program may have written it meanwhile.
    if version(&transaction)? > 0 {
        transaction.rollback()?;
        return migrate_to(conn, MIGRATIONS.len());
    }
    transaction.execute_batch(CURRENT)?;
    set_version(&transaction, MIGRATIONS.len())?;
    Ok(transaction.commit()?)
}

/// Migrates the file to the schema of this version, each step in a transaction of its own.
pub(super) fn migrate_to(conn: &mut Connection, last: usize) -> Result<(), StoreError> {
    let first = version(conn)?;
    for (index, step) in MIGRATIONS.iter().enumerate().take(last).skip(first) {
        let transaction = conn.transaction()?;
        transaction.execute_batch(step)?;
        if index + 1 == moved_chains::VERSION {
            moved_chains::move_over(&transaction)?;
        }
        set_version(&transaction, index + 1)?;
        transaction.commit()?;
    }
    Ok(())
}

/// Returns the version of the schema, 0 for an empty file.
fn version(conn: &Connection) -> Result<usize, StoreError> {
    Ok(conn.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

fn set_version(conn: &Connection, version: usize) -> Result<(), StoreError> {
    conn.pragma_update(None, "application_id", APPLICATION)?;
    Ok(conn.pragma_update(None, "user_version", version)?)
}

/// Reports an unreadable file as damaged, unless the system refused to read it.
fn damaged(error: rusqlite::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::Failed(why) => StoreError::Failed(format!("the file is damaged: {why}")),
        other => other,
    }
}
