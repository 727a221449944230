//! Tokens and money.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row as Columns, params};

use crate::domain::ids::RelicId;
use crate::domain::usage::Tokens;
use crate::domain::usage::ledger::{Owner, Row, Source};
use crate::ports::relics::StoreError;

use super::value::{Json, Time};

pub(super) fn put_source(
    conn: &Connection,
    source: &Source,
    now: Timestamp,
) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO usage_sources (path, active, changed, source) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![
        source.path.to_string_lossy(),
        source.active,
        Time(now),
        Json(source)
    ])?;
    Ok(())
}

pub(super) fn forget_source(conn: &Connection, path: &str) -> Result<(), StoreError> {
    conn.prepare_cached("DELETE FROM usage_sources WHERE path = ?")?
        .execute([path])?;
    Ok(())
}

pub(super) fn source(conn: &Connection, path: &str) -> Result<Option<Source>, StoreError> {
    let mut select = conn.prepare_cached("SELECT source FROM usage_sources WHERE path = ?")?;
    let found = select.query_row([path], |row| row.get::<_, Json<_>>(0));
    Ok(found.optional()?.map(|json| json.0))
}

pub(super) fn active(conn: &Connection) -> Result<Vec<Source>, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT source FROM usage_sources WHERE active ORDER BY path")?;
    let rows = select.query_map([], |row| Ok(row.get::<_, Json<_>>(0)?.0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn add(conn: &Connection, row: &Row) -> Result<(), StoreError> {
    let Row {
        day,
        owner,
        model,
        tokens,
        usd,
        unpriced,
    } = row;
    conn.prepare_cached(
        "INSERT INTO usage (day, session, rig, child, relic, harness, model,
                            input, output, cache_read, cache_write, usd, unpriced)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET
             input = input + excluded.input, output = output + excluded.output,
             cache_read = cache_read + excluded.cache_read,
             cache_write = cache_write + excluded.cache_write,
             usd = usd + excluded.usd, unpriced = unpriced + excluded.unpriced",
    )?
    .execute(params![
        day,
        owner.session,
        owner.rig,
        owner.child,
        owner.relic,
        owner.harness,
        model,
        tokens.input,
        tokens.output,
        tokens.cache_read,
        tokens.cache_write,
        usd,
        unpriced
    ])?;
    Ok(())
}

fn read(row: &Columns<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        day: row.get("day")?,
        owner: Owner {
            session: row.get("session")?,
            rig: row.get("rig")?,
            child: row.get("child")?,
            relic: row.get("relic")?,
            harness: row.get("harness")?,
        },
        model: row.get("model")?,
        tokens: Tokens {
            input: row.get("input")?,
            output: row.get("output")?,
            cache_read: row.get("cache_read")?,
            cache_write: row.get("cache_write")?,
        },
        usd: row.get("usd")?,
        unpriced: row.get("unpriced")?,
    })
}

pub(super) fn since(conn: &Connection, day: &str) -> Result<Vec<Row>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM usage WHERE day >= ? ORDER BY day, session, child, relic, harness, model",
    )?;
    let rows = select.query_map([day], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn of_hooked(conn: &Connection) -> Result<Vec<Row>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM usage WHERE relic IN (SELECT relic FROM hooks) ORDER BY relic, day",
    )?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn of_work(
    conn: &Connection,
    relic: &RelicId,
    child: &str,
) -> Result<Vec<Row>, StoreError> {
    let mut select = conn
        .prepare_cached("SELECT * FROM usage WHERE relic = ? AND child = ? ORDER BY day, model")?;
    let rows = select.query_map(params![relic.as_str(), child], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn prune(conn: &Connection, day: &str, before: Timestamp) -> Result<usize, StoreError> {
    let rows = conn.execute("DELETE FROM usage WHERE day < ?", [day])?;
    conn.execute(
        "DELETE FROM usage_sources WHERE NOT active AND changed < ?",
        params![Time(before)],
    )?;
    Ok(rows)
}
