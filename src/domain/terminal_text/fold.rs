//! Recognises the same line in two frames: spinners turn, clocks run, menus move their marker, and text grows while it
//! is written.

/// The part of a row, in hundredths, that must be the same for it to be a later state of another row.
const ALIKE: usize = 75;
/// The number of characters that may be taken back where a line is typed.
const TAKEN_BACK: usize = 2;
/// A shorter text is by chance the beginning of any other text.
const TELLING: usize = 4;

/// Returns true when the row has text and is no border.
pub fn is_text(row: &str) -> bool {
    row.chars().any(char::is_alphanumeric)
}

/// Returns the part of a row that stays while its spinner turns and its clock runs; none without spinner and clock.
pub fn key(row: &str) -> Option<String> {
    let mut key = String::with_capacity(row.len());
    let (mut has_spinner, mut has_clock) = (false, false);
    let mut rest = row;
    while let Some(c) = rest.chars().next() {
        if c.is_ascii_digit() {
            let number =
                rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == ':');
            let after = number.chars().next().unwrap_or(' ');
            let has_colon = rest[..rest.len() - number.len()].contains(':');
            has_clock |= has_colon || matches!(after, 's' | 'm' | 'h' | '%');
            key.push('#');
            rest = number;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            c if is_spinner(c) => {
                has_spinner = true;
                key.push('*');
            }
            // Dots after a word come and go.
            '.' | '…' => {}
            c => key.push(c),
        }
    }
    let words = key.split_whitespace().collect::<Vec<_>>();
    (has_spinner || has_clock).then(|| words.join(" "))
}

/// Returns a row without its moving parts: a fixed spinner, and a clock without digits.
#[must_use]
pub fn at_rest(row: &str) -> String {
    key(row).unwrap_or_else(|| row.trim().to_owned())
}

fn is_spinner(c: char) -> bool {
    matches!(c,
        '\u{2800}'..='\u{28ff}'          // braille
        | '\u{2581}'..='\u{2595}'        // blocks, shades
        | '◐'..='◗' | '◜'..='◟' | '◰'..='◷'
        | '✢' | '✳' | '✶' | '✻' | '✽' | '✺' | '✹' | '✸' | '✷'
        | '⬝' | '■' | '□' | '▪' | '▫' | '⬩' | '◆' | '◇' | '⬥' | '⬦')
}

/// Returns true when the new text continues the old one, in any row.
pub fn continues(old: &str, new: &str) -> bool {
    old.len() >= TELLING && new.starts_with(old)
}

/// Returns true when the new text is certainly a later state of the old one in the same row of the screen.
pub fn updates(old: &str, new: &str) -> bool {
    let keys = (key(old), key(new));
    let same_key = keys.0.is_some() && keys.0 == keys.1;
    same_key || new.starts_with(old) || is_taken_back(old, new)
}

fn is_taken_back(old: &str, new: &str) -> bool {
    let cut = old.strip_prefix(new);
    cut.is_some_and(|cut| cut.chars().count() <= TAKEN_BACK)
}

/// Returns true when two texts of the same row are mostly the same.
pub fn is_alike(old: &str, new: &str) -> bool {
    let same = |(a, b): &(char, char)| a == b;
    let longest = old.chars().count().max(new.chars().count());
    let shortest = old.chars().count().min(new.chars().count());
    let before = old.chars().zip(new.chars()).take_while(same).count();
    let behind = old
        .chars()
        .rev()
        .zip(new.chars().rev())
        .take_while(same)
        .count();
    let common = before + behind.min(shortest - before);
    common * 100 >= longest * ALIKE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_in_a_spinner_or_a_clock_have_one_key() {
        for (one, other) in [
            (
                "✻ Thinking… (3s · esc to interrupt)",
                "✶ Thinking… (12s · esc to interrupt)",
            ),
            ("⠋ Loading.", "⠙ Loading..."),
            ("Retrying in 0:59", "Retrying in 0:07"),
            ("[████░░] 40%", "[██████] 100%"),
        ] {
            assert!(key(one).is_some());
            assert_eq!(key(one), key(other));
        }
        for plain in ["error at line 3", "one", "1. Yes", "│ > │"] {
            assert_eq!(key(plain), None, "{plain}");
        }
    }

    #[test]
    fn a_row_updates_another_when_it_is_the_same_line_later() {
        for (old, new) in [
            ("Hel", "Hello"),
            ("> fix th", "> fix t"),
            ("⠋ Loading", "⠙ Loading"),
        ] {
            assert!(updates(old, new), "{old} -> {new}");
        }
        for (old, new) in [
            ("> fix the bug", ">"),
            ("one thing", "another matter"),
            ("101 | let a = 1;", "151 | let b = 1;"),
        ] {
            assert!(!updates(old, new), "{old} -> {new}");
        }
        assert!(is_alike("❯ 1. Yes, and go on", "  1. Yes, and go on"));
        assert!(is_alike("tokens: 1024 of 200000", "tokens: 2048 of 200000"));
        assert!(!is_alike("one thing", "another matter"));
    }

    #[test]
    fn a_border_is_no_text() {
        assert!(!is_text("╭──────╮"));
        assert!(!is_text("│ > │"));
        assert!(is_text("│ > a │"));
    }
}
