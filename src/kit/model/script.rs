//! What the model says: scenarios of steps, and which step a conversation stands at.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::request::{Request, Turn};

/// A conversation that the model has a part in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// The words in the user's text by which the conversation is recognised.
    pub marker: String,
    /// What the model does, in order.
    pub steps: Vec<Step>,
}

/// One thing that the model does.
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
        /// Where; most programs want an absolute path.
        path: String,
        /// The whole content.
        text: String,
    },
    /// Act: asks the user by the program's own tool for questions.
    Ask {
        /// The question.
        question: String,
        /// What can be chosen.
        options: Vec<String>,
    },
    /// Gate: refuses because a limit is reached (429).
    Limit {
        /// When the program may try again, as a duration.
        retry_after: Duration,
        /// When the limit of a subscription is over. With it the answer is that of a used-up
        /// subscription, without it that of too many requests.
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

/// Where a conversation stands in its scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position<'a> {
    /// The number of the step, from 0; the number of steps when all of them are done.
    pub index: usize,
    /// The step; none when all of them are done.
    pub step: Option<&'a Step>,
}

/// The scenario of a conversation: the one whose marker the latest of the user's texts has.
pub fn find<'a>(scenarios: &'a [Scenario], request: &Request) -> Option<&'a Scenario> {
    request.user_texts().rev().find_map(|text| {
        scenarios
            .iter()
            .find(|scenario| text.contains(&scenario.marker))
    })
}

impl Scenario {
    /// Where a conversation stands, when so many gates of the scenario have been released.
    /// `texts` are the texts by which this conversation shows that a step was done.
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

    /// How many acts the conversation already holds since its marker was first said.
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
