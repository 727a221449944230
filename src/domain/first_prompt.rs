//! The course of the first prompt of a program that takes it in its terminal: what was done of it so far ([`Stage`]), what
//! is to be done after a look ([`next`]), and when a person is called because it cannot be typed ([`Delay`]).
//!
//! ```text
//!  Untyped ──► pasted and submitted ───────────────────────────► End ──► typed ──► Paid
//!     │  ▲                                                     ▲  │
//!     │  └─ nothing was taken ─┐                  all of it    │  └─ the program reads keys ──► Paid
//!     ├──► sent, no answer ──► Sent ───────────────────────────┤
//!     └──► pasted, a dialog opened ──► Pasted ──► submitted ───┘      (without an end of input: Paid)
//! ```
//!
//! It is typed again only where it is known that it was not taken, or is seen not to stand there. Where that is not known, a
//! person is called, and what they say ends it.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::harness::END_OF_INPUT;
use super::restart::Mono;
use super::screen::{Fate, Inputs};

mod pasted;

pub use self::pasted::Pasted;

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
    Pasted(Pasted),
    /// It was sent, or the Enter that submits it was, and its terminal has not answered.
    Sent {
        /// What the terminal had taken before.
        before: Option<Inputs>,
        /// How it stood in the input line, where Enter was sent.
        pasted: Option<Pasted>,
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
                let Some(course) = course else {
                    return Self::Untyped;
                };
                match serde_json::from_str(course) {
                    Ok(Self::Pasted(pasted)) => Self::Pasted(pasted.unwatched()),
                    Ok(stage) => stage,
                    // Another version wrote it: something was done, and what is not known.
                    Err(_) => Self::Sent {
                        before: None,
                        pasted: None,
                    },
                }
            }
        }
    }

    /// Returns the fact of the session that says it, and its text.
    #[must_use]
    pub fn fact(&self) -> (&'static str, String) {
        match self {
            Self::End => (OWED, END_OF_INPUT.to_string()),
            Self::Paid => (OWED, String::new()),
            Self::Untyped | Self::Pasted(_) | Self::Sent { .. } => {
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
    /// What the terminal has taken so far, where that is known.
    pub inputs: Option<Inputs>,
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
    /// It was sent, and what the terminal took of it is not known.
    Unsure,
    /// It stood in the input line and has gone from there while a person was at it.
    Doubtful,
    /// Typing it was refused, with this advice.
    Refused(String, String),
    /// The terminal did not take it.
    Untaken(String),
    /// The terminal did not take the end of input.
    EndUntaken(String),
    /// It was pasted, time after time, and never submitted.
    Unsubmitted,
}

/// Says what to do at a stage of this prompt after a look. `age` is how long the session is looked at.
#[must_use]
pub fn next(stage: &Stage, prompt: &str, look: &Look, age: Duration) -> Next {
    let pasted = match stage {
        Stage::Pasted(pasted) => Some(pasted),
        _ => None,
    };
    let screen = match look {
        Look::Gone => return Next::Over,
        _ if pasted.is_some_and(Pasted::is_submitted) => {
            return Next::Becomes(Stage::after(prompt));
        }
        Look::Unseen(why) => return Next::KeptBack(Reason::Unseen(why.clone())),
        Look::Screen(screen) => screen,
    };
    match stage {
        Stage::Paid => return Next::Over,
        Stage::Sent { before, pasted } => return sent(*before, pasted.as_ref(), prompt, screen),
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
        _ if pasted.is_some_and(Pasted::is_doubtful) => Next::KeptBack(Reason::Doubtful),
        // Where it stands there, only Enter is needed.
        _ if pasted.is_some_and(|it| it.times() >= MOST_PASTES && !it.is_shown()) => {
            Next::KeptBack(Reason::Unsubmitted)
        }
        Takes::Text | Takes::Known => Next::Type,
    }
}

/// What follows on what the terminal has taken of the prompt, or of its Enter.
fn sent(before: Option<Inputs>, pasted: Option<&Pasted>, prompt: &str, screen: &Screen) -> Next {
    match (Inputs::fate(before, screen.inputs), pasted) {
        (Fate::Taken, _) => Next::Becomes(Stage::after(prompt)),
        _ if screen.is_full => Next::KeptBack(Reason::Draining),
        (Fate::Untouched, None) => Next::Becomes(Stage::Untyped),
        (Fate::Untouched, Some(pasted)) => Next::Becomes(Stage::Pasted(pasted.clone())),
        (Fate::Unknown, Some(pasted)) => Next::Becomes(Stage::Pasted(pasted.clone().entered())),
        (Fate::Unknown, None) => Next::KeptBack(Reason::Unsure),
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
            Self::Unsure => {
                return "it was sent to its terminal, and whether that has taken it is not known"
                    .into();
            }
            Self::Doubtful => {
                return "it stood in the input line, and has gone from there while a person was at the terminal: whether \
                        they submitted it is not known"
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
            Self::Unsure | Self::Doubtful | Self::Unsubmitted => {
                "It is typed no more. `hd attach NAME` shows what the program does with it; submit it there if it is needed. \
                 `hd escalations ack` or `hd relic close` of this call says that it is not owed any more; \
                 `hd agent restart NAME` begins again."
            }
        };
        text.replace("NAME", name)
    }

    /// Whether only a person can tell what became of the prompt.
    #[must_use]
    pub fn is_for_a_person(&self) -> bool {
        matches!(self, Self::Unsure | Self::Doubtful | Self::Unsubmitted)
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
            false if self.has_called_for(reason) => Tell::Show,
            false => Tell::Call,
        }
    }

    /// A person was called for this reason.
    pub fn called(&mut self, reason: &Reason) {
        self.called.push(discriminant(reason));
    }

    /// Whether a person was called for this reason.
    #[must_use]
    pub fn has_called_for(&self, reason: &Reason) -> bool {
        self.called.contains(&discriminant(reason))
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
