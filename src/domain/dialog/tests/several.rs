//! Lists whose entries are ticked one by one.

use super::super::*;
use super::{DOWN, found};

const CLAUDE: &str = "
←  ☐ Parts  ✔ Submit  →

Which parts shall I build?

{0} 1. [{a}] Server
  The daemon
{1} 2. [{b}] Client
{2} 3. [{c}] Docs
{3} 4. [ ] Type something
     Submit
────────────────
  5. Chat about this

Enter to select · ↑/↓ to navigate · Esc to cancel";

/// A list with these entries ticked.
fn several(selected: usize, ticked: &[usize]) -> Dialog {
    let mut text = CLAUDE.to_owned();
    for at in 0..4 {
        let marker = if at == selected { "❯" } else { " " };
        text = text.replace(&format!("{{{at}}}"), marker);
    }
    for (at, name) in ["a", "b", "c"].into_iter().enumerate() {
        let tick = if ticked.contains(&at) { "✔" } else { " " };
        text = text.replace(&format!("{{{name}}}"), tick);
    }
    found(&text).unwrap()
}

#[test]
fn several_choices_are_ticked_submitted_and_confirmed() {
    let dialog = several(0, &[1]);
    let reply = choose(&dialog, "1, Docs").unwrap();
    assert_eq!(reply, Reply::Several([0, 2].into()));
    let mut answering = Answering::new(dialog.clone(), reply, false);
    let (enter, tab) = (Step::Press(b"\r".to_vec()), Step::Press(b"\t".to_vec()));
    let down = Step::Press(DOWN.to_vec());
    assert_eq!(answering.next(Some(&dialog)), enter);
    // A ticked entry that is not wanted loses its tick.
    assert_eq!(answering.next(Some(&several(0, &[0, 1]))), down);
    assert_eq!(answering.next(Some(&several(1, &[0, 1]))), enter);
    assert_eq!(answering.next(Some(&several(1, &[0]))), down);
    assert_eq!(answering.next(Some(&several(2, &[0]))), enter);
    assert_eq!(answering.next(Some(&several(2, &[0, 2]))), tab);
    let review =
        found("Ready to submit your answers?\n\n❯ 1. Submit answers\n  2. Cancel").unwrap();
    assert_eq!(answering.next(Some(&review)), enter);
    assert_eq!(answering.next(None), Step::Gone);
}

#[test]
fn several_choices_are_not_submitted_when_one_is_not_ticked() {
    let dialog = several(0, &[]);
    let reply = choose(&dialog, "1").unwrap();
    let mut answering = Answering::new(dialog.clone(), reply.clone(), false);
    assert_eq!(answering.next(Some(&dialog)), Step::Press(b"\r".to_vec()));
    assert!(matches!(answering.next(Some(&dialog)), Step::Stuck(_)));
    let mut answering = Answering::new(dialog.clone(), reply, false);
    assert_eq!(answering.next(Some(&dialog)), Step::Press(b"\r".to_vec()));
    assert!(matches!(answering.next(None), Step::Stuck(_)), "closed");
    for (answer, why) in [
        ("4", Unanswerable::NoSuchChoice("4".into())),
        ("1,5", Unanswerable::NoSuchChoice("5".into())),
        ("1,9", Unanswerable::NoSuchChoice("9".into())),
        (",", Unanswerable::NotALine),
    ] {
        assert_eq!(choose(&dialog, answer), Err(why), "{answer}");
    }
    let unknown = found("Which?\n❯ 1. [ ] Red\n  2. [x] Blue").unwrap();
    assert_eq!(choose(&unknown, "1,2"), Err(Unanswerable::Multiple));
}

/// copilot: a dot becomes a tick, and Enter submits.
#[test]
fn several_choices_with_dots_are_ticked_by_space() {
    let list = |selected: usize, ticked: &[usize]| {
        let entry = |(at, label): (usize, &str)| {
            let marker = if at == selected { "❯" } else { " " };
            let tick = if ticked.contains(&at) { "✓" } else { "•" };
            format!(" {marker} {tick} {label}")
        };
        let labels = ["Server", "Client", "Other (type your answer)"];
        let rows: Vec<String> = labels.into_iter().enumerate().map(entry).collect();
        let keys = " ↑/↓ select · space toggle · enter accept · esc cancel";
        found(&format!(
            " Which parts?\n\n Parts:\n{}\n\n{keys}",
            rows.join("\n")
        ))
        .unwrap()
    };
    let dialog = list(0, &[]);
    assert_eq!(
        choose(&dialog, "3"),
        Err(Unanswerable::NoSuchChoice("3".into()))
    );
    let reply = choose(&dialog, "2").unwrap();
    let mut answering = Answering::new(dialog.clone(), reply, false);
    assert_eq!(answering.next(Some(&dialog)), Step::Press(DOWN.to_vec()));
    assert_eq!(
        answering.next(Some(&list(1, &[]))),
        Step::Press(b" ".to_vec())
    );
    assert_eq!(
        answering.next(Some(&list(1, &[1]))),
        Step::Press(b"\r".to_vec())
    );
    assert_eq!(answering.next(None), Step::Gone);
}
