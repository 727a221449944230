//! Merge requests: the queue of each forge.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, RigName};
use crate::domain::merge::{MergeRequest, order};
use crate::ports::relics::StoreError;

use super::relics;
use super::value::{Json, Time, Word};

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<MergeRequest> {
    Ok(MergeRequest {
        id: row.get::<_, Word<_>>("id")?.0,
        rig: row.get::<_, Word<_>>("rig")?.0,
        relic: row.get::<_, Word<_>>("relic")?.0,
        raider: row.get::<_, Word<_>>("raider")?.0,
        incarnation: Incarnation(row.get("incarnation")?),
        branch: row.get("branch")?,
        head: row.get::<_, Word<_>>("head")?.0,
        target: row.get("target")?,
        state: row.get::<_, Word<_>>("state")?.0,
        priority: row.get("priority")?,
        queued_at: row.get::<_, Time>("queued_at")?.0,
        attempts: row.get("attempts")?,
        not_before: row.get::<_, Option<Time>>("not_before")?.map(|at| at.0),
        gates: row.get::<_, Json<_>>("gates")?.0,
        conflict_files: row.get::<_, Json<_>>("conflict_files")?.0,
        merge_commit: row
            .get::<_, Option<Word<Oid>>>("merge_commit")?
            .map(|oid| oid.0),
        note: row.get("note")?,
        began: row.get::<_, Option<Word<Oid>>>("began")?.map(|oid| oid.0),
        hold: row.get::<_, Option<Word<_>>>("hold")?.map(|hold| hold.0),
        held_since: row.get::<_, Option<Time>>("held_since")?.map(|at| at.0),
        settled_at: row.get::<_, Option<Time>>("settled_at")?.map(|at| at.0),
        review: row.get::<_, Word<_>>("review")?.0,
        pr: row.get("pr")?,
        replaced: row.get("replaced")?,
        decided_at: row.get::<_, Option<Time>>("decided_at")?.map(|at| at.0),
    })
}

pub(super) fn put(conn: &Connection, mr: &MergeRequest) -> Result<(), StoreError> {
    relics::expect(conn, &mr.id)?;
    relics::expect(conn, &mr.relic)?;
    conn.prepare_cached(
        "INSERT OR REPLACE INTO merge_requests
             (id, rig, relic, raider, incarnation, branch, head, target, state, open, priority,
              queued_at, attempts, not_before, gates, conflict_files, merge_commit, note, began,
              hold, held_since, settled_at, review, pr, replaced, decided_at)
         VALUES (:id, :rig, :relic, :raider, :incarnation, :branch, :head, :target, :state, :open,
                 :priority, :queued_at, :attempts, :not_before, :gates, :conflict_files,
                 :merge_commit, :note, :began, :hold, :held_since, :settled_at, :review, :pr, :replaced,
                 :decided_at)",
    )?
    .execute(named_params! {
        ":id": mr.id.as_str(),
        ":rig": mr.rig.as_str(),
        ":relic": mr.relic.as_str(),
        ":raider": mr.raider.to_string(),
        ":incarnation": mr.incarnation.0,
        ":branch": mr.branch,
        ":head": mr.head.as_str(),
        ":target": mr.target,
        ":state": Word(mr.state),
        ":open": !mr.state.is_final(),
        ":priority": mr.priority,
        ":queued_at": Time(mr.queued_at),
        ":attempts": mr.attempts,
        ":not_before": mr.not_before.map(Time),
        ":gates": Json(&mr.gates),
        ":conflict_files": Json(&mr.conflict_files),
        ":merge_commit": mr.merge_commit.as_ref().map(Oid::as_str),
        ":note": mr.note,
        ":began": mr.began.as_ref().map(Oid::as_str),
        ":hold": mr.hold.map(Word),
        ":held_since": mr.held_since.map(Time),
        ":settled_at": mr.settled_at.map(Time),
        ":review": Word(mr.review),
        ":pr": mr.pr,
        ":replaced": mr.replaced,
        ":decided_at": mr.decided_at.map(Time),
    })?;
    Ok(())
}

pub(super) fn get(conn: &Connection, id: &RelicId) -> Result<MergeRequest, StoreError> {
    conn.prepare_cached("SELECT * FROM merge_requests WHERE id = ?")?
        .query_row([id.as_str()], read)
        .optional()?
        .ok_or_else(|| StoreError::NotFound {
            kind: "merge request",
            id: id.to_string(),
        })
}

/// Lists merge requests in their landing order.
pub(super) fn list(
    conn: &Connection,
    rig: Option<&RigName>,
    open: bool,
) -> Result<Vec<MergeRequest>, StoreError> {
    let sql = match (rig, open) {
        (Some(_), true) => "SELECT * FROM merge_requests WHERE rig = ? AND open = 1",
        (Some(_), false) => "SELECT * FROM merge_requests WHERE rig = ?",
        (None, true) => "SELECT * FROM merge_requests WHERE open",
        (None, false) => "SELECT * FROM merge_requests",
    };
    let mut select = conn.prepare_cached(sql)?;
    let rig = rig.map(RigName::as_str);
    let rows = select.query_map(rusqlite::params_from_iter(rig), read)?;
    let mut list: Vec<MergeRequest> = rows.collect::<Result<_, _>>()?;
    list.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok(list)
}

/// Lists the merge requests of a relic, the oldest first.
pub(super) fn of_relic(
    conn: &Connection,
    relic: &RelicId,
) -> Result<Vec<MergeRequest>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT m.* FROM merge_requests m JOIN relics r USING (id)
         WHERE m.relic = ? ORDER BY r.number",
    )?;
    let rows = select.query_map([relic.as_str()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn of(
    conn: &Connection,
    relic: &RelicId,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<Option<MergeRequest>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT m.* FROM merge_requests m JOIN relics r USING (id)
         WHERE m.relic = ? AND m.raider = ? AND m.incarnation = ?
         ORDER BY r.number DESC LIMIT 1",
    )?;
    let key = params![relic.as_str(), raider.to_string(), incarnation.0];
    Ok(select.query_row(key, read).optional()?)
}
