//! Relics: `relic.show`, `relic.list` and the verbs that change one answer with it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::domain::relic::Relic;

use crate::domain::message::Severity;

/// An open escalation: its relic, with its state. The answer to `relic.show` of one, and each of `escalations`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Escalation {
    /// The relic.
    #[serde(flatten)]
    pub relic: Relic,
    /// Its severity.
    pub severity: Severity,
    /// The code of its problem.
    pub code: String,
    /// Set when a person has acknowledged it.
    pub acked: bool,
    /// The number of times it was raised again.
    pub again: u8,
    /// When people were last told.
    pub told: Timestamp,
}

/// The answer to `relic.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Shown {
    /// An escalation that waits for a person.
    Escalation(Box<Escalation>),
    /// Any other relic.
    Relic(Box<Relic>),
}
