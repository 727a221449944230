//! Hooks and incarnations: the relic of each raider, and the number of charges of each slot.

use rusqlite::{Connection, OptionalExtension, Params, Row, named_params, params};

use crate::domain::ids::{Incarnation, RaiderId, RelicId, RigName};
use crate::domain::relic::Hook;
use crate::ports::relics::StoreError;

use super::relics;
use super::value::{Json, Time, Word};

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Hook> {
    Ok(Hook {
        raider: row.get::<_, Word<_>>("raider")?.0,
        incarnation: Incarnation(row.get("incarnation")?),
        relic: row.get::<_, Word<_>>("relic")?.0,
        branch: row.get("branch")?,
        base: row.get::<_, Word<_>>("base")?.0,
        from_target: row.get("from_target")?,
        target: row.get("target")?,
        harness: row.get::<_, Word<_>>("harness")?.0,
        charged_at: row.get::<_, Time>("charged_at")?.0,
        done: row.get::<_, Option<Json<_>>>("done")?.map(|done| done.0),
    })
}

pub(super) fn incarnation(conn: &Connection, raider: &RaiderId) -> Result<Incarnation, StoreError> {
    let last = conn
        .prepare_cached("SELECT last FROM incarnations WHERE raider = ?")?
        .query_row([raider.to_string()], |row| row.get(0))
        .optional()?;
    Ok(Incarnation(last.unwrap_or(0)))
}

pub(super) fn next_incarnation(
    conn: &Connection,
    raider: &RaiderId,
) -> Result<Incarnation, StoreError> {
    let next = conn
        .prepare_cached(
            "INSERT INTO incarnations (raider, last) VALUES (?, 1)
             ON CONFLICT (raider) DO UPDATE SET last = last + 1 RETURNING last",
        )?
        .query_row([raider.to_string()], |row| row.get(0))?;
    Ok(Incarnation(next))
}

/// Stores a hook. A raider has one hook, and so has a relic: binding a relic twice is a `Conflict`.
pub(super) fn put(conn: &Connection, hook: &Hook) -> Result<(), StoreError> {
    relics::expect(conn, &hook.relic)?;
    if let Some(other) = of_relic(conn, &hook.relic)?
        && other.raider != hook.raider
    {
        return Err(StoreError::Conflict(format!(
            "{} is hooked to {}",
            hook.relic, other.raider
        )));
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO hooks (raider, rig, incarnation, relic, branch, base, from_target,
                                       target, harness, charged_at, done)
         VALUES (:raider, :rig, :incarnation, :relic, :branch, :base, :from_target, :target,
                 :harness, :charged_at, :done)",
    )?
    .execute(named_params! {
        ":raider": hook.raider.to_string(),
        ":rig": hook.raider.rig.as_str(),
        ":incarnation": hook.incarnation.0,
        ":relic": hook.relic.as_str(),
        ":branch": hook.branch,
        ":base": hook.base.as_str(),
        ":from_target": hook.from_target,
        ":target": hook.target,
        ":harness": hook.harness.as_str(),
        ":charged_at": Time(hook.charged_at),
        ":done": hook.done.as_ref().map(Json),
    })?;
    Ok(())
}

pub(super) fn of_raider(conn: &Connection, raider: &RaiderId) -> Result<Option<Hook>, StoreError> {
    one(conn, "raider = ?", [raider.to_string()])
}

pub(super) fn of_relic(conn: &Connection, relic: &RelicId) -> Result<Option<Hook>, StoreError> {
    one(conn, "relic = ?", [relic.as_str()])
}

fn one(conn: &Connection, which: &str, values: impl Params) -> Result<Option<Hook>, StoreError> {
    let mut select = conn.prepare_cached(&format!("SELECT * FROM hooks WHERE {which}"))?;
    Ok(select.query_row(values, read).optional()?)
}

pub(super) fn list(conn: &Connection, rig: Option<&RigName>) -> Result<Vec<Hook>, StoreError> {
    let sql = match rig {
        Some(_) => "SELECT * FROM hooks WHERE rig = ? ORDER BY raider",
        None => "SELECT * FROM hooks ORDER BY raider",
    };
    let mut select = conn.prepare_cached(sql)?;
    let rig = rig.map(RigName::as_str);
    let rows = select.query_map(rusqlite::params_from_iter(rig), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

pub(super) fn drop(
    conn: &Connection,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<bool, StoreError> {
    let dropped = conn
        .prepare_cached("DELETE FROM hooks WHERE raider = ? AND incarnation = ?")?
        .execute(params![raider.to_string(), incarnation.0])?;
    Ok(dropped > 0)
}
