//! Answers of the operations, and the items of streams. One definition for both ends: the server writes these structs,
//! clients may read them. Fields may be added; none is renamed or removed (`contract.md`, 2.4).

mod city;
mod cv;
mod drums;
mod events;
mod mq;
mod raider;
mod relic;
mod schema;
mod status;
mod totem;

pub use self::city::{Account, Agent, AgentState, Automation, Budget, Pool};
pub use self::cv::{Chain, Cv, CvImported, CvLine};
pub use self::drums::{
    Delivery, DeliveryState, Drum, DrumHead, Inbox, RalliedDrum, RalliedDrums, SentDrum,
};
pub use self::events::{Event, Story};
pub use self::mq::{Decided, MrDetails, MrRow, PullRequest};
pub use self::raider::{Git, OpenEscalation, Raider, RaiderUsage, SelfReview, Session};
pub use self::relic::{
    Cancelled, Change, Charging, Deps, EditedRelic, Escalation, Imported, ReadyRelic, Relic,
    RelicDetails, RelicLink, Shown,
};
pub use self::schema::{Answer, schemas};
pub use self::status::{Blocked, ForgeRow, RelicCounts, Rig, Status, WitnessRow};
pub use self::totem::{Progress, ReadyStep, Ritual, RitualRow, StepDone, Totem, TotemStep};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::usage::ledger::Sum;

/// Tokens and money.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of input that no cache had.
    pub input: u64,
    /// Tokens of output.
    pub output: u64,
    /// Tokens read from a cache.
    pub cache_read: u64,
    /// Tokens written to a cache.
    pub cache_write: u64,
    /// The cost in USD; null where no price is known.
    pub usd: Option<f64>,
    /// Tokens without a known price.
    pub unpriced: u64,
}

impl From<&Sum> for Usage {
    fn from(sum: &Sum) -> Self {
        let tokens = &sum.tokens;
        Self {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
            usd: sum.known_usd(),
            unpriced: sum.unpriced,
        }
    }
}

/// The use of today.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Today {
    /// Since midnight.
    pub today: Usage,
}
