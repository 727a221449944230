//! The hook of a standing agent: the relic that it took, until it is done with it. The relic stays `open` and is assigned
//! to the agent, so that no raider is charged with it automatically.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::attempt::Used;
use super::ids::{AgentName, HarnessName, RelicId};
use super::relic::{Relic, RelicStatus};

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHook {
    /// The relic.
    pub relic: RelicId,
    /// The pool that the relic was assigned to; none when it was assigned to the agent itself.
    pub pool: Option<AgentName>,
    /// The last step that was handed to a fresh session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed: Option<HandedStep>,
    /// The work as the chain of its identity records it; none for an agent without a harness, and before it is noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<AgentWork>,
}

/// The work of an agent on the relic of its hook, from the time on when the relic was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentWork {
    /// The identity that does it.
    pub identity: String,
    /// The harness.
    pub harness: HarnessName,
    /// The rig of the relic.
    pub rig: String,
    /// The labels of the relic.
    pub labels: Vec<String>,
    /// When it began.
    pub since: Timestamp,
    /// Tokens and money of the agent until then, by model.
    #[serde(default)]
    pub used_before: BTreeMap<String, Used>,
}

/// A step that begins in a fresh session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedStep {
    /// The step.
    pub step: RelicId,
    /// The token of the session that closed the step before; any other session may work on it.
    pub closed_by: String,
}

impl AgentHook {
    /// The prefix of the keys under which the store keeps hooks of agents.
    pub const KEYS: &str = "agent-hook/";

    /// Returns the key under which the store keeps the hook of an agent.
    #[must_use]
    pub fn key(agent: &AgentName) -> String {
        format!("{}{agent}", Self::KEYS)
    }

    /// Returns whether the relic is still on this hook of the agent: a person may have closed it, put it off, or given it
    /// to another since.
    #[must_use]
    pub fn holds(&self, agent: &AgentName, relic: &Relic) -> bool {
        let is_assigned = relic.assignee.as_deref() == Some(agent.as_str());
        self.relic == relic.id && relic.status == RelicStatus::Open && is_assigned
    }

    /// Returns the assignee of a relic that leaves the hook unfinished: what came from a pool goes back to it.
    #[must_use]
    pub fn assignee(&self, agent: &AgentName) -> String {
        self.pool.as_ref().unwrap_or(agent).to_string()
    }
}
