//! The salvage records of removed sandboxes, with the refs of each.

use rusqlite::{Connection, Row, named_params};

use crate::domain::ids::{Incarnation, RelicId};
use crate::ports::relics::{SalvageEntry, StoreError};

use super::value::{Json, Time, Word};

fn read(row: &Row<'_>) -> rusqlite::Result<SalvageEntry> {
    Ok(SalvageEntry {
        id: row.get("id")?,
        rig: row.get::<_, Word<_>>("rig")?.0,
        raider: row.get::<_, Word<_>>("raider")?.0,
        incarnation: Incarnation(row.get("incarnation")?),
        relic: row.get::<_, Option<Word<_>>>("relic")?.map(|relic| relic.0),
        reason: row.get("reason")?,
        created: row.get::<_, Time>("created")?.0,
        refs: row.get::<_, Json<_>>("refs")?.0,
        bytes: row.get("bytes")?,
        ignored: row.get::<_, Json<_>>("ignored")?.0,
        work: row.get::<_, Option<Json<_>>>("work")?.map(|work| work.0),
    })
}

pub(super) fn put(conn: &Connection, entry: &SalvageEntry) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO salvages (id, rig, raider, incarnation, relic, reason, created,
                                          refs, bytes, ignored, work)
         VALUES (:id, :rig, :raider, :incarnation, :relic, :reason, :created,
                 :refs, :bytes, :ignored, :work)",
    )?
    .execute(named_params! {
        ":id": entry.id,
        ":rig": entry.rig.as_str(),
        ":raider": entry.raider.as_str(),
        ":incarnation": entry.incarnation.0,
        ":relic": entry.relic.as_ref().map(RelicId::as_str),
        ":reason": entry.reason,
        ":created": Time(entry.created),
        ":refs": Json(&entry.refs),
        ":bytes": entry.bytes,
        ":ignored": Json(&entry.ignored),
        ":work": entry.work.as_ref().map(Json),
    })?;
    Ok(())
}

/// Lists the records, the oldest first.
pub(super) fn list(conn: &Connection) -> Result<Vec<SalvageEntry>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM salvages ORDER BY created, id")?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn drop(conn: &Connection, id: &str) -> Result<bool, StoreError> {
    let dropped = conn
        .prepare_cached("DELETE FROM salvages WHERE id = ?")?
        .execute([id])?;
    Ok(dropped > 0)
}
