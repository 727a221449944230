//! The salvaged contents of removed sandboxes: `salvage.*`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId, RigName, SlotName};
use crate::domain::saved_work::SavedWork;

/// A salvage: each of `salvage.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Salvage {
    /// Its id.
    pub id: String,
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The raider.
    #[schemars(with = "String")]
    pub raider: SlotName,
    /// The raider's incarnation.
    #[schemars(with = "u64")]
    pub incarnation: Incarnation,
    /// The relic that it worked on.
    #[schemars(with = "Option<String>")]
    pub relic: Option<RelicId>,
    /// The reason of the salvage.
    pub reason: String,
    /// When it was made.
    pub created: Timestamp,
    /// The full names of its refs in the supervisor's repository of the rig.
    pub refs: Vec<String>,
    /// Bytes of content.
    pub bytes: u64,
    /// Ignored paths that were not salvaged.
    pub ignored: Vec<String>,
    /// The work of the attempt, as commits; null where an older version wrote the entry without it.
    pub work: Option<SavedWork>,
    /// Set in a list when the supervisor's repository of the rig has it; false when it is lost. Null where that was
    /// not looked at, or cannot be read now.
    #[serde(default)]
    pub present: Option<bool>,
}

/// The answer to `salvage.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownSalvage {
    /// The salvage.
    #[serde(flatten)]
    pub salvage: Salvage,
    /// The commits of its stash entries; null when they cannot be read.
    #[schemars(with = "Option<Vec<String>>")]
    pub stash_ids: Option<Vec<Oid>>,
}

/// Stash entries that no salvage has: each of `salvage.stashes`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stashes {
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The raider that made them, where that is known.
    #[schemars(with = "Option<String>")]
    pub raider: Option<RaiderId>,
    /// The incarnation of that raider.
    #[schemars(with = "Option<u64>")]
    pub incarnation: Option<Incarnation>,
    /// Their commits.
    #[schemars(with = "Vec<String>")]
    pub ids: Vec<Oid>,
}

/// The answer to `salvage.restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restored {
    /// The salvage.
    pub id: String,
    /// The worktree that is equal to the salvaged sandbox.
    pub path: PathBuf,
    /// The refs of its stash entries.
    pub stashes: Vec<String>,
    /// The commits of these.
    #[schemars(with = "Vec<String>")]
    pub stash_ids: Vec<Oid>,
    /// All its refs.
    pub refs: Vec<String>,
    /// The refs whose commits are lost: the worktree is whole without them.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// The answer to `salvage.prune`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pruned {
    /// The salvages that were destroyed.
    pub pruned: Vec<Salvage>,
    /// The salvages that were due and could not be destroyed.
    pub kept: Vec<Kept>,
}

/// A salvage that could not be destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// Its id.
    pub id: String,
    /// The reason.
    pub why: String,
}
