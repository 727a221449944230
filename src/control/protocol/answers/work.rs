//! Work for raiders, and its removal: `run`, `charge`, `raider.nuke`, `raider.repair`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::protocol::ControlError;
use crate::domain::answers::{Charged, Nuked, Rehearsed};
use crate::domain::ids::{RelicId, RigName};

/// The answer to `run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    /// The relics that were made, in the order of the tasks.
    pub relics: Vec<StartedRelic>,
}

/// A relic in the answer to `run`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum StartedRelic {
    /// A raider works on it.
    Charged(Charged),
    /// Its charge failed.
    Failed(FailedCharge),
    /// It is ready, and waits for a free slot or another relic, or its assignee does it.
    Waits(WaitingRelic),
}

read_by_field!(StartedRelic { "error" => Failed, "session" => Charged, _ => Waits });

/// A relic whose charge failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedCharge {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// Null: no raider works on it.
    pub raider: (),
    /// The reason.
    pub note: String,
    /// The error that `charge` would have answered with.
    pub error: ControlError,
}

/// A relic that waits for its charge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingRelic {
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// Null: no raider works on it yet.
    pub raider: (),
    /// The reason.
    pub note: String,
    /// Its rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// Set when it is charged automatically.
    pub auto_charge: bool,
    /// Set when it would be charged automatically, but a person paused that.
    pub charge_paused: bool,
    /// The relics that must be closed before it can be charged; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub deps: Vec<RelicId>,
    /// The person, agent or pool that does it, so that no raider is charged; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
}

/// The answer to `raider.nuke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Nuke {
    /// With `dry_run`: the act that a nuke would do.
    Rehearsed(Rehearsed),
    /// The raider is removed.
    Done(Nuked),
}

read_by_field!(Nuke { "would" => Rehearsed, _ => Done });
