//! What a gate is run with, and what comes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::domain::ids::Oid;

/// A gate's run in the scratch worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRun {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Whether the timeout ended it.
    pub timed_out: bool,
    /// Why it could not be started.
    pub spawn_error: Option<String>,
    /// Wall time.
    pub took: Duration,
    /// The end of its output.
    pub tail: String,
    /// The file with all of its output.
    pub log: PathBuf,
    /// Tracked paths the gate changed; a gate that edits the tree has not tested what lands.
    pub changed: Vec<String>,
    /// The tree that was checked out for it, as the worktree's index had it.
    pub tree: Option<Oid>,
}

/// What a gate needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSpec {
    /// For the log's file name.
    pub name: String,
    /// Shell command.
    pub run: String,
    /// Its limit.
    pub timeout: Duration,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Directory of gate logs.
    pub log_dir: PathBuf,
}
