//! Messages between actors (`contract.md`, 2.5). Durable rows, delivered at least once, handled
//! idempotently, fenced by the incarnation.

use std::fmt;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::ids::{AgentName, Incarnation, Oid, RaiderId, RelicId, RigName};
use super::merge::FailureType;
use super::nuke::CleanupStatus;
use super::problem::Problem;
use super::relic::Completion;

/// Raider → witness: the work is pushed and the agent is finished.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiderDone {
    /// The raider.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The rig.
    pub rig: RigName,
    /// The work.
    pub relic: RelicId,
    /// The pushed branch.
    pub branch: String,
    /// The pushed head.
    pub head: Oid,
    /// The kind of completion.
    pub exit: Completion,
    /// The state of the sandbox as the agent reported it.
    pub cleanup_status: Option<CleanupStatus>,
    /// The required reviewer; none when no review is needed.
    pub gate: Option<String>,
}

/// Witness → forge: this may land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeReady {
    /// The raider that did the work.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The rig.
    pub rig: RigName,
    /// The work.
    pub relic: RelicId,
    /// The merge request.
    pub mr: RelicId,
    /// The pushed branch.
    pub branch: String,
    /// The pushed head.
    pub head: Oid,
    /// The result of the witness's measurement.
    pub verified: String,
}

/// Forge → witness: it is on the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Merged {
    /// The merge request.
    pub mr: RelicId,
    /// The raider that did the work.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The rig.
    pub rig: RigName,
    /// The work.
    pub relic: RelicId,
    /// The pushed branch.
    pub branch: String,
    /// The head that was asked for.
    pub head: Oid,
    /// The branch it landed on.
    pub target: String,
    /// The commit on the target, seen on the remote.
    pub merge_commit: Oid,
    /// When it landed.
    pub merged_at: Timestamp,
    /// Set when the target had everything of it already.
    pub noop: bool,
    /// Set when it was merged outside of the forge while it waited for a person.
    #[serde(default)]
    pub elsewhere: bool,
}

/// Forge → witness: it could not land.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeFailed {
    /// The merge request.
    pub mr: RelicId,
    /// The raider that did the work.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The rig.
    pub rig: RigName,
    /// The work.
    pub relic: RelicId,
    /// The pushed branch.
    pub branch: String,
    /// The head that was asked for.
    pub head: Oid,
    /// The branch it should have landed on.
    pub target: String,
    /// The reason.
    pub failure_type: FailureType,
    /// The end of the gate's output, or what git said.
    pub error: String,
    /// Conflicting paths.
    pub conflict_files: Vec<String>,
}

/// Any → shaman: a person must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// The agent or actor that it is about.
    pub agent: String,
    /// The work it is about.
    pub relic: Option<RelicId>,
    /// The problem, in one line: the fields `problem`, `code` and `of`.
    #[serde(flatten)]
    pub problem: Problem,
    /// The severity.
    pub severity: Severity,
    /// The evidence.
    pub evidence: String,
}

impl Escalation {
    /// Makes an escalation of high severity about an agent or actor, and no work.
    #[must_use]
    pub fn high(
        agent: impl fmt::Display,
        problem: impl Into<Problem>,
        evidence: impl Into<String>,
    ) -> Self {
        Self {
            agent: agent.to_string(),
            relic: None,
            problem: problem.into(),
            severity: Severity::High,
            evidence: evidence.into(),
        }
    }

    /// Returns the escalation about this work.
    #[must_use]
    pub fn on(mut self, relic: impl Into<Option<RelicId>>) -> Self {
        self.relic = relic.into();
        self
    }

    /// Returns the escalation with medium severity.
    #[must_use]
    pub fn medium(mut self) -> Self {
        self.severity = Severity::Medium;
        self
    }
}

/// The severity of an escalation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// For information.
    Low,
    /// Look today.
    Medium,
    /// Look soon.
    High,
    /// Look now.
    Critical,
}

/// Session → its successor: the state of its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// In the agent's words.
    pub note: Option<String>,
    /// The work.
    pub relic: Option<RelicId>,
    /// The raider's incarnation; none of a standing agent, and in messages of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<Incarnation>,
    /// The totem step that it was at.
    pub totem_step: Option<String>,
    /// Set when the successor continues the conversation of this session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
}

/// A message's body, tagged with the name that events show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Body {
    /// Raider → witness.
    #[serde(rename = "POLECAT_DONE")]
    RaiderDone(RaiderDone),
    /// Witness → forge.
    #[serde(rename = "MERGE_READY")]
    MergeReady(MergeReady),
    /// Forge → witness.
    #[serde(rename = "MERGED")]
    Merged(Merged),
    /// Forge → witness.
    #[serde(rename = "MERGE_FAILED")]
    MergeFailed(MergeFailed),
    /// An agent asks for help.
    #[serde(rename = "HELP")]
    Help(Escalation),
    /// The witness found a fault that it may not repair.
    #[serde(rename = "RECOVERY_NEEDED")]
    RecoveryNeeded(Escalation),
    /// Anything else a person must know.
    #[serde(rename = "ESCALATION")]
    Escalation(Escalation),
    /// To the next session.
    #[serde(rename = "HANDOFF")]
    Handoff(Handoff),
}

impl Body {
    /// Returns the cause of the journal entry for its sending.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::RaiderDone(done) => match done.exit {
                Completion::Completed => Cause::Done,
                Completion::Escalated => Cause::Stuck,
                Completion::Deferred => Cause::Deferred,
            },
            Self::MergeReady(_) => Cause::Done,
            Self::Merged(_) => Cause::Merged,
            Self::MergeFailed(_) => Cause::MergeFailed,
            Self::Help(_) | Self::Escalation(_) => Cause::Stuck,
            Self::RecoveryNeeded(_) => Cause::WorkAtRisk,
            Self::Handoff(_) => Cause::Handoff,
        }
    }

    /// Returns the raider and the relic that it is about, where its fields name them.
    #[must_use]
    pub fn work(&self) -> Option<(&RaiderId, &RelicId)> {
        match self {
            Self::RaiderDone(body) => Some((&body.raider, &body.relic)),
            Self::MergeReady(body) => Some((&body.raider, &body.relic)),
            Self::Merged(body) => Some((&body.raider, &body.relic)),
            Self::MergeFailed(body) => Some((&body.raider, &body.relic)),
            Self::Help(_) | Self::RecoveryNeeded(_) | Self::Escalation(_) | Self::Handoff(_) => {
                None
            }
        }
    }
}

/// A mailbox: `horde/witness`, `horde/forge`, `shaman`, `horde/raiders/Toast`.
pub type Address = String;

/// Returns the mailbox of a rig's witness.
#[must_use]
pub fn witness(rig: &RigName) -> Address {
    format!("{rig}/witness")
}

/// Returns the mailbox of a rig's forge.
#[must_use]
pub fn forge(rig: &RigName) -> Address {
    format!("{rig}/forge")
}

/// The shaman's mailbox.
pub const SHAMAN: &str = "shaman";

/// Returns the address of a standing agent's notes to itself. No rig, raider or actor can have it.
#[must_use]
pub fn agent(name: &AgentName) -> Address {
    format!("agent:{name}")
}

/// A message as stored: durable until its receiver marked it handled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Grows with each message.
    pub id: u64,
    /// Sender.
    pub from: Address,
    /// Receiver.
    pub to: Address,
    /// The content.
    pub body: Body,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// When its receiver marked it handled.
    pub handled_at: Option<Timestamp>,
}
