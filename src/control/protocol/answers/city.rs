//! Parts of a city beside its rigs: agents, pools, accounts, budgets, automations.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Today;
use crate::domain::automation::RunState;
use crate::domain::ids::{AgentName, RelicId, SessionId};

/// A standing agent, in `status` and `agent.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Its name.
    #[schemars(with = "String")]
    pub name: AgentName,
    /// Its state.
    pub state: AgentState,
    /// Its process.
    pub pid: Option<u32>,
    /// The generation of its session.
    pub generation: Option<u64>,
    /// The number of deaths in the window.
    pub restarts: u32,
    /// When its quarantine ends.
    pub quarantined_until: Option<Timestamp>,
    /// The cause of its last death, while it is quarantined.
    pub died_of: Option<String>,
    /// Since when it is in its state.
    pub since: Option<Timestamp>,
    /// When it is started again; null while its start is put off (`detail`).
    pub retry_at: Option<Timestamp>,
    /// `needs_input`, `rate_limited`, `auth` and so on; null when there is none.
    pub condition: Option<String>,
    /// The condition in words.
    pub detail: Option<String>,
    /// Set when it is stuck until a person acts.
    #[serde(default)]
    pub needs_person: bool,
    /// The known answers to its question.
    pub choices: Vec<String>,
    /// Its screen, when nothing else is known of its condition.
    pub screen: Option<String>,
    /// When the condition ends by itself.
    pub until: Option<Timestamp>,
    /// Its session.
    #[schemars(with = "Option<String>")]
    pub session: Option<SessionId>,
    /// Set when it is restarted with its new configuration once no client is attached and no question is open.
    pub deferred: bool,
    /// The pool that it is a member of.
    #[schemars(with = "Option<String>")]
    pub pool: Option<AgentName>,
    /// The relic on its hook.
    #[schemars(with = "Option<String>")]
    pub hook: Option<RelicId>,
    /// Its use of tokens and money.
    pub usage: Today,
}

/// The state of a standing agent.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    /// Its session is being started.
    Starting,
    /// Its session is up.
    Running,
    /// It ends, at once or in its own time.
    Draining,
    /// It rests.
    Stopped,
    /// An operator or the configuration suspended it.
    Suspended,
    /// It died too often.
    Quarantined,
    /// It died, and waits for its restart.
    Backoff,
    /// An agent that it depends on is not running.
    Blocked,
}

/// A pool of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// The agent of the pool.
    #[schemars(with = "String")]
    pub name: AgentName,
    /// The minimum number of members.
    pub min: u32,
    /// The maximum number of members.
    pub max: u32,
    /// The desired number; null until the first check.
    pub wanted: Option<u32>,
    /// The number that its check asked for.
    pub asked: Option<u32>,
    /// The number of running members that stay.
    pub running: usize,
    /// The number of running members that end.
    pub draining: usize,
    /// The last check.
    pub last_check: Option<Timestamp>,
    /// The reason why the last check failed.
    pub error: Option<String>,
}

/// A parked account of a harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// The account.
    pub account: String,
    /// A harness that uses it.
    pub harness: Option<String>,
    /// `rate_limited` or `auth`.
    pub condition: String,
    /// The text of the harness.
    pub detail: String,
    /// When its sessions are resumed; null for a login.
    pub until: Option<Timestamp>,
    /// Set when `until` is an estimate.
    pub guessed: bool,
    /// When it was parked.
    pub since: Timestamp,
    /// The child whose session told it.
    pub told_by: String,
}

/// A spent budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Its scope.
    pub of: String,
    /// The budget of a day.
    pub usd_per_day: f64,
    /// The costs of the day so far.
    pub spent: f64,
    /// The same in words.
    pub detail: String,
    /// Set when new work is parked.
    pub parks: bool,
    /// When new work is charged again.
    pub until: Option<String>,
}

/// An automation, in `status` and `auto.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Automation {
    /// Its name, with the rig's before it where it is a rig's.
    pub name: String,
    /// Its rig.
    pub rig: Option<String>,
    /// Its description.
    pub description: String,
    /// Its gate: `cooldown`, `cron`, `condition`, `event`, `manual`.
    pub gate: String,
    /// Unset when its file or an operator disables it.
    pub enabled: bool,
    /// The start of its last run.
    pub last: Option<Timestamp>,
    /// The state of its last run.
    pub last_state: Option<RunState>,
    /// When its gate opens next, as far as is known.
    pub next: Option<Timestamp>,
    /// Set while it runs.
    pub running: bool,
    /// Set while its run waits for a place among the commands of its rig or of the city.
    #[serde(default)]
    pub waits_for_place: bool,
    /// The number of events that wait for it: each gets a run of its own. 100 stands for more, too.
    #[serde(default)]
    pub waiting_events: usize,
}
