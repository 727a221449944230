//! Recordings of the real programs' terminals (`tests/data/harness/<program>-<version>/<case>.raw`, 50 rows, 200
//! columns), judged by the patterns of their presets. All results are pinned: a pattern that no longer recognises a
//! screen, or takes a screen for another, shows as a changed line.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::SampleDir;
use crate::adapters::sessions::holder::view_of;
use crate::domain::city::Harness;
use crate::domain::condition::{Condition, judge};
use crate::domain::dialog::{Answering, Readiness, Step, Unanswerable, choose, find, readiness};
use crate::domain::ids::HarnessName;

/// The size of a session's terminal.
const SIZE: (u16, u16) = (50, 200);

/// Describes the judgement of a screen in a line.
fn line(harness: &Harness, recording: &Path) -> String {
    let bytes = fs::read(recording).unwrap();
    let view = view_of(&bytes, SIZE.0, SIZE.1);
    let now: Timestamp = "2026-11-23T10:00:00Z".parse().unwrap();
    let sighting = judge(&harness.patterns, &view, now, &TimeZone::UTC);
    let shown = match &sighting.condition {
        None if sighting.goes_on => "goes on".to_owned(),
        None => "nothing".to_owned(),
        Some(Condition::NeedsInput { question, choices }) => {
            format!("asks {question:?} {choices:?}")
        }
        Some(Condition::RateLimited { text, until }) => {
            let until = until.map_or("unknown".to_owned(), |until| until.to_string());
            format!("limited until {until}: {text}")
        }
        Some(Condition::Auth { text }) => format!("login: {text}"),
        Some(other) => format!("{}: {}", other.word(), other.text()),
    };
    let text = match readiness(&harness.patterns.looks(), &view) {
        Readiness::Ready => "text",
        Readiness::Asks(_) => "dialog",
        Readiness::Unrecognised => "unrecognised",
    };
    format!("{text}, {shown}")
}

/// codex names a key for each choice beside its number. A letter of an answer in words must not be taken for such a
/// key.
#[test]
fn dialogs_of_codex_are_answered_by_their_numbers_and_take_no_letters_for_words() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let harness = &city.harnesses[&HarnessName::new("codex").unwrap()];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness/codex-0.169.0");
    let dialog = |case: &str| {
        let bytes = fs::read(root.join(format!("{case}.raw"))).unwrap();
        let view = view_of(&bytes, SIZE.0, SIZE.1);
        find(&harness.patterns.looks(), &view).unwrap()
    };
    let keys = |case: &str, answer: &str| {
        let dialog = dialog(case);
        let reply = choose(&dialog, answer);
        let mut answering = Answering::new(dialog.clone(), reply.unwrap(), false);
        answering.next(Some(&dialog))
    };
    for (case, answer, pressed) in [
        // The first entry is selected.
        ("approval-command", "y", "\r"),
        ("approval-command", "1", "\r"),
        ("approval-command", "p", "2"),
        ("approval-command", "2", "2"),
        ("approval-command", "esc", "3"),
        ("approval-command", "No, and", "3"),
        // The third entry is selected.
        ("daemon-features", "2", "2"),
        ("daemon-features", "cancel", "\r"),
        ("first-start-login", "2", "2"),
        ("first-start-login", "Sign in with Device", "2"),
        ("first-start-trust", "1", "\r"),
        ("first-start-hooks", "Trust all", "2"),
        ("question", "Blue", "3"),
    ] {
        let expected = Step::Press(pressed.as_bytes().to_vec());
        assert_eq!(keys(case, answer), expected, "{case} {answer}");
    }
    for answer in ["python, please", "do it elsewhere"] {
        let refused = choose(&dialog("approval-command"), answer);
        let no_such = Unanswerable::NoSuchChoice(answer.to_owned());
        assert_eq!(refused, Err(no_such));
    }
}

#[test]
fn screens_of_the_real_programs_are_recognised() {
    let place = SampleDir::new();
    let city = place.load("workspace.name = \"c\"").unwrap().city;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/harness");
    let mut lines = Vec::new();
    let sorted = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    for program in sorted(&root).into_iter().filter(|path| path.is_dir()) {
        let name = program.file_name().unwrap().to_str().unwrap();
        let (harness, _version) = name.split_once('-').unwrap();
        let harness = &city.harnesses[&HarnessName::new(harness).unwrap()];
        for recording in sorted(&program) {
            let case = recording.file_stem().unwrap().to_str().unwrap();
            lines.push(format!("{name} {case}: {}", line(harness, &recording)));
        }
    }
    assert!(lines.len() > 50, "the recordings are there");
    super::golden("valid", "recordings", &lines.join("\n"));
}
