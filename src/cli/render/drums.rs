//! Drums: inbox, text, and what became of one that was sent.

use crate::cli::output::{Style, Tone};
use crate::control::protocol::answers::{
    AckedDrums, DeliveryState, Drum, DrumHead, Inbox, SentDrum,
};
use crate::domain::drum::Mailbox;

use super::table::{Cell, Table};
use super::words::{cell, clean_lines};

/// Lists an inbox.
pub(in crate::cli) fn inbox(inbox: &Inbox, style: Style) -> String {
    let mut table = Table::new(&["ID", "STATE", "FROM", "SENT", "SUBJECT"]);
    for drum in &inbox.drums {
        let (state, tone) = state(drum);
        table.row(vec![
            cell(&drum.id).into(),
            Cell(state.to_owned(), tone),
            cell(&drum.from).into(),
            cell(&drum.sent).into(),
            cell(&drum.subject).into(),
        ]);
    }
    if table.is_empty() {
        let text = format!("no drums wait for {}", cell(&inbox.name));
        return style.paint(Tone::Faint, &text);
    }
    let shown = inbox.drums.iter().filter(|drum| drum.acked.is_none());
    let more = inbox.waiting.saturating_sub(shown.count() as u64);
    let mut text = table.text(style);
    if more > 0 {
        let more = format!("\n{more} more wait: acknowledge these to see them");
        text.push_str(&style.paint(Tone::Faint, &more));
    }
    text
}

fn state(drum: &DrumHead) -> (&'static str, Tone) {
    match (drum.acked, drum.read) {
        (Some(_), _) => ("acknowledged", Tone::Faint),
        (None, Some(_)) => ("read", Tone::Plain),
        (None, None) => ("unread", Tone::Waits),
    }
}

/// Renders a drum with its text.
pub(in crate::cli) fn drum(drum: &Drum, style: Style) -> String {
    let head = &drum.head;
    let heading = format!("{}  {}", head.id, cell(&head.subject));
    let mut lines = vec![style.paint(Tone::Strong, &heading)];
    let mut field = |name: &str, text: String| {
        if text != "-" {
            let name = style.paint(Tone::Faint, &format!("{name:<7}"));
            lines.push(format!("{name}  {text}"));
        }
    };
    field("from", cell(&head.from));
    field("to", cell(&head.to));
    field("sent", cell(&head.sent));
    field("answers", cell(&head.answers));
    field("state", state(head).0.to_owned());
    if !drum.body.is_empty() {
        lines.push(String::new());
        lines.push(clean_lines(&drum.body));
    }
    lines.join("\n")
}

/// Tells what became of a drum that was sent.
pub(in crate::cli) fn sent(sent: &SentDrum, _: Style) -> String {
    let (id, to) = (sent.drum.id, cell(&sent.drum.to));
    match (sent.delivery.state, &sent.delivery.why) {
        (DeliveryState::Delivered, None) => {
            format!("drum {id} is sent, and the session of {to} is told of it")
        }
        (DeliveryState::Delivered, Some(why)) => {
            let why = cell(why);
            format!("drum {id} is sent, and the session of {to} is told of it; {why}")
        }
        (DeliveryState::Waits, _) if sent.drum.mailbox == Mailbox::People => {
            format!("drum {id} is sent: it waits in the inbox of {to}")
        }
        (DeliveryState::Waits, None) => {
            format!("drum {id} is sent: it waits for the next `hd rally` of {to}")
        }
        (DeliveryState::Waits, Some(why)) => {
            let why = cell(why);
            format!("drum {id} is sent, but waits for the next `hd rally` of {to}: {why}")
        }
    }
}

/// Tells that drums were acknowledged.
pub(in crate::cli) fn acked(told: &AckedDrums, _: Style) -> String {
    match told {
        AckedDrums::One(drum) => format!("drum {} is acknowledged", drum.id),
        AckedDrums::Several(drums) => {
            let ids: Vec<_> = drums.iter().map(|drum| drum.id.to_string()).collect();
            format!("drums {} are acknowledged", ids.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::render::tests::PLAIN;
    use crate::testing::samples::sample;

    #[test]
    fn words_of_a_sender_steer_no_terminal() {
        let head = json!({
            "id": 3, "mailbox": "operator", "from": "horde/raiders/Toast", "to": "operator",
            "subject": "done\u{1b}[2J", "sent": "2026-01-01T00:00:00Z", "read": null, "acked": null,
        });
        let (mut whole, mut sent_one) = (head.clone(), head.clone());
        whole["body"] = json!("all\u{1b}]0;x\u{7} good\u{202e}");
        sent_one["delivery"] = json!({ "state": "waits", "why": null });
        let inbox_of = json!({ "name": "operator", "waiting": 1, "drums": [head] });
        let plain = PLAIN;
        for text in [
            inbox(&sample(inbox_of), plain),
            drum(&sample(whole.clone()), plain),
            sent(&sample(sent_one), plain),
        ] {
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{text:?}");
        }
        assert!(drum(&sample(whole), plain).contains("from     horde/raiders/Toast"));
    }

    #[test]
    fn inbox_says_that_more_drums_wait_than_it_lists() {
        let head = json!({ "mailbox": "operator", "from": "mayor", "subject": "a" });
        let told = json!({ "name": "operator", "waiting": 3, "drums": [head] });
        let text = inbox(&sample(told), PLAIN);
        assert!(text.contains("unread"), "{text}");
        assert!(
            text.ends_with("2 more wait: acknowledge these to see them"),
            "{text}"
        );
        let empty = json!({ "name": "Toast", "waiting": 0, "drums": [] });
        assert_eq!(inbox(&sample(empty), PLAIN), "no drums wait for Toast");
    }
}
