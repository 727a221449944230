//! Automations: a gate, and the command that runs, or the work that is made, when it opens (`contract.md`, 2.2).
//!
//! ```text
//!  gate opens ──► run recorded (running) ──► attempt, at most `retries` more ──► completed | failed
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::gates::{Gate, When, condition, cooldown, cron, manual};
use super::ids::{AgentName, AutomationName, InvalidId, RigName, RitualName};

/// The number of runs in a row of which each was brought about by the one before: automations that start each other
/// would run without end.
pub const CHAIN_MAX: u32 = 16;

/// The number of runs that one run may bring about within an hour, directly or not: each may bring about several others, and each of these
/// several more.
pub const OFFSPRING_MAX: u32 = 2000;

/// The number of runs that are kept of each automation.
pub const HISTORY: usize = 50;

/// Id of an automation: `nightly` of the city, `horde/nightly` of a rig.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AutomationId {
    /// The rig whose repository defines it.
    pub rig: Option<RigName>,
    /// Its name.
    pub name: AutomationName,
}

impl fmt::Display for AutomationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rig {
            Some(rig) => write!(f, "{rig}/{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

impl FromStr for AutomationId {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let (rig, name) = match text.split_once('/') {
            Some((rig, name)) => (Some(rig.parse()?), name),
            None => (None, text),
        };
        let name = name.parse()?;
        Ok(Self { rig, name })
    }
}

impl TryFrom<String> for AutomationId {
    type Error = InvalidId;

    fn try_from(text: String) -> Result<Self, InvalidId> {
        text.parse()
    }
}

impl From<AutomationId> for String {
    fn from(id: AutomationId) -> Self {
        id.to_string()
    }
}

/// The work of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A shell command.
    Exec(String),
    /// A relic with a totem, for a raider or a pool of agents.
    Ritual(RitualAction),
}

/// A relic with a totem that a run makes. A run waits for the end of the relic that the last one made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RitualAction {
    /// The ritual.
    pub ritual: RitualName,
    /// The rig that the relic belongs to.
    pub rig: RigName,
    /// The pool of agents that it is assigned to; none for a raider of the rig.
    pub pool: Option<AgentName>,
    /// Values of the ritual's variables.
    pub vars: BTreeMap<String, String>,
}

/// An automation as configured.
#[derive(Debug, Clone, PartialEq)]
pub struct Automation {
    /// The id.
    pub id: AutomationId,
    /// Its purpose.
    pub description: String,
    /// The work of a run.
    pub action: Action,
    /// The gate that starts it.
    pub gate: Gate,
    /// Timeout of one attempt, capped by `[automations] max_timeout`.
    pub timeout: Duration,
    /// The number of further attempts after a failure.
    pub retries: u32,
    /// Set when its gate may open; `hd auto run` works either way.
    pub enabled: bool,
    /// Working directory: the city, or the rig's path.
    pub dir: PathBuf,
}

impl Automation {
    /// Returns when the gate opens next by time; the gate of an event never does.
    #[must_use]
    pub fn next_opening(
        &self,
        mark: &Mark,
        last: Option<&Run>,
        last_check: Option<Timestamp>,
        now: Timestamp,
    ) -> When {
        if !self.enabled || mark.disabled {
            return When::Never;
        }
        let started = last.map(|run| run.started);
        match &self.gate {
            Gate::Cooldown { interval } => cooldown::when(*interval, started, now),
            Gate::Cron { schedule, .. } => cron::when(schedule, mark.slots, now),
            Gate::Condition {
                interval, every, ..
            } => condition::when(*interval, *every, started, last_check, now),
            Gate::Event { .. } => When::Never,
            Gate::Manual => manual::when(),
        }
    }
}

/// The state of an automation beside its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Id of the automation.
    pub automation: AutomationId,
    /// The gate that the marks below belong to ([`Gate::identity`]); a different gate starts without marks.
    pub gate: String,
    /// Set when an operator disabled it.
    pub disabled: bool,
    /// Slots of its schedule up to this time are settled.
    pub slots: Timestamp,
    /// Events up to this number are settled.
    pub cursor: u64,
}

/// State of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Started and not finished.
    Running,
    /// The command succeeded.
    Completed,
    /// Every attempt failed, or it was interrupted.
    Failed,
}

/// A run, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Grows with each run.
    pub id: u64,
    /// Id of the automation.
    pub automation: AutomationId,
    /// The cause that opened the gate.
    pub cause: Cause,
    /// The event that triggered it.
    pub event: Option<u64>,
    /// The state.
    pub state: RunState,
    /// When it started.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// The cause of its end.
    pub end: Option<Cause>,
    /// Exit code of the last attempt.
    pub code: Option<i32>,
    /// Signal that ended the last attempt.
    pub signal: Option<i32>,
    /// Attempts so far.
    pub attempts: u32,
    /// The end of the last attempt's output.
    pub tail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_automation_is_named_with_its_rig_or_alone() {
        for text in ["nightly", "horde/nightly"] {
            let id: AutomationId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(id.rig.is_some(), text.contains('/'));
        }
        for text in ["", "a/b/c", "/x", "x/", "..", "a b"] {
            assert!(text.parse::<AutomationId>().is_err(), "{text}");
        }
    }
}
