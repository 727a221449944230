//! Events: one line each, and the story that `hd why` tells.

use serde_json::Value;

use crate::cli::output::{Style, Tone};

use super::words::{at, cell, clean};

/// One event: number, time, type, subject, cause, particulars.
pub(in crate::cli) fn event(event: &Value, style: Style) -> String {
    let kind = at(event, "/type");
    let time = time(&at(event, "/ts"));
    let seq = format!("{:>6}", at(event, "/seq"));
    let mut parts = vec![
        style.paint(Tone::Faint, &seq),
        style.paint(Tone::Faint, &time),
        style.paint(tone(&kind), &format!("{kind:<22}")),
        at(event, "/subject"),
        style.paint(Tone::Faint, &format!("({})", at(event, "/cause"))),
    ];
    let said = particulars(event.get("data").unwrap_or(&Value::Null));
    if !said.is_empty() {
        parts.push(said);
    }
    parts.join("  ")
}

/// The events about one subject, the oldest first.
pub(in crate::cli) fn why(result: &Value, style: Style) -> String {
    let events = result.get("events").and_then(Value::as_array);
    let lines: Vec<_> = events
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .map(|e| event(e, style))
        .collect();
    if lines.is_empty() {
        return style.paint(
            Tone::Faint,
            &format!("no events about {}", at(result, "/subject")),
        );
    }
    let heading = style.paint(Tone::Strong, &at(result, "/subject"));
    format!("{heading}\n{}", lines.join("\n"))
}

/// To the second; the rest is in `--json`.
fn time(ts: &str) -> String {
    match ts.split_once('.') {
        Some((seconds, _)) => format!("{seconds}Z"),
        None => clean(ts),
    }
}

fn tone(kind: &str) -> Tone {
    match kind {
        "raider.merged" | "relic.closed" | "controller.ready" => Tone::Good,
        "agent.crashed"
        | "agent.quarantined"
        | "raider.zombie"
        | "raider.merge_failed"
        | "mr.conflict"
        | "store.degraded"
        | "control.forbidden"
        | "automation.failed"
        | "forge.red" => Tone::Bad,
        "escalation.raised"
        | "raider.stuck"
        | "raider.push_blocked"
        | "raider.needs_input"
        | "mr.held" => Tone::Waits,
        _ => Tone::Plain,
    }
}

/// `key=value`, short ones only: long texts are in `--json`.
fn particulars(data: &Value) -> String {
    const LONG: usize = 60;
    let Some(data) = data.as_object() else {
        return String::new();
    };
    let short = data
        .iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| {
            let mut text = cell(value);
            if text.chars().count() > LONG {
                text = text.chars().take(LONG).chain(['…']).collect();
            }
            format!("{key}={text}")
        });
    short.collect::<Vec<_>>().join(" ")
}
