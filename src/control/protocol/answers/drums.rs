//! Drums: `drums.*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::domain::drum::{Drum, DrumHead};

/// The state of the delivery of a drum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// A live session was told of it.
    Delivered,
    /// It waits until its receiver looks: at `hd rally`, or in its inbox.
    Waits,
}

/// The delivery of a drum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    /// Its state.
    pub state: DeliveryState,
    /// Why no live session was told, if that was asked for; or why it is not recorded that one was.
    pub why: Option<String>,
}

/// The answer to `drums.send` and `drums.reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SentDrum {
    /// The drum.
    #[serde(flatten)]
    pub drum: DrumHead,
    /// Its delivery.
    pub delivery: Delivery,
}

/// The answer to `drums.ack`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum AckedDrums {
    /// The drum, where one was acknowledged.
    One(Box<DrumHead>),
    /// The drums, in the order of the request.
    Several(Vec<DrumHead>),
}

/// The answer to `drums.inbox`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    /// The owner of the mailbox.
    pub name: String,
    /// The number of drums that are not acknowledged.
    pub waiting: u64,
    /// The first of them, the oldest first; then the acknowledged ones, the newest first, if they were asked for.
    pub drums: Vec<DrumHead>,
}

/// The drums in the answer to `rally`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RalliedDrums {
    /// The number of drums that are not acknowledged.
    pub waiting: u64,
    /// The commands that read and answer them.
    pub how: String,
    /// The first of them, unread ones before read ones, the oldest first.
    pub drums: Vec<RalliedDrum>,
}

/// A drum in the answer to `rally`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RalliedDrum {
    /// Its number.
    pub id: u64,
    /// The sender.
    pub from: String,
    /// The subject, in the sender's words.
    pub subject: String,
    /// Set when it has been read.
    pub read: bool,
}

impl From<&DrumHead> for RalliedDrum {
    fn from(head: &DrumHead) -> Self {
        Self {
            id: head.id,
            from: head.from.clone(),
            subject: head.subject.clone(),
            read: head.read.is_some(),
        }
    }
}
