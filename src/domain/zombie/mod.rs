//! The four classes of zombies and what is done about each (`witness-patrol.md`, zombie detection
//! algorithm; the decision table of `1-product.md`). Facts of one raider at one moment go in, a class
//! and an act come out; nothing is remembered, so whoever looks comes to the same conclusion.
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
//! What could not be seen is no evidence: a rule that needs it does not hold. `agent_dead` is what is seen
//! at one moment; whoever acts on it has seen it twice.

mod agent_dead;
mod bead_closed;
mod session_dead;
mod stuck_in_done;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::facts::Probed;

/// What kind of zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Class 1: nobody is in the sandbox, and nobody will be.
    SessionDead,
    /// Class 2: the session is an empty shell.
    AgentDead,
    /// Class 3: it is finished and does not end.
    StuckInDone,
    /// Class 4: its work was closed elsewhere.
    BeadClosed,
}

/// What is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// The sandbox goes through the safety protocol.
    Remove,
    /// The session is ended whatever becomes of the sandbox, which then goes through the protocol.
    EndAndRemove,
    /// The session is ended; what is under way goes on.
    End,
    /// The session is ended and a fresh one started on the same sandbox, which counts as a death.
    Replace,
}

/// How the raider stands to its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bond {
    /// It has a sandbox and no hook.
    Gone,
    /// It works.
    Open,
    /// It said that it is finished.
    Done {
        /// Since the last progress of what follows from that.
        silent: Duration,
        /// A remote that refuses, or a person who has yet to look, is waited for, not the raider.
        excused: bool,
    },
    /// Its relic was closed elsewhere.
    Closed,
}

/// Its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// There is none, or it ended.
    Dead,
    /// One is up.
    Up {
        /// Since when.
        age: Duration,
        /// Whether the agent is among its processes; none when that cannot be told.
        agent: Option<bool>,
    },
}

/// What was seen of one raider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its work.
    pub bond: Bond,
    /// Its session.
    pub session: Probed<Session>,
    /// Since its sandbox was made; none when nothing tells.
    pub age: Option<Duration>,
    /// It died too often: the root does not start it.
    pub quarantined: bool,
}

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Younger ones are not judged by what runs.
    pub spawn_grace: Duration,
    /// How long `done` may go without progress.
    pub done_intent_timeout: Duration,
}

type Rule = fn(&Facts, &Policy) -> bool;

/// The first that holds decides.
const RULES: &[(Class, Rule, Act)] = &[
    (Class::SessionDead, session_dead::holds, Act::Remove),
    (Class::AgentDead, agent_dead::holds, Act::Replace),
    (Class::StuckInDone, stuck_in_done::holds, Act::End),
    (Class::BeadClosed, bead_closed::holds, Act::EndAndRemove),
];

/// Whether it is a zombie, of which class, and what is to be done.
#[must_use]
pub fn judge(facts: &Facts, policy: &Policy) -> Option<(Class, Act)> {
    let mut rules = RULES.iter();
    let (class, _, act) = rules.find(|(_, holds, _)| holds(facts, policy))?;
    Some((*class, *act))
}

impl Class {
    /// The name as it stands in events.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionDead => "session_dead",
            Self::AgentDead => "agent_dead",
            Self::StuckInDone => "stuck_in_done",
            Self::BeadClosed => "bead_closed",
        }
    }

    /// The cause of what is done about one that stands so.
    #[must_use]
    pub fn cause(self, bond: Bond) -> Cause {
        match (self, bond) {
            (Self::AgentDead, _) => Cause::AgentDead,
            (Self::StuckInDone, _) => Cause::DoneTimeout,
            (Self::SessionDead | Self::BeadClosed, Bond::Closed) => Cause::RelicClosed,
            (_, Bond::Gone) => Cause::HookLost,
            (_, Bond::Open | Bond::Done { .. }) => Cause::TooManyDeaths,
        }
    }
}

#[cfg(test)]
mod tests;
