//! The course of the first prompt of a program that takes it in its terminal: what was done of it so far ([`Stage`]), what
//! is to be done after a look ([`next`]), and when a person is called because it cannot be typed ([`Delay`]).
//!
//! ```text
//!  Untyped ──► pasted and submitted ─────────────────────────► End ──► typed ──► Paid
//!     │  ▲                                                   ▲  │
//!     │  └─ the terminal gave the rest up ─┐   all of it     │  └─ the program reads keys ──► Paid
//!     ├──► a part was taken ──► Draining ──┴─────────────────┤
//!     └──► pasted, a dialog opened ──► Pasted ──► submitted ─┘      (without an end of input: Paid)
//! ```

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::harness::END_OF_INPUT;
use super::restart::Mono;
use super::unsubmitted::Unsubmitted;

/// The fact of a session that holds the prompt until it was typed: then the end of input alone, then nothing.
pub const OWED: &str = "first_prompt";
/// The fact of a session that holds what was done of the prompt so far, as long as all of it is owed.
pub const COURSE: &str = "first_prompt_course";
/// A person is called when the prompt was kept back for so long.
pub const LONG: Duration = Duration::from_secs(30);
/// A program that reads lines and has printed nothing gets it after this: one that is about to read keys would take the
/// lines for something else.
const SILENT: Duration = Duration::from_secs(3);
/// The prompt is pasted so often at most: a program that never submits it may have thrown it away each time, or may have
/// all of them in its input line.
pub const MOST_PASTES: u32 = 3;

/// What was done of the first prompt so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing.
    Untyped,
    /// It was pasted and not submitted: it may stand in the program's input line.
    Pasted(Unsubmitted),
    /// The terminal has taken a part of it, and takes the rest as its program reads.
    Draining {
        /// How many bytes the terminal had given up before.
        dropped: u64,
    },
    /// All of it was typed. The end of input is owed.
    End,
    /// Nothing is owed any more.
    Paid,
}

impl Stage {
    /// Reads it from the facts of the session.
    #[must_use]
    pub fn read(owed: Option<&str>, course: Option<&str>) -> Self {
        match owed.unwrap_or_default() {
            "" => Self::Paid,
            rest if is_end(rest) => Self::End,
            _ => {
                let course = course.and_then(|text| serde_json::from_str(text).ok());
                course.unwrap_or(Self::Untyped)
            }
        }
    }

    /// Returns the fact of the session that says it, and its text.
    #[must_use]
    pub fn fact(&self) -> (&'static str, String) {
        match self {
            Self::End => (OWED, END_OF_INPUT.to_string()),
            Self::Paid => (OWED, String::new()),
            Self::Untyped | Self::Pasted(_) | Self::Draining { .. } => {
                let course = serde_json::to_string(self);
                (COURSE, course.expect("plain data always serialises"))
            }
        }
    }

    /// Returns the stage after all of this prompt was typed.
    #[must_use]
    pub fn after(prompt: &str) -> Self {
        match prompt.ends_with(END_OF_INPUT) {
            true => Self::End,
            false => Self::Paid,
        }
    }
}

fn is_end(text: &str) -> bool {
    text.strip_prefix(END_OF_INPUT) == Some("")
}

/// What a look at the session showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// It has ended.
    Gone,
    /// The session or its screen cannot be seen, for this reason.
    Unseen(String),
    /// Its screen.
    Screen(Screen),
}

/// What the screen of the session shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// What it says about text.
    pub takes: Takes,
    /// The program reads keys, not lines.
    pub reads_keys: bool,
    /// Nothing is on it.
    pub is_blank: bool,
    /// It changes from look to look.
    pub moves: bool,
    /// What was typed before waits for the program to read.
    pub is_full: bool,
    /// How many bytes the terminal has given up so far.
    pub dropped: u64,
}

/// What is known about text that would be typed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The program waits for it.
    Text,
    /// A dialog, a limit or a login is in the way, which people are told of, or a person is attached, who sees it.
    Known,
    /// A person has begun a line.
    Begun,
    /// Nothing.
    Unknown,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing more.
    Over,
    /// Look again in a moment.
    Soon,
    /// Wait: what is in the way is told elsewhere.
    Rest,
    /// Wait, and call a person when that lasts.
    KeptBack(Reason),
    /// Type the prompt.
    Type,
    /// Type the end of input.
    End,
    /// Go on at this stage.
    Becomes(Stage),
}

/// Reasons for which the prompt is kept back, and which nothing else tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Whether it is owed cannot be read.
    Unread(String),
    /// The session or its screen cannot be seen.
    Unseen(String),
    /// Nothing is known of the screen.
    Unknown,
    /// A person has begun a line.
    Begun,
    /// What was typed before waits in the terminal.
    Full,
    /// A part of the prompt waits in the terminal.
    Draining,
    /// Typing it was refused, with this advice.
    Refused(String, String),
    /// The terminal did not take it.
    Untaken(String),
    /// The terminal did not take the end of input.
    EndUntaken(String),
    /// It was pasted, time after time, and never submitted.
    Unsubmitted,
}

/// Says what to do at a stage of this prompt after a look. `age` is how long the session is looked at, `pastes` how often
/// the prompt was pasted, and `is_submitted` says that the program has submitted it by a key of somebody else.
#[must_use]
pub fn next(
    stage: &Stage,
    prompt: &str,
    look: &Look,
    (age, pastes, is_submitted): (Duration, u32, bool),
) -> Next {
    let screen = match look {
        Look::Gone => return Next::Over,
        _ if is_submitted && matches!(stage, Stage::Pasted(_)) => {
            return Next::Becomes(Stage::after(prompt));
        }
        Look::Unseen(why) => return Next::KeptBack(Reason::Unseen(why.clone())),
        Look::Screen(screen) => screen,
    };
    match stage {
        Stage::Paid => return Next::Over,
        Stage::Draining { .. } if screen.is_full => return Next::KeptBack(Reason::Draining),
        // A part of it is lost: twice is better than that.
        Stage::Draining { dropped } if screen.dropped > *dropped => {
            return Next::Becomes(Stage::Untyped);
        }
        Stage::Draining { .. } => return Next::Becomes(Stage::after(prompt)),
        // To a program that reads keys it would be a key that ends it.
        Stage::End if screen.reads_keys => return Next::Becomes(Stage::Paid),
        Stage::Untyped | Stage::Pasted(_) | Stage::End => {}
    }
    if screen.takes == Takes::Known {
        return Next::Rest;
    }
    if *stage == Stage::End {
        return match screen.takes {
            Takes::Begun => Next::KeptBack(Reason::Begun),
            _ if screen.is_full => Next::KeptBack(Reason::Full),
            // A program at work shows anything.
            Takes::Text | Takes::Unknown | Takes::Known => Next::End,
        };
    }
    if screen.moves || screen.is_blank && !screen.reads_keys && age < SILENT {
        return Next::Soon;
    }
    match screen.takes {
        Takes::Unknown => Next::KeptBack(Reason::Unknown),
        Takes::Begun => Next::KeptBack(Reason::Begun),
        _ if screen.is_full => Next::KeptBack(Reason::Full),
        _ if pastes >= MOST_PASTES => Next::KeptBack(Reason::Unsubmitted),
        Takes::Text | Takes::Known => Next::Type,
    }
}

impl Reason {
    /// Says why the prompt is kept back, without a full stop.
    #[must_use]
    pub fn text(&self) -> String {
        let (what, why) = match self {
            Self::Unread(why) => ("whether a first prompt is owed to it cannot be read", why),
            Self::Unseen(why) => ("its session or its screen cannot be seen", why),
            Self::EndUntaken(why) => (
                "the prompt was typed, and its terminal does not take the end of its input",
                why,
            ),
            Self::Refused(why, _) | Self::Untaken(why) => return bare(why).to_owned(),
            Self::Unknown => {
                return "its screen shows neither an input line nor a dialog that is known".into();
            }
            Self::Begun => {
                return "a line that a person has begun and not submitted stands in its input"
                    .into();
            }
            Self::Full => {
                return "what was typed into its terminal before waits there, because its program does not read"
                    .into();
            }
            Self::Draining => {
                return "a part of the prompt waits in its terminal, because its program does not read"
                    .into();
            }
            Self::Unsubmitted => {
                return format!(
                    "it was pasted {MOST_PASTES} times, and its program has not submitted it"
                );
            }
        };
        match bare(why) {
            "" => what.to_owned(),
            why => format!("{what}: {why}"),
        }
    }

    /// Says what helps against it, or what follows, in whole sentences.
    #[must_use]
    pub fn advice(&self, name: &str) -> String {
        let text = match self {
            Self::Unread(_) | Self::Unseen(_) => "The prompt is typed once that can be seen.",
            Self::Unknown => {
                "`hd attach NAME` or `hd send NAME --keys \"...\"` brings it to where it takes text. `input_patterns` of \
                 its harness say how a screen that takes text looks."
            }
            Self::Begun => {
                "It goes on once that line is submitted or emptied, or was left for ten minutes."
            }
            Self::Full => "The prompt is typed once the program reads.",
            Self::Draining => "The rest of it is typed when the program reads.",
            Self::Refused(_, advice) => return sentence(advice).replace("NAME", name),
            Self::Untaken(_) | Self::EndUntaken(_) => "It is tried again at each patrol.",
            Self::Unsubmitted => {
                "It is pasted no more. `hd attach NAME` shows what the program does with it; submit it there, or begin \
                 again by `hd agent restart NAME`."
            }
        };
        text.replace("NAME", name)
    }

    /// Whether another try costs time, and comes with the next patrol therefore.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Refused(..) | Self::Untaken(_) | Self::EndUntaken(_)
        )
    }
}

/// A text without what would stand before a full stop.
fn bare(text: &str) -> &str {
    text.trim().trim_end_matches([':', '.', ',', ';'])
}

fn sentence(text: &str) -> String {
    match bare(text) {
        "" => String::new(),
        text => format!("{text}."),
    }
}

/// Since when the prompt is kept back, and for what people were called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delay {
    since: Option<Mono>,
    called: Vec<Discriminant<Reason>>,
}

/// What people are to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// Nothing yet.
    Nothing,
    /// It is shown. They were called for that.
    Show,
    /// It is shown, and they are called.
    Call,
}

impl Delay {
    /// The prompt is kept back for this reason. Reasons that take turns are one delay, and each of them is told once.
    pub fn goes_on(&mut self, reason: &Reason, now: Mono) -> Tell {
        let since = *self.since.get_or_insert(now);
        match now.saturating_sub(since) < LONG {
            true => Tell::Nothing,
            false if self.called.contains(&discriminant(reason)) => Tell::Show,
            false => Tell::Call,
        }
    }

    /// A person was called for this reason.
    pub fn called(&mut self, reason: &Reason) {
        self.called.push(discriminant(reason));
    }

    /// Whether a person was called.
    #[must_use]
    pub fn has_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// Something else, which is told elsewhere, keeps it back now.
    pub fn ends(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests;
