//! Stored identity chains: append only (triggers in the schema enforce that), and each result of an attempt once.

use std::cmp::Ordering;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde_json::Value;

use crate::domain::attempt::{Attempt, Outcome, Work};
use crate::domain::cv::{CvEntry, Head};
use crate::domain::federation::Line;
use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::track_record;
use crate::ports::relics::{ChainOf, ForeignCity, StoreError, StoredEntry};

use super::value::{Json, Time, Word};

/// Reads a text as it is; one that is no UTF-8 was changed from outside, and is shown with replacements.
pub(super) fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
}

fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or_default())
}

/// Reads an entry. Data that is no JSON was changed from outside: its text is returned, and the hash does not fit.
fn read(row: &Row<'_>) -> rusqlite::Result<CvEntry> {
    let data = text(row, "data")?;
    Ok(CvEntry {
        seq: number(row, "seq")?,
        prev: text(row, "prev")?,
        hash: text(row, "hash")?,
        kind: text(row, "kind")?,
        data: serde_json::from_str(&data).unwrap_or(Value::String(data)),
    })
}

/// Returns the key of a result: a result that is recorded again has the same. A merge request may fail several times.
fn once(work: &Work, kind: &str) -> String {
    if let Some(moved) = &work.moved {
        return format!("{}@{}", moved.chain, moved.seq);
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let tries = work.tries.unwrap_or_default();
    let (id, mr, failure) = (&work.work, text(&work.mr), text(&work.failure));
    format!("{id}|{kind}|{mr}|{failure}|{tries}")
}

pub(super) fn append(
    conn: &Connection,
    name: &str,
    outcome: Outcome,
    work: &Work,
) -> Result<Option<CvEntry>, StoreError> {
    let key = once(work, outcome.as_str());
    let mut known = conn.prepare_cached("SELECT 1 FROM identity_entries WHERE once = ?")?;
    if known.exists([&key])? {
        return Ok(None);
    }
    let data = serde_json::to_value(work).map_err(|error| StoreError::Failed(error.to_string()))?;
    let entry = head(conn, name)?.next(name, outcome.as_str(), &data);
    conn.prepare_cached(
        "INSERT INTO identity_entries (name, seq, prev, hash, kind, data, relic, once)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        name,
        entry.seq,
        entry.prev,
        entry.hash,
        entry.kind,
        Json(&entry.data),
        work.relic,
        key
    ])?;
    let mut labelled = conn.prepare_cached(
        "INSERT OR IGNORE INTO identity_labels (name, label, seq) VALUES (?, ?, ?)",
    )?;
    for label in &work.labels {
        labelled.execute(params![name, label, entry.seq])?;
    }
    conn.prepare_cached(
        "INSERT INTO identity_heads (name, seq, hash) VALUES (?, ?, ?)
         ON CONFLICT DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
    )?
    .execute(params![name, entry.seq, entry.hash])?;
    Ok(Some(entry))
}

/// Returns the end that the next entry of an identity's chain follows. Where it is not that of the stored entries, they
/// were changed from outside: then the next entry leaves a break that `--verify` names, and is stored all the same.
fn head(conn: &Connection, name: &str) -> Result<Head, StoreError> {
    let noted = end(
        conn,
        "SELECT seq, hash FROM identity_heads WHERE name = ?",
        name,
    )?;
    let last = end(
        conn,
        "SELECT seq, hash FROM identity_entries WHERE name = ? ORDER BY seq DESC LIMIT 1",
        name,
    )?;
    Ok(match noted.seq.cmp(&last.seq) {
        Ordering::Less => last,
        Ordering::Equal => noted,
        Ordering::Greater => Head {
            seq: last.seq + 1,
            ..noted
        },
    })
}

fn end(conn: &Connection, query: &str, name: &str) -> Result<Head, StoreError> {
    let found = conn.prepare_cached(query)?.query_row([name], |row| {
        Ok(Head {
            seq: number(row, "seq")?,
            hash: text(row, "hash")?,
        })
    });
    Ok(found.optional()?.unwrap_or_default())
}

pub(super) fn chains(
    conn: &Connection,
    of: &ChainOf,
    after: &str,
    limit: usize,
) -> Result<Vec<(String, Head)>, StoreError> {
    let (query, city) = match of {
        ChainOf::Own => (
            "SELECT name, seq, hash FROM identity_heads WHERE ?1 = '' AND name > ?2
              ORDER BY name LIMIT ?3",
            "",
        ),
        ChainOf::Slot => (
            "SELECT name, seq, hash FROM slot_heads WHERE ?1 = '' AND name > ?2
              ORDER BY name LIMIT ?3",
            "",
        ),
        ChainOf::City(city) => (
            "SELECT name, seq, hash FROM foreign_heads WHERE city = ?1 AND name > ?2
              ORDER BY name LIMIT ?3",
            city.as_str(),
        ),
    };
    let mut select = conn.prepare_cached(query)?;
    let rows = select.query_map(params![city, after, limit], |row| {
        let head = Head {
            seq: number(row, "seq")?,
            hash: text(row, "hash")?,
        };
        Ok((text(row, "name")?, head))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The number of chains without a noted end that are named at once.
const UNNOTED_MAX: usize = 100;

pub(super) fn unnoted(conn: &Connection, of: &ChainOf) -> Result<Vec<String>, StoreError> {
    let (query, city) = match of {
        ChainOf::Own => (
            "SELECT DISTINCT name FROM identity_entries e WHERE ?1 = ''
                AND NOT EXISTS (SELECT 1 FROM identity_heads h WHERE h.name = e.name) LIMIT ?2",
            "",
        ),
        ChainOf::Slot => (
            "SELECT DISTINCT name FROM cv e WHERE ?1 = ''
                AND NOT EXISTS (SELECT 1 FROM slot_heads h WHERE h.name = e.name) LIMIT ?2",
            "",
        ),
        ChainOf::City(city) => (
            "SELECT DISTINCT name FROM foreign_entries e WHERE city = ?1 AND NOT EXISTS
                (SELECT 1 FROM foreign_heads h WHERE h.city = e.city AND h.name = e.name) LIMIT ?2",
            city.as_str(),
        ),
    };
    let mut select = conn.prepare_cached(query)?;
    let rows = select.query_map(params![city, UNNOTED_MAX], |row| text(row, "name"))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn chain_head(
    conn: &Connection,
    of: &ChainOf,
    name: &str,
) -> Result<Option<Head>, StoreError> {
    let (query, city) = match of {
        // An identity whose entries have no noted end has a chain all the same.
        ChainOf::Own => (
            "SELECT max(seq) AS seq, hash FROM (
                 SELECT seq, hash FROM identity_heads WHERE ?1 = '' AND name = ?2
                 UNION ALL
                 SELECT 0, '' FROM identity_entries WHERE name = ?2 AND seq = 1)",
            "",
        ),
        ChainOf::Slot => (
            "SELECT max(seq) AS seq, hash FROM slot_heads WHERE ?1 = '' AND name = ?2",
            "",
        ),
        ChainOf::City(city) => (
            "SELECT max(seq) AS seq, hash FROM foreign_heads WHERE city = ?1 AND name = ?2",
            city.as_str(),
        ),
    };
    let mut select = conn.prepare_cached(query)?;
    Ok(select.query_row(params![city, name], |row| {
        let seq: Option<i64> = row.get("seq")?;
        let Some(seq) = seq else { return Ok(None) };
        Ok(Some(Head {
            seq: u64::try_from(seq).unwrap_or_default(),
            hash: text(row, "hash")?,
        }))
    })?)
}

pub(super) fn entries(
    conn: &Connection,
    of: &ChainOf,
    name: &str,
    after: u64,
    limit: usize,
) -> Result<Vec<StoredEntry>, StoreError> {
    let (query, city) = match of {
        ChainOf::Own => (
            "SELECT * FROM identity_entries WHERE ?1 = '' AND name = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
            "",
        ),
        ChainOf::Slot => (
            "SELECT * FROM cv WHERE ?1 = '' AND name = ?2 AND seq > ?3 ORDER BY seq LIMIT ?4",
            "",
        ),
        ChainOf::City(city) => (
            "SELECT * FROM foreign_entries WHERE city = ?1 AND name = ?2 AND seq > ?3
              ORDER BY seq LIMIT ?4",
            city.as_str(),
        ),
    };
    let mut select = conn.prepare_cached(query)?;
    let rows = select.query_map(params![city, name, after, limit], |row| {
        let entry = read(row)?;
        let columns_fit = match of {
            ChainOf::Own => fits(row, &entry)?,
            ChainOf::Slot | ChainOf::City(_) => true,
        };
        Ok(StoredEntry { entry, columns_fit })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns true when the copies in columns are what the data says.
fn fits(row: &Row<'_>, entry: &CvEntry) -> rusqlite::Result<bool> {
    let work: Work = serde_json::from_value(entry.data.clone()).unwrap_or_default();
    let key = once(&work, &entry.kind);
    Ok(text(row, "relic")? == work.relic && text(row, "once")? == key)
}

pub(super) fn newest(
    conn: &Connection,
    name: &str,
    label: &str,
    limit: usize,
) -> Result<Vec<CvEntry>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT e.* FROM identity_labels l JOIN identity_entries e ON e.name = l.name AND e.seq = l.seq
          WHERE l.name = ? AND l.label = ? ORDER BY l.seq DESC LIMIT ?",
    )?;
    let rows = select.query_map(params![name, label, limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn failed_before(conn: &Connection, relic: &RelicId) -> Result<bool, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM identity_entries WHERE relic = ? AND kind IN ('merge_failed', 'rejected')",
    )?;
    let rows = select.query_map([relic.as_str()], read)?;
    for entry in rows {
        let failed = track_record::read(&entry?)
            .is_some_and(|(outcome, work)| outcome.is_rework(work.failure.as_deref()));
        if failed {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn put_attempt(conn: &Connection, attempt: &Attempt) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO attempts (raider, incarnation, relic, attempt) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![
        attempt.raider.to_string(),
        attempt.incarnation.0,
        Word(&attempt.relic),
        Json(attempt)
    ])?;
    Ok(())
}

pub(super) fn attempt(
    conn: &Connection,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<Option<Attempt>, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT attempt FROM attempts WHERE raider = ? AND incarnation = ?")?;
    let found = select.query_row(params![raider.to_string(), incarnation.0], |row| {
        text(row, "attempt")
    });
    // One that cannot be read was changed from outside. Its work is settled all the same, as that of an unknown identity.
    Ok(found
        .optional()?
        .and_then(|attempt| serde_json::from_str(&attempt).ok()))
}

pub(super) fn attempts_of(
    conn: &Connection,
    relic: &RelicId,
    raider: &RaiderId,
) -> Result<Vec<Attempt>, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT attempt FROM attempts WHERE relic = ? AND raider = ?")?;
    let rows = select.query_map(params![relic.as_str(), raider.to_string()], |row| {
        text(row, "attempt")
    })?;
    let rows: Vec<String> = rows.collect::<Result<_, _>>()?;
    let read = |attempt: &String| serde_json::from_str(attempt).ok();
    Ok(rows.iter().filter_map(read).collect())
}

pub(super) fn prune_attempts(
    conn: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let pruned = conn
        .prepare_cached(
            "DELETE FROM attempts WHERE (raider, incarnation) IN (
                 SELECT a.raider, a.incarnation FROM attempts a JOIN relics r ON r.id = a.relic
                  WHERE r.status = 'closed' AND r.closed < ?
                    AND NOT EXISTS (SELECT 1 FROM hooks h WHERE h.relic = a.relic)
                    AND NOT EXISTS (SELECT 1 FROM merge_requests m WHERE m.relic = a.relic AND m.open)
                  LIMIT ?)",
        )?
        .execute(params![Time(before), limit])?;
    Ok(pruned)
}

pub(super) fn cities(conn: &Connection) -> Result<Vec<ForeignCity>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM foreign_cities ORDER BY name")?;
    let rows = select.query_map([], |row| {
        Ok(ForeignCity {
            name: row.get("name")?,
            id: row.get("id")?,
            imported_at: row.get::<_, Time>("imported_at")?.0,
            bytes: row.get("bytes")?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn put_city(conn: &Connection, city: &ForeignCity) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT INTO foreign_cities (name, id, imported_at, bytes) VALUES (?, ?, ?, ?)
         ON CONFLICT (name) DO UPDATE SET imported_at = excluded.imported_at",
    )?
    .execute(params![
        city.name,
        city.id,
        Time(city.imported_at),
        city.bytes
    ])?;
    Ok(())
}

pub(super) fn add_foreign(conn: &Connection, city: &str, line: &Line) -> Result<(), StoreError> {
    let entry = &line.entry;
    conn.prepare_cached(
        "INSERT INTO foreign_entries (city, name, seq, prev, hash, kind, data)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        city,
        line.name,
        entry.seq,
        entry.prev,
        entry.hash,
        entry.kind,
        Json(&entry.data)
    ])?;
    conn.prepare_cached(
        "INSERT INTO foreign_heads (city, name, seq, hash) VALUES (?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
    )?
    .execute(params![city, line.name, entry.seq, entry.hash])?;
    conn.prepare_cached("UPDATE foreign_cities SET bytes = bytes + ? WHERE name = ?")?
        .execute(params![line.bytes(), city])?;
    Ok(())
}

pub(super) fn forget_city(conn: &Connection, city: &str) -> Result<Option<u64>, StoreError> {
    // Entries are append-only except for those of a city that goes with all of them.
    let known = conn
        .prepare_cached("UPDATE foreign_cities SET forgotten = 1 WHERE name = ?")?
        .execute([city])?;
    if known == 0 {
        return Ok(None);
    }
    let entries = conn
        .prepare_cached("DELETE FROM foreign_entries WHERE city = ?")?
        .execute([city])?;
    for table in [
        "DELETE FROM foreign_heads WHERE city = ?",
        "DELETE FROM foreign_cities WHERE name = ?",
    ] {
        conn.prepare_cached(table)?.execute([city])?;
    }
    Ok(Some(entries as u64))
}
