//! A line that a person who is attached has begun and not submitted: a text that is typed behind it would become one
//! message with it. Followed by the keys alone, so what a program does with them is not known; what is not certain
//! leaves the line begun.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::keys;

/// One key, or one part of a paste, at the start of what was typed.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s-u)\A(?:",
        r"(?P<csi>\x1b\[(?P<numbers>[0-9;:?<>=]*)(?P<last>[\x40-\x7e]))",
        r"|(?P<other>\x1bO.|\x1b.|\x1b)",
        r"|(?P<key>.))",
    ))
    .expect("the pattern is written here and tested")
});

/// What one key does to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    Adds,
    Removes,
    /// The line is submitted, or emptied.
    Ends,
    Pastes(bool),
    Nothing,
}

/// The line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begun {
    /// How many characters stand in it.
    characters: usize,
    /// The end of a paste is still to come: an Enter in it submits nothing.
    pasting: bool,
}

impl Begun {
    /// Whether something stands in the line.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.characters > 0
    }

    /// Takes in keys of a person, and passes over what their terminal says by itself.
    pub fn typed(&mut self, bytes: &[u8]) {
        let bytes = keys::typed(bytes);
        let mut bytes = &*bytes;
        while let Some(found) = KEY.captures(bytes) {
            let length = found.get(0).map_or(bytes.len(), |all| all.len());
            let act = match (found.name("csi"), found.name("key")) {
                (Some(_), _) => {
                    let part = |name| found.name(name).map_or(&b""[..], |part| part.as_bytes());
                    sequence(part("numbers"), part("last"))
                }
                (None, Some(key)) => single(key.as_bytes()[0]),
                (None, None) => Act::Nothing,
            };
            self.take(act);
            bytes = &bytes[length..];
        }
    }

    fn take(&mut self, act: Act) {
        match act {
            Act::Pastes(pasting) => self.pasting = pasting,
            Act::Ends if self.pasting => self.characters += 1,
            Act::Ends => self.characters = 0,
            Act::Adds => self.characters += 1,
            Act::Removes => self.characters = self.characters.saturating_sub(1),
            Act::Nothing => {}
        }
    }

    /// Takes in keys of another hand, which can only submit or empty the line.
    pub fn pressed(&mut self, bytes: &[u8]) {
        let mut after = self.clone();
        after.typed(bytes);
        if !after.is_begun() {
            *self = Self::default();
        }
    }
}

fn single(byte: u8) -> Act {
    match byte {
        // Enter, Ctrl-C, Ctrl-U.
        b'\r' | 0x03 | 0x15 => Act::Ends,
        0x08 | 0x7f => Act::Removes,
        // The further bytes of one character.
        0x80..=0xbf => Act::Nothing,
        0x20.. => Act::Adds,
        _ => Act::Nothing,
    }
}

/// A sequence of a terminal: the marks of a paste, and keys in the extended encodings.
fn sequence(numbers: &[u8], last: &[u8]) -> Act {
    let numbers = String::from_utf8_lossy(numbers);
    let number = |part: Option<&str>| part.and_then(|part| part.split(':').next()?.parse().ok());
    let mut parts = numbers.split(';');
    let parts: [Option<u32>; 3] = std::array::from_fn(|_| number(parts.next()));
    let (key, with) = match (last, parts) {
        (b"~", [Some(200), ..]) => return Act::Pastes(true),
        (b"~", [Some(201), ..]) => return Act::Pastes(false),
        (b"~", [Some(27), with, Some(key)]) | (b"u", [Some(key), with, _]) => (key, with),
        _ => return Act::Nothing,
    };
    // One more than the sum of the keys that are held: Shift 1, Alt 2, Ctrl 4.
    match (key, with.unwrap_or(1)) {
        (13, 1) | (99 | 117, 5) => Act::Ends,
        (127, 1) => Act::Removes,
        (32.., 1 | 2) => Act::Adds,
        _ => Act::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_begun(typed: &[&str]) -> bool {
        let mut line = Begun::default();
        typed.iter().for_each(|keys| line.typed(keys.as_bytes()));
        line.is_begun()
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
        ] {
            assert!(is_begun(&[typed]), "{typed:?}");
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
            "\x1b[A\x1bOB\x1b[5~\t\x1b",
            "\x1b[<35;10;4M",
        ] {
            assert!(!is_begun(&[typed]), "{typed:?}");
        }
        assert!(!is_begun(&["hel", "lo", "\r"]));
    }

    #[test]
    fn enter_in_a_paste_submits_nothing() {
        assert!(is_begun(&["\x1b[200~one\rtwo\x1b[201~"]));
        assert!(is_begun(&["\x1b[200~one\r", "\x1b[201~"]));
        assert!(!is_begun(&["\x1b[200~one\r\x1b[201~", "\r"]));
    }

    #[test]
    fn keys_of_another_hand_end_a_line_and_begin_none() {
        let mut line = Begun::default();
        line.pressed(b"2");
        assert!(!line.is_begun());
        line.typed(b"abc");
        line.pressed(b"2\x1b[B");
        assert!(line.is_begun());
        line.pressed(b"\r");
        assert!(!line.is_begun());
    }
}
