//! The journal: numbered events, indexed by type and by the things that they concern.

use rusqlite::{Connection, Row, ToSql, params};
use serde_json::Value;

use crate::domain::event::{Event, NewEvent};
use crate::ports::relics::{EventFilter, StoreError};

use super::retention;
use super::txn::SqliteTxn;
use super::value::{Json, Time};

/// Fields of an event's data that name a thing it concerns, in addition to its subject.
const ABOUT: &[&str] = &["raider", "agent", "relic", "mr", "rig"];

fn read(row: &Row<'_>) -> rusqlite::Result<Event> {
    Ok(Event {
        seq: row.get("seq")?,
        ts: row.get::<_, Time>("ts")?.0,
        kind: row.get("type")?,
        subject: row.get("subject")?,
        cause: row.get("cause")?,
        data: row.get::<_, Json<_>>("data")?.0,
    })
}

pub(super) fn record(txn: &mut SqliteTxn<'_>, new: &NewEvent) -> Result<u64, StoreError> {
    txn.conn
        .prepare_cached(
            "INSERT INTO events (ts, type, subject, cause, data) VALUES (?, ?, ?, ?, ?)",
        )?
        .execute(params![
            Time(txn.now),
            new.kind.as_str(),
            new.subject,
            new.cause.as_str(),
            Json(&new.data),
        ])?;
    let seq = txn.conn.last_insert_rowid().unsigned_abs();
    let mut about = txn
        .conn
        .prepare_cached("INSERT OR IGNORE INTO event_subjects (subject, seq) VALUES (?, ?)")?;
    about.execute(params![new.subject, seq])?;
    // Events of a rig's raiders, witness and forge also concern the rig.
    if let Some((rig, _)) = new.subject.split_once('/') {
        about.execute(params![rig, seq])?;
    }
    for field in ABOUT {
        if let Some(Value::String(subject)) = new.data.get(field) {
            about.execute(params![subject, seq])?;
        }
    }
    txn.events.push(Event {
        seq,
        ts: txn.now,
        kind: new.kind.as_str().to_owned(),
        subject: new.subject.clone(),
        cause: new.cause.as_str().to_owned(),
        data: new.data.clone(),
    });
    Ok(seq)
}

/// Returns the number of the newest event, even if it was deleted since.
pub(super) fn last_seq(conn: &Connection) -> Result<u64, StoreError> {
    let mut newest = conn.prepare_cached(
        "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)",
    )?;
    Ok(newest.query_row([], |row| row.get(0))?)
}

/// Returns the number from which on every event is kept; if there is none, that of the next one.
pub(super) fn first_seq(conn: &Connection) -> Result<u64, StoreError> {
    if let Some(pruned) = retention::pruned_up_to(conn)? {
        return Ok(pruned + 1);
    }
    // Nothing was deleted yet, or by a version that kept no event among deleted ones.
    let mut oldest = conn.prepare_cached("SELECT min(seq) FROM events")?;
    match oldest.query_row([], |row| row.get(0))? {
        Some(seq) => Ok(seq),
        None => Ok(last_seq(conn)? + 1),
    }
}

pub(super) fn list(conn: &Connection, filter: &EventFilter) -> Result<Vec<Event>, StoreError> {
    let (mut from, mut conditions) = ("events e", vec!["e.seq > ?"]);
    let mut values: Vec<&dyn ToSql> = vec![&filter.after];
    if let Some(subject) = &filter.subject {
        from = "event_subjects s JOIN events e USING (seq)";
        conditions.push("s.subject = ? AND s.seq > ?");
        values.extend([subject as &dyn ToSql, &filter.after]);
    }
    // '/' is the character after '.', so the range is every type that starts with "prefix.".
    let prefix = filter
        .kind
        .as_deref()
        .and_then(|kind| kind.strip_suffix(".*"));
    let range = prefix.map(|prefix| (format!("{prefix}."), format!("{prefix}/")));
    match (&range, &filter.kind) {
        (Some((start, end)), _) => {
            conditions.push("e.type >= ? AND e.type < ?");
            values.extend([start as &dyn ToSql, end]);
        }
        (None, Some(kind)) => {
            conditions.push("e.type = ?");
            values.push(kind);
        }
        (None, None) => {}
    }
    let limit = match filter.limit {
        0 => -1,
        limit => i64::try_from(limit).unwrap_or(-1),
    };
    values.push(&limit);
    let sql = format!(
        "SELECT e.* FROM {from} WHERE {} ORDER BY e.seq LIMIT ?",
        conditions.join(" AND ")
    );
    let mut select = conn.prepare_cached(&sql)?;
    let rows = select.query_map(values.as_slice(), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
