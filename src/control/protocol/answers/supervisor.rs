//! The supervisor itself: `ping`, `stop`, `reload`, `metrics`, `doctor`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::doctor::Finding;

/// The answer to `ping`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pong {
    /// The city's name.
    pub city: String,
    /// The supervisor's process.
    pub pid: u32,
    /// The supervisor's version.
    pub version: String,
}

/// The answer to `stop`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stopped {
    /// Set: the supervisor has stopped its work.
    pub stopped: bool,
    /// The end of the sessions.
    pub sessions: SessionsEnd,
}

/// The end of the sessions at a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionsEnd {
    /// They run on.
    Kept,
    /// They have ended.
    Ended,
}

/// The answer to `metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Metrics {
    /// The type of the text, for a web server that passes it on.
    pub content_type: String,
    /// The metrics in the text format of Prometheus.
    pub text: String,
}

/// The answer to `doctor`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Doctor {
    /// Set when every finding is fixed.
    pub ok: bool,
    /// The faults.
    pub findings: Vec<Finding>,
    /// The version of the git in use; null when no rig needs git, or it cannot be asked.
    pub git: Option<String>,
    /// The variables of the supervisor's environment that sessions depend on; null for the value of a key.
    pub environment: BTreeMap<String, Option<String>>,
}
