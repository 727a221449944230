//! The four classes of zombies and the act against each (`witness-patrol.md`, zombie detection algorithm; the decision
//! table of `product.md`). Decides from the facts of one raider at one moment and keeps no state, so that every
//! caller comes to the same result.
//!
//! ```text
//!   class            what is seen                                     what is done
//!   ──────────────   ──────────────────────────────────────────────   ─────────────────────────────
//!   session_dead     no session, and none will come: hook gone or     the sandbox goes, if the safety
//!                    closed, or quarantined; older than spawn_grace   protocol permits; else a person
//!   agent_dead       session up, the agent not among its processes    the session is replaced: a death
//!   stuck_in_done    done, no progress for done_intent_timeout,       the session is ended, done goes on
//!                    session up
//!   bead_closed      the relic was closed elsewhere                   session ended, then as the first
//! ```
//!
//! A fact that could not be observed is no evidence: a rule that needs it does not hold. `agent_dead` describes one
//! moment: a caller acts on it only after a second observation ([`Class::needs_second_observation`], [`is_lasting`]).

mod agent_dead;
mod relic_closed;
mod session_dead;
mod stuck_in_done;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::facts::Probed;

/// The class of a zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Class 1: no session is in the sandbox, and none will be.
    SessionDead,
    /// Class 2: the session runs without its agent.
    AgentDead,
    /// Class 3: the raider is finished and its session does not end.
    StuckInDone,
    /// Class 4: its relic was closed elsewhere.
    #[serde(rename = "bead_closed")]
    RelicClosed,
}

/// The act against a zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The sandbox is removed through the safety protocol.
    Remove,
    /// The session is ended in any case; the sandbox is then removed through the safety protocol.
    EndAndRemove,
    /// The session is ended; the saga in progress goes on.
    End,
    /// The session is replaced by a fresh one on the same sandbox, which counts as a death.
    Replace,
}

/// The relation of a raider to its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkState {
    /// It has a sandbox and no hook.
    Gone,
    /// It works.
    Open,
    /// It declared that it is finished.
    Done {
        /// Time since the last progress of its completion.
        silent: Duration,
        /// Set when the delay is not the raider's: a remote refuses, or a person's review is outstanding.
        excused: bool,
    },
    /// Its relic was closed elsewhere.
    Closed,
}

/// The state of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// No session, or an ended one.
    Dead,
    /// A running session.
    Up {
        /// Age of the session.
        age: Duration,
        /// True when the agent is among its processes; none when unknown.
        agent: Option<bool>,
    },
}

/// The observations of one raider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its work.
    pub work: WorkState,
    /// Its session.
    pub session: Probed<Session>,
    /// Age of its sandbox; none when unknown.
    pub age: Option<Duration>,
    /// Set when it died too often: the root does not start it.
    pub quarantined: bool,
}

/// The time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// A younger sandbox or session is not judged by its processes.
    pub spawn_grace: Duration,
    /// The longest time for which a `done` may make no progress.
    pub done_intent_timeout: Duration,
}

type Rule = fn(&Facts, &Policy) -> bool;

/// The first rule that holds decides.
const RULES: &[(Class, Rule, Act)] = &[
    (Class::SessionDead, session_dead::holds, Act::Remove),
    (Class::AgentDead, agent_dead::holds, Act::Replace),
    (Class::StuckInDone, stuck_in_done::holds, Act::End),
    (Class::RelicClosed, relic_closed::holds, Act::EndAndRemove),
];

/// Returns the class and the act when the raider is a zombie.
#[must_use]
pub fn judge(facts: &Facts, policy: &Policy) -> Option<(Class, Act)> {
    let mut rules = RULES.iter();
    let (class, _, act) = rules.find(|(_, holds, _)| holds(facts, policy))?;
    Some((*class, *act))
}

/// Returns true when a state that was first seen this long ago was seen by two patrols in a row. A patrol out of turn
/// may come a moment after another, so half of their interval must lie between.
#[must_use]
pub fn is_lasting(seen_for: Duration, patrol_interval: Duration) -> bool {
    seen_for >= patrol_interval / 2
}

impl Class {
    /// Returns true when one observation is not enough: a program that restarts its agent has none for a moment.
    #[must_use]
    pub fn needs_second_observation(self) -> bool {
        match self {
            Self::AgentDead => true,
            Self::SessionDead | Self::StuckInDone | Self::RelicClosed => false,
        }
    }

    /// Returns the name in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionDead => "session_dead",
            Self::AgentDead => "agent_dead",
            Self::StuckInDone => "stuck_in_done",
            Self::RelicClosed => "bead_closed",
        }
    }

    /// Returns the cause of the act.
    #[must_use]
    pub fn cause(self, work: WorkState) -> Cause {
        match (self, work) {
            (Self::AgentDead, _) => Cause::AgentDead,
            (Self::StuckInDone, _) => Cause::DoneTimeout,
            (Self::SessionDead | Self::RelicClosed, WorkState::Closed) => Cause::RelicClosed,
            (Self::SessionDead | Self::RelicClosed, WorkState::Gone) => Cause::HookLost,
            (Self::SessionDead | Self::RelicClosed, WorkState::Open | WorkState::Done { .. }) => {
                Cause::TooManyDeaths
            }
        }
    }
}

#[cfg(test)]
mod tests;
