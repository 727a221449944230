//! The agent's terminal: lines of text, an input line, and menus as agents draw them.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use horde_supervisor::testing::poll::pass;
use jiff::Timestamp;
use nix::sys::termios::{self, SetArg, Termios};

use super::times::moved;

/// The delay after the end of a limit before a provider takes requests again.
const AFTER: Duration = Duration::from_secs(1);

/// A typed entry.
pub enum Entry {
    /// A text, submitted.
    Text(String),
    /// The end of the input.
    End,
}

/// A key, or a paste.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Char(char),
    Paste(String),
    End,
}

/// The terminal in raw mode with bracketed paste; not raw if it is no terminal.
pub struct Terminal {
    was: Option<Termios>,
    screens: Option<PathBuf>,
}

impl Terminal {
    pub fn open() -> Self {
        let input = std::io::stdin();
        let was = input.is_terminal().then(|| {
            let was = termios::tcgetattr(&input).unwrap();
            let mut raw = was.clone();
            termios::cfmakeraw(&mut raw);
            raw.output_flags = was.output_flags;
            termios::tcsetattr(&input, SetArg::TCSANOW, &raw).unwrap();
            was
        });
        let screens = std::env::var_os(super::SCREENS).map(PathBuf::from);
        let terminal = Self { was, screens };
        if terminal.was.is_some() {
            terminal.write("\x1b[?2004h");
        }
        terminal
    }

    fn write(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).unwrap();
        out.flush().unwrap();
    }

    /// Shows the recorded screen of a real program in this condition, with another end of the limit; false without a
    /// recording.
    fn replay(&self, condition: &str, until: Option<Timestamp>) -> bool {
        let Some(dir) = &self.screens else {
            return false;
        };
        let recorded = std::fs::read_to_string(dir.join(format!("kit-{condition}.raw"))).unwrap();
        let shown = until.map_or(recorded.clone(), |until| moved(&recorded, until));
        self.write(&shown);
        true
    }

    /// Shows a refusal of the provider.
    pub fn refused(&self, condition: &str, text: &str, until: Option<Timestamp>) {
        if !self.replay(condition, until) {
            self.print(text);
        }
    }

    /// Waits for a key, which ends the dialog.
    pub fn dismiss(&self) {
        self.key();
        self.clear();
    }

    /// Waits for that time, then clears the screen.
    pub fn wait_until(&self, until: Timestamp) {
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        pass(left + AFTER);
        self.clear();
    }

    /// Clears the limit from the screen.
    pub fn end_of_limit(&self) {
        self.clear();
    }

    fn clear(&self) {
        self.write("\x1b[?1049l\x1b[2J\x1b[H");
    }

    pub fn print(&self, text: &str) {
        self.write(&format!("{}\n", text.trim_end()));
    }

    /// Shows an input line, and reads an entry.
    pub fn read(&self) -> Entry {
        self.write("> ");
        let mut text = String::new();
        loop {
            match self.key() {
                Key::End => return Entry::End,
                Key::Char('\r' | '\n') if !text.is_empty() => return Entry::Text(text),
                Key::Char('\r' | '\n') => {}
                Key::Char(typed) => text.push(typed),
                Key::Paste(pasted) => text.push_str(&pasted),
            }
        }
    }

    /// Shows a menu and returns the choice: a digit chooses at once, Enter takes the first, pastes are ignored.
    pub fn choose(&self, question: &str, options: &[String]) -> String {
        let rows = options.iter().enumerate().map(|(index, option)| {
            let mark = if index == 0 { '❯' } else { ' ' };
            format!("{mark} {}. {option}\n", index + 1)
        });
        let rows: String = rows.collect();
        if !self.replay("question", None) {
            self.write(&format!(
                "\x1b[2J\x1b[H{question}\n\n{rows}\nEnter to select · Esc to cancel\n"
            ));
        }
        let chosen = loop {
            match self.key() {
                Key::End => std::process::exit(1),
                Key::Char('\r' | '\n') => break 0,
                Key::Char(digit) => {
                    let number = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
                    let index = number.and_then(|number| usize::try_from(number).ok());
                    if let Some(index) = index.filter(|index| *index < options.len()) {
                        break index;
                    }
                }
                Key::Paste(_) => {}
            }
        };
        self.clear();
        format!("The user chose: {}", options[chosen])
    }

    fn key(&self) -> Key {
        read_key(&mut std::io::stdin().lock())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(was) = &self.was {
            self.write("\x1b[?2004l");
            // The terminal may be gone.
            let _gone = termios::tcsetattr(std::io::stdin(), SetArg::TCSANOW, was);
        }
    }
}

const ESCAPE: u8 = 0x1b;
const PASTE: &[u8] = b"\x1b[200~";
const PASTED: &[u8] = b"\x1b[201~";

/// Returns whether these bytes, which begin with Escape, are a whole control sequence.
fn is_whole_sequence(bytes: &[u8]) -> bool {
    match bytes {
        [_] => false,
        [_, b'[' | b'O'] => false,
        [_, b'[', .., last] => (0x40..=0x7e).contains(last),
        [_, b']' | b'P' | b'_', ..] => bytes.ends_with(b"\x07") || bytes.ends_with(b"\x1b\\"),
        _ => true,
    }
}

fn read_key(input: &mut impl Read) -> Key {
    let mut bytes = Vec::new();
    loop {
        let mut byte = [0];
        if input.read(&mut byte).unwrap_or(0) == 0 {
            return Key::End;
        }
        bytes.push(byte[0]);
        if bytes.starts_with(PASTE) {
            if let Some(text) = bytes[PASTE.len()..].strip_suffix(PASTED) {
                return Key::Paste(String::from_utf8_lossy(text).into_owned());
            }
            continue;
        }
        if bytes[0] == ESCAPE {
            // An arrow, or the terminal's answer to the questions of a recording.
            if is_whole_sequence(&bytes) {
                bytes.clear();
            }
            continue;
        }
        if let Ok(text) = std::str::from_utf8(&bytes) {
            return Key::Char(text.chars().next_back().unwrap());
        }
    }
}

#[test]
fn paste_is_one_entry_and_keys_are_their_own() {
    let mut input: &[u8] =
        b"1\x1b[200~two\nlines\x1b[201~\x1b[?62;22c\x1b]11;rgb:00/00/00\x1b\\\x1b[B\xc3\xa9\r";
    let keys = std::iter::from_fn(|| Some(read_key(&mut input)).filter(|key| *key != Key::End));
    let expected = [
        Key::Char('1'),
        Key::Paste("two\nlines".to_owned()),
        Key::Char('é'),
        Key::Char('\r'),
    ];
    assert!(keys.eq(expected));
}
