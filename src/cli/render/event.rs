//! Events: one line each, and the story that `hd why` tells.

use serde_json::{Value, json};

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{Event, Story};
use crate::domain::cause::Cause;
use crate::domain::event::EventType;

use super::words::{cell, clean, clean_lines, cut, end, short};

/// Renders an event in a line: number, time, type, subject, cause, particulars.
pub(in crate::cli) fn event(event: &Event, style: Style) -> String {
    let kind = cell(&event.kind);
    let time = cell(&event.ts);
    let seq = format!("{:>6}", event.seq);
    let (subject, cause) = (cell(&event.subject), format!("({})", cause(event)));
    let plain = format!("{seq}  {time}  {kind:<22}  {subject}  {cause}  ");
    // Only the particulars are shortened; a line that is too long without them stays too long.
    let left = style
        .width
        .map(|columns| columns.saturating_sub(plain.chars().count()));
    let said = match left {
        Some(..4) => String::new(),
        left => particulars(&event.data, left.unwrap_or(usize::MAX)),
    };
    let mut parts = vec![
        style.paint(Tone::Faint, &seq),
        style.paint(Tone::Faint, &time),
        style.paint(tone(event), &format!("{kind:<22}")),
        subject,
        style.paint(Tone::Faint, &cause),
    ];
    if !said.is_empty() {
        parts.push(said);
    }
    parts.join("  ")
}

/// Returns the name of the cause; where the name alone misleads, also the meaning.
fn cause(event: &Event) -> String {
    let name = cell(&event.cause);
    match event.cause_known() {
        // The merge request stays in the queue.
        Some(Cause::MergeFailed) if event.known() == Some(EventType::MrHeld) => {
            format!("{name}: the forge retries it")
        }
        Some(cause @ (Cause::Vanished | Cause::Unanswered)) => {
            let meaning = cause.meaning().trim_end_matches('.');
            format!("{name}: {}", meaning.to_lowercase())
        }
        _ => name,
    }
}

/// Texts of an event that are told whole in its story.
const WHOLE: [&str; 4] = ["why", "error", "reason", "note"];

/// Lists the long texts of an event that its line could not show in full.
fn rest(event: &Event, line: &str, style: Style) -> Vec<String> {
    let texts = WHOLE.iter().filter_map(|key| {
        let text = event.data.get(key)?.as_str()?;
        let shown = format!("{key}={}", quoted(&clean(text)));
        let whole = clean_lines(text).replace('\n', "\n          ");
        (!line.contains(&shown))
            .then(|| style.paint(Tone::Faint, &format!("        {key}: {whole}")))
    });
    texts.collect()
}

/// The events about one subject, the oldest first.
pub(in crate::cli) fn why(story: &Story, style: Style) -> String {
    let lines: Vec<_> = story
        .events
        .iter()
        .flat_map(|e| {
            let line = event(e, style);
            let rest = rest(e, &line, style);
            [vec![line], rest].concat()
        })
        .collect();
    let subject = cell(&story.subject);
    if lines.is_empty() {
        return style.paint(Tone::Faint, &format!("no events about {subject}"));
    }
    let heading = style.paint(Tone::Strong, &subject);
    let waits = story.waits.as_ref();
    let waits = waits.map(|waits| format!("\n{}", style.paint(Tone::Waits, &clean(waits))));
    let cut = story.first_kept;
    let cut = cut.map(|first| format!("\nevents before {first} were deleted by retention"));
    let cut = cut.map(|cut| style.paint(Tone::Faint, &cut));
    let cut = cut.unwrap_or_default();
    format!(
        "{heading}{cut}\n{}{}",
        lines.join("\n"),
        waits.unwrap_or_default()
    )
}

fn tone(event: &Event) -> Tone {
    let Some(kind) = event.known() else {
        return Tone::Plain;
    };
    match kind {
        EventType::RaiderMerged | EventType::RelicClosed | EventType::ControllerReady => Tone::Good,
        EventType::AgentCrashed
        | EventType::AgentQuarantined
        | EventType::RaiderZombie
        | EventType::RaiderStalled
        | EventType::RaiderHomeless
        | EventType::RaiderDoneRefused
        | EventType::RaiderMergeFailed
        | EventType::MrConflict
        | EventType::StoreDegraded
        | EventType::GroundLost
        | EventType::ControlForbidden
        | EventType::AutomationFailed
        | EventType::ForgeRed => Tone::Bad,
        EventType::EscalationRaised
        | EventType::RaiderStuck
        | EventType::RaiderPushBlocked
        | EventType::RaiderNeedsInput
        | EventType::RaiderUnclear
        | EventType::MrHeld => Tone::Waits,
        _ => Tone::Plain,
    }
}

/// Lists objects by action, as `restart clock, start mayor`; objects without an action are left out.
fn in_words(value: &Value) -> String {
    let Some(items) = value.as_array() else {
        return short(value);
    };
    let concerned = items.iter().filter(|item| item["action"] != "none");
    let words = concerned.map(|item| match item.as_object() {
        Some(object) => object.values().map(short).collect::<Vec<_>>().join(" "),
        None => short(item),
    });
    match words.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "-".to_owned(),
        words => words,
    }
}

/// Returns false for an empty field, for the number of repeated notices when there were none, for the kind of the
/// caller: the cause says it, and `by` names it; and for the choice of a harness: `why` says it.
fn says_something(key: &str, value: &Value) -> bool {
    key != "asker"
        && key != "choice"
        && !value.is_null()
        && *value != json!([])
        && !(key == "again" && *value == json!(0))
}

/// Returns a field's value in words.
fn field(key: &str, value: &Value) -> String {
    let words = match (key, value.as_str()) {
        ("how", Some("Already")) => "had ended before",
        ("how", Some("Gracefully")) => "within the grace period",
        ("how", Some("Killed")) => "killed after the grace period",
        _ => return in_words(value),
    };
    words.to_owned()
}

/// Quotes a text of several words: an agent's text could else pass for further fields.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && c != '=' && c != '"';
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("\"{}\"", text.replace('"', "\\\"")),
    }
}

/// Renders the short fields as `key=value`: long texts and whole hashes are in `--json`. Of an output the end is shown,
/// because it says most.
fn particulars(data: &Value, left: usize) -> String {
    const LONG: usize = 61;
    const HASH: usize = 12;
    const TAIL: &str = "tail";
    let Some(data) = data.as_object() else {
        return String::new();
    };
    let is_hash = |text: &str| text.len() >= 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let fields = data
        .iter()
        .filter(|(key, value)| says_something(key, value) && *key != TAIL)
        .map(|(key, value)| match field(key, value) {
            hash if is_hash(&hash) => format!("{key}={}", &hash[..HASH]),
            text => format!("{key}={}", quoted(&cut(&text, LONG))),
        });
    let mut said = cut(&fields.collect::<Vec<_>>().join(" "), left);
    let room = left.saturating_sub(said.chars().count() + " tail=\"\"".len());
    if let Some(tail) = data.get(TAIL).filter(|tail| !tail.is_null() && room > 3) {
        let gap = if said.is_empty() { "" } else { " " };
        let end = end(&short(tail), room.min(LONG));
        said.push_str(&format!("{gap}{TAIL}={}", quoted(&end)));
    }
    said
}
