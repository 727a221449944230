//! Stored identity chains: append only (triggers in the schema enforce that).

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::domain::cv::{CvEntry, next};
use crate::ports::relics::StoreError;

use super::value::Json;

fn read(row: &Row<'_>) -> rusqlite::Result<CvEntry> {
    Ok(CvEntry {
        seq: row.get("seq")?,
        prev: row.get("prev")?,
        hash: row.get("hash")?,
        kind: row.get("kind")?,
        data: row.get::<_, Json<_>>("data")?.0,
    })
}

pub(super) fn append(
    conn: &Connection,
    name: &str,
    kind: &str,
    data: &Value,
) -> Result<CvEntry, StoreError> {
    let last = conn
        .prepare_cached("SELECT * FROM cv WHERE name = ? ORDER BY seq DESC LIMIT 1")?
        .query_row([name], read)
        .optional()?;
    let entry = next(name, last.as_ref(), kind, data);
    conn.prepare_cached(
        "INSERT INTO cv (name, seq, prev, hash, kind, data) VALUES (?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        name,
        entry.seq,
        entry.prev,
        entry.hash,
        entry.kind,
        Json(&entry.data)
    ])?;
    Ok(entry)
}

pub(super) fn chain(conn: &Connection, name: &str) -> Result<Vec<CvEntry>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM cv WHERE name = ? ORDER BY seq")?;
    let rows = select.query_map([name], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
