//! Results of operations on raiders and on the configuration: actors and sagas return them, and the control socket answers
//! with them.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::existing_branch::Start;
use super::ids::{Incarnation, Oid, RaiderId, RelicId, RigName, SessionId};
use super::ignored::Ignored;
use super::nuke::CleanupStatus;
use super::reload::{AgentChange, RaiderChange, RigChange};

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
    /// Set when `name` asked for a slot that is not in `names` of the rig, and that no raider had before; absent
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_slot: bool,
}

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

/// The answer to `reload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// The revision in force; for a dry run, the one that would be.
    pub revision: String,
    /// When it was applied.
    pub applied_at: Option<Timestamp>,
    /// The change of each agent.
    pub actions: Vec<AgentChange>,
    /// The change of each rig that differs.
    pub rigs: Vec<RigChange>,
    /// The raiders that apply a change with their next session.
    pub raiders: Vec<RaiderChange>,
    /// The reasons why the files are not in force.
    pub errors: Vec<String>,
    /// The keys that take effect only at the next start.
    pub pending: Vec<String>,
    /// The rigs that are held: they could not be prepared, and each patrol retries it.
    #[serde(default)]
    pub held: Vec<HeldRig>,
    /// The rigs that were held before, and are no longer: their work continues.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub prepared: Vec<RigName>,
    /// Set when nothing has changed since the last answer.
    pub unchanged: bool,
}

/// A rig that is held.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldRig {
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The reason.
    pub why: String,
}
