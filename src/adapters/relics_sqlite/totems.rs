//! Totems and the rows of their steps; the steps themselves are relics.

use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::domain::ids::RelicId;
use crate::domain::totem::{StepRow, TotemRow};
use crate::ports::relics::StoreError;

use super::value::{Json, Time, Word};

/// Stores a new totem; `Conflict` if the relic has one.
pub(super) fn add(conn: &Connection, totem: &TotemRow) -> Result<(), StoreError> {
    let relic = totem.relic.as_str();
    let is_there = conn
        .prepare_cached("SELECT 1 FROM totems WHERE relic = ?")?
        .exists([relic])?;
    if is_there {
        return Err(StoreError::Conflict(format!("{relic} has a totem already")));
    }
    conn.prepare_cached(
        "INSERT INTO totems (relic, ritual, vars, started, made_by)
         VALUES (:relic, :ritual, :vars, :started, :by)",
    )?
    .execute(named_params! {
        ":relic": relic,
        ":ritual": totem.ritual.as_str(),
        ":vars": Json(&totem.vars),
        ":started": Time(totem.started),
        ":by": totem.by,
    })?;
    let mut insert = conn.prepare_cached(
        "INSERT INTO totem_steps (step, totem, place, name, fresh_session) VALUES (?, ?, ?, ?, ?)",
    )?;
    for (place, step) in totem.steps.iter().enumerate() {
        let (id, name) = (step.relic.as_str(), step.name.as_str());
        insert.execute(params![id, relic, place, name, step.fresh_session])?;
    }
    Ok(())
}

/// Returns the totem of a relic.
pub(super) fn get(conn: &Connection, relic: &RelicId) -> Result<Option<TotemRow>, StoreError> {
    let totem = conn
        .prepare_cached("SELECT * FROM totems WHERE relic = ?")?
        .query_row([relic.as_str()], read)
        .optional()?;
    let Some(mut totem) = totem else {
        return Ok(None);
    };
    let mut select =
        conn.prepare_cached("SELECT * FROM totem_steps WHERE totem = ? ORDER BY place")?;
    let steps = select.query_map([relic.as_str()], read_step)?;
    totem.steps = steps.collect::<Result<_, _>>()?;
    Ok(Some(totem))
}

/// Returns the relic whose totem has this step.
pub(super) fn of_step(conn: &Connection, step: &RelicId) -> Result<Option<RelicId>, StoreError> {
    let found = conn
        .prepare_cached("SELECT totem FROM totem_steps WHERE step = ?")?
        .query_row([step.as_str()], |row| Ok(row.get::<_, Word<_>>(0)?.0));
    Ok(found.optional()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<TotemRow> {
    Ok(TotemRow {
        relic: row.get::<_, Word<_>>("relic")?.0,
        ritual: row.get::<_, Word<_>>("ritual")?.0,
        vars: row.get::<_, Json<_>>("vars")?.0,
        started: row.get::<_, Time>("started")?.0,
        by: row.get("made_by")?,
        steps: Vec::new(),
    })
}

fn read_step(row: &Row<'_>) -> rusqlite::Result<StepRow> {
    Ok(StepRow {
        relic: row.get::<_, Word<_>>("step")?.0,
        name: row.get::<_, Word<_>>("name")?.0,
        fresh_session: row.get("fresh_session")?,
    })
}
