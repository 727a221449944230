//! Patterns of a harness, and the row of a screen where a match begins.

use std::fmt;
use std::sync::{Arc, OnceLock};

use regex::{Regex, RegexBuilder};

/// The maximum length of a shown question, in characters.
const SHOWN: usize = 200;

/// The most memory that one compiled pattern may take, in bytes.
const PATTERN_MAX: usize = 1 << 20;

/// A pattern to search a screen for. It is compiled when it is first searched for, because a compiled one takes memory, and
/// most harnesses of a city are never started. All clones share it.
#[derive(Clone)]
pub struct Pattern(Arc<Source>);

struct Source {
    text: String,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    /// Checks a regular expression. `^` and `$` match at the ends of a row; a match may span rows.
    ///
    /// # Errors
    /// The error in the expression.
    pub fn new(text: &str) -> Result<Self, String> {
        if compile(text)?.is_match("") {
            return Err("it matches an empty screen".to_owned());
        }
        Ok(Self::checked(text))
    }

    /// Takes a regular expression that is known to be right. To compile it only for a check takes a start most of its time.
    #[must_use]
    pub fn checked(text: &str) -> Self {
        Self(Arc::new(Source {
            text: text.to_owned(),
            compiled: OnceLock::new(),
        }))
    }

    fn regex(&self) -> &Regex {
        let compiled = || compile(&self.0.text).expect("it was checked");
        self.0.compiled.get_or_init(compiled)
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(text);
    let regex = builder.multi_line(true).size_limit(PATTERN_MAX).build();
    regex.map_err(|error| error.to_string())
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.text, f)
    }
}

/// Returns the row where the lowest match of any pattern begins.
#[must_use]
pub fn asked(patterns: &[Pattern], screen: &str) -> Option<String> {
    captured(patterns, screen, "").map(|(row, _)| row)
}

/// Returns the words of a row, without frame or spinner around them and with single blanks between them.
#[must_use]
pub fn bare(row: &str) -> String {
    let frame = |c: char| c.is_whitespace() || "│┃║▌▐╎░█".contains(c);
    let words = row.trim_matches(frame).split_whitespace();
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the row where the lowest match of any pattern begins (the first row of its group `said`, if it has one), and
/// the text of the group `group` in that match.
#[must_use]
pub fn captured(
    patterns: &[Pattern],
    screen: &str,
    group: &str,
) -> Option<(String, Option<String>)> {
    let lowest = |pattern: &Pattern| pattern.regex().captures_iter(screen).last();
    let found = patterns.iter().filter_map(lowest);
    let found = found.max_by_key(|found| found.get(0).map_or(0, |whole| whole.start()))?;
    let named = found.name(group).map(|text| text.as_str().to_owned());
    if let Some(said) = found.name("said") {
        let row = said.as_str().trim().lines().next().unwrap_or_default();
        return Some((bare(row).chars().take(SHOWN).collect(), named));
    }
    let at = found.get(0)?.start();
    // A match may begin at the end of the row before.
    let at = at + screen[at..].len() - screen[at..].trim_start().len();
    let begin = screen[..at].rfind('\n').map_or(0, |end| end + 1);
    let row = screen[begin..].lines().next().unwrap_or_default();
    Some((bare(row).chars().take(SHOWN).collect(), named))
}

/// Returns the number of matches of the patterns.
#[must_use]
pub fn count(patterns: &[Pattern], screen: &str) -> usize {
    let found = patterns.iter();
    found
        .map(|pattern| pattern.regex().find_iter(screen).count())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Vec<Pattern> {
        texts
            .iter()
            .map(|text| Pattern::new(text).unwrap())
            .collect()
    }

    /// Patterns, screen, question.
    #[test]
    fn a_question_is_the_row_where_the_lowest_match_begins() {
        let menu = r"(?s)Do you want[^\n]*\?.*❯ \d+\.";
        for (texts, screen, question) in [
            (&[][..], "Allow?", None),
            (&["Allow"], "", None),
            (&["Allow"], "it is allowed", None),
            (&["^Allow"], "not: Allow", None),
            (&["^Allow"], "x\nAllow this? \ny", Some("Allow this?")),
            (&["Allow"], "Allow a?\nok\nAllow b?\n", Some("Allow b?")),
            (&["Allow", "Trust"], "Trust?\nAllow?", Some("Allow?")),
            (&["Allow", "Trust"], "Allow?\n  Trust?", Some("Trust?")),
            (
                &[menu],
                "Do you want to go on?\n ❯ 1. Yes\n   2. No",
                Some("Do you want to go on?"),
            ),
            (&[menu], "Do you want to know?\nI shall see.", None),
            (&[r"\s+Sure\?"], "text\n\n  é Sure?", Some("é Sure?")),
            (&[r"^#\n(?P<said>Sure\?)"], "#\nSure?  12%", Some("Sure?")),
            (&[r"(?P<said>Sure\n?.*)"], "# Sure\nor", Some("Sure")),
        ] {
            let found = asked(&patterns(texts), screen);
            assert_eq!(found.as_deref(), question, "{texts:?} on {screen:?}");
        }
        let long = format!("Allow {}", "é".repeat(900));
        let shown = asked(&patterns(&["Allow"]), &long).unwrap();
        assert_eq!(shown.chars().count(), SHOWN);
    }

    #[test]
    fn pattern_that_matches_any_screen_is_refused() {
        for text in ["", "x*", "(", "^$", "a{1000}{1000}"] {
            assert!(Pattern::new(text).is_err(), "{text:?}");
        }
    }
}
