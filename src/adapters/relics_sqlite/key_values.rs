//! Small facts under a key (cursors, marks).

use rusqlite::{Connection, OptionalExtension, params};

use crate::ports::relics::StoreError;

pub(super) fn get(conn: &Connection, key: &str) -> Result<Option<String>, StoreError> {
    let mut select = conn.prepare_cached("SELECT value FROM facts WHERE key = ?")?;
    Ok(select.query_row([key], |row| row.get(0)).optional()?)
}

/// Lists the facts whose keys begin with `prefix`.
pub(super) fn under(conn: &Connection, prefix: &str) -> Result<Vec<(String, String)>, StoreError> {
    // A range of the primary key.
    let end = format!("{prefix}\u{10ffff}");
    let mut select = conn
        .prepare_cached("SELECT key, value FROM facts WHERE key >= ? AND key < ? ORDER BY key")?;
    let rows = select.query_map([prefix, end.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Stores a fact; `None` removes it.
pub(super) fn set(conn: &Connection, key: &str, value: Option<&str>) -> Result<(), StoreError> {
    match value {
        Some(value) => conn
            .prepare_cached("INSERT OR REPLACE INTO facts (key, value) VALUES (?, ?)")?
            .execute(params![key, value])?,
        None => conn
            .prepare_cached("DELETE FROM facts WHERE key = ?")?
            .execute([key])?,
    };
    Ok(())
}
