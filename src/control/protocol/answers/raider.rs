//! A raider, in `status`, `raider.list` and `raider.show`; its rounds of self-review.

use std::path::PathBuf;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Usage;
use crate::domain::ids::{HarnessName, RaiderId, RelicId, RigName, SessionId, SlotName};
use crate::domain::raider::RaiderState;
use crate::domain::self_review::Round;

/// A raider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Raider {
    /// The name of its slot.
    #[schemars(with = "String")]
    pub name: SlotName,
    /// Its full address.
    #[schemars(with = "String")]
    pub id: RaiderId,
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// Its incarnation; null when its sandbox has no record.
    pub incarnation: Option<u64>,
    /// Its state, derived from facts.
    pub state: RaiderState,
    /// `needs_input`, `rate_limited`, `auth`, `waiting`, `push_blocked`, `sandbox_gone` and so on; null when there is none.
    pub condition: Option<String>,
    /// The condition in words: the question, the reason.
    pub detail: Option<String>,
    /// The known answers to its question.
    pub choices: Vec<String>,
    /// Its screen, when nothing else is known of its condition.
    pub screen: Option<String>,
    /// When the condition ends by itself.
    pub until: Option<Timestamp>,
    /// Since when it is stalled.
    pub stalled_since: Option<Timestamp>,
    /// Set when it is stuck until a person acts.
    #[serde(default)]
    pub needs_person: bool,
    /// Set when its relic is blocked.
    pub blocked: bool,
    /// The open escalation about its sandbox: a person decides what becomes of it.
    pub escalation: Option<OpenEscalation>,
    /// The relic on its hook.
    #[schemars(with = "Option<String>")]
    pub hook: Option<RelicId>,
    /// The branch of its sandbox.
    pub branch: Option<String>,
    /// The branch that its work lands on.
    pub target: Option<String>,
    /// The harness that works.
    #[schemars(with = "Option<String>")]
    pub harness: Option<HarnessName>,
    /// The use of its work; null when it has no hook.
    pub usage: Option<RaiderUsage>,
    /// Its session, while up.
    pub session: Option<Session>,
    /// The directory of its sandbox.
    pub sandbox: PathBuf,
    /// The last answer of git about the sandbox; null before the first look.
    pub git: Option<Git>,
    /// The number of deaths in the window.
    pub restarts: u32,
    /// When its quarantine ends.
    pub quarantined_until: Option<Timestamp>,
    /// The cause of its last death, while it is quarantined.
    pub died_of: Option<String>,
    /// Since when its session is in its state.
    pub since: Option<Timestamp>,
    /// When its session is started again; null while its start is put off (`detail`).
    pub retry_at: Option<Timestamp>,
    /// Set when it is suspended.
    pub suspended: bool,
}

/// The answer to `review`: a recorded round of self-review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SelfReview {
    /// The round.
    #[serde(flatten)]
    pub round: Round,
    /// The number of rounds that may fail (`max_reviews`).
    pub max: u32,
    /// The number of rounds that may still fail; at 0 the outcome must be `stuck`.
    pub left: u32,
}

/// An open escalation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenEscalation {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// The problem.
    pub problem: String,
}

/// The tokens and money that a raider's work used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderUsage {
    /// This raider on its relic.
    pub raider: Option<Usage>,
    /// All raiders on that relic.
    pub relic: Option<Usage>,
}

/// A session that is up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Its id.
    #[schemars(with = "String")]
    pub id: SessionId,
    /// The agent's process.
    pub pid: u32,
    /// The holder's process.
    pub holder_pid: Option<u32>,
    /// Its generation.
    pub generation: u64,
    /// When it started.
    pub since: Timestamp,
}

/// Counts of git in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Git {
    /// Commits that the target has not.
    pub ahead: u64,
    /// Changed paths.
    pub dirty: u64,
    /// Untracked paths.
    pub untracked: u64,
    /// The age of this in seconds.
    pub age_s: u64,
}
