//! The answers to a session about itself: `done`, `handoff`, `wait`, `hook-event`, `hook`, `rally`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Progress, RalliedDrums};
use crate::domain::condition::Report;
use crate::domain::ids::{AgentName, Incarnation, Oid, RaiderId, RelicId, RigName, SessionId};
use crate::domain::last_end::LastEnd;
use crate::domain::outcome::OutcomeWord;
use crate::domain::relic::{Completion, Hook, Relic, RelicStatus};
use crate::domain::self_review::Round;

/// The answer to `done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Done {
    /// Of a raider.
    Raider(RaiderDone),
    /// Of a standing agent.
    Agent(AgentDone),
}

read_by_field!(Done { "raider" => Raider, _ => Agent });

/// An accepted completion of a raider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderDone {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The branch that is being pushed.
    pub branch: String,
    /// Its head.
    #[schemars(with = "String")]
    pub head: Oid,
    /// The declared exit.
    pub exit: Completion,
    /// Set when it had been accepted before.
    pub already: bool,
    /// Set when a person may have to review it: the session stays for that.
    pub may_be_reviewed: bool,
    /// A hint at something doubtful, such as a deferral without a time; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The end of a standing agent's work on a relic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDone {
    /// The agent.
    #[schemars(with = "String")]
    pub name: AgentName,
    /// `draining` when it leaves its pool now; null otherwise.
    pub state: Option<Leaves>,
    /// The relic that was on its hook; null when it had none.
    #[schemars(with = "Option<String>")]
    pub relic: Option<RelicId>,
    /// The status of that relic.
    pub status: Option<RelicStatus>,
}

/// The state of an agent that leaves its pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Leaves {
    /// Its session ends.
    Draining,
}

/// The answer to `handoff`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandedOff {
    /// The raider or agent.
    pub name: String,
    /// Its session.
    #[schemars(with = "String")]
    pub session: SessionId,
}

/// The answer to `wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waiting {
    /// The raider.
    #[schemars(with = "String")]
    pub name: RaiderId,
    /// The end of the wait.
    pub until: Timestamp,
    /// The reason, in the raider's words.
    pub reason: String,
}

/// The answer to `hook-event`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reported {
    /// The news of the session's state; null when the event has none.
    pub report: Option<Report>,
    /// Set when the session is watched, so that the report counts; absent without a report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<bool>,
}

/// The answer to `hook`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Hooked {
    /// Of a raider.
    Raider {
        /// Its hook.
        hook: Box<Hook>,
        /// The relic on it.
        relic: Box<Relic>,
    },
    /// Of a standing agent.
    Agent {
        /// The agent.
        #[schemars(with = "String")]
        agent: AgentName,
        /// The relic on its hook.
        relic: Box<Relic>,
        /// The totem of that relic; null without one.
        totem: Option<Progress>,
    },
}

/// The answer to `rally`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Rally {
    /// Of a raider.
    Raider(Box<RaiderRally>),
    /// Of a standing agent.
    Agent(Box<AgentRally>),
}

read_by_field!(Rally { "raider" => Raider, _ => Agent });

/// The identity, work and rules of a raider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderRally {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// Its rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// Its branch.
    pub branch: String,
    /// The branch that its work lands on.
    pub target: String,
    /// The commit at which its branch started.
    #[schemars(with = "String")]
    pub base: Oid,
    /// Its sandbox.
    pub sandbox: PathBuf,
    /// The file with its task, within the sandbox.
    pub task_file: String,
    /// The relic on its hook.
    pub relic: Relic,
    /// The end of the last session; null in a first session.
    pub last_end: Option<LastEnd>,
    /// The note of its last handoff; null when that left none, also after a `last_end` of `handoff`.
    pub note: Option<String>,
    /// When that note was written; null without one, and for a note of an earlier version. Later sessions may have ended
    /// since, as `last_end` tells of the last one.
    pub note_at: Option<Timestamp>,
    /// Its last rounds of self-review, the oldest first.
    pub self_reviews: Vec<Round>,
    /// The number of rounds that may still fail; null when its rig is not configured.
    pub self_reviews_left: Option<u32>,
    /// The state of its sandbox.
    pub git: SandboxGit,
    /// Set when it has declared its completion.
    pub done: bool,
    /// The state of its outcome file.
    pub outcome: OutcomeState,
    /// Its drums that are not acknowledged; null without any.
    pub drums: Option<RalliedDrums>,
    /// The totem of its relic; null without one.
    pub totem: Option<Progress>,
    /// The rules of its session.
    pub rules: String,
    /// The ways to end its work.
    pub finish: String,
    /// The full path of `hd`.
    pub hd: String,
}

/// The state of the outcome file of a raider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutcomeState {
    /// The content, in a word.
    pub state: OutcomeWord,
    /// The reason that it gives, or why it is unclear or unknown.
    pub reason: Option<String>,
    /// When it was last written; null where that is unknown.
    pub written: Option<Timestamp>,
    /// Why the supervisor refused it, as the raider was told; null when it has not been refused since it was written.
    pub refused: Option<String>,
    /// Set when it counts no longer, because what it declared was rejected: it counts again when it is written again.
    pub void: bool,
}

/// The state of a sandbox, by git.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SandboxGit {
    /// It is known.
    Known {
        /// The commit HEAD names.
        #[schemars(with = "String")]
        head: Oid,
        /// The branch HEAD names; null when detached.
        branch: Option<String>,
        /// The number of commits that the target has not.
        ahead: u64,
        /// Changed paths.
        dirty: Vec<String>,
        /// Untracked paths.
        untracked: Vec<String>,
        /// Other forms of work, such as a rebase in progress, in words.
        special: Vec<String>,
    },
    /// It is not known.
    Unknown {
        /// The reason.
        unknown: String,
    },
}

/// The identity and work of a standing agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRally {
    /// The agent.
    #[schemars(with = "String")]
    pub agent: AgentName,
    /// The pool that it is a member of.
    #[schemars(with = "Option<String>")]
    pub pool: Option<AgentName>,
    /// Its session.
    #[schemars(with = "String")]
    pub session: SessionId,
    /// Set when it is to leave its pool.
    pub draining: bool,
    /// The full path of `hd`.
    pub hd: String,
    /// The relic on its hook.
    pub relic: Option<Relic>,
    /// The next relic and the command that takes it, in words; null when its hook is full or none is ready.
    pub next: Option<String>,
    /// The end of the last session; null in a first session.
    pub last_end: Option<LastEnd>,
    /// The note of the last handoff; null when that left none, also after a `last_end` of `handoff`.
    pub note: Option<String>,
    /// When that note was written. Later sessions may have ended since, as `last_end` tells of the last one.
    pub note_at: Option<Timestamp>,
    /// Its drums that are not acknowledged; null without any.
    pub drums: Option<RalliedDrums>,
    /// The totem of the relic; null without one.
    pub totem: Option<Progress>,
    /// The rules of its work on the relic; null without one on its hook.
    pub rules: Option<String>,
    /// The ways to end its work on the relic; null without one on its hook.
    pub finish: Option<String>,
}
