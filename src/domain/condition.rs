//! Conditions that keep an agent from its work although its session is well: a question to a person, a limit of its
//! account, or an expired login (`contract.md`, 2.4, `condition`).
//!
//! A condition is no death, no stall and no idleness. It comes from the screen, and from reports of the harness where
//! there are any ([`Report`]). It holds actions up and never ends anything.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::account::AccountReport;
use super::dialog::{self, Dialog, Looks};
use super::escalation::gist;
use super::question::{Pattern, asked, captured, count};
use super::screen::ScreenView;
use super::terminal_text::at_rest;
use super::until;

mod draft;
mod proof;
mod watch;

pub use self::watch::Watch;

/// Minimum interval between two notices about one session: a screen may change all the time.
pub const APART: Duration = Duration::from_secs(60);

/// Patterns of a harness's configuration that recognise its screens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patterns {
    /// A question to a person.
    pub asks: Vec<Pattern>,
    /// The line that takes text.
    pub input: Vec<Pattern>,
    /// The agent is at work: texts of limits and logins that are still on the screen are old.
    pub working: Vec<Pattern>,
    /// A limit of the account; a group `until` names its end.
    pub limit: Vec<Pattern>,
    /// A request to log in.
    pub auth: Vec<Pattern>,
}

impl Patterns {
    /// Returns true when a screen shows the agent at work.
    #[must_use]
    pub fn works(&self, text: &str) -> bool {
        asked(&self.working, text).is_some()
    }

    /// Returns the patterns that recognise dialogs.
    #[must_use]
    pub fn looks(&self) -> Looks<'_> {
        Looks {
            asks: &self.asks,
            input: &self.input,
        }
    }
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// The agent asks a person a question.
    NeedsInput {
        /// The question.
        question: String,
        /// The choices, as far as they are known.
        choices: Vec<String>,
    },
    /// Its account is at a limit.
    RateLimited {
        /// The text of the harness.
        text: String,
        /// The end of the limit, where known.
        until: Option<Timestamp>,
    },
    /// The harness wants a login.
    Auth {
        /// The text of the harness.
        text: String,
    },
    /// The screen is not recognised, while a message for the agent is pending.
    Unrecognised {
        /// The pending message, and since when.
        text: String,
        /// The screen.
        screen: String,
    },
    /// A spinner turns, and nothing else happens.
    Spins {
        /// Duration.
        text: String,
        /// The screen.
        screen: String,
    },
}

impl Condition {
    /// Returns the word in `status`.
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

    /// Returns the screen of a condition about which nothing else is known.
    #[must_use]
    pub fn screen(&self) -> Option<&str> {
        match self {
            Self::Unrecognised { screen, .. } | Self::Spins { screen, .. } => Some(screen),
            Self::NeedsInput { .. } | Self::RateLimited { .. } | Self::Auth { .. } => None,
        }
    }

    /// Returns the text that people read.
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

    /// Returns when the condition ends by itself, where known.
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

    /// Returns true when both are the same for people: a changed counter makes no new condition.
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

/// A report of a harness through its hooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "report", rename_all = "snake_case")]
pub enum Report {
    /// A conversation began or goes on.
    Started {
        /// Id of the conversation, by which it can be resumed.
        conversation: String,
        /// The conversation's file, where the harness reports it.
        transcript: Option<String>,
    },
    /// A prompt was submitted. The account may still refuse it.
    Begins,
    /// A person answered a question of the agent. The account may still refuse to go on.
    Answered,
    /// The agent works, so its model has answered.
    Works,
    /// The agent ended its turn with an answer of its model, and waits for text.
    Answers,
    /// The agent ended its turn, with an answer or without, and waits for text.
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
        /// The text of the harness.
        text: String,
        /// The end of the limit, where known.
        until: Option<Timestamp>,
    },
    /// The harness wants a login.
    Auth {
        /// The text of the harness.
        text: String,
    },
    /// The harness is about to compact its conversation.
    Compacts,
    /// The conversation ended.
    Ended,
}

/// News of a session about its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccountNews {
    /// The session is at a limit, or wants a login.
    Told(AccountReport),
    /// The session went on.
    Over,
}

/// The result of one look at a screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sighting {
    /// The condition that the screen shows.
    pub condition: Option<Condition>,
    /// A limit on the screen that ends in less than a minute, or has ended: it only concerns a session that was seen at
    /// its limit before.
    pub ending: Option<Condition>,
    /// The question on the screen, whatever else it shows.
    pub asks: Option<Condition>,
    /// Set when the screen shows the agent at work, or waiting for text.
    pub goes_on: bool,
    /// Set when the screen shows the agent at work.
    pub works: bool,
    /// The number of texts of limits and logins on the screen.
    pub marks: usize,
    /// Fingerprint of the screen without spinners, clocks and the rows that show the agent at work.
    pub picture: u64,
    /// When a person last typed into a line that they have begun.
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

/// Finds a limit or a request to log in in the last output of a program that has ended.
#[must_use]
pub fn last_words(
    patterns: &Patterns,
    tail: &str,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<AccountReport> {
    let lines: Vec<_> = tail
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
    // A short limit counts too: the program that would have waited for its end is gone.
    if let Some((text, named)) = captured(&patterns.limit, &last, "until") {
        let until = named.and_then(|named| until::read(&named, now, zone));
        return AccountReport::of(&Condition::RateLimited { text, until });
    }
    let auth = asked(&patterns.auth, &last).map(|text| Condition::Auth { text })?;
    AccountReport::of(&auth)
}

/// The number of last lines in which a program says why it ends; older lines may be about anything.
const LAST_LINES: usize = 8;

fn limit(patterns: &Patterns, text: &str, now: Timestamp, zone: &TimeZone) -> Option<Condition> {
    let (text, named) = captured(&patterns.limit, text, "until")?;
    let until = named.and_then(|named| until::read(&named, now, zone));
    Some(Condition::RateLimited { text, until })
}

/// The harness itself waits out limits that end sooner.
const SHORT: Duration = Duration::from_secs(60);

fn is_short(until: Option<Timestamp>, now: Timestamp) -> bool {
    let away = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or_default();
    until.is_some_and(|until| away(until) < SHORT)
}

#[cfg(test)]
mod tests;
