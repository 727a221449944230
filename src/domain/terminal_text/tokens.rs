//! Splits a program's output into runs of text and control sequences, each with its effect on the text on the screen.

use crate::domain::terminal_log;

const ESCAPE: u8 = 0x1b;

/// A run of text, or one control sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// The bytes, for the terminal.
    pub bytes: &'a [u8],
    /// Their effect.
    pub effect: Effect,
}

/// The effect of a token on the text on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Writes visible text.
    Write,
    /// None that matters to a reader.
    None,
    /// Moves the cursor up.
    Up,
    /// Moves the cursor back in another way, or removes text.
    Back,
    /// Moves the cursor to this row and column, counted from 0.
    To(u16, u16),
    /// Moves the cursor to this row, counted from 0.
    ToRow(u16),
    /// Begins a frame that is complete only at its end (synchronised output).
    Begin,
    /// Ends such a frame.
    End,
    /// Erases the lines that have scrolled off.
    Forget,
    /// Sets the size of the terminal from here on: rows, columns.
    Resize((u16, u16)),
}

/// Splits the output into tokens.
pub fn tokens(output: &[u8]) -> impl Iterator<Item = Token<'_>> {
    let mut rest = output;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let length = match first {
            ESCAPE => sequence(rest),
            _ => rest
                .iter()
                .position(|byte| *byte == ESCAPE)
                .unwrap_or(rest.len()),
        };
        let (bytes, after) = rest.split_at(length);
        rest = after;
        let effect = match first {
            ESCAPE => effect(bytes),
            _ if bytes.iter().any(|byte| *byte > b' ' && *byte != 0x7f) => Effect::Write,
            _ => Effect::None,
        };
        Some(Token { bytes, effect })
    })
}

/// Returns the length of the sequence at the start of the bytes; all of them when it does not end.
fn sequence(bytes: &[u8]) -> usize {
    let end = |from: usize, is_last: fn(u8) -> bool| {
        let last = bytes.iter().skip(from).position(|byte| is_last(*byte));
        last.map_or(bytes.len(), |at| from + at + 1)
    };
    match bytes.get(1) {
        // An escape within a sequence breaks it off.
        Some(b'[') => {
            let length = end(2, |byte| matches!(byte, 0x40..=0x7e | ESCAPE));
            length - usize::from(bytes[length - 1] == ESCAPE)
        }
        Some(b']' | b'P' | b'X' | b'^' | b'_') => {
            let length = end(2, |byte| matches!(byte, 0x07 | ESCAPE));
            match (bytes[length - 1], bytes.get(length)) {
                (ESCAPE, Some(b'\\')) => length + 1,
                (ESCAPE, _) if length > 2 => length - 1,
                _ => length,
            }
        }
        Some(b' '..=b'/') => bytes.len().min(3),
        Some(&ESCAPE) => 1,
        Some(_) => 2,
        None => 1,
    }
}

fn effect(sequence: &[u8]) -> Effect {
    match sequence {
        [ESCAPE, b'[', b'?', modes @ .., b'h'] => mode(modes, true),
        [ESCAPE, b'[', b'?', modes @ .., b'l'] => mode(modes, false),
        [ESCAPE, b'[', parameters @ .., last] => control(parameters, *last),
        [ESCAPE, b']', ..] => terminal_log::size(sequence).map_or(Effect::None, Effect::Resize),
        // Reverse index, reset, restore the cursor.
        [ESCAPE, b'M' | b'c' | b'8'] => Effect::Back,
        _ => Effect::None,
    }
}

fn mode(modes: &[u8], is_set: bool) -> Effect {
    let has = |wanted: &[u8]| modes.split(|byte| *byte == b';').any(|mode| mode == wanted);
    if has(b"2026") {
        return if is_set { Effect::Begin } else { Effect::End };
    }
    // The alternate screen.
    match has(b"1049") || has(b"1047") || has(b"47") {
        true => Effect::Back,
        false => Effect::None,
    }
}

fn control(parameters: &[u8], last: u8) -> Effect {
    let mut numbers = parameters.split(|byte| *byte == b';').map(|number| {
        let number = std::str::from_utf8(number).ok();
        number
            .and_then(|number| number.parse().ok())
            .unwrap_or(0_u16)
    });
    let first = numbers.next().unwrap_or(0);
    match (last, first) {
        (b'H' | b'f', row) => {
            let col = numbers.next().unwrap_or(0);
            Effect::To(row.saturating_sub(1), col.saturating_sub(1))
        }
        (b'd', row) => Effect::ToRow(row.saturating_sub(1)),
        (b'J', 3) => Effect::Forget,
        (b'A' | b'F', _) => Effect::Up,
        // Erase, insert and delete lines, scroll, margins, restore the cursor.
        (b'J' | b'L' | b'M' | b'S' | b'T' | b'r' | b'u', _) => Effect::Back,
        (b'K', 2) => Effect::Back,
        _ => Effect::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effects(output: &str) -> Vec<(String, Effect)> {
        let tokens = tokens(output.as_bytes());
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace('\u{1b}', "^");
        tokens
            .map(|token| (shown(token.bytes), token.effect))
            .collect()
    }

    #[test]
    fn output_is_split_into_text_and_known_sequences() {
        use Effect::{Back, Begin, End, Forget, None, Resize, To, ToRow, Up, Write};
        let size = terminal_log::size_mark((30, 100));
        for (output, expected) in [
            ("one\r\n", vec![("one\r\n", Write)]),
            (" \r\n", vec![(" \r\n", None)]),
            (
                "a\x1b[31mb",
                vec![("a", Write), ("^[31m", None), ("b", Write)],
            ),
            (
                "\x1b[2A\x1b[2K\x1b[K",
                vec![("^[2A", Up), ("^[2K", Back), ("^[K", None)],
            ),
            (
                "\x1b[H\x1b[12;4H\x1b[3d",
                vec![
                    ("^[H", To(0, 0)),
                    ("^[12;4H", To(11, 3)),
                    ("^[3d", ToRow(2)),
                ],
            ),
            ("\x1b[2J\x1b[3J", vec![("^[2J", Back), ("^[3J", Forget)]),
            (
                "\x1b[?2026hx\x1b[?2026l",
                vec![("^[?2026h", Begin), ("x", Write), ("^[?2026l", End)],
            ),
            (
                "\x1b[?25;1049h\x1b[?25l",
                vec![("^[?25;1049h", Back), ("^[?25l", None)],
            ),
            (
                "\x1b]0;title\x07x",
                vec![("^]0;title\x07", None), ("x", Write)],
            ),
            (
                "\x1b]8;;url\x1b\\x",
                vec![("^]8;;url^\\", None), ("x", Write)],
            ),
            (
                "\x1b(Bx\x1bM",
                vec![("^(B", None), ("x", Write), ("^M", Back)],
            ),
            // Broken off.
            (
                "\x1b[3\x1b[1Ax",
                vec![("^[3", None), ("^[1A", Up), ("x", Write)],
            ),
            ("x\x1b[12", vec![("x", Write), ("^[12", None)]),
            (
                "\x1b\x1b[A\x1b",
                vec![("^", None), ("^[A", Up), ("^", None)],
            ),
            (
                size.as_str(),
                vec![(size.replace('\x1b', "^").as_str(), Resize((30, 100)))],
            ),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|(bytes, effect)| ((*bytes).to_owned(), *effect))
                .collect();
            assert_eq!(effects(output), expected, "{output:?}");
        }
    }

    #[test]
    fn every_byte_is_in_one_token() {
        let odd = b"a\x1b]x\x1b[\x1b\x1b[3\x07b\xff\x1bP\x1b\\\x1b]\x1b";
        let all: Vec<u8> = tokens(odd).flat_map(|token| token.bytes.to_vec()).collect();
        assert_eq!(all, odd);
    }
}
