//! Drums: inbox, text, and what became of one that was sent.

use serde_json::Value;

use crate::cli::output::{Style, Tone};
use crate::domain::drum::PEOPLE;

use super::table::{Cell, Table};
use super::words::{at, clean_lines, count};

/// Lists an inbox.
pub(in crate::cli) fn inbox(result: &Value, style: Style) -> String {
    let mut table = Table::new(&["ID", "STATE", "FROM", "SENT", "SUBJECT"]);
    let drums = result.get("drums").and_then(Value::as_array);
    let drums = drums.map_or(&[][..], Vec::as_slice);
    for drum in drums {
        let (state, tone) = state(drum);
        table.row(vec![
            at(drum, "/id").into(),
            Cell(state.to_owned(), tone),
            at(drum, "/from").into(),
            at(drum, "/sent").into(),
            at(drum, "/subject").into(),
        ]);
    }
    let name = at(result, "/name");
    if table.is_empty() {
        return style.paint(Tone::Faint, &format!("no drums wait for {name}"));
    }
    let waiting = count(result, "/waiting");
    let shown = drums.iter().filter(|drum| is_waiting(drum)).count() as u64;
    let mut text = table.text(style);
    if waiting > shown {
        let more = format!(
            "\n{} more wait: acknowledge these to see them",
            waiting - shown
        );
        text.push_str(&style.paint(Tone::Faint, &more));
    }
    text
}

fn is_waiting(drum: &Value) -> bool {
    drum.get("acked").is_none_or(Value::is_null)
}

fn state(drum: &Value) -> (&'static str, Tone) {
    let is_set = |key: &str| drum.get(key).is_some_and(|time| !time.is_null());
    match (is_set("acked"), is_set("read")) {
        (true, _) => ("acknowledged", Tone::Faint),
        (false, true) => ("read", Tone::Plain),
        (false, false) => ("unread", Tone::Waits),
    }
}

/// Renders a drum with its text.
pub(in crate::cli) fn drum(drum: &Value, style: Style) -> String {
    let heading = format!("{}  {}", at(drum, "/id"), at(drum, "/subject"));
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let mut field = |name: &str, text: String| {
        if text != "-" {
            let name = style.paint(Tone::Faint, &format!("{name:<7}"));
            lines.push(format!("{name}  {text}"));
        }
    };
    for (name, pointer) in [
        ("from", "/from"),
        ("to", "/to"),
        ("sent", "/sent"),
        ("answers", "/answers"),
    ] {
        field(name, at(drum, pointer));
    }
    field("state", state(drum).0.to_owned());
    let body = drum.get("body").and_then(Value::as_str).unwrap_or_default();
    if !body.is_empty() {
        lines.push(String::new());
        lines.push(clean_lines(body));
    }
    lines.join("\n")
}

/// Tells what became of a drum that was sent.
pub(in crate::cli) fn sent(drum: &Value, _: Style) -> String {
    let (id, to) = (at(drum, "/id"), at(drum, "/to"));
    let why = at(drum, "/delivery/why");
    let is_people = at(drum, "/mailbox") == PEOPLE;
    match (at(drum, "/delivery/state").as_str(), why.as_str()) {
        ("delivered", _) => format!("drum {id} is sent, and the session of {to} is told of it"),
        (_, _) if is_people => format!("drum {id} is sent: it waits in the inbox of {to}"),
        (_, "-") => format!("drum {id} is sent: it waits for the next `hd rally` of {to}"),
        (_, why) => format!("drum {id} is sent, but waits for the next `hd rally` of {to}: {why}"),
    }
}

/// Tells that a drum was acknowledged.
pub(in crate::cli) fn acked(drum: &Value, _: Style) -> String {
    format!("drum {} is acknowledged", at(drum, "/id"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::render::tests::PLAIN;

    #[test]
    fn words_of_a_sender_steer_no_terminal() {
        let head = json!({
            "id": 3, "mailbox": "operator", "from": "horde/raiders/Toast", "to": "operator",
            "subject": "done\u{1b}[2J", "sent": "2026-01-01T00:00:00Z", "read": null, "acked": null,
            "body": "all\u{1b}]0;x\u{7} good\u{202e}", "delivery": { "state": "waits", "why": null },
        });
        let inbox_of = json!({ "name": "operator", "waiting": 1, "drums": [head] });
        let plain = PLAIN;
        for text in [
            inbox(&inbox_of, plain),
            drum(&head, plain),
            sent(&head, plain),
        ] {
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        }
        assert!(drum(&head, plain).contains("from     horde/raiders/Toast"));
    }

    #[test]
    fn inbox_says_that_more_drums_wait_than_it_lists() {
        let head =
            json!({ "id": 1, "from": "mayor", "subject": "a", "sent": "2026-01-01T00:00:00Z" });
        let text = inbox(
            &json!({ "name": "operator", "waiting": 3, "drums": [head] }),
            PLAIN,
        );
        assert!(text.contains("unread"), "{text}");
        assert!(
            text.ends_with("2 more wait: acknowledge these to see them"),
            "{text}"
        );
        let empty = json!({ "name": "Toast", "waiting": 0, "drums": [] });
        assert_eq!(inbox(&empty, PLAIN), "no drums wait for Toast");
    }
}
