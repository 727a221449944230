//! Small texts out of JSON values: cells, ages, conditions.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

use crate::domain::shown;

/// Returns a value as a short text; `-` for nothing.
pub(super) fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => to_seconds(&clean(text)),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => clean(&other.to_string()),
    }
}

/// Cuts the fraction of a second off times, also in the middle of a text.
pub(in crate::cli) fn to_seconds(text: &str) -> String {
    static TIME: LazyLock<Regex> = LazyLock::new(|| {
        let time = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z";
        Regex::new(time).expect("a pattern that is right")
    });
    TIME.replace_all(text, "${1}Z").into_owned()
}

/// Returns at most this number of characters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most.max(1) - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Returns at most this number of characters of a text's end.
pub(super) fn end(text: &str, most: usize) -> String {
    let text = text.trim_end();
    match text.chars().count().checked_sub(most.max(1)) {
        None | Some(0) => text.to_owned(),
        Some(over) => ['…']
            .into_iter()
            .chain(text.chars().skip(over + 1))
            .collect(),
    }
}

/// Returns the cell at a JSON pointer.
pub(super) fn at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).map_or_else(|| "-".to_owned(), cell)
}

/// Returns the number at a JSON pointer; 0 when it is missing. Of a list, the number of items.
pub(super) fn count(value: &Value, pointer: &str) -> u64 {
    match value.pointer(pointer) {
        Some(Value::Array(items)) => items.len() as u64,
        Some(number) => number.as_u64().unwrap_or(0),
        None => 0,
    }
}

/// Returns the text as a single line that is safe to show: text of agents must not steer the reader's terminal.
pub(super) fn clean(text: &str) -> String {
    shown::line(text).into_owned()
}

/// Returns the text of a program or person as several lines that are safe to show.
pub(super) fn clean_lines(text: &str) -> String {
    shown::output(text).into_owned()
}

/// Returns the value with all texts safe to show, for renderers that use texts unchanged.
pub(super) fn safe(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(shown::lines(text).into_owned()),
        Value::Array(items) => items.iter().map(safe).collect(),
        Value::Object(whole) => {
            let safe_one = |(key, item): (&String, &Value)| (key.clone(), safe(item));
            Value::Object(whole.iter().map(safe_one).collect())
        }
        plain => plain.clone(),
    }
}

/// Returns the age of a time in two units at most: `2m14s`.
pub(super) fn ago(value: Option<&Value>, now: Timestamp) -> String {
    let then = value
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok());
    match then {
        Some(then) => seconds(now.duration_since(then).as_secs().max(0).unsigned_abs()),
        None => "-".to_owned(),
    }
}

/// Returns a number of seconds in two units at most.
pub(super) fn seconds(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d{:02}h", hours % 24),
        () if hours > 0 => format!("{hours}h{:02}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m{:02}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

/// Returns a condition's name and particulars: the value is a word, or an object with `kind` and the question or time.
pub(super) fn condition(value: &Value) -> Option<(String, String)> {
    match value.get("condition")? {
        Value::String(word) => {
            let said = value.get("detail").filter(|said| said.is_string());
            Some((clean(word), said.map(cell).unwrap_or_default()))
        }
        Value::Object(whole) => {
            let said = ["question", "detail", "reason", "until"];
            let particulars = said.iter().filter_map(|key| whole.get(*key));
            let particulars: Vec<_> = particulars.filter(|v| !v.is_null()).map(cell).collect();
            Some((cell(whole.get("kind")?), particulars.join(" ")))
        }
        _ => None,
    }
}

/// The age in seconds from which counts are shown with it.
const OLD_S: u64 = 60;

/// Renders commits, dirty and untracked paths as `+3 ~2 ?1`; old counts with their age.
pub(super) fn git(raider: &Value) -> String {
    if raider.pointer("/git/ahead").is_none() {
        return "-".to_owned();
    }
    let mut parts = vec![format!("+{}", count(raider, "/git/ahead"))];
    for (sign, pointer) in [("~", "/git/dirty"), ("?", "/git/untracked")] {
        let count = count(raider, pointer);
        if count > 0 {
            parts.push(format!("{sign}{count}"));
        }
    }
    let age = raider.pointer("/git/age_s").and_then(Value::as_u64);
    if let Some(age) = age.filter(|age| *age >= OLD_S) {
        parts.push(format!("({} ago)", seconds(age)));
    }
    parts.join(" ")
}

/// `1 relic`, `2 relics`.
pub(super) fn plural(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    }
}
