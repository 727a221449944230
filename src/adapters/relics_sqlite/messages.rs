//! Messages: rows that wait until their receiver marks them as handled.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::domain::event::{EventType, NewEvent};
use crate::domain::message::{Address, Body, Message};
use crate::ports::relics::StoreError;

use super::journal;
use super::txn::SqliteTxn;
use super::value::{Json, Time};

fn read(row: &Row<'_>) -> rusqlite::Result<Message> {
    Ok(Message {
        id: row.get("id")?,
        from: row.get("sender")?,
        to: row.get("receiver")?,
        body: row.get::<_, Json<_>>("body")?.0,
        sent_at: row.get::<_, Time>("sent_at")?.0,
        handled_at: row.get::<_, Option<Time>>("handled_at")?.map(|at| at.0),
    })
}

/// Stores a message and journals `message.sent`, whose data are type, from, to and the body's fields.
pub(super) fn send(
    txn: &mut SqliteTxn<'_>,
    from: &str,
    to: &str,
    body: &Body,
) -> Result<u64, StoreError> {
    let mut data = serde_json::to_value(body)
        .map_err(|error| StoreError::Failed(format!("a message that is not JSON: {error}")))?;
    txn.conn
        .prepare_cached(
            "INSERT INTO messages (sender, receiver, type, body, sent_at) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![
            from,
            to,
            data["type"].as_str(),
            Json(&data),
            Time(txn.now)
        ])?;
    let id = txn.conn.last_insert_rowid();
    data["from"] = Value::from(from);
    data["to"] = Value::from(to);
    let subject = match body.work() {
        Some((raider, _)) => raider.to_string(),
        None => to.to_owned(),
    };
    let event = NewEvent::new(EventType::MessageSent, subject, body.cause()).with(data);
    journal::record(txn, &event)?;
    Ok(id.unsigned_abs())
}

pub(super) fn inbox(conn: &Connection, to: &str) -> Result<Vec<Message>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM messages WHERE receiver = ? AND handled_at IS NULL ORDER BY id",
    )?;
    let rows = select.query_map([to], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn handled(conn: &Connection, id: u64, now: Timestamp) -> Result<bool, StoreError> {
    let marked = conn
        .prepare_cached("UPDATE messages SET handled_at = ? WHERE id = ? AND handled_at IS NULL")?
        .execute(params![Time(now), id])?;
    if marked > 0 {
        return Ok(true);
    }
    conn.prepare_cached("SELECT 1 FROM messages WHERE id = ?")?
        .query_row([id], |_| Ok(false))
        .optional()?
        .ok_or_else(|| StoreError::NotFound {
            kind: "message",
            id: id.to_string(),
        })
}

pub(super) fn waiting(conn: &Connection) -> Result<Vec<Address>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT DISTINCT receiver FROM messages WHERE handled_at IS NULL ORDER BY receiver",
    )?;
    let rows = select.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
