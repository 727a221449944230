//! Tests of the schema of a new store, which is written in full and not migrated to.

use rusqlite::Connection;

use super::super::schema;

/// Returns the text of each table, index and trigger, without white space outside quotes: a column that a step added stands
/// on the line of the one before it.
fn texts(conn: &Connection) -> Vec<(String, String)> {
    let mut query = conn
        .prepare("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name")
        .unwrap();
    let rows = query.query_map([], |row| {
        let text: String = row.get("sql")?;
        let parts = text.split('\'').enumerate().map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().collect(),
            _ => format!("'{part}'"),
        });
        Ok((row.get("name")?, parts.collect()))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

/// Returns the tables that have rows.
fn filled(conn: &Connection) -> Vec<String> {
    let has_rows = |table: &String| {
        let count = format!("SELECT count(*) FROM {table}");
        conn.query_row(&count, [], |row| row.get::<_, i64>(0))
            .unwrap()
            > 0
    };
    let mut query = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .unwrap();
    let tables = query.query_map([], |row| row.get("name")).unwrap();
    tables.map(Result::unwrap).filter(has_rows).collect()
}

fn version(conn: &Connection) -> (i64, i64) {
    let number = |pragma| conn.pragma_query_value(None, pragma, |row| row.get(0));
    (
        number("application_id").unwrap(),
        number("user_version").unwrap(),
    )
}

#[test]
fn a_new_store_has_the_schema_that_the_steps_lead_to() {
    let mut migrated = Connection::open_in_memory().unwrap();
    schema::migrate_to(&mut migrated, 1).unwrap();
    schema::migrate(&mut migrated).unwrap();
    let mut new = Connection::open_in_memory().unwrap();
    schema::migrate(&mut new).unwrap();
    for ((name, migrated), (_, new)) in texts(&migrated).iter().zip(&texts(&new)) {
        assert_eq!(migrated, new, "{name}: schema/current.sql and the steps");
    }
    assert_eq!(texts(&migrated).len(), texts(&new).len());
    assert_eq!(filled(&migrated), filled(&new));
    assert_eq!(version(&migrated), version(&new));
}

#[test]
fn a_new_store_is_not_made_twice() {
    let mut conn = Connection::open_in_memory().unwrap();
    schema::migrate(&mut conn).unwrap();
    conn.execute("INSERT INTO facts (key, value) VALUES ('a', 'b')", [])
        .unwrap();
    schema::migrate(&mut conn).unwrap();
    let kept: String = conn
        .query_row("SELECT value FROM facts", [], |row| row.get(0))
        .unwrap();
    assert_eq!(kept, "b");
}
