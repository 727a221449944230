//! The notes of a raider about its work, for the person that reviews it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderNote {
    /// The text, in the words of the raider.
    pub text: String,
    /// When it was left.
    pub at: Timestamp,
}

/// The notes with a submitted merge request, besides those of the self-reviews.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RaiderNotes {
    /// The reason of `hd done`, or of the outcome file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<RaiderNote>,
    /// The last note of a handoff before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<RaiderNote>,
}

impl RaiderNote {
    /// Returns a note; none without a text.
    #[must_use]
    pub fn new(text: &str, at: Timestamp) -> Option<Self> {
        let text = text.trim().to_owned();
        (!text.is_empty()).then_some(Self { text, at })
    }
}
