//! Rituals and totems: `ritual.*`, `totem.*`, `step.done`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::ids::{RelicId, RitualName, StepName};
use crate::domain::relic::RelicStatus;
use crate::domain::ritual::RitualStep;

/// A ritual in the answer to `ritual.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RitualRow {
    /// Its name.
    #[schemars(with = "String")]
    pub name: RitualName,
    /// Its purpose.
    pub description: String,
    /// Set when it is built in, and no file overrides it.
    pub built_in: bool,
    /// The file that defines it.
    pub file: Option<String>,
    /// The number of its steps.
    pub steps: usize,
    /// Its variables with their defaults; null where a value must be given.
    pub vars: BTreeMap<String, Option<String>>,
}

/// The answer to `ritual.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ritual {
    /// Its name.
    #[schemars(with = "String")]
    pub name: RitualName,
    /// Its purpose.
    pub description: String,
    /// Set when it is built in, and no file overrides it.
    pub built_in: bool,
    /// The file that defines it.
    pub file: Option<String>,
    /// Its variables with their defaults; null where a value must be given.
    pub vars: BTreeMap<String, Option<String>>,
    /// Its steps.
    pub steps: Vec<RitualStep>,
}

/// A totem: the answer to `totem.start` and `totem.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totem {
    /// The relic that it is on.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The title of the relic.
    pub title: String,
    /// The status of the relic.
    pub status: RelicStatus,
    /// The ritual that it was made from.
    #[schemars(with = "String")]
    pub ritual: RitualName,
    /// The values of the ritual's variables.
    pub vars: BTreeMap<String, String>,
    /// When it was started.
    pub started: Timestamp,
    /// The caller that started it.
    pub by: Option<String>,
    /// The number of the steps that are done.
    pub done: usize,
    /// The step to work on now; null when none is ready.
    #[schemars(with = "Option<String>")]
    pub present: Option<RelicId>,
    /// Set when every step is done.
    pub finished: bool,
    /// Its steps, in the order of the ritual.
    pub steps: Vec<TotemStep>,
}

/// A step of a totem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TotemStep {
    /// Its relic.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// Its id within the ritual.
    #[schemars(with = "String")]
    pub name: StepName,
    /// The title.
    pub title: String,
    /// The status.
    pub status: RelicStatus,
    /// The relics that must be closed first.
    #[schemars(with = "Vec<String>")]
    pub deps: Vec<RelicId>,
    /// Set when it can be worked on.
    pub ready: bool,
    /// Set when it begins in a fresh session.
    pub fresh_session: bool,
    /// Set when it was done; not set of one that was closed with the relic of the totem.
    #[serde(default)]
    pub done: bool,
    /// When it was closed.
    pub closed: Option<Timestamp>,
}

/// A step that can be worked on, with its instructions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadyStep {
    /// Its relic.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// Its id within the ritual.
    #[schemars(with = "String")]
    pub name: StepName,
    /// The title.
    pub title: String,
    /// The instructions of the present step, while its session goes on; null for the others, which `hd relic show` prints.
    pub body: Option<String>,
    /// Set when it begins in a fresh session.
    pub fresh_session: bool,
}

/// The state of a totem for the agent that works on it: `totem` of `rally`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// The ritual that it was made from.
    #[schemars(with = "String")]
    pub ritual: RitualName,
    /// The number of the steps that are done.
    pub done: usize,
    /// The number of all steps.
    pub of: usize,
    /// The steps that can be worked on; the first is the present one.
    pub next: Vec<ReadyStep>,
    /// The steps that are neither done nor ready.
    #[schemars(with = "Vec<String>")]
    pub later: Vec<RelicId>,
    /// Set when every step is done.
    pub finished: bool,
    /// The same in words, with what to do.
    pub text: String,
}

/// The answer to `step.done`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepDone {
    /// The relic of the totem.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The step that is done.
    #[schemars(with = "String")]
    pub step: RelicId,
    /// Set when it was done before this call.
    pub already: bool,
    /// Set when the session ends, and a fresh one begins with the next step.
    pub handoff: bool,
    /// The state of the totem.
    #[serde(flatten)]
    pub progress: Progress,
}
