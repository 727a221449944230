//! Work for raiders, and its removal: `run`, `charge`, `raider.nuke`, `raider.repair`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::control::protocol::ControlError;
use crate::domain::existing_branch::Start;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, RigName, SessionId};
use crate::domain::ignored::Ignored;
use crate::domain::nuke::CleanupStatus;

/// The answer to `charge`: the raider that works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Charged {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// The relic.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The branch of its sandbox.
    pub branch: String,
    /// The existing branch that its own branch begins on; absent where it begins on the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Start>,
    /// Its sandbox.
    pub sandbox: PathBuf,
    /// Its session.
    #[schemars(with = "String")]
    pub session: SessionId,
}

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

/// A removed raider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nuked {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// The salvage that holds its work; null when none was needed.
    pub salvage: Option<String>,
    /// The commits of which the salvage holds only what could be read; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub damaged: Vec<Oid>,
    /// Its stash entries that are kept without a salvage, as where its sandbox was gone.
    #[schemars(with = "Vec<String>")]
    pub stashes: Vec<Oid>,
    /// The ignored files that were removed with the sandbox.
    #[serde(flatten)]
    pub ignored: Ignored,
}

/// A rehearsal of a nuke.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rehearsed {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// Set when nothing would be lost.
    pub safe: bool,
    /// The work that would be lost, or that salvage would keep.
    pub losses: Vec<String>,
    /// The reason why it is not safe; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The remedy; absent where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The measured status of its sandbox; null where that is not known.
    pub status: Option<CleanupStatus>,
    /// The act of the nuke.
    pub would: Would,
    /// The ignored files that are removed with the sandbox in any case.
    #[serde(flatten)]
    pub ignored: Ignored,
}

/// The act that a nuke would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// Remove the sandbox; nothing would be lost.
    Nuke,
    /// Write what is at risk to salvage refs, then remove.
    Salvage,
    /// Keep the sandbox.
    Refuse,
}

/// The answer to `raider.repair`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repaired {
    /// The raider.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// Its sandbox.
    pub sandbox: PathBuf,
    /// The fault; null when none could be seen.
    pub was: Option<String>,
    /// The salvage of its work; null when that could not be read or was held by a commit already.
    pub salvage: Option<String>,
}
