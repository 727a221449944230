//! A single object in full: its fields line by line, then its longer texts.

use serde_json::Value;

use crate::cli::output::{Style, Tone};

use super::words::{at, cell, clean_lines};

/// Fields that are texts of many lines.
const TEXTS: &[&str] = &[
    "body", "context", "note", "tail", "text", "handoff", "prompt", "totem",
];

/// Renders any result: fields, then texts. Objects inside are shown below their name.
pub(in crate::cli) fn facts(result: &Value, style: Style) -> String {
    let mut lines = Vec::new();
    put(result, 0, style, &mut lines);
    lines.join("\n")
}

/// Renders a raider in the words of the lists.
pub(in crate::cli) fn raider(raider: &Value, style: Style) -> String {
    let mut shown = raider.clone();
    if let Some(fields) = shown.as_object_mut()
        && let Some(deaths) = fields.remove("restarts")
    {
        fields.insert("deaths".to_owned(), deaths);
    }
    facts(&shown, style)
}

/// Renders the findings of `doctor`, a paragraph each.
pub(in crate::cli) fn findings(result: &Value, style: Style) -> String {
    let findings = result["findings"].as_array();
    let told = findings.into_iter().flatten().map(|finding| {
        let (fixed, tone) = match finding["fixed"] == true {
            true => ("mended: ", Tone::Good),
            false => ("", Tone::Bad),
        };
        let kind = at(finding, "/kind").replace('_', " ");
        let head = style.paint(tone, &format!("{fixed}{kind}"));
        let (subject, says) = (at(finding, "/subject"), at(finding, "/says"));
        let hint = match finding["fixed"] == true {
            true => String::new(),
            false => style.paint(Tone::Faint, &format!("\n  {}", at(finding, "/hint"))),
        };
        format!("{head}  {subject}: {says}{hint}")
    });
    let told: Vec<_> = told.collect();
    match told.is_empty() {
        true => style.paint(Tone::Good, "no problems found"),
        false => told.join("\n"),
    }
}

fn put(value: &Value, depth: usize, style: Style, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let Some(object) = value.as_object() else {
        if !value.is_null() {
            lines.push(format!("{indent}{}", cell(value)));
        }
        return;
    };
    let is_text = |key: &str, value: &Value| {
        TEXTS.contains(&key) && value.as_str().is_some_and(|text| text.contains('\n'))
    };
    let is_nested = |value: &Value| match value {
        Value::Object(inner) => !inner.is_empty(),
        Value::Array(items) => items.iter().any(Value::is_object),
        _ => false,
    };
    let plain: Vec<_> = object
        .iter()
        .filter(|(key, value)| !value.is_null() && !is_text(key, value) && !is_nested(value))
        .collect();
    let width = plain.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, value) in plain {
        let name = style.paint(Tone::Faint, &format!("{key:<width$}"));
        lines.push(format!("{indent}{name}  {}", cell(value)));
    }
    for (key, value) in object.iter().filter(|(_, value)| is_nested(value)) {
        lines.push(format!("{indent}{}", style.paint(Tone::Strong, key)));
        match value.as_array() {
            Some(items) => items
                .iter()
                .for_each(|item| put(item, depth + 1, style, lines)),
            None => put(value, depth + 1, style, lines),
        }
    }
    for (key, value) in object.iter().filter(|(key, value)| is_text(key, value)) {
        lines.push(format!("{indent}{}", style.paint(Tone::Strong, key)));
        let text = clean_lines(value.as_str().unwrap_or_default());
        lines.extend(text.lines().map(|line| format!("{indent}  {line}")));
    }
}

/// Renders a relic: heading, fields, body.
pub(in crate::cli) fn relic(relic: &Value, style: Style) -> String {
    let heading = format!("{}  {}", at(relic, "/id"), at(relic, "/title"));
    let mut rest = relic.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("id");
        fields.remove("title");
        fields.retain(|_, value| {
            *value != Value::String(String::new()) && *value != Value::Array(Vec::new())
        });
    }
    format!(
        "{}\n{}",
        style.paint(Tone::Strong, &heading),
        facts(&rest, style)
    )
}

/// Renders what a relic waits for, and what waits for it, a line for each.
pub(in crate::cli) fn deps(result: &Value, style: Style) -> String {
    let (id, status) = (at(result, "/relic"), at(result, "/status"));
    let heading = match result["ready"] == true {
        true => format!("{id} is ready"),
        false => format!("{id} is {status}"),
    };
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    for (name, key) in [("waits for", "deps"), ("is waited for by", "dependents")] {
        let links = result.get(key).and_then(Value::as_array);
        for link in links.into_iter().flatten() {
            let (id, status) = (at(link, "/id"), at(link, "/status"));
            lines.push(format!("  {name} {id} ({status}): {}", at(link, "/title")));
        }
    }
    lines.join("\n")
}

/// Renders the result of `charge` or `run` for each relic: its raider, or why it has none.
pub(in crate::cli) fn charged(result: &Value, style: Style) -> String {
    let relics = match result {
        Value::Array(relics) => relics.as_slice(),
        one => match one.get("relics").and_then(Value::as_array) {
            Some(relics) => relics.as_slice(),
            None => std::slice::from_ref(one),
        },
    };
    let line = |charged: &Value| {
        let relic = match at(charged, "/relic") {
            missing if missing == "-" => at(charged, "/id"),
            relic => relic,
        };
        match charged.get("raider").filter(|raider| !raider.is_null()) {
            Some(raider) => format!(
                "{relic} is charged to {}, on branch {}",
                style.paint(Tone::Good, &cell(raider)),
                at(charged, "/branch")
            ),
            // The error that follows says why.
            None if charged.get("error").is_some_and(|error| !error.is_null()) => {
                format!("{relic} is {}", style.paint(Tone::Bad, "not charged"))
            }
            None => format!(
                "{relic} {}: {}",
                style.paint(Tone::Waits, "waits"),
                at(charged, "/note")
            ),
        }
    };
    let mut lines: Vec<_> = relics.iter().map(line).collect();
    let notes = relics.iter().map(|relic| at(relic, "/start/note"));
    lines.extend(notes.filter(|note| note != "-"));
    lines.extend(
        relics
            .iter()
            .filter_map(|relic| auto_charge_hint(relic, style)),
    );
    lines.join("\n")
}

/// Hints that a waiting relic needs `hd charge`, because `auto_charge` is off or paused.
fn auto_charge_hint(charged: &Value, style: Style) -> Option<String> {
    if charged.get("auto_charge")? != &Value::Bool(false) {
        return None;
    }
    let (relic, rig) = (at(charged, "/relic"), at(charged, "/rig"));
    let why = match charged.get("charge_paused") == Some(&Value::Bool(true)) {
        true => "automatic charging is paused",
        false => "auto_charge is off",
    };
    let text =
        format!("{relic} does not start automatically, because {why}: hd charge {relic} {rig}");
    Some(style.paint(Tone::Waits, &text))
}

/// Returns the text of a result: a screen or a log.
pub(in crate::cli) fn text(result: &Value, _: Style) -> String {
    let text = ["text", "screen"].iter().find_map(|key| result.get(*key));
    text.or(Some(result))
        .and_then(Value::as_str)
        .map(clean_lines)
        .unwrap_or_default()
}

/// Returns a session's output unchanged, including control sequences.
pub(in crate::cli) fn raw(result: &Value) -> String {
    let text = result.get("text").and_then(Value::as_str);
    let end = |text: &str| if text.ends_with('\n') { "" } else { "\n" };
    text.map_or_else(String::new, |text| format!("{text}{}", end(text)))
}

/// Returns the end of the output of an automation's run.
pub(in crate::cli) fn run(end: &Value, _: Style) -> String {
    let tail = end.pointer("/data/tail").and_then(Value::as_str);
    clean_lines(tail.unwrap_or_default().trim_end())
}

/// Renders an agent's orders: the supervisor's text if there is one, else the fields.
pub(in crate::cli) fn rally(result: &Value, style: Style) -> String {
    match result.get("text").and_then(Value::as_str) {
        Some(text) => clean_lines(text),
        None => {
            let mut shown = result.clone();
            // The text says everything that the fields say.
            if let Some(text) = shown.pointer_mut("/totem/text").map(Value::take) {
                shown["totem"] = text;
            }
            facts(&shown, style)
        }
    }
}

/// Tells what became of the sessions at a stop.
pub(in crate::cli) fn stopped(result: &Value, _: Style) -> String {
    match result.get("sessions").and_then(Value::as_str) {
        Some("kept") => "stopped; the sessions run on".to_owned(),
        Some("ended") => "stopped; the sessions have ended".to_owned(),
        _ => "stopped".to_owned(),
    }
}
