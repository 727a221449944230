//! Open sagas, each at its last finished step.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::domain::ids::RigName;
use crate::domain::saga::{Saga, SagaKind};
use crate::ports::relics::StoreError;

use super::txn::SqliteTxn;
use super::value::{Json, Time, Word};

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Saga> {
    Ok(Saga {
        id: row.get("id")?,
        kind: row.get::<_, Word<_>>("kind")?.0,
        rig: row.get::<_, Word<_>>("rig")?.0,
        subject: row.get("subject")?,
        step: row.get("step")?,
        data: row.get::<_, Json<_>>("data")?.0,
        opened_at: row.get::<_, Time>("opened_at")?.0,
        progress_at: row.get::<_, Time>("progress_at")?.0,
    })
}

fn missing(id: u64) -> StoreError {
    StoreError::NotFound {
        kind: "open saga",
        id: id.to_string(),
    }
}

pub(super) fn open(
    txn: &SqliteTxn<'_>,
    kind: SagaKind,
    rig: &RigName,
    subject: &str,
    step: &str,
    data: &Value,
) -> Result<Saga, StoreError> {
    if let Some(other) = of(txn.conn, kind, subject)? {
        return Err(StoreError::Conflict(format!(
            "a {} of {subject} is already running (at {})",
            kind.as_str(),
            other.step
        )));
    }
    let saga = txn
        .conn
        .prepare_cached(
            "INSERT INTO sagas (kind, rig, subject, step, data, opened_at, progress_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) RETURNING *",
        )?
        .query_row(
            params![
                Word(kind),
                rig.as_str(),
                subject,
                step,
                Json(data),
                Time(txn.now)
            ],
            read,
        )?;
    Ok(saga)
}

pub(super) fn step(
    txn: &SqliteTxn<'_>,
    id: u64,
    step: &str,
    data: &Value,
) -> Result<(), StoreError> {
    let changed = txn
        .conn
        .prepare_cached("UPDATE sagas SET step = ?, data = ?, progress_at = ? WHERE id = ?")?
        .execute(params![step, Json(data), Time(txn.now), id])?;
    if changed == 0 {
        return Err(missing(id));
    }
    Ok(())
}

/// Closes a saga. `NotFound` when it is closed already: its driver learns that another one has taken over.
pub(super) fn close(conn: &Connection, id: u64) -> Result<(), StoreError> {
    let closed = conn
        .prepare_cached("DELETE FROM sagas WHERE id = ?")?
        .execute([id])?;
    if closed == 0 {
        return Err(missing(id));
    }
    Ok(())
}

pub(super) fn get(conn: &Connection, id: u64) -> Result<Option<Saga>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM sagas WHERE id = ?")?;
    Ok(select.query_row([id], read).optional()?)
}

pub(super) fn of(
    conn: &Connection,
    kind: SagaKind,
    subject: &str,
) -> Result<Option<Saga>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM sagas WHERE kind = ? AND subject = ?")?;
    let key = params![Word(kind), subject];
    Ok(select.query_row(key, read).optional()?)
}

pub(super) fn list(conn: &Connection, rig: Option<&RigName>) -> Result<Vec<Saga>, StoreError> {
    let sql = match rig {
        Some(_) => "SELECT * FROM sagas WHERE rig = ? ORDER BY id",
        None => "SELECT * FROM sagas ORDER BY id",
    };
    let mut select = conn.prepare_cached(sql)?;
    let rig = rig.map(RigName::as_str);
    let rows = select.query_map(rusqlite::params_from_iter(rig), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
