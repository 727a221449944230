//! Rewords every stored text, for tests: another version of the supervisor, or another person, would have said the same
//! in other words. A decision that reads a text shows when its text changes.
//!
//! Prose is a string with a space in it, in a column or in a value of its JSON: ids, codes and times have none, except for
//! those that are listed here. Rows whose hashes are chained are left alone, because they may not change at all.

use rusqlite::Connection;
use serde_json::Value;

use super::txn::SqliteTxn;
use crate::ports::relics::StoreError;

/// The words that stand for every text.
pub const OTHER_WORDS: &str = "in other words";

/// Tables of hash chains, and of entries that are due for one.
const CHAINED: &[&str] = &[
    "attempts",
    "cv",
    "foreign_entries",
    "identity_entries",
    "sqlite_sequence",
];
/// Columns of names and codes that may have a space: `account main` is a subject, a label names what its problem is of.
const EXACT: &[&str] = &["label", "made_from", "path", "subject"];
/// The same within JSON.
const EXACT_KEYS: &[&str] = &["agent", "of"];

/// Rewords all texts of the store.
pub(super) fn reword(txn: &mut SqliteTxn<'_>) -> Result<(), StoreError> {
    let conn = txn.conn;
    let triggers = names(
        conn,
        "SELECT name || ':' || sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'events'",
    )?;
    let triggers = triggers.iter().filter_map(|row| row.split_once(':'));
    let triggers: Vec<_> = triggers.collect();
    for (name, _) in &triggers {
        conn.execute_batch(&format!("DROP TRIGGER {name}"))?;
    }
    for (table, column) in columns(conn)? {
        reword_column(conn, &table, &column)?;
    }
    for (_, sql) in &triggers {
        conn.execute_batch(sql)?;
    }
    Ok(())
}

/// Returns the columns that hold texts, with their tables.
fn columns(conn: &Connection) -> Result<Vec<(String, String)>, StoreError> {
    let mut found = Vec::new();
    for table in names(conn, "SELECT name FROM sqlite_schema WHERE type = 'table'")? {
        if CHAINED.contains(&table.as_str()) {
            continue;
        }
        let of_table = format!("SELECT name FROM pragma_table_info('{table}') WHERE type = 'TEXT'");
        for column in names(conn, &of_table)? {
            if !EXACT.contains(&column.as_str()) {
                found.push((table.clone(), column));
            }
        }
    }
    Ok(found)
}

fn reword_column(conn: &Connection, table: &str, column: &str) -> Result<(), StoreError> {
    let with_spaces = format!("SELECT DISTINCT {column} FROM {table} WHERE {column} LIKE '% %'");
    for text in names(conn, &with_spaces)? {
        let said = match serde_json::from_str::<Value>(&text) {
            Ok(mut value @ (Value::Object(_) | Value::Array(_) | Value::String(_))) => {
                reword_value(&mut value);
                value.to_string()
            }
            _ => OTHER_WORDS.to_owned(),
        };
        let change = format!("UPDATE {table} SET {column} = ?1 WHERE {column} = ?2");
        conn.execute(&change, [said, text])?;
    }
    Ok(())
}

fn reword_value(value: &mut Value) {
    match value {
        Value::String(text) if text.contains(' ') => OTHER_WORDS.clone_into(text),
        Value::Array(items) => items.iter_mut().for_each(reword_value),
        Value::Object(fields) => {
            let prose = fields
                .iter_mut()
                .filter(|(key, _)| !EXACT_KEYS.contains(&key.as_str()));
            prose.for_each(|(_, value)| reword_value(value));
        }
        _ => {}
    }
}

fn names(conn: &Connection, query: &str) -> Result<Vec<String>, StoreError> {
    let mut query = conn.prepare(query)?;
    let rows = query.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
