//! Reconstructed screens: recordings of real programs (50 rows, 200 columns), and the rules one by one.

use std::collections::HashSet;
use std::fs;

use proptest::prelude::*;

use super::*;
use crate::domain::ids::{Generation, Incarnation};
use crate::domain::terminal_log::{mark, screen_mark, size_mark};
use crate::testing::tier::by_tier;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/harness");
const ALL: usize = usize::MAX;

fn seen(output: &str) -> String {
    text(output.as_bytes(), false, ALL)
}

/// Recordings of real programs' terminals, for each way of drawing.
const RECORDINGS: &[&str] = &[
    "aider-0.86.2/question-run-shell",
    "claude-2.1.197/permission-bash",
    "claude-2.1.197/working-tool",
    "codex-0.169.0/approval-command",
    "codex-0.169.0/limit-retrying",
    "copilot-1.0.102/permission-shell",
    "gemini-0.61.0/approval-edit",
    "opencode-1.18.33/error-oc403",
    "pi-0.73.1/working-tool",
];

fn recordings() -> impl Iterator<Item = (String, Vec<u8>)> {
    RECORDINGS.iter().map(|name| {
        let output = fs::read(format!("{DATA}/{name}.raw")).unwrap();
        (name.replace('/', "-"), output)
    })
}

#[test]
fn recordings_of_real_programs_read_as_a_person_saw_them() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/data/transcripts"
    ));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for (name, output) in recordings() {
            insta::assert_snapshot!(name, text(&output, false, ALL));
        }
    });
}

/// A log is a ring: its beginning may be anywhere.
#[test]
fn a_log_that_is_cut_anywhere_shows_no_line_that_was_never_on_the_screen() {
    for (name, output) in recordings() {
        if output.len() > 10_000 {
            continue;
        }
        let mut terminal = Terminal::blank(SIZE);
        let mut rows = HashSet::new();
        for token in tokens(&output) {
            for byte in token.bytes {
                terminal.show(&[*byte]);
            }
            let frame = terminal.frame();
            let all = frame.scrolled.into_iter().chain(frame.rows);
            rows.extend(all.map(|row| row.text.trim_end().to_owned()));
        }
        for start in (0..output.len()).step_by(by_tier(2_657, 331)) {
            let shown = text(&output[start..], true, ALL);
            let lines = shown.lines().filter(|line| line.chars().count() < 200);
            for line in lines.map(str::trim_end).filter(|line| !line.is_empty()) {
                assert!(rows.contains(line), "{name} from {start}: {line:?}");
            }
        }
    }
}

#[test]
fn a_program_that_prints_is_read_from_its_first_line_to_its_last() {
    let lines: String = (1..=120).map(|n| format!("line {n}\r\n")).collect();
    let expected: String = (1..=120).map(|n| format!("line {n}\n")).collect();
    assert_eq!(seen(&lines), expected);
    // Equal lines count separately.
    assert_eq!(seen(&"ok\r\n".repeat(70)), "ok\n".repeat(70));
}

#[test]
fn a_line_that_the_terminal_wraps_is_one_and_keeps_its_spaces() {
    let words = "some words ".repeat(40);
    let text = seen(&format!("{words}end\r\nnext\r\n"));
    assert_eq!(text, format!("{words}end\nnext\n"));
    let scrolled = "\r\n".repeat(60);
    let text = seen(&format!("{words}end\r\nnext{scrolled}last"));
    assert!(text.starts_with(&format!("{words}end\nnext\n")), "{text}");
}

#[test]
fn words_that_the_cursor_was_moved_between_keep_their_distance() {
    assert_eq!(
        seen("Unable\x1b[1Cto\x1b[1Cconnect\x1b[20Gnow"),
        "Unable to connect  now\n"
    );
}

#[test]
fn spinner_is_one_line_and_replaced_text_is_there_once() {
    let mut output = "> fix it\r\n".to_owned();
    for n in 0..200 {
        let glyph = ['⠋', '⠙', '⠹', '⠸'][n % 4];
        output.push_str(&format!(
            "\x1b[2K{glyph} Working… ({n}s)\r\n  step {n} of 200\r\n\x1b[2A"
        ));
    }
    output.push_str("\x1b[JDone: it was a typo\r\n");
    let text = seen(&output);
    assert_eq!(text.matches("Working").count(), 1, "{text}");
    assert_eq!(text.matches("step").count(), 1, "{text}");
    assert!(
        text.starts_with("> fix it\n") && text.contains("(199s)"),
        "{text}"
    );
    assert!(text.contains("Done: it was a typo\n"), "{text}");
}

#[test]
fn text_that_a_dialog_hides_for_a_while_is_there_once_and_so_is_the_dialog() {
    let page = "first line\r\nsecond line\r\nthird line\r\n";
    let dialog = "Do you want to proceed?\r\n> 1. Yes\r\n  2. No\r\n";
    let moved = "\x1b[2A  1. Yes\r\n> 2. No\r\n";
    let output =
        format!("\x1b[?1049h\x1b[H{page}\x1b[H\x1b[J{dialog}{moved}\x1b[H\x1b[J{page}more\r\n");
    let text = seen(&output);
    for line in [
        "first line",
        "third line",
        "proceed?",
        "1. Yes",
        "2. No",
        "more",
    ] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
    assert!(
        text.ends_with("first line\nsecond line\nthird line\nmore\n"),
        "{text}"
    );
}

#[test]
fn text_of_a_cleared_or_left_screen_is_still_there() {
    let text = seen("before\r\n\x1b[?1049h\x1b[Hin the program\x1b[?1049lafter\r\n");
    for line in ["before", "in the program", "after"] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
    let text = seen("one\r\ntwo\r\n\x1b[H\x1b[2Jthree\r\n");
    assert_eq!(text, "one\ntwo\nthree\n");
}

#[test]
fn a_conversation_that_is_written_again_from_the_start_is_there_once() {
    let page: String = (1..=80).map(|n| format!("said {n}\r\n")).collect();
    let again = "\x1b[2J\x1b[3J\x1b[H";
    let text = seen(&format!("{page}{again}{page}{again}{page}said 81\r\n"));
    let expected: String = (1..=81).map(|n| format!("said {n}\n")).collect();
    assert_eq!(text, expected);
}

#[test]
fn an_animation_is_no_text() {
    let mut output = "\x1b[?1049h".to_owned();
    for n in 0..40_u32 {
        let art = |row: u32| {
            char::from(b'a' + u8::try_from((n * 7 + row * 5) % 26).unwrap())
                .to_string()
                .repeat(9)
        };
        let rows: String = (0..5)
            .map(|row| format!("\x1b[{};1H{}", row + 1, art(row)))
            .collect();
        output.push_str(&format!("\x1b[?2026h{rows}\x1b[9;1HWelcome\x1b[?2026l"));
    }
    let text = seen(&output);
    assert!(text.contains("Welcome"));
    assert!(
        text.lines().filter(|line| !line.is_empty()).count() <= 6,
        "{text}"
    );
}

#[test]
fn a_frame_counts_when_the_program_says_that_it_is_complete() {
    let half = "\x1b[?2026h\x1b[Hhalf a\x1b[2;1H\x1b[1A\x1b[Hwhole line\x1b[?2026l";
    let text = seen(&format!(
        "{half}\x1b[?2026h\x1b[H\x1b[2Kother line\x1b[?2026l"
    ));
    assert_eq!(text, "whole line\nother line\n");
}

#[test]
fn text_is_drawn_on_a_terminal_of_the_size_that_the_log_tells() {
    let narrow = size_mark((10, 20));
    let output = format!("{narrow}\x1b[10;1Hlast row\x1b[1;20H|\x1b[2;1Hx");
    let text = seen(&output);
    assert_eq!(text, "                   |\nx\n\n\nlast row\n");
}

#[test]
fn a_cut_log_is_read_from_where_the_whole_screen_was_painted() {
    let painted = format!(
        "{}\x1b[?1049h\x1b[H\x1b[Jknown row\r\nother row",
        screen_mark((5, 40))
    );
    let output = format!("\x1b[3;7Hfragment{painted}\x1b[2;1H\x1b[Kchanged");
    let text = text(output.as_bytes(), true, ALL);
    assert_eq!(text, "known row\nother row\nchanged\n");
}

#[test]
fn each_session_of_a_log_stands_below_its_title() {
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    let second = mark(Incarnation(1), Generation(2), None, since);
    let text = seen(&format!("\x1b[?1049h\x1b[5;5Hone{second}two\r\n"));
    let expected = "    one\n--- session 2 of incarnation 1, since 2026-01-01T00:00:00Z ---\ntwo\n";
    assert_eq!(text, expected);
}

#[test]
fn the_end_of_a_long_text_is_given_in_whole_lines() {
    let lines: String = (1..=9).map(|n| format!("line {n}\r\n")).collect();
    assert_eq!(text(lines.as_bytes(), false, 14), "line 8\nline 9\n");
    assert_eq!(text(lines.as_bytes(), false, 20), "line 8\nline 9\n");
    assert_eq!(text("ä".repeat(9).as_bytes(), false, 4), "ä\n");
}

proptest! {
    #[test]
    fn no_output_breaks_the_reader_or_its_limit(
        output in proptest::collection::vec(any::<u8>(), 0..600),
        is_cut in any::<bool>(),
        most in 0_usize..400,
    ) {
        let text = text(&output, is_cut, most);
        prop_assert!(text.len() <= most);
        let has_escape = text.contains(char::from(0x1b));
        prop_assert!(!has_escape);
    }
}
