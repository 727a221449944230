//! Runs of automations: `auto.run`, `auto.history`, `auto.enable`, `auto.disable`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::automation::{AutomationId, Run, RunState};

/// The answer to `auto.run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BegunRun {
    /// The automation.
    #[schemars(with = "String")]
    pub name: AutomationId,
    /// The number of the run.
    pub run: u64,
    /// When it started.
    pub started: Timestamp,
    /// The number of its first event.
    pub seq: u64,
}

/// A run: each of `auto.history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastRun {
    /// Its number, which grows with each run.
    pub id: u64,
    /// The automation.
    #[schemars(with = "String")]
    pub automation: AutomationId,
    /// The cause that opened the gate.
    pub cause: String,
    /// The event that triggered it.
    pub event: Option<u64>,
    /// Its state.
    pub state: RunState,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The cause of its end.
    pub end: Option<String>,
    /// The exit code of the last attempt.
    pub code: Option<i32>,
    /// The signal that ended the last attempt.
    pub signal: Option<i32>,
    /// The number of attempts so far.
    pub attempts: u32,
    /// The end of the last attempt's output.
    pub tail: String,
}

impl From<Run> for PastRun {
    fn from(run: Run) -> Self {
        Self {
            id: run.id,
            automation: run.automation,
            cause: run.cause.to_string(),
            event: run.event,
            state: run.state,
            started: run.started,
            ended: run.ended,
            end: run.end.map(|cause| cause.to_string()),
            code: run.code,
            signal: run.signal,
            attempts: run.attempts,
            tail: run.tail,
        }
    }
}

/// The answer to `auto.enable` and `auto.disable`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Switched {
    /// The automation.
    #[schemars(with = "String")]
    pub name: AutomationId,
    /// Set when its gate starts it.
    pub enabled: bool,
}
