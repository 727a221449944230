//! Makes text from agents, git and files safe to show on a terminal: characters that steer a terminal, reverse the
//! order of the text or are invisible become visible escapes (`\x1b`, `\u{202e}`).
//!
//! | Function | For | Keeps |
//! |---|---|---|
//! | [`line`] | a name, a title, a cell | nothing; blanks for line ends and tabs |
//! | [`lines`] | a message, a description | line ends, tabs |
//! | [`output`] | what a program printed | line ends, tabs; colours and steps of the cursor are left out |
//! | [`painted`] | a text of ours with colours, last before it is printed | line ends, tabs, colours |
//! | [`json`] | JSON, whose strings have escapes of their own | line ends |

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters that are invisible, or that change how others look: format characters, line separators, and Unicode's
/// "default ignorable". In order.
const HIDDEN: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{13430}', '\u{1345f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];
/// Shows the symbol before it in colours; many texts use it.
const AS_EMOJI: char = '\u{fe0f}';

/// Returns true when the character must not reach a terminal as it is.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    if c.is_ascii() || c.is_control() {
        return c.is_control();
    }
    let after = HIDDEN.partition_point(|(first, _)| *first <= c);
    after > 0 && c <= HIDDEN[after - 1].1
}

/// Escapes a single line: a name, a title, a cell of a table.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, |rest| match rest.as_bytes() {
        [b'\r', b'\n', ..] => Some((2, " ")),
        [b'\n' | b'\t' | b'\r', ..] => Some((1, " ")),
        _ => None,
    })
}

/// Escapes several lines.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    escape(text, break_of)
}

/// Escapes several lines of a program's output, without its colours and cursor movements.
#[must_use]
pub fn output(text: &str) -> Cow<'_, str> {
    escape(text, |rest| match control(rest) {
        Some(length) => Some((length, "")),
        None => break_of(rest),
    })
}

/// Escapes a text of the supervisor's own that may have colours. All other control sequences in it, which come from its
/// parts, are escaped.
#[must_use]
pub fn painted(text: &str) -> Cow<'_, str> {
    escape(text, |rest| match colours(rest) {
        Some(length) => Some((length, &rest[..length])),
        None => break_of(rest),
    })
}

/// Escapes JSON text with the escapes of JSON: its meaning stays the same.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| c != '\n' && is_hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let mut units = [0; 2];
    for c in text.chars() {
        match c != '\n' && is_hidden(c) {
            true => c.encode_utf16(&mut units).iter().for_each(|unit| {
                // Writing to a string cannot fail.
                let _written = write!(safe, "\\u{unit:04x}");
            }),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Returns the length of a line end or tab, and its shown form.
fn break_of(rest: &str) -> Option<(usize, &str)> {
    match rest.as_bytes() {
        [b'\r', b'\n', ..] => Some((2, "\n")),
        [b'\n', ..] => Some((1, "\n")),
        [b'\t', ..] => Some((1, "\t")),
        _ => None,
    }
}

/// Returns the length of the control sequence, or choice of a character set, at the start of the text, if it ends.
fn control(rest: &str) -> Option<usize> {
    /// The maximum length of a sequence in real output.
    const LONGEST: usize = 64;
    let bytes = rest.as_bytes();
    match bytes {
        [0x1b, b'(' | b')', b'0'..=b'~', ..] => Some(3),
        [0x1b, b'[', parameters @ ..] => {
            let mut parameters = parameters.iter().take(LONGEST);
            let end = parameters.position(|byte| !matches!(byte, b' '..=b'?'))?;
            matches!(bytes[end + 2], b'@'..=b'~').then_some(end + 3)
        }
        _ => None,
    }
}

/// Returns the length of the sequence at the start of the text, if it only sets colours or weight.
fn colours(rest: &str) -> Option<usize> {
    /// The maximum length of a sequence in real output.
    const LONGEST: usize = 32;
    let parameters = rest.strip_prefix("\x1b[")?;
    let end = parameters
        .bytes()
        .take(LONGEST)
        .position(|byte| !matches!(byte, b'0'..=b'9' | b';'))?;
    if parameters.as_bytes()[end] != b'm' {
        return None;
    }
    let mut numbers = parameters[..end]
        .split(';')
        .map(|n| n.parse().unwrap_or(0_u16));
    while let Some(number) = numbers.next() {
        match number {
            0..=4 | 22..=24 | 30..=37 | 39..=47 | 49 | 90..=97 | 100..=107 => {}
            // One of 256 colours, or one mixed of three.
            38 | 48 => {
                let parts = if numbers.next()? == 5 { 1 } else { 3 };
                numbers.nth(parts - 1)?;
            }
            // Hidden, reversed, blinking.
            _ => return None,
        }
    }
    Some("\x1b[".len() + end + 1)
}

/// Returns the text with each hidden character as an escape. `keep` returns the length and the shown form of a start of
/// the rest that is shown in its own way.
fn escape<'a>(text: &'a str, keep: impl Fn(&'a str) -> Option<(usize, &'a str)>) -> Cow<'a, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    let (mut rest, mut before) = (text, ' ');
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        if !is_hidden(c) || c == AS_EMOJI && is_symbol(before) {
            safe.push(c);
        } else if let Some((kept, shown)) = keep(rest) {
            safe.push_str(shown);
            length = kept;
        } else if c.is_ascii() {
            let _written = write!(safe, "\\x{:02x}", u32::from(c));
        } else {
            safe.extend(c.escape_unicode());
        }
        (rest, before) = (&rest[length..], c);
    }
    Cow::Owned(safe)
}

fn is_symbol(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2bff}' | '\u{1f000}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_controls_and_invisible_characters_are_shown_as_escapes() {
        let nasty = "a\x1b]52;c;x\x07b\x08\x7f\u{9b}31m\u{202e}c\u{2066}\u{200b}\u{feff}\u{e0041}";
        let shown = "a\\x1b]52;c;x\\x07b\\x08\\x7f\\u{9b}31m\\u{202e}c\\u{2066}\\u{200b}\\u{feff}\\u{e0041}";
        for show in [line, lines, output, painted] {
            assert_eq!(show(nasty), shown);
        }
        assert_eq!(line("a\nb\tc\r\nd"), "a b c d");
        assert_eq!(lines("a\nb\tc\r\nd\re"), "a\nb\tc\nd\\x0de");
        for plain in ["æøå 漢字 🚀 ⚠\u{fe0f} e\u{301}", "C:\\x1b", ""] {
            assert!(matches!(line(plain), Cow::Borrowed(_)) || plain.contains(AS_EMOJI));
            assert_eq!(line(plain), plain);
        }
        assert_eq!(line("a\u{fe0f}"), "a\\u{fe0f}", "it hides data in letters");
    }

    #[test]
    fn colours_pass_where_they_are_ours_and_nothing_else_that_looks_like_them() {
        for ours in [
            "\x1b[32m",
            "\x1b[0m",
            "\x1b[m",
            "\x1b[1;38;5;12m",
            "\x1b[38;2;1;2;3m",
        ] {
            let text = format!("{ours}x");
            assert_eq!(painted(&text), text);
            assert_eq!(output(&text), "x");
            assert_eq!(lines(&text), format!("\\x1b{}x", &ours[1..]));
        }
        for other in [
            "\x1b[8m",
            "\x1b[38;5m",
            "\x1b[2J",
            "\x1b[?25l",
            "\x1b[31",
            "\x1b[6n",
            "\x1b",
        ] {
            assert_eq!(painted(other), format!("\\x1b{}", &other[1..]));
        }
        assert_eq!(output("a\x1b[2K\x1b[?25l\x1b[6n\x1b(B\x1b[mb"), "ab");
        for other in ["\x1b[31", "\x1b", "\x1b]0;x", "\x1b[\x1bc", "\x1bc"] {
            let shown = output(other).into_owned();
            assert_eq!(shown, other.replace('\x1b', "\\x1b"));
        }
    }

    #[test]
    fn json_means_the_same_and_has_none_of_it() {
        let text = "a\x1b\x7f\u{9b}\u{202e}\u{200b}\u{e0041}\n\tæ🚀";
        let written = serde_json::to_string_pretty(&serde_json::json!({ "k": text })).unwrap();
        let safe = json(&written);
        assert!(!safe.chars().any(|c| c != '\n' && is_hidden(c)), "{safe}");
        let again: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(again["k"], text);
        assert!(safe.contains("\\u009b") && safe.contains("\\udb40\\udc41"));
    }
}
