//! What an agent asks a person on its screen: the condition `needs_input`.
//!
//! A screen can only raise suspicion, so a question never ends anything. It keeps things from being
//! done: a session that asks is neither restarted for a change of its configuration nor for being idle,
//! and is not stalled.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use regex::{Regex, RegexBuilder};

use super::escalation::gist;

/// The most that is shown of a question.
const SHOWN: usize = 200;

/// A session's questions are told this far apart at least: a screen may change all the time.
pub const APART: Duration = Duration::from_secs(60);

/// Output may still be on its way to the screen this long after it was noted.
const SETTLED: Duration = Duration::from_secs(2);

/// The most memory that one compiled pattern may take, in bytes.
const PATTERN_MAX: usize = 1 << 20;

/// A pattern that finds a question on a screen.
#[derive(Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a regular expression. `^` and `$` stand for the ends of a row; it may span rows.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut builder = RegexBuilder::new(text);
        let regex = builder.multi_line(true).size_limit(PATTERN_MAX).build();
        let regex = regex.map_err(|error| error.to_string())?;
        if regex.is_match("") {
            return Err("it matches an empty screen".to_owned());
        }
        Ok(Self(regex))
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0.as_str(), f)
    }
}

/// The question on a screen: the row where the lowest match of any pattern begins.
#[must_use]
pub fn asked(patterns: &[Pattern], screen: &str) -> Option<String> {
    let found = patterns
        .iter()
        .filter_map(|pattern| Some(pattern.0.find_iter(screen).last()?.start()));
    let at = found.max()?;
    // A match may begin with the end of the row before.
    let at = at + screen[at..].len() - screen[at..].trim_start().len();
    let begin = screen[..at].rfind('\n').map_or(0, |end| end + 1);
    let row = screen[begin..].lines().next().unwrap_or_default().trim();
    Some(row.chars().take(SHOWN).collect())
}

/// What is remembered of one session's screen from look to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Which session it is.
    token: String,
    /// What the provider knew of its terminal when the screen was seen.
    activity: Option<Timestamp>,
    /// When it was seen; none when it could not be.
    seen: Option<Timestamp>,
    question: Option<String>,
    /// It asks something that nobody was told of.
    owed: bool,
    told: Option<Timestamp>,
}

impl Watch {
    /// A session whose screen was not seen yet.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            activity: None,
            seen: None,
            question: None,
            owed: false,
            told: None,
        }
    }

    /// Whether it is this session that is remembered.
    #[must_use]
    pub fn is_of(&self, token: &str) -> bool {
        self.token == token
    }

    /// Whether the screen is as it was when it was seen: nothing was written since.
    #[must_use]
    pub fn is_fresh(&self, activity: Option<Timestamp>) -> bool {
        let (Some(seen), Some(last)) = (self.seen, self.activity) else {
            return false;
        };
        let settled = Duration::try_from(seen.duration_since(last)).unwrap_or_default() >= SETTLED;
        settled && activity == Some(last)
    }

    /// Takes in what the screen asks. A counter makes no other question.
    pub fn saw(&mut self, question: Option<String>, activity: Option<Timestamp>, now: Timestamp) {
        let another = question.as_deref().map(gist) != self.question.as_deref().map(gist);
        self.owed = question.is_some() && (self.owed || another);
        (self.question, self.activity, self.seen) = (question, activity, Some(now));
    }

    /// The screen could not be seen: what it asks is not known any more.
    pub fn missed(&mut self) {
        self.seen = None;
    }

    /// The question that is open, as far as is known.
    #[must_use]
    pub fn question(&self) -> Option<&str> {
        self.question.as_deref()
    }

    /// Whether it is seen to ask something.
    #[must_use]
    pub fn asks(&self) -> bool {
        self.question.is_some() && self.seen.is_some()
    }

    /// Whether it must not be disturbed: it asks something, or it cannot be seen that it does not.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.question.is_some() || self.seen.is_none()
    }

    /// The question, when people are to be told of it now. They are told once.
    pub fn tell(&mut self, now: Timestamp) -> Option<String> {
        let since = |told: Timestamp| Duration::try_from(now.duration_since(told));
        // After a clock that went back, too.
        let early = |told| since(told).is_ok_and(|since| since < APART);
        if !self.owed || self.told.is_some_and(early) {
            return None;
        }
        (self.owed, self.told) = (false, Some(now));
        self.question.clone()
    }
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

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
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
        ] {
            let found = asked(&patterns(texts), screen);
            assert_eq!(found.as_deref(), question, "{texts:?} on {screen:?}");
        }
        let long = format!("Allow {}", "é".repeat(900));
        let shown = asked(&patterns(&["Allow"]), &long).unwrap();
        assert_eq!(shown.chars().count(), SHOWN);
    }

    #[test]
    fn what_would_match_any_screen_is_no_pattern() {
        for text in ["", "x*", "(", "^$", "a{1000}{1000}"] {
            assert!(Pattern::new(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_screen_is_looked_at_again_when_something_was_written() {
        let mut watch = Watch::new("t");
        assert!(watch.holds() && !watch.is_fresh(None), "never seen");
        watch.saw(None, Some(at(10)), at(11));
        assert!(
            !watch.holds() && !watch.is_fresh(Some(at(10))),
            "not settled"
        );
        watch.saw(None, Some(at(10)), at(12));
        assert!(watch.is_fresh(Some(at(10))));
        assert!(!watch.is_fresh(Some(at(13))) && !watch.is_fresh(None));
        watch.missed();
        assert!(watch.holds() && !watch.asks() && !watch.is_fresh(Some(at(10))));
        watch.saw(Some("a".into()), None, at(13));
        assert!(watch.holds() && watch.asks());
        watch.missed();
        assert!(watch.holds() && !watch.asks(), "it may be answered");
    }

    #[test]
    fn each_question_is_told_once_and_a_flickering_one_seldom() {
        let mut watch = Watch::new("t");
        let mut look = |second: i64, question: Option<&str>| {
            watch.saw(question.map(str::to_owned), None, at(second));
            watch.tell(at(second)).is_some()
        };
        assert!(!look(0, None));
        assert!(look(1, Some("a")), "at once");
        assert!(!look(100, Some("a")), "told before");
        assert!(look(101, Some("b")), "another one");
        assert!(!look(102, None));
        assert!(!look(103, Some("b")), "too soon");
        assert!(look(162, Some("b")), "but not forgotten");
        assert!(!look(164, Some("c")));
        assert!(!look(165, None), "answered meanwhile");
        assert!(look(10, Some("d")), "a clock that was set back");
        assert!(look(300, Some("Allow? (23s)")));
        assert!(!look(400, Some("Allow? (22s)")), "a counter");
    }
}
