//! `status`.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Account, Agent, Automation, Budget, MrRow, Pool, Raider, Today};
use crate::domain::auto_charge::InForce;
use crate::domain::ground::FileFault;
use crate::domain::ids::{RaiderId, RelicId, RigName};

/// The answer to `status`, and each item of `status` with `watch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The city's name.
    pub city: String,
    /// The supervisor's process.
    pub pid: u32,
    /// Seconds since the socket answers.
    pub uptime_s: u64,
    /// The supervisor's version.
    pub version: String,
    /// The revision of the configuration in force.
    pub config_revision: String,
    /// The reason why the configuration on disk is not in force.
    pub last_reload_error: Option<String>,
    /// The faults of the supervisor's own files.
    pub ground: Vec<FileFault>,
    /// Standing agents.
    pub agents: Vec<Agent>,
    /// Pools of agents.
    pub pools: Vec<Pool>,
    /// Rigs with their raiders.
    pub rigs: Vec<Rig>,
    /// Parked accounts of harnesses.
    pub accounts: Vec<Account>,
    /// Spent budgets.
    pub budgets: Vec<Budget>,
    /// Automations.
    pub automations: Vec<Automation>,
    /// The number of open escalations.
    pub escalations: usize,
    /// The escalations without acknowledgement that nothing else in this answer names.
    #[serde(default)]
    pub calls: Vec<Call>,
    /// The number of drums to people that are not acknowledged.
    pub drums: u64,
    /// Use of tokens and money by the city.
    pub usage: Today,
    /// The number of the newest event that this answer has.
    pub seq: u64,
    /// The control socket.
    pub socket: PathBuf,
}

/// An escalation without acknowledgement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// Its subject.
    pub about: String,
    /// The problem.
    pub problem: String,
}

/// A rig in `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rig {
    /// Its name.
    #[schemars(with = "String")]
    pub name: RigName,
    /// Its raiders.
    pub raiders: Vec<Raider>,
    /// Set when it is no longer configured and ends with its work.
    pub draining: bool,
    /// Set when the rig or the city is suspended.
    pub suspended: bool,
    /// The number of its tasks that are not closed.
    pub relics: RelicCounts,
    /// The pause of automatic charging; null while there is none.
    pub charge_paused: Option<InForce>,
    /// Its blocked tasks.
    pub blocked: Vec<Blocked>,
    /// Its forge.
    pub forge: ForgeRow,
    /// Its witness.
    pub witness: WitnessRow,
}

/// Numbers of tasks, by status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelicCounts {
    /// Open.
    pub open: u64,
    /// Hooked to a raider.
    pub hooked: u64,
    /// Blocked.
    pub blocked: u64,
    /// Deferred.
    pub deferred: u64,
}

/// A blocked task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    /// The relic.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// Its title.
    pub title: String,
    /// The raider that works or last worked on it.
    #[schemars(with = "Option<String>")]
    pub raider: Option<RaiderId>,
    /// The open escalation about it.
    #[schemars(with = "Option<String>")]
    pub escalation: Option<RelicId>,
    /// The problem of that escalation.
    pub problem: Option<String>,
}

/// A forge in `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForgeRow {
    /// Set when nothing lands.
    pub paused: bool,
    /// Unfinished merge requests, in the order in which they land.
    pub queue: Vec<MrRow>,
}

/// A witness in `status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WitnessRow {
    /// The last patrol that saw the rig.
    pub last_patrol: Option<Timestamp>,
}
