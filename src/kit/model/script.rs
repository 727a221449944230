//! The script of the model: scenarios of steps, and the step that a conversation has reached.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::request::{Request, Turn};

/// A conversation in which the model plays a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The words in the user's text that identify the conversation.
    pub marker: String,
    /// The model's steps, in order.
    pub steps: Vec<Step>,
}

/// A step of the model.
///
/// Acts leave a trace in the conversation: a text or the result of a tool. Gates leave none: each
/// of them holds a conversation until it is released ([`super::Model::release`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Act: says this and ends the turn.
    Say(String),
    /// Act: runs a shell command.
    Run(String),
    /// Act: writes a file.
    Write {
        /// Path; most programs want an absolute path.
        path: String,
        /// The complete content.
        text: String,
    },
    /// Act: asks the user through the program's own question tool.
    Ask {
        /// The question.
        question: String,
        /// The choices.
        options: Vec<String>,
    },
    /// Gate: refuses because a limit is reached (429).
    Limit {
        /// Time until the program may try again.
        retry_after: Duration,
        /// The end of a subscription's limit. With it, the answer is that of a used-up subscription; without it, that
        /// of too many requests.
        resets_at: Option<Timestamp>,
    },
    /// Gate: refuses the credentials (401).
    Unauthorised,
    /// Gate: lets the program wait for the answer.
    Wait,
}

impl Step {
    fn is_gate(&self) -> bool {
        match self {
            Self::Limit { .. } | Self::Unauthorised | Self::Wait => true,
            Self::Say(_) | Self::Run(_) | Self::Write { .. } | Self::Ask { .. } => false,
        }
    }
}

/// The step that a conversation has reached in its scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// The number of the step, from 0; the number of steps when all of them are done.
    pub index: usize,
    /// The step; none when all of them are done.
    pub step: Option<&'a Step>,
}

/// Returns the scenario of a conversation: its marker is in the latest of the user's texts that has one.
pub fn find<'a>(scenarios: &'a [Scenario], request: &Request) -> Option<&'a Scenario> {
    request.user_texts().rev().find_map(|text| {
        scenarios
            .iter()
            .find(|scenario| text.contains(&scenario.marker))
    })
}

impl Scenario {
    /// Returns the step that a conversation has reached, given the number of released gates. `texts` are the model's
    /// texts that show that a step was done.
    pub fn position(
        &self,
        request: &Request,
        released: usize,
        texts: &BTreeSet<String>,
    ) -> Position<'_> {
        let mut left = self.acts_done(request, texts);
        let mut gates = 0;
        for (index, step) in self.steps.iter().enumerate() {
            if step.is_gate() {
                if left == 0 && gates >= released {
                    let step = Some(step);
                    return Position { index, step };
                }
                gates += 1;
            } else if left == 0 {
                let step = Some(step);
                return Position { index, step };
            } else {
                left -= 1;
            }
        }
        Position {
            index: self.steps.len(),
            step: None,
        }
    }

    /// Returns the number of acts in the conversation since its marker first appeared.
    fn acts_done(&self, request: &Request, texts: &BTreeSet<String>) -> usize {
        let begins = |turn: &&Turn| match turn {
            Turn::User(text) => text.contains(&self.marker),
            Turn::Model(_) | Turn::Call | Turn::Result(_) => false,
        };
        let since = request.turns.iter().skip_while(|turn| !begins(turn));
        let done = |turn: &&Turn| match turn {
            Turn::Result(_) => true,
            Turn::Model(text) => texts.contains(text.trim()),
            Turn::User(_) | Turn::Call => false,
        };
        since.filter(done).count()
    }
}
