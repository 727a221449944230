//! Automations: marks and runs.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::domain::automation::{AutomationId, HISTORY, Mark, Run, RunState};
use crate::domain::cause::Cause;
use crate::ports::relics::StoreError;

use super::txn::SqliteTxn;
use super::value::{Time, Word};

pub(super) fn mark(conn: &Connection, id: &AutomationId) -> Result<Option<Mark>, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM automation_marks WHERE automation = ?")?;
    let read = |row: &Row<'_>| {
        Ok(Mark {
            automation: row.get::<_, Word<_>>("automation")?.0,
            gate: row.get("gate")?,
            disabled: row.get("disabled")?,
            slots: row.get::<_, Time>("slots")?.0,
            cursor: row.get("cursor")?,
        })
    };
    Ok(select.query_row([Word(id)], read).optional()?)
}

pub(super) fn put_mark(conn: &Connection, mark: &Mark) -> Result<(), StoreError> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO automation_marks (automation, gate, disabled, slots, cursor)
         VALUES (?, ?, ?, ?, ?)",
    )?
    .execute(params![
        Word(&mark.automation),
        mark.gate,
        mark.disabled,
        Time(mark.slots),
        mark.cursor,
    ])?;
    Ok(())
}

pub(super) fn keep_marks(conn: &Connection, of: &[AutomationId]) -> Result<(), StoreError> {
    let mut select = conn.prepare_cached("SELECT automation FROM automation_marks")?;
    let marked = select.query_map([], |row| row.get::<_, Word<AutomationId>>(0))?;
    for id in marked.collect::<Result<Vec<_>, _>>()? {
        if !of.contains(&id.0) {
            // A disabled automation that is away for a while (on another branch, for example) stays disabled.
            conn.execute(
                "DELETE FROM automation_marks WHERE automation = ? AND NOT disabled",
                [id],
            )?;
        }
    }
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<Run> {
    Ok(Run {
        id: row.get("id")?,
        automation: row.get::<_, Word<_>>("automation")?.0,
        cause: row.get::<_, Word<_>>("cause")?.0,
        event: row.get("event")?,
        state: row.get::<_, Word<_>>("state")?.0,
        started: row.get::<_, Time>("started")?.0,
        ended: row.get::<_, Option<Time>>("ended")?.map(|time| time.0),
        end: row.get::<_, Option<Word<_>>>("end")?.map(|end| end.0),
        code: row.get("code")?,
        signal: row.get("signal")?,
        attempts: row.get("attempts")?,
        tail: row.get("tail")?,
    })
}

pub(super) fn begin(
    txn: &SqliteTxn<'_>,
    automation: &AutomationId,
    cause: Cause,
    event: Option<u64>,
) -> Result<Run, StoreError> {
    txn.conn
        .prepare_cached(
            "INSERT INTO automation_runs (automation, cause, event, state, started, attempts, tail)
             VALUES (?, ?, ?, ?, ?, 0, '')",
        )?
        .execute(params![
            Word(automation),
            cause.as_str(),
            event,
            Word(RunState::Running),
            Time(txn.now),
        ])?;
    let id = txn.conn.last_insert_rowid().unsigned_abs();
    txn.conn
        .prepare_cached(
            "DELETE FROM automation_runs WHERE automation = ?1 AND ended IS NOT NULL AND id <= (
                 SELECT id FROM automation_runs WHERE automation = ?1
                 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute(params![Word(automation), HISTORY])?;
    run(txn.conn, id)
}

pub(super) fn run(conn: &Connection, id: u64) -> Result<Run, StoreError> {
    let mut select = conn.prepare_cached("SELECT * FROM automation_runs WHERE id = ?")?;
    let found = select.query_row([id], read).optional()?;
    found.ok_or_else(|| StoreError::NotFound {
        kind: "run",
        id: id.to_string(),
    })
}

pub(super) fn put(conn: &Connection, run: &Run) -> Result<(), StoreError> {
    conn.prepare_cached(
        "UPDATE automation_runs SET state = :state, ended = :ended, end = :end, code = :code,
             signal = :signal, attempts = :attempts, tail = :tail WHERE id = :id",
    )?
    .execute(named_params! {
        ":id": run.id,
        ":state": Word(run.state),
        ":ended": run.ended.map(Time),
        ":end": run.end.map(Cause::as_str),
        ":code": run.code,
        ":signal": run.signal,
        ":attempts": run.attempts,
        ":tail": run.tail,
    })?;
    Ok(())
}

pub(super) fn list(
    conn: &Connection,
    of: Option<&AutomationId>,
    limit: usize,
) -> Result<Vec<Run>, StoreError> {
    let mut select = conn.prepare_cached(
        "SELECT * FROM automation_runs WHERE ?1 IS NULL OR automation = ?1
         ORDER BY id DESC LIMIT ?2",
    )?;
    let rows = select.query_map(params![of.map(Word), limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn open(conn: &Connection) -> Result<Vec<Run>, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT * FROM automation_runs WHERE ended IS NULL ORDER BY id")?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
