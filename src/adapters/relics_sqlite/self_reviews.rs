//! Stored rounds of self-review, by relic, raider and incarnation.

use jiff::Timestamp;
use rusqlite::{Connection, Row, named_params, params};

use crate::domain::ids::{Incarnation, RaiderId, RelicId};
use crate::domain::self_review::Round;
use crate::ports::relics::StoreError;

use super::value::{Time, Word};

fn read(row: &Row<'_>) -> rusqlite::Result<Round> {
    Ok(Round {
        relic: row.get::<_, Word<_>>("relic")?.0,
        raider: row.get::<_, Word<_>>("raider")?.0,
        incarnation: Incarnation(row.get("incarnation")?),
        round: row.get("round")?,
        verdict: row.get::<_, Word<_>>("verdict")?.0,
        note: row.get("note")?,
        at: row.get::<_, Time>("at")?.0,
    })
}

pub(super) fn add(conn: &Connection, round: &Round) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT INTO self_reviews (relic, raider, incarnation, round, verdict, note, at)
         VALUES (:relic, :raider, :incarnation, :round, :verdict, :note, :at)",
    )?
    .execute(named_params! {
        ":relic": round.relic.as_str(),
        ":raider": Word(&round.raider),
        ":incarnation": round.incarnation.0,
        ":round": round.round,
        ":verdict": Word(round.verdict),
        ":note": round.note,
        ":at": Time(round.at),
    })?;
    Ok(())
}

/// Lists the rounds of one incarnation of a raider on a relic, the first one first.
pub(super) fn list(
    conn: &Connection,
    relic: &RelicId,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<Vec<Round>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM self_reviews WHERE relic = ? AND raider = ? AND incarnation = ? ORDER BY round",
    )?;
    let rows = select.query_map((relic.as_str(), Word(raider), incarnation.0), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes rounds from before that time. Those of a raider at work count against its limit, and those of open merge
/// requests are shown to the reviewer.
pub(super) fn prune(
    conn: &Connection,
    before: Timestamp,
    limit: usize,
) -> Result<usize, StoreError> {
    let pruned = conn
        .prepare_cached(
            "DELETE FROM self_reviews WHERE (relic, raider, incarnation, round) IN (
                 SELECT s.relic, s.raider, s.incarnation, s.round FROM self_reviews s
                  WHERE s.at < ?
                    AND NOT EXISTS (SELECT 1 FROM hooks h
                                     WHERE h.raider = s.raider AND h.incarnation = s.incarnation)
                    AND NOT EXISTS (SELECT 1 FROM merge_requests m
                                     WHERE m.relic = s.relic AND m.raider = s.raider
                                       AND m.incarnation = s.incarnation AND m.open)
                  LIMIT ?)",
        )?
        .execute(params![Time(before), limit])?;
    Ok(pruned)
}
