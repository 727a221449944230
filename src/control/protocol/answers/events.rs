//! The journal: the items of `events`, and `why`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::domain::event::Event;

/// The answer to `why`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Story {
    /// The subject.
    pub subject: String,
    /// The events about it, the oldest first.
    pub events: Vec<Event>,
    /// Why a relic is not charged automatically, and what a person can do about that or about an escalation; absent for
    /// other subjects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The number of the oldest event that retention kept; absent while all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_kept: Option<u64>,
}
