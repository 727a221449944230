//! Relics: `relic.show`, `relic.list` and the verbs that change one answer with it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::domain::relic::Relic;

use crate::domain::ids::{RaiderId, RelicId, RigName};
use crate::domain::message::Severity;
use crate::domain::relic::{RelicStatus, Source};

/// An open escalation: its relic, with its state. The answer to `relic.show` of one, and each of `escalations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Escalation {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// Its severity.
    pub severity: Severity,
    /// The code of its problem.
    pub code: String,
    /// Set when a person has acknowledged it.
    pub acked: bool,
    /// The number of times it was raised again.
    pub again: u8,
    /// When people were last told.
    pub told: Timestamp,
    /// Advice for a person, in `escalations` and `relic.show`; absent where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// The answer to `escalate`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Raised {
    /// The escalation.
    #[serde(flatten)]
    pub escalation: Escalation,
    /// Set when it was open before.
    pub known: bool,
    /// Set when people are told of it now.
    pub called: bool,
}

/// A relic with the relics that refer to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelicDetails {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// The relics that are steps of it.
    #[schemars(with = "Vec<String>")]
    pub children: Vec<RelicId>,
    /// The relics that wait for it.
    #[schemars(with = "Vec<String>")]
    pub dependents: Vec<RelicId>,
    /// Why a task is not charged automatically, and what a person can do; absent for other relics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
}

/// The answer to `relic.create` and `relic.edit`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotedRelic {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// A hint at something doubtful, such as an assignee that is neither an agent nor a raider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A relic in the answer to `relic.ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadyRelic {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// Why it is not charged automatically; null when it waits for no more than a free slot.
    pub waits: Option<String>,
}

/// The answer to `charge.pause` and `charge.resume`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Charging {
    /// The rig; null for all.
    #[schemars(with = "Option<String>")]
    pub rig: Option<RigName>,
    /// Set when automatic charging is paused now.
    pub paused: bool,
    /// Unset when it was so before.
    pub changed: bool,
}

/// A relic in a list of dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelicLink {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: RelicStatus,
}

/// The answer to `relic.dep.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Deps {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// Its status.
    pub status: RelicStatus,
    /// Set when it is open and all its dependencies are closed.
    pub ready: bool,
    /// The relics that must be closed first.
    pub deps: Vec<RelicLink>,
    /// The relics that wait for it.
    pub dependents: Vec<RelicLink>,
    /// The number of relics that it waits for beyond the limit; absent when all are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_deps: u64,
    /// The number of relics that wait for it beyond the limit; absent when all are listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_dependents: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it by reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The answer to `relic.cancel`: the closed relic, with what its work became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// The raider that was removed; none when no raider was at it.
    #[schemars(with = "Option<String>")]
    pub nuked: Option<RaiderId>,
    /// The salvage that keeps the raider's work, if one was needed.
    pub salvage: Option<String>,
    /// The merge requests that were taken out of the queue.
    #[schemars(with = "Vec<String>")]
    pub withdrawn: Vec<RelicId>,
}

/// The act of an import on a relic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It was made.
    Created,
    /// It was there, and differed from its record.
    Updated,
    /// It was there already as its record says.
    Unchanged,
}

/// A record after its import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// The record.
    pub source: Source,
    /// Its relic; none where the batch was only checked.
    #[schemars(with = "Option<String>")]
    pub relic: Option<RelicId>,
    /// The act of the import.
    pub change: Change,
    /// The ids of its parent and dependencies that are neither in the file nor in the city, and were left out.
    pub unresolved: Vec<String>,
}

/// The answer to `relic.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// An escalation that waits for a person.
    Escalation(Box<Escalation>),
    /// Any other relic.
    Relic(Box<RelicDetails>),
}

read_by_field!(Shown { "severity" => Escalation, _ => Relic });

impl Shown {
    /// Returns the relic itself.
    #[must_use]
    pub fn relic(&self) -> &Relic {
        match self {
            Self::Escalation(escalation) => &escalation.relic,
            Self::Relic(details) => &details.relic,
        }
    }
}
