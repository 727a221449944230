//! Selects the work that is ready, and of it the work that may be charged without a request. Each look of a witness
//! queries the latter, and a look follows each new relic, so its cost must not grow with the number of relics.

use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::relics::{COLUMNS, most, read};
use crate::domain::relic::Relic;
use crate::ports::relics::StoreError;

/// Returns the query with exactly the conditions of the index `relics_ready`: with others it is not used.
fn query(labelled: bool) -> String {
    let from = match labelled {
        true => "relic_labels l CROSS JOIN relics r ON r.id = l.relic AND l.label = ?3",
        false => "relics r INDEXED BY relics_ready",
    };
    format!(
        "SELECT {COLUMNS} FROM {from}
         WHERE r.status = 'open' AND r.kind = 'task' AND r.assignee IS NULL AND r.prefix = ?1
           AND NOT EXISTS (SELECT 1 FROM relic_deps d JOIN relics n ON n.id = d.dep
                           WHERE d.relic = r.id AND n.status <> 'closed')
         ORDER BY r.priority DESC, r.created, r.number, r.step, r.id LIMIT ?2"
    )
}

/// Returns the open tasks whose dependencies are closed, assigned or not.
pub(super) fn ready(
    conn: &Connection,
    prefix: &str,
    limit: Option<u64>,
) -> Result<Vec<Relic>, StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM relics r
         WHERE r.status = 'open' AND r.kind = 'task' AND r.prefix = ?
           AND NOT EXISTS (SELECT 1 FROM relic_deps d JOIN relics n ON n.id = d.dep
                           WHERE d.relic = r.id AND n.status <> 'closed')
         ORDER BY r.priority DESC, r.created, r.number, r.step, r.id LIMIT ?"
    ))?;
    let rows = select.query_map(params![prefix, most(limit)], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the oldest open task whose dependencies are closed and that is assigned to this one.
pub(super) fn ready_of(conn: &Connection, assignee: &str) -> Result<Option<Relic>, StoreError> {
    let found = conn
        .prepare_cached(&format!(
            "SELECT {COLUMNS} FROM relics r
             WHERE r.status = 'open' AND r.kind = 'task' AND r.assignee = ?
               AND NOT EXISTS (SELECT 1 FROM relic_deps d JOIN relics n ON n.id = d.dep
                               WHERE d.relic = r.id AND n.status <> 'closed')
             ORDER BY r.created, r.number, r.step, r.id LIMIT 1"
        ))?
        .query_row([assignee], read)
        .optional()?;
    Ok(found)
}

/// Returns the first relics that may be charged without a request.
pub(super) fn chargeable(
    conn: &Connection,
    prefix: &str,
    label: Option<&str>,
    limit: usize,
) -> Result<Vec<Relic>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values: Vec<&dyn ToSql> = vec![&prefix, &limit];
    values.extend(label.as_ref().map(|label| label as &dyn ToSql));
    let mut select = conn.prepare_cached(&query(label.is_some()))?;
    let rows = select.query_map(values.as_slice(), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;
    use crate::adapters::clock::SystemClock;
    use crate::adapters::relics_sqlite::SqliteRelics;

    /// Fills a store with `count` relics, every second of them finished. Returns the number of steps that the engine
    /// takes to find the first ten that are ready, and those that need rework.
    fn steps(count: usize) -> [i32; 2] {
        let store = SqliteRelics::in_memory(std::sync::Arc::new(SystemClock::new())).unwrap();
        let fill = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority, created, reworks)
            SELECT 'gt-' || i, 'gt', i, 0, 'task', 'x', '', iif(i % 2, 'open', 'closed'), 0, i, 0 FROM n";
        store.conn.execute(fill, [count]).unwrap();
        [None, Some("rework")].map(|label| {
            let mut select = store.conn.prepare(&query(label.is_some())).unwrap();
            let mut values: Vec<&dyn ToSql> = vec![&"gt", &10];
            values.extend(label.as_ref().map(|label| label as &dyn ToSql));
            let found = select.query_map(values.as_slice(), read).unwrap().count();
            assert_eq!(found, if label.is_some() { 0 } else { 10 });
            select.get_status(StatementStatus::VmStep)
        })
    }

    #[test]
    fn work_that_is_ready_is_found_without_looking_at_the_rest() {
        let (few, many) = (steps(100), steps(100_000));
        for (few, many) in few.into_iter().zip(many) {
            assert!(
                many <= few + few / 10,
                "{few} steps among 100, {many} among 100,000"
            );
        }
    }
}
