//! Stash entries that the supervisor keeps beside those in salvages.

use crate::domain::ids::{Incarnation, Oid, RaiderId};

/// Stash entries of a removed sandbox, or of none that is known. A worktree of the rig applies one by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedStashes {
    /// The raider that made them, where that is known.
    pub raider: Option<RaiderId>,
    /// The incarnation of that raider.
    pub incarnation: Option<Incarnation>,
    /// Their commits.
    pub ids: Vec<Oid>,
}
