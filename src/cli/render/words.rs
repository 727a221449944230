//! Small texts out of values: cells, ages, counts of git.

use std::sync::LazyLock;

use jiff::Timestamp;
use regex::Regex;
use serde::Serialize;
use serde_json::Value;

use crate::control::protocol::answers::Git;
use crate::domain::shown;

/// Returns a field of an answer as a short text, in the words of the wire; `-` for nothing.
pub(super) fn cell(field: &impl Serialize) -> String {
    serde_json::to_value(field).map_or_else(|_| "-".to_owned(), |value| short(&value))
}

/// Returns a JSON value as a short text; `-` for nothing.
pub(super) fn short(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => to_seconds(&clean(text)),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(short).collect::<Vec<_>>().join(", "),
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

/// Returns the cell at a JSON pointer, of a result that `hd` made itself.
pub(super) fn at(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).map_or_else(|| "-".to_owned(), short)
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
pub(super) fn ago(then: Option<Timestamp>, now: Timestamp) -> String {
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

/// The age in seconds from which counts are shown with it.
const OLD_S: u64 = 60;

/// Renders commits, dirty and untracked paths as `+3 ~2 ?1`; old counts with their age.
pub(super) fn git(seen: Option<&Git>) -> String {
    let Some(git) = seen else {
        return "-".to_owned();
    };
    let mut parts = vec![format!("+{}", git.ahead)];
    for (sign, count) in [("~", git.dirty), ("?", git.untracked)] {
        if count > 0 {
            parts.push(format!("{sign}{count}"));
        }
    }
    if git.age_s >= OLD_S {
        parts.push(format!("({} ago)", seconds(git.age_s)));
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
