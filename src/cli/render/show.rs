//! A single object in full: its fields line by line, then its longer texts.

use serde::Serialize;
use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{
    Charged, Deps, Event, LogText, Metrics, Raider, Screen, SessionsEnd, Shown, Started,
    StartedRelic, Stopped, WaitingRelic,
};
use crate::domain::doctor::Finding;
use crate::domain::event_data::RunEnded;
use crate::domain::ids::RelicId;
use crate::domain::last_end::LastEnd;

use super::words::{cell, clean_lines, short};

/// Fields that are texts of many lines.
const TEXTS: &[&str] = &[
    "body", "context", "note", "tail", "text", "handoff", "prompt", "totem", "rules", "finish",
];

/// Renders any result: fields, then texts. Objects inside are shown below their name.
/// A caller gives it the answer as it came, so that fields and words of a newer supervisor are shown, too.
pub(in crate::cli) fn facts<T: Serialize>(result: &T, style: Style) -> String {
    fields(&json(result), style)
}

/// Returns a result as JSON, for renderers that list its fields.
fn json(result: &impl Serialize) -> Value {
    serde_json::to_value(result).unwrap_or_default()
}

fn fields(result: &Value, style: Style) -> String {
    let mut lines = Vec::new();
    put(result, 0, style, &mut lines);
    lines.join("\n")
}

/// Renders a raider in the words of the lists.
pub(in crate::cli) fn raider(raider: &Raider, style: Style) -> String {
    let mut shown = json(raider);
    if let Some(fields) = shown.as_object_mut()
        && let Some(deaths) = fields.remove("restarts")
    {
        fields.insert("deaths".to_owned(), deaths);
    }
    fields(&shown, style)
}

/// Renders the findings of `doctor`, a paragraph each.
pub(in crate::cli) fn findings(findings: &[Finding], style: Style) -> String {
    let told = findings.iter().map(|finding| {
        let (fixed, tone) = match finding.fixed {
            true => ("mended: ", Tone::Good),
            false => ("", Tone::Bad),
        };
        let kind = cell(&finding.kind).replace('_', " ");
        let head = style.paint(tone, &format!("{fixed}{kind}"));
        let (subject, says) = (cell(&finding.subject), cell(&finding.says));
        let hint = match finding.fixed {
            true => String::new(),
            false => style.paint(Tone::Faint, &format!("\n  {}", cell(&finding.hint))),
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
            lines.push(format!("{indent}{}", short(value)));
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
        lines.push(format!("{indent}{name}  {}", short(value)));
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
pub(in crate::cli) fn relic(shown: &Shown, style: Style) -> String {
    let relic = shown.relic();
    let heading = format!("{}  {}", relic.id, cell(&relic.title));
    let mut rest = json(shown);
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
        fields(&rest, style)
    )
}

/// Renders what a relic waits for, and what waits for it, a line for each.
pub(in crate::cli) fn deps(told: &Deps, style: Style) -> String {
    let heading = match told.ready {
        true => format!("{} is ready", told.relic),
        false => format!("{} is {}", told.relic, cell(&told.status)),
    };
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let waits_for = told.deps.iter().map(|link| ("waits for", link));
    let is_waited_for = told.dependents.iter();
    let is_waited_for = is_waited_for.map(|link| ("is waited for by", link));
    lines.extend(waits_for.chain(is_waited_for).map(|(name, link)| {
        let (status, title) = (cell(&link.status), cell(&link.title));
        format!("  {name} {} ({status}): {title}", link.id)
    }));
    let more = [
        (told.more_deps, "that it waits for"),
        (told.more_dependents, "that wait for it"),
    ];
    lines.extend(
        more.iter()
            .filter(|(more, _)| *more > 0)
            .map(|(more, which)| {
                let more = format!("  and {more} more {which}: --limit N shows more");
                style.paint(Tone::Faint, &more)
            }),
    );
    lines.join("\n")
}

/// Renders the result of `charge`.
pub(in crate::cli) fn charged(told: &Charged, style: Style) -> String {
    let start = told.start.as_ref();
    let note = start.and_then(|start| start.note.as_ref());
    let note = note.map(|note| format!("\n{}", cell(note)));
    let name = &told.raider.name;
    let slot = told.new_slot.then(|| {
        let text = format!(
            "\n{name} is a new slot: it is not among the `names` of rig {}",
            told.raider.rig
        );
        style.paint(Tone::Waits, &text)
    });
    has_raider(told, style) + &note.unwrap_or_default() + &slot.unwrap_or_default()
}

fn has_raider(told: &Charged, style: Style) -> String {
    format!(
        "{} is charged to {}, on branch {}",
        told.relic,
        style.paint(Tone::Good, told.raider.to_string().as_str()),
        cell(&told.branch)
    )
}

/// Renders the result of `run` for each relic: its raider, or why it has none.
pub(in crate::cli) fn started(told: &Started, style: Style) -> String {
    let relics = || told.relics.iter();
    let line = |relic: &StartedRelic| match relic {
        StartedRelic::Charged(charged) => has_raider(charged, style),
        // The error that follows says why.
        StartedRelic::Failed(failed) => {
            format!(
                "{} is {}",
                failed.relic,
                style.paint(Tone::Bad, "not charged")
            )
        }
        StartedRelic::Waits(waiting) => format!(
            "{} {}: {}",
            waiting.relic,
            style.paint(Tone::Waits, "waits"),
            cell(&waiting.note)
        ),
    };
    let mut lines: Vec<_> = relics().map(line).collect();
    lines.extend(relics().filter_map(|relic| match relic {
        StartedRelic::Charged(charged) => charged.start.as_ref()?.note.as_ref().map(cell),
        StartedRelic::Failed(_) | StartedRelic::Waits(_) => None,
    }));
    lines.extend(relics().filter_map(|relic| match relic {
        StartedRelic::Waits(waiting) => auto_charge_hint(waiting, style),
        StartedRelic::Failed(_) | StartedRelic::Charged(_) => None,
    }));
    lines.join("\n")
}

/// Hints that a waiting relic needs `hd charge`, because `auto_charge` is off or paused.
fn auto_charge_hint(waiting: &WaitingRelic, style: Style) -> Option<String> {
    if waiting.auto_charge || waiting.assignee.is_some() {
        return None;
    }
    let (relic, rig) = (&waiting.relic, &waiting.rig);
    let why = match waiting.charge_paused {
        true => "automatic charging is paused",
        false => "auto_charge is off",
    };
    let deps: Vec<_> = waiting.deps.iter().map(RelicId::as_str).collect();
    let when = match deps.as_slice() {
        [] => String::new(),
        [one] => format!(", when {one} is closed"),
        several => format!(", when {} are closed", several.join(", ")),
    };
    let text = format!(
        "{relic} does not start automatically, because {why}: hd charge {relic} {rig}{when}"
    );
    Some(style.paint(Tone::Waits, &text))
}

/// Renders the text of an answer: a screen, a log, metrics.
pub(in crate::cli) fn text<T: Text>(told: &T, _: Style) -> String {
    clean_lines(told.text())
}

/// An answer that is a text.
pub(in crate::cli) trait Text {
    /// Returns the text.
    fn text(&self) -> &str;
}

impl Text for Screen {
    fn text(&self) -> &str {
        &self.text
    }
}

impl Text for LogText {
    fn text(&self) -> &str {
        &self.text
    }
}

impl Text for Metrics {
    fn text(&self) -> &str {
        &self.text
    }
}

/// Returns a session's output unchanged, including control sequences.
pub(in crate::cli) fn raw(text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{text}{end}")
}

/// Returns the end of the output of an automation's run.
pub(in crate::cli) fn run(end: &Event, _: Style) -> String {
    let tail = end.read::<RunEnded>().map(|ended| ended.tail);
    clean_lines(tail.unwrap_or_default().trim_end())
}

/// Renders an agent's orders: its hook, or all of them.
pub(in crate::cli) fn orders<T: Serialize>(result: &T, style: Style) -> String {
    let mut shown = json(result);
    // The text says everything that the fields say.
    if let Some(text) = shown.pointer_mut("/totem/text").map(Value::take) {
        shown["totem"] = text;
    }
    if let Some(end) = shown.get("last_end").and_then(Value::as_str) {
        let is_noted = shown.get("note").is_some_and(|note| !note.is_null());
        let said = match LastEnd::named(end) {
            Some(LastEnd::Handoff) if !is_noted => {
                format!("{end}: {}, and left no note", LastEnd::Handoff.meaning())
            }
            Some(known) => format!("{end}: {}", known.meaning()),
            // A word of a newer supervisor.
            None => end.to_owned(),
        };
        shown["last_end"] = said.into();
    }
    fields(&shown, style)
}

/// Tells what became of the sessions at a stop.
pub(in crate::cli) fn stopped(told: &Stopped, _: Style) -> String {
    match told.sessions {
        SessionsEnd::Kept => "stopped; the sessions run on".to_owned(),
        SessionsEnd::Ended => "stopped; the sessions have ended".to_owned(),
    }
}
