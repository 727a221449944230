//! Relics: rows, their numbers, their dependencies.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, named_params, params};

use crate::domain::deps;
use crate::domain::ids::{HarnessName, RelicId};
use crate::domain::relic::{Relic, RelicStatus, Source};
use crate::ports::relics::{NewRelic, RelicFilter, StoreError};

use super::txn::SqliteTxn;
use super::value::{Json, Time, Word};

/// The distance that the number of an id from elsewhere may have from the last number that was given here. It bounds
/// the counter, which must never reach its end: after that no relic could be made.
const AHEAD_MAX: u64 = 1_000_000;

/// Every column of a relic; lists come from their own tables, in their given order.
pub(super) const COLUMNS: &str = "r.*,
    (SELECT json_group_array(label) FROM
        (SELECT label FROM relic_labels WHERE relic = r.id ORDER BY place)) AS labels,
    (SELECT json_group_array(dep) FROM
        (SELECT dep FROM relic_deps WHERE relic = r.id ORDER BY place)) AS deps";

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Relic> {
    Ok(Relic {
        id: row.get::<_, Word<_>>("id")?.0,
        kind: row.get::<_, Word<_>>("kind")?.0,
        title: row.get("title")?,
        body: row.get("body")?,
        status: row.get::<_, Word<_>>("status")?.0,
        priority: row.get("priority")?,
        labels: row.get::<_, Json<_>>("labels")?.0,
        assignee: row.get("assignee")?,
        parent: row.get::<_, Option<Word<_>>>("parent")?.map(|word| word.0),
        deps: row.get::<_, Json<_>>("deps")?.0,
        created: row.get::<_, Time>("created")?.0,
        closed: row.get::<_, Option<Time>>("closed")?.map(|time| time.0),
        raider: row.get::<_, Option<Word<_>>>("raider")?.map(|word| word.0),
        until: row.get::<_, Option<Time>>("until")?.map(|time| time.0),
        branch: row.get("branch")?,
        starts_on: row.get("starts_on")?,
        reworks: row.get("reworks")?,
        charge_failures: row.get("charge_failures")?,
        context: row.get("context")?,
        target: row.get("target")?,
        harness: row.get::<_, Option<Word<_>>>("harness")?.map(|word| word.0),
        by: row.get("made_by")?,
        source: match (row.get("source_system")?, row.get("source_id")?) {
            (Some(system), Some(id)) => Some(Source { system, id }),
            (Some(_) | None, _) => None,
        },
    })
}

fn missing(id: &RelicId) -> StoreError {
    StoreError::NotFound {
        kind: "relic",
        id: id.to_string(),
    }
}

/// Checks that the relic exists; `NotFound` otherwise.
pub(super) fn expect(conn: &Connection, id: &RelicId) -> Result<(), StoreError> {
    let there = conn
        .prepare_cached("SELECT 1 FROM relics WHERE id = ?")?
        .exists([id.as_str()])?;
    if there { Ok(()) } else { Err(missing(id)) }
}

pub(super) fn create(txn: &SqliteTxn<'_>, new: &NewRelic) -> Result<Relic, StoreError> {
    expect_needed(txn.conn, new)?;
    insert(txn, number(txn.conn, new)?, new)
}

/// Stores a new relic under an id that it had elsewhere; `Conflict` when the id is taken. Later relics get later
/// numbers: an id that is further ahead than [`AHEAD_MAX`] is not kept, and the relic gets the next number.
pub(super) fn create_as(
    txn: &SqliteTxn<'_>,
    id: &RelicId,
    new: &NewRelic,
) -> Result<Relic, StoreError> {
    expect_needed(txn.conn, new)?;
    if expect(txn.conn, id).is_ok() {
        return Err(StoreError::Conflict(format!("{id} is taken")));
    }
    let Some(counter) = counter_of(txn.conn, id)? else {
        return create(txn, new);
    };
    txn.conn
        .prepare_cached(
            "INSERT INTO counters (name, last) VALUES (?, ?)
             ON CONFLICT (name) DO UPDATE SET last = max(last, excluded.last)",
        )?
        .execute(params![counter.0, counter.1])?;
    insert(txn, id.clone(), new)
}

/// Returns the counter of the id's last part, with the number of that part; none when a part is too far ahead of its
/// counter.
fn counter_of(conn: &Connection, id: &RelicId) -> Result<Option<(String, u64)>, StoreError> {
    let mut last_of = conn.prepare_cached("SELECT last FROM counters WHERE name = ?")?;
    let (prefix, rest) = id.as_str().rsplit_once('-').unwrap_or((id.as_str(), ""));
    let mut stem = prefix.to_owned();
    let mut counter = None;
    for part in rest.split('.') {
        let (name, separator) = match counter {
            None => (format!("relic:{stem}"), '-'),
            Some(_) => (format!("step:{stem}"), '.'),
        };
        let last: Option<u64> = last_of.query_row([&name], |row| row.get(0)).optional()?;
        let max = last.unwrap_or(0).saturating_add(AHEAD_MAX);
        // A number that is no u64 is too large.
        let Some(number) = part.parse().ok().filter(|number| *number <= max) else {
            return Ok(None);
        };
        stem = format!("{stem}{separator}{part}");
        counter = Some((name, number));
    }
    Ok(counter)
}

/// Checks that the relics that a new one needs exist. It has no dependents yet, so its dependencies cannot lead back to
/// it.
fn expect_needed(conn: &Connection, new: &NewRelic) -> Result<(), StoreError> {
    let mut needed = new.deps.iter().chain(&new.parent);
    needed.try_for_each(|needed| expect(conn, needed))
}

fn insert(txn: &SqliteTxn<'_>, id: RelicId, new: &NewRelic) -> Result<Relic, StoreError> {
    let relic = Relic {
        id,
        kind: new.kind,
        title: new.title.clone(),
        body: new.body.clone(),
        status: RelicStatus::Open,
        priority: new.priority,
        labels: new.labels.clone(),
        assignee: None,
        parent: new.parent.clone(),
        deps: new.deps.clone(),
        created: txn.now,
        closed: None,
        raider: None,
        until: None,
        branch: None,
        starts_on: None,
        reworks: 0,
        charge_failures: 0,
        context: None,
        target: None,
        harness: None,
        by: new.by.clone(),
        source: None,
    };
    let (prefix, number, step) = parts(&relic.id);
    txn.conn
        .prepare_cached(
            "INSERT INTO relics (id, prefix, number, step, kind, title, body, status, priority,
                                 parent, created, reworks, made_by)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)",
        )?
        .execute(params![
            relic.id.as_str(),
            prefix,
            number,
            step,
            Word(relic.kind),
            relic.title,
            relic.body,
            Word(relic.status),
            relic.priority,
            relic.parent.as_ref().map(RelicId::as_str),
            Time(relic.created),
            relic.by,
        ])?;
    put_lists(txn.conn, &relic)?;
    Ok(relic)
}

/// Returns the next id: `<prefix>-<n>`, or `<parent>.<n>` for a step.
fn number(conn: &Connection, new: &NewRelic) -> Result<RelicId, StoreError> {
    let (counter, stem) = match &new.parent {
        Some(parent) => (format!("step:{parent}"), format!("{parent}.")),
        None => (format!("relic:{}", new.prefix), format!("{}-", new.prefix)),
    };
    let last: u64 = conn
        .prepare_cached(
            "INSERT INTO counters (name, last) VALUES (?, 1)
             ON CONFLICT (name) DO UPDATE SET last = last + 1 RETURNING last",
        )?
        .query_row([counter], |row| row.get(0))?;
    RelicId::new(format!("{stem}{last}")).map_err(|bad| StoreError::Conflict(bad.to_string()))
}

/// Splits an id into prefix, number and last step; ids are validated, so every part exists.
fn parts(id: &RelicId) -> (&str, u64, u64) {
    let (prefix, rest) = id.as_str().rsplit_once('-').unwrap_or((id.as_str(), ""));
    let mut numbers = rest.split('.').map(|part| part.parse().unwrap_or(0));
    let number = numbers.next().unwrap_or(0);
    (prefix, number, numbers.next_back().unwrap_or(0))
}

pub(super) fn get(conn: &Connection, id: &RelicId) -> Result<Relic, StoreError> {
    conn.prepare_cached(&format!("SELECT {COLUMNS} FROM relics r WHERE id = ?"))?
        .query_row([id.as_str()], read)
        .optional()?
        .ok_or_else(|| missing(id))
}

pub(super) fn put(conn: &Connection, relic: &Relic) -> Result<(), StoreError> {
    for needed in relic.deps.iter().chain(&relic.parent) {
        expect(conn, needed)?;
    }
    let before = parent_of(conn, &relic.id)?;
    let changed = conn
        .prepare_cached(
            "UPDATE relics SET kind = :kind, title = :title, body = :body, status = :status,
                    priority = :priority, assignee = :assignee, parent = :parent,
                    created = :created, closed = :closed, raider = :raider, until = :until,
                    branch = :branch, starts_on = :starts_on, reworks = :reworks, context = :context,
                    charge_failures = :charge_failures, target = :target, harness = :harness,
                    source_system = :system, source_id = :source
             WHERE id = :id",
        )?
        .execute(named_params! {
            ":id": relic.id.as_str(),
            ":kind": Word(relic.kind),
            ":title": relic.title,
            ":body": relic.body,
            ":status": Word(relic.status),
            ":priority": relic.priority,
            ":assignee": relic.assignee,
            ":parent": relic.parent.as_ref().map(RelicId::as_str),
            ":created": Time(relic.created),
            ":closed": relic.closed.map(Time),
            ":raider": relic.raider.as_ref().map(ToString::to_string),
            ":until": relic.until.map(Time),
            ":branch": relic.branch,
            ":starts_on": relic.starts_on,
            ":reworks": relic.reworks,
            ":context": relic.context,
            ":charge_failures": relic.charge_failures,
            ":target": relic.target,
            ":harness": relic.harness.as_ref().map(HarnessName::as_str),
            ":system": relic.source.as_ref().map(|source| &source.system),
            ":source": relic.source.as_ref().map(|source| &source.id),
        })?;
    if changed == 0 {
        return Err(missing(&relic.id));
    }
    if relic.parent != before {
        refuse_parent_cycle(conn, relic)?;
    }
    let labels = relic.labels.iter().map(String::as_str);
    put_list(conn, "relic_labels", "label", &relic.id, labels)?;
    let before = deps_of(conn, &relic.id)?;
    if before == relic.deps {
        return Ok(());
    }
    put_deps(conn, relic)?;
    let before = BTreeSet::from_iter(before);
    let new = relic.deps.iter().filter(|dep| !before.contains(dep));
    refuse_cycle(conn, &relic.id, &new.cloned().collect::<Vec<_>>())
}

fn put_lists(conn: &Connection, relic: &Relic) -> Result<(), StoreError> {
    put_deps(conn, relic)?;
    let labels = relic.labels.iter().map(String::as_str);
    put_list(conn, "relic_labels", "label", &relic.id, labels)
}

fn put_deps(conn: &Connection, relic: &Relic) -> Result<(), StoreError> {
    let deps = relic.deps.iter().map(RelicId::as_str);
    put_list(conn, "relic_deps", "dep", &relic.id, deps)
}

fn put_list<'a>(
    conn: &Connection,
    table: &str,
    column: &str,
    relic: &RelicId,
    items: impl Iterator<Item = &'a str>,
) -> Result<(), StoreError> {
    conn.prepare_cached(&format!("DELETE FROM {table} WHERE relic = ?"))?
        .execute([relic.as_str()])?;
    let sql = format!("INSERT INTO {table} (relic, place, {column}) VALUES (?, ?, ?)");
    let mut insert = conn.prepare_cached(&sql)?;
    for (place, item) in items.enumerate() {
        insert.execute(params![relic.as_str(), place, item])?;
    }
    Ok(())
}

/// Refuses a cycle: `Conflict` if the relic depends on itself through one of these new dependencies.
fn refuse_cycle(conn: &Connection, id: &RelicId, new: &[RelicId]) -> Result<(), StoreError> {
    let (next, before) = (
        |one: &RelicId| deps_of(conn, one),
        |one: &RelicId| ids(conn, "SELECT relic FROM relic_deps WHERE dep = ?", one),
    );
    if !deps::leads(new, id, next, before)? {
        return Ok(());
    }
    let path = deps::path(id, id, |one| deps_of(conn, one))?;
    Err(StoreError::Conflict(deps::cycle(
        "depend on itself",
        &path.unwrap_or_default(),
    )))
}

/// Refuses a cycle of parents: `Conflict` if the relic would be a step of itself.
fn refuse_parent_cycle(conn: &Connection, relic: &Relic) -> Result<(), StoreError> {
    if relic.parent.is_none() {
        return Ok(());
    }
    let next = |one: &RelicId| Ok::<_, StoreError>(Vec::from_iter(parent_of(conn, one)?));
    match deps::path(&relic.id, &relic.id, next)? {
        None => Ok(()),
        Some(path) => Err(StoreError::Conflict(deps::cycle(
            "be a step of itself",
            &path,
        ))),
    }
}

fn parent_of(conn: &Connection, id: &RelicId) -> Result<Option<RelicId>, StoreError> {
    let mut select = conn.prepare_cached("SELECT parent FROM relics WHERE id = ?")?;
    let parent = select.query_row([id.as_str()], |row| row.get::<_, Option<Word<_>>>(0));
    Ok(parent.optional()?.flatten().map(|word| word.0))
}

/// Returns the dependencies of a relic, in their order.
fn deps_of(conn: &Connection, id: &RelicId) -> Result<Vec<RelicId>, StoreError> {
    ids(
        conn,
        "SELECT dep FROM relic_deps WHERE relic = ? ORDER BY place",
        id,
    )
}

/// Returns the relics that depend on this one.
pub(super) fn dependents(conn: &Connection, id: &RelicId) -> Result<Vec<RelicId>, StoreError> {
    ids(
        conn,
        "SELECT d.relic FROM relic_deps d JOIN relics r ON r.id = d.relic WHERE d.dep = ?
         ORDER BY r.prefix, r.number, r.step, r.id",
        id,
    )
}

/// Returns the relics that are steps of this one.
pub(super) fn children(conn: &Connection, id: &RelicId) -> Result<Vec<RelicId>, StoreError> {
    ids(
        conn,
        "SELECT id FROM relics WHERE parent = ? ORDER BY number, step, id",
        id,
    )
}

fn ids(conn: &Connection, sql: &str, of: &RelicId) -> Result<Vec<RelicId>, StoreError> {
    let mut select = conn.prepare_cached(sql)?;
    let rows = select.query_map([of.as_str()], |row| Ok(row.get::<_, Word<_>>(0)?.0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the relic that was imported from this record; where a prefix is given, only one with that prefix.
pub(super) fn of_source(
    conn: &Connection,
    source: &Source,
    prefix: Option<&str>,
) -> Result<Option<RelicId>, StoreError> {
    let found = conn
        .prepare_cached(
            "SELECT id FROM relics
             WHERE source_system = ?1 AND source_id = ?2 AND prefix = ifnull(?3, prefix) LIMIT 1",
        )?
        .query_row(params![source.system, source.id, prefix], |row| {
            Ok(row.get::<_, Word<_>>(0)?.0)
        });
    Ok(found.optional()?)
}

/// Returns the first `limit` tasks whose ids come after this one in the order of texts.
pub(super) fn tasks_after(
    conn: &Connection,
    after: &str,
    limit: usize,
) -> Result<Vec<Relic>, StoreError> {
    let mut select = conn.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM relics r WHERE id > ? AND kind = 'task' ORDER BY id LIMIT ?"
    ))?;
    let rows = select.query_map(params![after, limit], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the number of tasks of each prefix and status.
pub(super) fn task_counts(
    conn: &Connection,
) -> Result<Vec<(String, RelicStatus, u64)>, StoreError> {
    let mut select =
        conn.prepare_cached("SELECT prefix, status, count FROM task_counts WHERE count > 0")?;
    let rows = select.query_map([], |row| {
        Ok((row.get(0)?, row.get::<_, Word<_>>(1)?.0, row.get(2)?))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the limit of a query; a negative one is none.
pub(super) fn most(limit: Option<u64>) -> i64 {
    limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX))
}

pub(super) fn list(conn: &Connection, filter: &RelicFilter) -> Result<Vec<Relic>, StoreError> {
    let kind = filter.kind.map(Word);
    let status = filter.status.map(Word);
    let mut conditions = vec!["TRUE"];
    let mut values: Vec<&dyn ToSql> = Vec::new();
    if let Some(kind) = &kind {
        conditions.push("kind = ?");
        values.push(kind);
    }
    if let Some(status) = &status {
        conditions.push("status = ?");
        values.push(status);
    }
    if let Some(prefix) = &filter.prefix {
        conditions.push("prefix = ?");
        values.push(prefix);
    }
    if let Some(label) = &filter.label {
        conditions.push("id IN (SELECT relic FROM relic_labels WHERE label = ?)");
        values.push(label);
    }
    let sql = format!(
        "SELECT {COLUMNS} FROM relics r WHERE {}
         ORDER BY priority DESC, created, number, step, id LIMIT ?",
        conditions.join(" AND ")
    );
    let limit = most(filter.limit);
    values.push(&limit);
    let mut select = conn.prepare_cached(&sql)?;
    let rows = select.query_map(values.as_slice(), read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}
