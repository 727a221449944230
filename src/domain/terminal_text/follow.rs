//! Converts output to plain lines as it comes, to follow a session without being its terminal.
//!
//! Keeps no screen. Output elsewhere on the screen is a new line, and only text is left: no control sequence of the
//! program reaches the reader's terminal.

use std::borrow::Cow;

use super::tokens::{Effect, Token, tokens};
use crate::domain::shown;

/// A longer sequence is not waited for.
const SEQUENCE_MAX: usize = 64 * 1024;

/// The output that has not been shown yet.
#[derive(Debug, Default)]
pub struct Following {
    /// The beginning of a sequence or character whose end has not come yet.
    rest: Vec<u8>,
    /// Set when the current line has text.
    in_line: bool,
}

impl Following {
    /// Returns the text of the next part of the output.
    pub fn text(&mut self, output: &[u8]) -> String {
        let mut bytes = std::mem::take(&mut self.rest);
        bytes.extend_from_slice(output);
        let mut text = String::new();
        let mut tokens = tokens(&bytes).peekable();
        while let Some(token) = tokens.next() {
            let whole = match tokens.peek() {
                Some(_) => token.bytes,
                None => self.keep(&token),
            };
            match token.effect {
                Effect::Write | Effect::None if token.bytes[0] != 0x1b => {
                    self.write(&String::from_utf8_lossy(whole), &mut text);
                }
                Effect::Up | Effect::Back | Effect::To(..) | Effect::ToRow(_) => {
                    self.end_line(&mut text);
                }
                Effect::Write
                | Effect::None
                | Effect::Begin
                | Effect::End
                | Effect::Forget
                | Effect::Resize(_) => {}
            }
        }
        match shown::lines(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(safe) => safe,
        }
    }

    /// Keeps the last token if its end has not come; returns the part that can be shown.
    fn keep<'a>(&mut self, last: &Token<'a>) -> &'a [u8] {
        let bytes = last.bytes;
        let shown = match is_open(bytes) {
            true => 0,
            false => match std::str::from_utf8(bytes) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                // The other half of a line end may follow.
                Ok(_) | Err(_) if bytes.ends_with(b"\r") => bytes.len() - 1,
                Ok(_) | Err(_) => bytes.len(),
            },
        };
        self.rest = bytes[shown..].to_vec();
        &bytes[..shown]
    }

    fn write(&mut self, output: &str, text: &mut String) {
        let output = output.replace("\r\n", "\n");
        for c in output.chars() {
            match c {
                '\n' => {
                    text.push('\n');
                    self.in_line = false;
                }
                // Later output overwrites the line.
                '\r' => self.end_line(text),
                // The bell, and steps back over text that is written again.
                '\x07' | '\x08' => {}
                c => {
                    text.push(c);
                    self.in_line = true;
                }
            }
        }
    }

    fn end_line(&mut self, text: &mut String) {
        if std::mem::take(&mut self.in_line) {
            text.push('\n');
        }
    }
}

/// Returns true when the bytes begin a sequence that has not ended.
fn is_open(bytes: &[u8]) -> bool {
    bytes.len() < SEQUENCE_MAX
        && match bytes {
            [0x1b] => true,
            [0x1b, b'[', rest @ ..] => !rest.last().is_some_and(|byte| matches!(byte, 0x40..=0x7e)),
            [0x1b, b']' | b'P' | b'X' | b'^' | b'_', rest @ ..] => {
                !(rest.ends_with(b"\x07") || rest.ends_with(b"\x1b\\"))
            }
            [0x1b, b' '..=b'/', rest @ ..] => rest.is_empty(),
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_that_is_followed_is_text_however_it_is_cut() {
        let output = "one\r\n\x1b[31mred\x1b[0m\x07\r\n\x1b]52;c;eA==\x07\x1b]0;t\x1b\\50 %\r99 %\r\n\
                      \x1b[2J\x1b[3;1Hat\x1b[5;1Hrows\x1b[6n\u{202e}æ\u{9b}31m\r\nend\n";
        let expected = "one\nred\n50 %\n99 %\nat\nrows\\u{202e}æ\\u{9b}31m\nend\n";
        for size in 1..output.len() {
            let mut following = Following::default();
            let parts = output.as_bytes().chunks(size);
            let text: String = parts.map(|part| following.text(part)).collect();
            assert_eq!(text, expected, "in parts of {size}");
        }
    }
}
