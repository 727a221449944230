//! Deaths that count against a child: one row per child, none without deaths.

use rusqlite::{Connection, Row, params};

use crate::domain::restart::DeathRecord;
use crate::ports::relics::StoreError;

use super::value::Json;

fn read(row: &Row<'_>) -> rusqlite::Result<DeathRecord> {
    Ok(DeathRecord {
        child: row.get("child")?,
        made_from: row.get("made_from")?,
        open: row.get("open")?,
        at: row.get::<_, Json<_>>("deaths")?.0,
    })
}

pub(super) fn list(conn: &Connection) -> Result<Vec<DeathRecord>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM deaths ORDER BY child")?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn put(conn: &Connection, deaths: &DeathRecord) -> Result<(), StoreError> {
    if deaths.is_nothing() {
        conn.prepare_cached("DELETE FROM deaths WHERE child = ?")?
            .execute([&deaths.child])?;
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO deaths (child, made_from, open, deaths) VALUES (?, ?, ?, ?)",
    )?
    .execute(params![
        deaths.child,
        deaths.made_from,
        deaths.open,
        Json(&deaths.at)
    ])?;
    Ok(())
}
