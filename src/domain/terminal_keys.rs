//! Names of keys, as `hd send --keys` takes them, and the bytes that a terminal sends for them.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// Names and bytes. Case does not matter.
const NAMED: &[(&str, &[u8])] = &[
    ("Enter", b"\r"),
    ("Return", b"\r"),
    ("Esc", b"\x1b"),
    ("Escape", b"\x1b"),
    ("Tab", b"\t"),
    ("BTab", b"\x1b[Z"),
    ("Space", b" "),
    ("Backspace", b"\x7f"),
    ("BSpace", b"\x7f"),
    ("Up", b"\x1b[A"),
    ("Down", b"\x1b[B"),
    ("Right", b"\x1b[C"),
    ("Left", b"\x1b[D"),
    ("Home", b"\x1b[H"),
    ("End", b"\x1b[F"),
    ("PageUp", b"\x1b[5~"),
    ("PageDown", b"\x1b[6~"),
    ("Insert", b"\x1b[2~"),
    ("Delete", b"\x1b[3~"),
    ("F1", b"\x1bOP"),
    ("F2", b"\x1bOQ"),
    ("F3", b"\x1bOR"),
    ("F4", b"\x1bOS"),
    ("F5", b"\x1b[15~"),
    ("F6", b"\x1b[17~"),
    ("F7", b"\x1b[18~"),
    ("F8", b"\x1b[19~"),
    ("F9", b"\x1b[20~"),
    ("F10", b"\x1b[21~"),
    ("F11", b"\x1b[23~"),
    ("F12", b"\x1b[24~"),
];

/// Parses names of keys separated by blanks: names of [`NAMED`], `C-c`, `M-x`, single characters.
///
/// # Errors
/// The word that names no key, with the known names.
pub fn bytes(keys: &str) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for word in keys.split_whitespace() {
        all.extend(key(word).ok_or_else(|| {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            format!(
                "{word:?} is not a key: use {}, C-x, M-x or single characters",
                names.join(", ")
            )
        })?);
    }
    match all.is_empty() {
        true => Err("no key is given".to_owned()),
        false => Ok(all),
    }
}

/// Ctrl-C, Ctrl-D and Ctrl-\ as bytes, and in the extended encodings that a program may ask for.
const ENDING: &[&[u8]] = &[
    b"\x03",
    b"\x04",
    b"\x1c",
    b"\x1b[99;5u",
    b"\x1b[100;5u",
    b"\x1b[92;5u",
    b"\x1b[27;5;99~",
    b"\x1b[27;5;100~",
    b"\x1b[27;5;92~",
];

/// Returns true when the typed bytes contain a key that ends programs.
#[must_use]
pub fn ends_programs(typed: &[u8]) -> bool {
    let pressed = |key: &&[u8]| typed.windows(key.len()).any(|part| part == *key);
    ENDING.iter().any(pressed)
}

/// Reports that terminals send by themselves while a person is attached: of focus, mouse, cursor, colours and
/// capabilities.
static REPORTS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s-u)\x1b\[[IO]",
        r"|\x1b\[<[0-9;]*[Mm]|\x1b\[M...",
        r"|\x1b\[[?>=]?[0-9;]*(?:R|c|n|t|\$y)",
        r"|\x1b\[\?[0-9;]*u",
        r"|\x1b[\]P_^].*?(?:\x07|\x1b\\)",
    ))
    .expect("the pattern is written here and tested")
});

/// Returns the part of the bytes that a person typed.
#[must_use]
pub fn typed(bytes: &[u8]) -> Cow<'_, [u8]> {
    REPORTS.replace_all(bytes, &b""[..])
}

/// Returns true when a person typed any of the bytes: a program may end by a word, a key of a menu, or Enter.
#[must_use]
pub fn is_typed(bytes: &[u8]) -> bool {
    !typed(bytes).is_empty()
}

fn key(word: &str) -> Option<Vec<u8>> {
    let same = |(name, _): &&(&str, &[u8])| name.eq_ignore_ascii_case(word);
    if let Some((_, bytes)) = NAMED.iter().find(same) {
        return Some(bytes.to_vec());
    }
    let single = |text: &str| {
        let mut characters = text.chars();
        characters
            .next()
            .filter(|c| characters.next().is_none() && !c.is_control())
    };
    if let Some(with_control) = word.strip_prefix("C-").or(word.strip_prefix("c-")) {
        let letter = single(with_control)?.to_ascii_uppercase();
        let control = ('@'..='_').contains(&letter);
        return control.then(|| vec![u8::try_from(letter).unwrap_or_default() & 0x1f]);
    }
    if let Some(with_alt) = word.strip_prefix("M-").or(word.strip_prefix("m-")) {
        let letter = single(with_alt)?;
        return Some(format!("\x1b{letter}").into_bytes());
    }
    Some(single(word)?.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_end_by_ctrl_c_ctrl_d_and_ctrl_backslash_in_every_encoding() {
        for typed in ["\x03", "ls\r\x04", "\x1c", "a\x1b[99;5u", "\x1b[27;5;100~"] {
            assert!(ends_programs(typed.as_bytes()), "{typed:?}");
        }
        for typed in ["", "exit\r", "\x1b[A", "\x1b[98;5u", "\x1a"] {
            assert!(!ends_programs(typed.as_bytes()), "{typed:?}");
        }
    }

    #[test]
    fn replies_of_a_terminal_are_not_typed_keys() {
        for bytes in [
            "",
            "\x1b[I",
            "\x1b[O\x1b[<35;10;4M\x1b[<0;1;1m",
            "\x1b[12;4R",
            "\x1b[?62;22c\x1b[>0;276;0c",
            "\x1b[?2026;2$y",
            "\x1b[?1u",
            "\x1b]11;rgb:0000/0000/0000\x07\x1bP1+r\x1b\\",
        ] {
            assert!(!is_typed(bytes.as_bytes()), "{bytes:?}");
        }
        for bytes in ["/exit\r", "2", "\x1b", "\x1b[B", "\x1b[I\r", "é"] {
            assert!(is_typed(bytes.as_bytes()), "{bytes:?}");
        }
    }

    #[test]
    fn keys_have_names() {
        for (keys, expected) in [
            ("Down Enter", &b"\x1b[B\r"[..]),
            ("2", b"2"),
            ("C-c", b"\x03"),
            ("M-x é", b"\x1bx\xc3\xa9"),
            ("esc TAB btab", b"\x1b\t\x1b[Z"),
        ] {
            assert_eq!(bytes(keys).as_deref(), Ok(expected), "{keys}");
        }
        for keys in ["", "  ", "Entre", "C-", "C-é", "no such"] {
            assert!(bytes(keys).is_err(), "{keys}");
        }
    }
}
