//! Tracks a line that an attached person has begun and not submitted: text typed after it would become one message with
//! it. Only the keys are followed, so the effect that a program gives them is unknown; in doubt, the line stays begun.

use std::sync::LazyLock;
use std::time::Duration;

use jiff::Timestamp;
use regex::bytes::Regex;

use super::terminal_keys;

/// A key, or a part of a paste, at the start of the typed bytes.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s-u)\A(?:",
        r"(?P<csi>\x1b\[(?P<numbers>[0-9;:?<>=]*)(?P<last>[\x40-\x7e]))",
        r"|\x1bO(?P<arrow>.)|\x1b(?P<alt>[^\x1b])|(?P<escape>\x1b)",
        r"|(?P<key>.))",
    ))
    .expect("the pattern is written here and tested")
});

/// The beginning of a sequence at the end of the received bytes, whose rest is still to come.
static UNFINISHED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s-u)\x1b(?:\[[0-9;:?<>=$]*|\[M.{0,2}|O",
        r"|[\]P_^](?:[^\x07\x1b]|\x1b[^\\])*\x1b?)?\z",
    ))
    .expect("the pattern is written here and tested")
});

/// The time after which an escape that nothing follows counts as a key by itself.
const ESCAPE: Duration = Duration::from_millis(100);
/// The time after which a longer beginning that nothing follows counts as keys.
const REST: Duration = Duration::from_secs(1);
/// The maximum length of a sequence.
const LONGEST: usize = 4096;

/// The effect of a key on a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Adds,
    Removes,
    /// The line is submitted.
    Ends,
    /// Anything in progress is ended, and the line with it.
    Interrupts,
    /// The text before the cursor is removed.
    Empties,
    /// The cursor moves to another place in the line, or to another line.
    Moves,
    /// An earlier line is brought back.
    Recalls,
    Pastes(bool),
    Nothing,
}

/// A line is kept for the person this long after their last key. Then they are taken to have left it: otherwise an
/// agent that no person attends would stand still for the night.
pub const HELD: Duration = Duration::from_secs(10 * 60);

/// The line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypedLine {
    /// The number of characters in it.
    characters: usize,
    /// Set when a key has moved the cursor or recalled the line: it is then unknown how many characters a key removes.
    moved: bool,
    /// Set within a paste, where Enter submits nothing.
    pasting: bool,
    /// The beginning of a sequence whose rest is still to come.
    tail: Vec<u8>,
    /// When its first byte came.
    since: Timestamp,
    /// When the last bytes came.
    came: Timestamp,
    /// Set when the last key was a backslash: Enter then begins another row of the line.
    escaped: bool,
    /// When the last key was typed.
    last: Timestamp,
}

impl TypedLine {
    /// Returns when a key was last typed, if the line is not empty.
    #[must_use]
    pub fn typed_last(&self, now: Timestamp) -> Option<Timestamp> {
        let mut line = self.clone();
        line.give_up_tail(now);
        (line.characters > 0).then_some(line.last)
    }

    /// Counts the beginning of a sequence as keys when its rest does not come.
    fn give_up_tail(&mut self, now: Timestamp) {
        let age = Duration::try_from(now.duration_since(self.since)).unwrap_or_default();
        let patience = if self.tail.len() > 1 { REST } else { ESCAPE };
        if age < patience && self.tail.len() <= LONGEST {
            return;
        }
        let keys = std::mem::take(&mut self.tail);
        if keys.len() > 1 {
            self.take_keys(&keys, self.came);
        }
    }

    /// Records keys of a person, and skips reports that their terminal sends by itself. A sequence may come in parts.
    pub fn typed(&mut self, bytes: &[u8], now: Timestamp) {
        self.give_up_tail(now);
        let mut all = std::mem::take(&mut self.tail);
        let is_begun = !all.is_empty();
        all.extend_from_slice(bytes);
        if let Some(rest) = UNFINISHED.find(&all) {
            if rest.start() > 0 || !is_begun {
                self.since = now;
            }
            self.tail = all.split_off(rest.start());
        }
        self.came = now;
        self.take_keys(&all, now);
    }

    fn take_keys(&mut self, keys: &[u8], now: Timestamp) {
        let typed = terminal_keys::typed(keys);
        let mut bytes = &*typed;
        while let Some(found) = KEY.captures(bytes) {
            let length = found.get(0).map_or(bytes.len(), |all| all.len());
            let part = |name| found.name(name).map(|part| part.as_bytes());
            let act = match (part("last"), part("arrow").or(part("alt")), part("key")) {
                (Some(last), ..) => sequence(part("numbers").unwrap_or_default(), last),
                (_, Some(byte), _) if part("arrow").is_some() => sequence(b"", byte),
                (_, Some(byte), _) => with_alt(byte[0]),
                (.., Some(key)) => single(key[0]),
                _ => Act::Nothing,
            };
            let act = match act {
                Act::Ends if self.escaped => Act::Adds,
                act => act,
            };
            self.take(act);
            self.escaped = part("key") == Some(b"\\");
            bytes = &bytes[length..];
        }
        if !typed.is_empty() {
            self.last = now;
        }
    }

    fn take(&mut self, act: Act) {
        match act {
            Act::Pastes(pasting) => self.pasting = pasting,
            Act::Ends | Act::Empties if self.pasting => self.characters += 1,
            Act::Ends | Act::Interrupts => {
                (self.characters, self.moved, self.pasting) = (0, false, false);
            }
            Act::Removes | Act::Empties if self.moved => {}
            Act::Empties => self.characters = 0,
            Act::Adds => self.characters += 1,
            Act::Removes => self.characters = self.characters.saturating_sub(1),
            Act::Moves => self.moved = self.characters > 0,
            Act::Recalls => (self.characters, self.moved) = (self.characters.max(1), true),
            Act::Nothing => {}
        }
    }

    /// Records keys of another sender, which can only submit or empty the line.
    pub fn pressed(&mut self, bytes: &[u8]) {
        let mut after = self.clone();
        let tail = std::mem::take(&mut after.tail);
        after.take_keys(&tail, self.came);
        after.take_keys(bytes, self.came);
        if after.characters == 0 {
            *self = Self::default();
        }
    }
}

fn single(byte: u8) -> Act {
    match byte {
        b'\r' => Act::Ends,
        // Ctrl-C, Ctrl-U.
        0x03 => Act::Interrupts,
        0x15 => Act::Empties,
        0x08 | 0x7f => Act::Removes,
        // Ctrl-A, B, E, F, N and Tab, which may also complete the text.
        0x01 | 0x02 | 0x05 | 0x06 | 0x0e | b'\t' => Act::Moves,
        // Ctrl-P and R recall an earlier line, Ctrl-Y the text that was cut.
        0x10 | 0x12 | 0x19 => Act::Recalls,
        // Continuation bytes of one character.
        0x80..=0xbf => Act::Nothing,
        0x20.. => Act::Adds,
        _ => Act::Nothing,
    }
}

/// Returns the effect of a key with Alt.
fn with_alt(byte: u8) -> Act {
    match byte {
        b'\r' => Act::Adds,
        0x03 => Act::Interrupts,
        0x20..=0x7e => Act::Moves,
        _ => Act::Nothing,
    }
}

/// A sequence of a terminal: arrows, the marks of a paste, and keys in the extended encodings.
fn sequence(numbers: &[u8], last: &[u8]) -> Act {
    let numbers = String::from_utf8_lossy(numbers);
    let number = |part: Option<&str>| part.and_then(|part| part.split(':').next()?.parse().ok());
    let mut parts = numbers.split(';');
    let parts: [Option<u32>; 3] = std::array::from_fn(|_| number(parts.next()));
    let (key, with) = match (last, parts) {
        (b"A", _) => return Act::Recalls,
        (b"B" | b"C" | b"D" | b"F" | b"H", _) => return Act::Moves,
        (b"~", [Some(1 | 4 | 7 | 8), ..]) => return Act::Moves,
        (b"~", [Some(200), ..]) => return Act::Pastes(true),
        (b"~", [Some(201), ..]) => return Act::Pastes(false),
        (b"~", [Some(27), with, Some(key)]) | (b"u", [Some(key), with, _]) => (key, with),
        _ => return Act::Nothing,
    };
    // The second number is one more than the sum of the held modifiers: Shift 1, Alt 2, Ctrl 4.
    match (key, with.unwrap_or(1)) {
        (13, 1) => Act::Ends,
        (13, _) => Act::Adds,
        (127, 1) => Act::Removes,
        (9, 1) => Act::Moves,
        (97..=122, 5) => single(u8::try_from(key & 0x1f).unwrap_or_default()),
        // Keys that are no characters have numbers of a private range.
        (57344..=63743, _) => Act::Nothing,
        (32.., 1 | 2) => Act::Adds,
        (32.., 3) => Act::Moves,
        _ => Act::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn is_begun(typed: &[&[u8]]) -> bool {
        let mut line = TypedLine::default();
        typed.iter().for_each(|keys| line.typed(keys, NOW));
        line.typed_last(NOW).is_some()
    }

    /// Checks that the line is begun after these keys, in whatever reads they come.
    #[track_caller]
    fn check(typed: &str, expected: bool) {
        let bytes = typed.as_bytes();
        assert_eq!(is_begun(&[bytes]), expected, "{typed:?}");
        for at in 0..bytes.len() {
            let (one, two) = bytes.split_at(at);
            assert_eq!(is_begun(&[one, two]), expected, "{typed:?} cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(is_begun(&single), expected, "{typed:?} in single bytes");
    }

    #[test]
    fn line_is_begun_by_a_character_and_ended_by_enter_ctrl_c_and_ctrl_u() {
        for typed in [
            "h",
            "hello",
            "é",
            "a\rb",
            "\x1b[97u",
            "ab\x7f",
            "a\x1b\r",
            "a\x1b[13;2u",
            "a\n",
            "\x1b\x1b[Ba",
            // claude goes to the next row then.
            "a\\\r",
            "\\\rb\x7f",
        ] {
            check(typed, true);
        }
        for typed in [
            "",
            "hello\r",
            "a\x03",
            "a\x15",
            "é\x7f",
            "ab\x7f\x08",
            "a\x1b[13u",
            "a\x1b[99;5u",
            "a\x1b[27;5;117~",
            "\x1b[B\x1bOB\x1b[5~\t\x1b",
            "\x1b\x1b[B",
            "\\a\r",
            "\\\r\r",
            "\x1b[<35;10;4M",
            "\x1b[57441;2u",
            "\x1b[M !!\x1b[I\x1b]11;rgb:0000/0000/0000\x1b\\\x1bP1+r\x1b\\\x1b[?2026;2$y",
        ] {
            check(typed, false);
        }
    }

    #[test]
    fn enter_in_a_paste_submits_nothing_and_ctrl_c_ends_it() {
        check("\x1b[200~one\rtwo\x1b[201~", true);
        check("\x1b[200~one\r\x1b[201~", true);
        check("\x1b[200~one\r\x1b[201~\r", false);
        check("\x1b[200~one\r\x03", false);
        check("\x1b[200~one\r\x03two\r", false);
    }

    /// The number of characters before the cursor is unknown then.
    #[test]
    fn after_a_key_that_moves_only_enter_and_ctrl_c_end_the_line() {
        for moved in [
            "ab\x1b[D",
            "ab\x1bOD",
            "ab\x1b[1;5D",
            "ab\x01",
            "ab\x1bb",
            "ab\t",
            "\x1b[A",
            "\x1bOA",
            "\x10",
            "\x1b[112;5u",
        ] {
            for end in ["", "\x15", "\x7f\x7f\x7f", "\x1b[117;5u"] {
                check(&format!("{moved}{end}"), true);
            }
            for end in ["\r", "\x03", "\x1b[13u", "\x15\r"] {
                check(&format!("{moved}{end}"), false);
            }
        }
        check("ab\x1b[D\rc\x7f", false);
    }

    /// Later bytes are no part of a sequence that Escape began.
    #[test]
    fn escape_is_a_key_by_itself_when_nothing_follows_it_at_once() {
        let mut line = TypedLine::default();
        line.typed(b"a\x1b", NOW);
        line.typed(b"\r", NOW + Duration::from_millis(300));
        assert_eq!(line.typed_last(NOW), None);
    }

    /// Alt-Shift-P, and words: they do not continue a report of a terminal.
    #[test]
    fn words_behind_the_beginning_of_a_sequence_are_a_line() {
        let at = |millis| NOW + Duration::from_millis(millis);
        let mut line = TypedLine::default();
        line.typed(b"\x1bP", at(0));
        line.typed(b"fix", at(200));
        line.typed(b" the bug", at(900));
        line.typed(b" now", at(1800));
        assert_eq!(line.typed_last(at(1800)), Some(at(1800)));
        let mut line = TypedLine::default();
        line.typed(b"\x1bPfix", at(0));
        assert_eq!(line.typed_last(at(999)), None, "it may be a report");
        assert_eq!(line.typed_last(at(1000)), Some(at(0)));
    }

    #[test]
    fn line_says_when_a_key_was_typed_last() {
        let at = |seconds| NOW + Duration::from_secs(seconds);
        let mut line = TypedLine::default();
        line.typed(b"a", at(1));
        line.typed(b"b", at(2));
        line.typed(b"\x1b[I", at(3));
        assert_eq!(line.typed_last(at(3)), Some(at(2)));
        line.typed(b"\rc", at(4));
        assert_eq!(line.typed_last(at(4)), Some(at(4)));
    }

    #[test]
    fn keys_of_another_hand_end_a_line_and_begin_none() {
        let mut line = TypedLine::default();
        line.pressed(b"2");
        assert_eq!(line.typed_last(NOW), None);
        line.typed(b"abc", NOW);
        line.pressed(b"2\x1b[B");
        assert!(line.typed_last(NOW).is_some());
        line.pressed(b"\r");
        assert_eq!(line.typed_last(NOW), None);
    }
}
