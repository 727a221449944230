//! Relics: units of work in the store.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId};

/// The label of a relic that a fresh raider must rework, whatever `auto_charge` says. It goes with the
/// charge that it brings about.
pub const REWORK: &str = "rework";

/// What a relic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelicKind {
    /// Work for a raider.
    Task,
    /// A merge request (its own table holds the rest).
    MergeRequest,
    /// A call for a person.
    Escalation,
    /// Ephemeral tracking, collected later.
    Wisp,
}

/// Where a relic stands (`4-rules.md`, relic status).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelicStatus {
    /// May be charged.
    Open,
    /// A raider is bound to it.
    Hooked,
    /// Waits for a person to reopen it.
    Blocked,
    /// Put off, until a time if one was given.
    Deferred,
    /// Finished.
    Closed,
}

impl RelicStatus {
    /// Whether a raider that has it on its hook may work on it. It is blocked while a person is wanted because
    /// that raider's sessions died too often; the raider is tried again after its quarantine all the same.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Self::Hooked | Self::Blocked)
    }
}

/// One relic, in the shape that `hd relic show --json` prints (`4-rules.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relic {
    /// Its id.
    pub id: RelicId,
    /// What it is.
    pub kind: RelicKind,
    /// One line.
    pub title: String,
    /// The rest.
    pub body: String,
    /// Where it stands.
    pub status: RelicStatus,
    /// Larger is more urgent; 0 is usual.
    pub priority: i64,
    /// Free words.
    pub labels: Vec<String>,
    /// Who it is bound to, `horde/raiders/Toast`.
    pub assignee: Option<String>,
    /// The relic that this one is a step of.
    pub parent: Option<RelicId>,
    /// Relics that must be closed first.
    pub deps: Vec<RelicId>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was closed.
    pub closed: Option<Timestamp>,
    /// The raider that works or last worked on it.
    pub raider: Option<RaiderId>,
    /// A deferred relic's time.
    pub until: Option<Timestamp>,
    /// The branch that was pushed for it last; the next charge starts from it.
    pub branch: Option<String>,
    /// Raiders mustered again after a conflict or a red gate.
    pub reworks: u32,
    /// Charges that nobody asked for and that failed in a row; too many block it.
    #[serde(default)]
    pub charge_failures: u32,
    /// What the next raider must know (why the last attempt failed).
    pub context: Option<String>,
    /// The branch it lands on, where its charge named one; later charges keep to it.
    #[serde(default)]
    pub target: Option<String>,
    /// The harness that works on it, where its charge named one; later charges keep to it.
    #[serde(default)]
    pub harness: Option<HarnessName>,
    /// The caller that made it: `operator`, an agent's or an automation's name; none for what the supervisor
    /// made for itself.
    #[serde(default)]
    pub by: Option<String>,
}

/// The hook: the durable tie between one incarnation of a raider and its relic. Survives sessions;
/// goes with MERGED, with a verified no-change completion, or with a nuke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The raider.
    pub raider: RaiderId,
    /// Which incarnation of it.
    pub incarnation: Incarnation,
    /// The relic.
    pub relic: RelicId,
    /// The branch of the sandbox.
    pub branch: String,
    /// Where the branch started.
    pub base: Oid,
    /// Set when that was the tip of the target, and not of a branch that was pushed before.
    #[serde(default)]
    pub from_target: bool,
    /// The branch that the work lands on.
    pub target: String,
    /// The harness that works on it.
    pub harness: HarnessName,
    /// When it was charged.
    pub charged_at: Timestamp,
    /// `done` was called; the session is not wanted any more.
    pub done: Option<DoneIntent>,
}

/// A declared completion, durable before anything else happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneIntent {
    /// How it ends.
    pub exit: Exit,
    /// The head when it was declared.
    pub head: Oid,
    /// What the agent said of its sandbox.
    pub cleanup_status: Option<super::nuke::CleanupStatus>,
    /// Set to what git said instead, when that was recorded.
    #[serde(default)]
    pub mismatch: Option<super::nuke::CleanupStatus>,
    /// A verified no-change completion.
    pub no_change: bool,
    /// A person must look before it lands.
    pub wants_review: bool,
    /// For deferred work.
    pub until: Option<Timestamp>,
    /// In the agent's words.
    pub reason: Option<String>,
    /// When it was declared.
    pub at: Timestamp,
}

/// How an agent ends its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It is finished; land it.
    Completed,
    /// A person must decide.
    Escalated,
    /// Later.
    Deferred,
}
