//! The course of the first prompt of a program that takes it in its terminal: the stage reached ([`Stage`]), the next
//! step after a look ([`next`]), and when a person is called because the prompt cannot be typed ([`Delay`]).
//!
//! ```text
//!  Untyped ──► pasted and submitted ───────────────────────────► End ──► typed ──► Paid
//!     │  ▲                                                     ▲  │
//!     │  └─ nothing was taken ─┐                  all of it    │  └─ the program reads keys ──► Paid
//!     ├──► sent, no answer ──► Sent ───────────────────────────┤
//!     └──► pasted, a dialog opened ──► Pasted ──► submitted ───┘      (without an end of input: Paid)
//! ```
//!
//! The prompt is typed again only when the terminal is known not to have taken it, or when it is seen not to stand in
//! the input line. When that is unknown, a person is called, and decides.

use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::harness::END_OF_INPUT;
use super::restart::Mono;
use super::screen::{Fate, Inputs};

mod pasted;

pub use self::pasted::Pasted;

/// The session fact that holds the prompt until it was typed; then the end of input alone, then nothing.
pub const OWED: &str = "first_prompt";
/// The session fact that holds the stage as long as the whole prompt is owed.
pub const COURSE: &str = "first_prompt_course";
/// A person is called when the prompt was kept back for this long.
pub const LONG: Duration = Duration::from_secs(30);
/// A program that reads lines and has printed nothing gets the prompt after this time: a program that is about to read
/// keys would misread the lines.
const SILENT: Duration = Duration::from_secs(3);
/// The maximum number of pastes: a program that never submits the prompt may have discarded each paste, or may have all
/// of them in its input line.
pub const MOST_PASTES: u32 = 3;

/// The progress of the first prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Nothing was typed.
    Untyped,
    /// The prompt was pasted and not submitted: it may stand in the program's input line.
    Pasted(Pasted),
    /// The prompt, or the Enter that submits it, was sent, and the terminal has not answered.
    Sent {
        /// The terminal's input count before.
        before: Option<Inputs>,
        /// The state of the paste, where Enter was sent.
        pasted: Option<Pasted>,
    },
    /// The whole prompt was typed. The end of input is owed.
    End,
    /// Nothing is owed any more.
    Paid,
}

impl Stage {
    /// Reads the stage from the facts of the session.
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
                    // Another version wrote the stage: something was done, but it is unknown what.
                    Err(_) => Self::Sent {
                        before: None,
                        pasted: None,
                    },
                }
            }
        }
    }

    /// Returns the session fact that stores the stage, and its text.
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

/// The result of a look at the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// The session has ended.
    Gone,
    /// The session or its screen cannot be seen, for this reason.
    Unseen(String),
    /// Its screen.
    Screen(Screen),
}

/// The state of the session's screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// The screen's readiness for text.
    pub takes: Takes,
    /// The program reads keys, not lines.
    pub reads_keys: bool,
    /// The screen is blank.
    pub is_blank: bool,
    /// The screen changes from look to look.
    pub moves: bool,
    /// Earlier input waits for the program to read.
    pub is_full: bool,
    /// The terminal's input counts, where known.
    pub inputs: Option<Inputs>,
}

/// The screen's readiness for text typed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The program waits for text.
    Text,
    /// A dialog, a limit or a login is in the way, which people are told of; or an attached person sees the screen.
    Known,
    /// A person has begun a line.
    Begun,
    /// Unknown.
    Unknown,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Nothing more.
    Over,
    /// Look again in a moment.
    Soon,
    /// Wait: the obstacle is reported elsewhere.
    Rest,
    /// Wait, and call a person when that lasts.
    KeptBack(Reason),
    /// Type the prompt.
    Type,
    /// Type the end of input.
    End,
    /// Continue at this stage.
    Becomes(Stage),
}

/// Reasons why the prompt is kept back that are reported nowhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The fact that says if the prompt is owed cannot be read.
    Unread(String),
    /// The session or its screen cannot be seen.
    Unseen(String),
    /// The screen is not recognised.
    Unknown,
    /// A person has begun a line.
    Begun,
    /// Earlier input waits in the terminal.
    Full,
    /// A part of the prompt waits in the terminal.
    Draining,
    /// The prompt was sent, and it is unknown what the terminal took of it.
    Unsure,
    /// The prompt stood in the input line, and left it while a person was at the terminal.
    Doubtful,
    /// Typing the prompt was refused, with this advice.
    Refused(String, String),
    /// The terminal did not take the prompt.
    Untaken(String),
    /// The terminal did not take the end of input.
    EndUntaken(String),
    /// The prompt was pasted [`MOST_PASTES`] times, and never submitted.
    Unsubmitted,
    /// A bug of the supervisor ended the task that types the prompt.
    Panicked,
}

/// Returns the next step at a stage of this prompt after a look. `age` is the time since the first look.
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
        // A program that reads keys would take the end of input for a key that ends it.
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
            // The screen of a program at work may show anything.
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
        // A prompt that stands in the input line only needs Enter.
        _ if pasted.is_some_and(|it| it.times() >= MOST_PASTES && !it.is_shown()) => {
            Next::KeptBack(Reason::Unsubmitted)
        }
        Takes::Text | Takes::Known => Next::Type,
    }
}

/// Decides by what the terminal has taken of the prompt, or of its Enter.
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
    /// Returns the reason as text without a full stop.
    #[must_use]
    pub fn text(&self) -> String {
        let (what, why) = match self {
            Self::Unread(why) => ("cannot read whether its first prompt is still due", why),
            Self::Unseen(why) => ("its session or its screen cannot be read", why),
            Self::EndUntaken(why) => (
                "the prompt was typed, but the terminal does not accept the end of the input",
                why,
            ),
            Self::Refused(why, _) | Self::Untaken(why) => return bare(why).to_owned(),
            Self::Unknown => {
                return "its screen shows neither an input line nor a known dialog".into();
            }
            Self::Begun => {
                return "its input holds a line that a person began and did not submit".into();
            }
            Self::Full => {
                return "earlier input still waits in its terminal, because its program does not read"
                    .into();
            }
            Self::Draining => {
                return "a part of the prompt waits in its terminal, because its program does not read"
                    .into();
            }
            Self::Unsure => {
                return "the prompt was sent to the terminal, but it is unknown whether the terminal accepted it"
                    .into();
            }
            Self::Doubtful => {
                return "the prompt left the input line while a person was attached: it is unknown \
                whether that person submitted it"
                    .into();
            }
            Self::Panicked => {
                return "the task of the supervisor that types it failed by a bug, which the supervisor's log shows"
                    .into();
            }
            Self::Unsubmitted => {
                return format!(
                    "the prompt was pasted {MOST_PASTES} times, and the program did not submit it"
                );
            }
        };
        match bare(why) {
            "" => what.to_owned(),
            why => format!("{what}: {why}"),
        }
    }

    /// Returns the remedy, or what follows, in whole sentences.
    #[must_use]
    pub fn advice(&self, name: &str) -> String {
        let text = match self {
            Self::Unread(_) | Self::Unseen(_) => "The prompt is typed as soon as that can be read.",
            Self::Unknown => {
                "Bring it to its input line with `hd attach NAME` or `hd send NAME --keys \
                \"...\"`. `input_patterns` of its harness describe a screen that accepts text."
            }
            Self::Begun => {
                "The prompt is typed after that line was submitted or cleared, or after ten minutes without a key."
            }
            Self::Full => "The prompt is typed when the program reads its input.",
            Self::Draining => "The rest is typed when the program reads its input.",
            Self::Refused(_, advice) => return sentence(advice).replace("NAME", name),
            Self::Untaken(_) | Self::EndUntaken(_) => "Each patrol retries it.",
            Self::Panicked => {
                "The next patrols retry it, twice; then `hd agent restart NAME` starts over."
            }
            Self::Unsure | Self::Doubtful | Self::Unsubmitted => {
                "The prompt is not typed again. `hd attach NAME` shows the screen; submit the \
                prompt there if it is needed. `hd escalations ack` or `hd relic close` of this escalation marks \
                the prompt as no longer due; `hd agent restart NAME` starts over."
            }
        };
        text.replace("NAME", name)
    }

    /// Returns true when only a person can tell what became of the prompt.
    #[must_use]
    pub fn is_for_a_person(&self) -> bool {
        matches!(self, Self::Unsure | Self::Doubtful | Self::Unsubmitted)
    }

    /// Returns true when another try is slow, and is therefore left to the next patrol.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        matches!(
            self,
            Self::Refused(..) | Self::Untaken(_) | Self::EndUntaken(_) | Self::Panicked
        )
    }
}

/// Strips the punctuation that would stand before a full stop.
fn bare(text: &str) -> &str {
    text.trim().trim_end_matches([':', '.', ',', ';'])
}

fn sentence(text: &str) -> String {
    match bare(text) {
        "" => String::new(),
        text => format!("{text}."),
    }
}

/// The time since when the prompt is kept back, and the reasons for which people were called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delay {
    since: Option<Mono>,
    called: Vec<Discriminant<Reason>>,
}

/// The notice that people get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tell {
    /// None yet.
    Nothing,
    /// A condition is shown. People were called for this reason before.
    Show,
    /// A condition is shown, and people are called.
    Call,
}

impl Delay {
    /// Records that the prompt is kept back. Alternating reasons count as one delay, and each reason is told once.
    pub fn goes_on(&mut self, reason: &Reason, now: Mono) -> Tell {
        let since = *self.since.get_or_insert(now);
        match now.saturating_sub(since) < LONG {
            true => Tell::Nothing,
            false if self.has_called_for(reason) => Tell::Show,
            false => Tell::Call,
        }
    }

    /// Records that a person was called for this reason.
    pub fn called(&mut self, reason: &Reason) {
        self.called.push(discriminant(reason));
    }

    /// Returns true when a person was called for this reason.
    #[must_use]
    pub fn has_called_for(&self, reason: &Reason) -> bool {
        self.called.contains(&discriminant(reason))
    }

    /// Returns true when a person was called.
    #[must_use]
    pub fn has_called(&self) -> bool {
        !self.called.is_empty()
    }

    /// Ends the delay: the prompt is kept back by an obstacle that is reported elsewhere.
    pub fn ends(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests;
