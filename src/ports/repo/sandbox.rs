//! A sandbox as git sees it: what it is made from, what is measured in it, what a salvage keeps of it.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId};
use crate::domain::ignored::Ignored;
use crate::domain::saved_work::SavedWork;

/// Everything that is needed to make a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The owner.
    pub raider: RaiderId,
    /// The relic it works on (names the task directory).
    pub relic: RelicId,
    /// The owner's incarnation.
    pub incarnation: Incarnation,
    /// The new branch.
    pub branch: String,
    /// The commit at which the branch starts.
    pub base: Oid,
    /// The sandbox's directory.
    pub path: PathBuf,
    /// The task directory, `.horde/tasks/<rig>/<relic>/<incarnation>`, holding `TASK.md` and
    /// `outcome`, which are linked into the sandbox and excluded from git.
    pub task_dir: PathBuf,
    /// Untracked files copied from the rig's checkout (relative paths).
    pub copy: Vec<String>,
}

/// The result of a measurement of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// The facts that a removal is decided by.
    pub facts: GitFacts,
    /// Ignored files that salvage does not keep and tools do not make again. They are no part of the facts: a change of
    /// them makes no permit stale.
    pub ignored: Ignored,
}

/// The owner of a sandbox, as recorded in the sandbox itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The owner's incarnation.
    pub incarnation: Incarnation,
    /// The relic that the sandbox was made for.
    pub relic: RelicId,
    /// The branch that the sandbox was made with.
    pub branch: String,
    /// The commit at which the branch started, or its present tip where the start is unknown.
    pub base: Oid,
    /// When the sandbox was made.
    pub made: Timestamp,
}

/// A record of a salvage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SalvageRecord {
    /// `<rig>-<raider>-<incarnation>`, plus `.n` for a further salvage of the same incarnation.
    pub id: String,
    /// Refs written, full names, in our repository (`.horde/custody/RIG.git`).
    pub refs: Vec<String>,
    /// Bytes of file content that only salvage holds.
    pub bytes: u64,
    /// Ignored paths that were not salvaged, at most a few hundred.
    pub ignored: Vec<String>,
    /// The work of the attempt, as commits.
    #[serde(default)]
    pub work: SavedWork,
    /// Fingerprint of the salvaged state, as in [`GitFacts`]; none where only a commit was kept, or where it is no
    /// longer known.
    #[serde(default)]
    pub fingerprint: Option<String>,
}
