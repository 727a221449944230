//! What keeps an agent from its work although its session is well: it asks a person something, its
//! account is at a limit, or its login has expired (`2-contract.md`, 2.4, `condition`).
//!
//! A condition is no death, no stall and no idleness. It comes from the screen, and from what the
//! harness itself reports where it can ([`Report`]). It keeps things from being done and never ends
//! anything.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::account::Trouble;
use super::dialog::{self, Dialog, Looks};
use super::escalation::gist;
use super::question::{Pattern, asked, captured, count};
use super::screen::ScreenView;
use super::transcript::at_rest;
use super::until;

mod draft;
mod proof;
mod watch;

pub use self::watch::Watch;

/// Conditions of one session are told this far apart at least: a screen may change all the time.
pub const APART: Duration = Duration::from_secs(60);

/// How a harness's screens look: the patterns of its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns {
    /// It asks a person something.
    pub asks: Vec<Pattern>,
    /// It shows the line that takes text.
    pub input: Vec<Pattern>,
    /// It is at work: texts of limits and logins that are still on the screen are old ones.
    pub working: Vec<Pattern>,
    /// Its account is at a limit; a group `until` names the end of it.
    pub limit: Vec<Pattern>,
    /// It wants a login.
    pub auth: Vec<Pattern>,
}

impl Patterns {
    /// Whether a screen says that the agent is at work.
    #[must_use]
    pub fn works(&self, text: &str) -> bool {
        asked(&self.working, text).is_some()
    }

    /// What dialogs are recognised by.
    #[must_use]
    pub fn looks(&self) -> Looks<'_> {
        Looks {
            asks: &self.asks,
            input: &self.input,
        }
    }
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// It asks a person something.
    NeedsInput {
        /// The question.
        question: String,
        /// What can be answered, as far as it is known.
        choices: Vec<String>,
    },
    /// Its account is at a limit.
    RateLimited {
        /// As the harness says it.
        text: String,
        /// When the limit ends, where that was told.
        until: Option<Timestamp>,
    },
    /// It wants a login.
    Auth {
        /// As the harness says it.
        text: String,
    },
    /// Nothing on its screen says what it waits for, and it was to be told something.
    Unrecognised {
        /// What it was to be told, and since when.
        text: String,
        /// The screen.
        screen: String,
    },
    /// Its spinner turns, and nothing else happens.
    Spins {
        /// For how long.
        text: String,
        /// The screen.
        screen: String,
    },
}

impl Condition {
    /// The word in `status`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::NeedsInput { .. } => "needs_input",
            Self::RateLimited { .. } => "rate_limited",
            Self::Auth { .. } => "auth",
            Self::Unrecognised { .. } => "unrecognised",
            Self::Spins { .. } => "spins",
        }
    }

    /// The screen, where it is all that is known.
    #[must_use]
    pub fn screen(&self) -> Option<&str> {
        match self {
            Self::Unrecognised { screen, .. } | Self::Spins { screen, .. } => Some(screen),
            Self::NeedsInput { .. } | Self::RateLimited { .. } | Self::Auth { .. } => None,
        }
    }

    /// What people read.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::NeedsInput { question, .. } => question,
            Self::RateLimited { text, .. }
            | Self::Auth { text }
            | Self::Unrecognised { text, .. }
            | Self::Spins { text, .. } => text,
        }
    }

    /// When it ends by itself, where that is known.
    #[must_use]
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::RateLimited { until, .. } => *until,
            Self::NeedsInput { .. }
            | Self::Auth { .. }
            | Self::Unrecognised { .. }
            | Self::Spins { .. } => None,
        }
    }

    /// Whether both are the same for people: a counter makes no other condition.
    fn is_same(&self, other: &Self) -> bool {
        self.word() == other.word() && gist(self.text()) == gist(other.text())
    }
}

impl From<&Dialog> for Condition {
    fn from(dialog: &Dialog) -> Self {
        let choices = dialog.choices().iter();
        Self::NeedsInput {
            question: dialog.question.clone(),
            choices: choices.map(|choice| choice.label.clone()).collect(),
        }
    }
}

/// What a harness reports by its hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// A conversation began or goes on.
    Started {
        /// Its id, by which it can be resumed.
        conversation: String,
        /// The file that it is kept in, where the harness tells.
        transcript: Option<String>,
    },
    /// A prompt was submitted. Whether the account serves it is not known yet.
    Begins,
    /// A person answered what it asked. Whether the account serves it is not known yet.
    Answered,
    /// The agent works: its model answered, or nothing else would have happened.
    Works,
    /// The agent ended its turn with an answer of its model, and waits for text.
    Answers,
    /// The agent ended its turn, with an answer or without one, and waits for text.
    Waits,
    /// The agent asks.
    Asks {
        /// The question.
        question: String,
        /// The choices.
        choices: Vec<String>,
    },
    /// Its account is at a limit.
    Limited {
        /// As the harness says it.
        text: String,
        /// When the limit ends, where that was told.
        until: Option<Timestamp>,
    },
    /// It wants a login.
    Auth {
        /// As the harness says it.
        text: String,
    },
    /// It is about to shorten its conversation.
    Compacts,
    /// The conversation ended.
    Ended,
}

/// What a session has to say of its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountNews {
    /// It is at a limit, or wants a login.
    Told(Trouble),
    /// It went on.
    Over,
}

/// What one look at a screen showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sighting {
    /// The condition that the screen shows.
    pub condition: Option<Condition>,
    /// A limit that it shows and that is over in less than a minute, or was over before: only a session that was seen
    /// at its limit before is still at it.
    pub ending: Option<Condition>,
    /// What it asks, whatever else it shows.
    pub asks: Option<Condition>,
    /// Whether the screen says that the agent is at work, or waits for text.
    pub goes_on: bool,
    /// Whether it says that the agent is at work.
    pub works: bool,
    /// How many texts of limits and logins it shows.
    pub marks: usize,
    /// Stands for everything that it shows but spinners, clocks and the rows that say that the agent is at work.
    pub picture: u64,
    /// When a person who has begun a line typed last.
    pub begun: Option<Timestamp>,
}

/// Judges a screen.
#[must_use]
pub fn judge(patterns: &Patterns, view: &ScreenView, now: Timestamp, zone: &TimeZone) -> Sighting {
    let text = view.text();
    let works = patterns.works(&text);
    let dialog = dialog::find(&patterns.looks(), view);
    let auth = || asked(&patterns.auth, &text).map(|text| Condition::Auth { text });
    let limit = limit(patterns, &text, now, zone).filter(|_| !works);
    let (limit, ending) = match limit {
        Some(limit) if is_short(limit.until(), now) => (None, Some(limit)),
        limit => (limit, None),
    };
    let condition = limit.or_else(|| auth().filter(|_| !works));
    Sighting {
        ending,
        picture: picture(patterns, &text),
        begun: view.begun,
        asks: dialog.as_ref().map(Condition::from),
        works,
        marks: count(&patterns.limit, &text) + count(&patterns.auth, &text),
        goes_on: works || dialog.is_none() && asked(&patterns.input, &text).is_some(),
        condition: condition.or_else(|| dialog.as_ref().map(Condition::from)),
    }
}

fn picture(patterns: &Patterns, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row in text.lines().filter(|row| !patterns.works(row)) {
        at_rest(row).hash(&mut hasher);
    }
    hasher.finish()
}

/// What the last output of a program that has ended says of its account.
#[must_use]
pub fn last_words(
    patterns: &Patterns,
    tail: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<Trouble> {
    let lines: Vec<_> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    // A short limit, too: the program that would have waited for it is gone.
    if let Some((text, named)) = captured(&patterns.limit, &last, "until") {
        let until = named.and_then(|named| until::read(&named, now, zone));
        return Trouble::of(&Condition::RateLimited { text, until });
    }
    let auth = asked(&patterns.auth, &last).map(|text| Condition::Auth { text })?;
    Trouble::of(&auth)
}

/// A program says why it ends in its last lines; older ones may be of anything.
const LAST_LINES: usize = 8;

fn limit(patterns: &Patterns, text: &str, now: Timestamp, zone: &TimeZone) -> Option<Condition> {
    let (text, named) = captured(&patterns.limit, text, "until")?;
    let until = named.and_then(|named| until::read(&named, now, zone));
    Some(Condition::RateLimited { text, until })
}

/// Limits that end sooner are waited out by the harness itself.
const SHORT: Duration = Duration::from_secs(60);

fn is_short(until: Option<Timestamp>, now: Timestamp) -> bool {
    let away = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default();
    until.is_some_and(|until| away(until) < SHORT)
}

#[cfg(test)]
mod tests;
