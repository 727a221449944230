//! Deletes old closed wisps, events and messages. In small parts, because other users of the store wait meanwhile.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use crate::domain::ids::RelicId;
use crate::ports::relics::StoreError;

use super::value::{Time, Word};

/// Selects wisps that were closed before a time and that nothing needs.
const EXPIRED: &str = "
    SELECT id FROM relics w
    WHERE status = 'closed' AND kind = 'wisp' AND closed < ?
      AND NOT EXISTS (SELECT 1 FROM relics part
                      WHERE part.parent = w.id AND part.status <> 'closed')
      AND NOT EXISTS (SELECT 1 FROM relic_deps d JOIN relics waits ON waits.id = d.relic
                      WHERE d.dep = w.id AND waits.status <> 'closed')
      AND NOT EXISTS (SELECT 1 FROM hooks WHERE relic = w.id)
      AND NOT EXISTS (SELECT 1 FROM merge_requests m WHERE w.id IN (m.id, m.relic))
    ORDER BY closed, id LIMIT ?";

/// Deletes everything about a relic, the relic last. Closed relics that had it as parent or dependency stay, without
/// the reference.
const REMOVE: &[&str] = &[
    "DELETE FROM relic_labels WHERE relic = ?",
    "DELETE FROM relic_deps WHERE relic = ?",
    "DELETE FROM relic_deps WHERE dep = ?",
    "UPDATE relics SET parent = NULL WHERE parent = ?",
    "DELETE FROM counters WHERE name = 'step:' || ?",
    "DELETE FROM relics WHERE id = ?",
];

pub(super) fn collect_wisps(
    conn: &Connection,
    closed_before: Timestamp,
    limit: usize,
) -> Result<Vec<RelicId>, StoreError> {
    let mut select = conn.prepare_cached(EXPIRED)?;
    let found = select.query_map(params![Time(closed_before), limit], |row| {
        Ok(row.get::<_, Word<RelicId>>(0)?.0)
    })?;
    let expired = found.collect::<Result<Vec<_>, _>>()?;
    for wisp in &expired {
        for remove in REMOVE {
            conn.prepare_cached(remove)?.execute([wisp.as_str()])?;
        }
    }
    Ok(expired)
}

pub(super) fn prune_messages(
    conn: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let pruned = conn
        .prepare_cached(
            "DELETE FROM messages WHERE id IN
                 (SELECT id FROM messages WHERE handled_at < ? LIMIT ?)",
        )?
        .execute(params![Time(before), limit])?;
    Ok(pruned)
}

/// The counter with the highest number of a deleted event. Kept events may be older, so the oldest one does not tell it.
const PRUNED: &str = "events:pruned";

/// Returns the highest number of a deleted event; none before the first was deleted.
pub(super) fn pruned_up_to(conn: &Connection) -> Result<Option<u64>, StoreError> {
    let mut last = conn.prepare_cached("SELECT last FROM counters WHERE name = ?")?;
    Ok(last.query_row([PRUNED], |row| row.get(0)).optional()?)
}

pub(super) fn prune_events(
    conn: &Connection,
    before: Timestamp,
    seq: u64,
    keep: &[u64],
    limit: usize,
) -> Result<usize, StoreError> {
    let keep = serde_json::json!(keep).to_string();
    let mut delete = conn.prepare_cached(
        "DELETE FROM events WHERE seq IN
             (SELECT seq FROM events
              WHERE ts < ? AND seq < ? AND seq NOT IN (SELECT value FROM json_each(?))
              ORDER BY ts LIMIT ?)
         RETURNING seq",
    )?;
    let pruned = delete.query_map(params![Time(before), seq, keep, limit], |row| {
        row.get::<_, u64>(0)
    })?;
    let pruned = pruned.collect::<Result<Vec<_>, _>>()?;
    if let Some(last) = pruned.iter().max() {
        conn.prepare_cached(
            "INSERT INTO counters (name, last) VALUES (?, ?)
             ON CONFLICT (name) DO UPDATE SET last = max(last, excluded.last)",
        )?
        .execute(params![PRUNED, last])?;
    }
    Ok(pruned.len())
}
