//! Relics: units of work in the store.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{HarnessName, Incarnation, Oid, RaiderId, RelicId};

/// The label of a relic that a fresh raider must rework, whatever `auto_charge` says. The charge that follows removes
/// it.
pub const REWORK: &str = "rework";

/// The kind of a relic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
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
    /// A step of a totem: done by the raider that works on the totem's relic, never charged by itself.
    Step,
}

/// The usual priorities, the most urgent last. Others count, too.
pub const PRIORITIES: std::ops::RangeInclusive<i64> = 0..=4;

/// Status of a relic (`rules.md`, relic status).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
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
    /// Returns true when the raider that has it on its hook may work on it. A relic is also blocked while a person is
    /// called because that raider's sessions died too often; the raider is still tried again after its quarantine.
    #[must_use]
    pub fn is_bound(self) -> bool {
        matches!(self, Self::Hooked | Self::Blocked)
    }
}

/// A relic, in the shape that `hd relic show --json` prints (`rules.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Relic {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// The kind.
    pub kind: RelicKind,
    /// The title, on one line.
    pub title: String,
    /// The description.
    pub body: String,
    /// The status.
    pub status: RelicStatus,
    /// Larger is more urgent; 0 is usual.
    pub priority: i64,
    /// Free words.
    pub labels: Vec<String>,
    /// The raider that it is bound to, `horde/raiders/Toast`.
    pub assignee: Option<String>,
    /// The relic that this one is a step of.
    #[schemars(with = "Option<String>")]
    pub parent: Option<RelicId>,
    /// Relics that must be closed first.
    #[schemars(with = "Vec<String>")]
    pub deps: Vec<RelicId>,
    /// When it was made.
    pub created: Timestamp,
    /// When it was closed.
    pub closed: Option<Timestamp>,
    /// The raider that works or last worked on it.
    #[schemars(with = "Option<String>")]
    pub raider: Option<RaiderId>,
    /// A deferred relic's time.
    pub until: Option<Timestamp>,
    /// The branch that was pushed for it last; the next charge starts from it.
    pub branch: Option<String>,
    /// The existing branch that its work begins on; none for the target. A branch that was pushed for it counts more.
    #[serde(default)]
    pub starts_on: Option<String>,
    /// The number of fresh raiders after a conflict or a failed gate.
    pub reworks: u32,
    /// The number of automatic charges that failed in a row; too many block the relic.
    #[serde(default)]
    pub charge_failures: u32,
    /// The reason why the last attempt failed, for the next raider.
    pub context: Option<String>,
    /// The branch it lands on, where its charge named one; later charges keep to it.
    #[serde(default)]
    pub target: Option<String>,
    /// The harness that works on it, where its charge named one; later charges keep to it.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub harness: Option<HarnessName>,
    /// The caller that made it: `operator`, or the name of an agent or automation; none when the supervisor made it for
    /// itself.
    #[serde(default)]
    pub by: Option<String>,
    /// The record that it was imported from; none for a relic that was made here.
    #[serde(default)]
    pub source: Option<Source>,
}

/// The identity of a record in the system that relics are imported from. A second import of the same record updates
/// the same relic.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The system: `beads`, `github`, `jsonl`, or `city:ID` for the store of a city that exported it.
    pub system: String,
    /// The id of the record there.
    pub id: String,
}

/// The hook: the durable tie between one incarnation of a raider and its relic. Survives sessions; ends with MERGED,
/// with a verified no-change completion, or with a nuke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hook {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The branch of the sandbox.
    pub branch: String,
    /// The commit at which the branch started.
    #[schemars(with = "String")]
    pub base: Oid,
    /// Set when that was the tip of the target; otherwise it was the tip of a branch that was pushed before.
    #[serde(default)]
    pub from_target: bool,
    /// The branch that the work lands on.
    pub target: String,
    /// The harness that works on it.
    #[schemars(with = "String")]
    pub harness: HarnessName,
    /// When it was charged.
    pub charged_at: Timestamp,
    /// The declared completion; with it, the session is no longer needed.
    pub done: Option<DoneIntent>,
}

impl Hook {
    /// Returns true when its work was declared done, and nothing has withdrawn that. [`super::phase::WorkPhase`] says what
    /// follows from it.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        self.done.is_some()
    }

    /// Returns true when it is the hook of this incarnation, and its work was not declared done.
    #[must_use]
    pub fn is_open_for(&self, incarnation: Incarnation) -> bool {
        self.incarnation == incarnation && !self.is_declared()
    }
}

impl Relic {
    /// Returns true when it is on the hook of this raider.
    #[must_use]
    pub fn is_of(&self, raider: &RaiderId) -> bool {
        self.assignee.as_deref() == Some(raider.to_string().as_str())
    }
}

/// A declared completion, durable before anything else happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DoneIntent {
    /// The kind of completion.
    pub exit: Completion,
    /// The head when it was declared.
    #[schemars(with = "String")]
    pub head: Oid,
    /// The state of the sandbox as the agent reported it.
    pub cleanup_status: Option<super::nuke::CleanupStatus>,
    /// The measured state, recorded when it differs from the report.
    #[serde(default)]
    pub mismatch: Option<super::nuke::CleanupStatus>,
    /// A verified no-change completion.
    pub no_change: bool,
    /// Set when a person must review it before it lands.
    pub wants_review: bool,
    /// The end of a deferral.
    pub until: Option<Timestamp>,
    /// The reason, in the agent's words.
    pub reason: Option<String>,
    /// When it was declared.
    pub at: Timestamp,
}

words! {
    /// The way in which an agent ends its work.
    #[derive(JsonSchema)]
    Completion {
        /// It is finished; land it.
        Completed => "completed",
        /// A person must decide.
        Escalated => "escalated",
        /// Work goes on later.
        Deferred => "deferred",
    }
}
