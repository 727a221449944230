//! The records about raiders: each hook with its relic's status, sagas, merge request and unhandled completion. The number
//! of queries does not depend on the number of raiders.

use std::collections::BTreeMap;

use rusqlite::{Connection, Params, Row, params};

use crate::domain::ids::{RaiderId, RigName};
use crate::domain::merge::MergeRequest;
use crate::domain::phase::RaiderRecord;
use crate::domain::saga::Saga;
use crate::ports::relics::StoreError;

use super::value::{Time, Word};
use super::{hooks, merge_requests, sagas};

pub(super) fn list(
    conn: &Connection,
    rig: Option<&RigName>,
) -> Result<Vec<RaiderRecord>, StoreError> {
    match rig {
        Some(rig) => read(conn, "h.rig = ?", params![rig.as_str()]),
        None => read(conn, "true", params![]),
    }
}

pub(super) fn one(
    conn: &Connection,
    raider: &RaiderId,
) -> Result<Option<RaiderRecord>, StoreError> {
    read(conn, "h.raider = ?", params![raider.to_string()]).map(|mut found| found.pop())
}

fn read(
    conn: &Connection,
    which: &str,
    values: impl Params + Copy,
) -> Result<Vec<RaiderRecord>, StoreError> {
    let mut sagas: BTreeMap<String, Vec<Saga>> = BTreeMap::new();
    let sql = format!(
        "SELECT s.* FROM hooks h JOIN sagas s ON s.subject = h.raider WHERE {which} ORDER BY s.id"
    );
    let mut select = conn.prepare_cached(&sql)?;
    for saga in select.query_map(values, sagas::read)? {
        let saga = saga?;
        sagas.entry(saga.subject.clone()).or_default().push(saga);
    }
    let mut mrs: BTreeMap<RaiderId, MergeRequest> = BTreeMap::new();
    let sql = format!(
        "SELECT m.* FROM hooks h
           JOIN merge_requests m
             ON m.relic = h.relic AND m.raider = h.raider AND m.incarnation = h.incarnation
           JOIN relics r ON r.id = m.id
          WHERE {which} ORDER BY r.number"
    );
    let mut select = conn.prepare_cached(&sql)?;
    for mr in select.query_map(values, merge_requests::read)? {
        let mr = mr?;
        // The newest comes last.
        mrs.insert(mr.raider.clone(), mr);
    }
    let sql = format!(
        "SELECT h.*, r.status AS relic_status, r.closed AS relic_closed, EXISTS (
             SELECT 1 FROM messages m
              WHERE m.handled_at IS NULL AND m.receiver = h.rig || '/witness'
                AND m.type = 'POLECAT_DONE' AND m.body ->> '$.raider' = h.raider
                AND m.body ->> '$.incarnation' = h.incarnation) AS is_unhandled
           FROM hooks h JOIN relics r ON r.id = h.relic
          WHERE {which} ORDER BY h.raider"
    );
    let mut select = conn.prepare_cached(&sql)?;
    let record = |row: &Row<'_>| {
        let hook = hooks::read(row)?;
        Ok(RaiderRecord {
            relic: row.get::<_, Word<_>>("relic_status")?.0,
            closed: row
                .get::<_, Option<Time>>("relic_closed")?
                .map(|closed| closed.0),
            sagas: sagas.remove(&hook.raider.to_string()).unwrap_or_default(),
            mr: mrs.remove(&hook.raider),
            is_unhandled: row.get("is_unhandled")?,
            hook,
        })
    };
    let rows = select.query_map(values, record)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
