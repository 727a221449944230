//! The input and the result of a gate's run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::ids::Oid;

/// The result of a gate's run in the scratch worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRun {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal, when a signal ended it.
    pub signal: Option<i32>,
    /// Set when the timeout ended it.
    pub timed_out: bool,
    /// Set when it was ended by [`Repo::stop_gate`](super::Repo::stop_gate).
    pub stopped: bool,
    /// The reason why it could not be started.
    pub spawn_error: Option<String>,
    /// Wall time.
    pub took: Duration,
    /// The end of its output.
    pub tail: String,
    /// The file with its complete output.
    pub log: PathBuf,
    /// Tracked paths that the gate changed; a gate that edits the tree has not tested what lands.
    pub changed: Vec<String>,
    /// The tree that was checked out for it, from the worktree's index.
    pub tree: Option<Oid>,
}

/// The input of a gate's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSpec {
    /// Name, for the log file.
    pub name: String,
    /// Shell command.
    pub run: String,
    /// Timeout.
    pub timeout: Duration,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Directory of gate logs.
    pub log_dir: PathBuf,
}
