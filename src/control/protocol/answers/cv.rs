//! Answers about identity chains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::cv::{Break, CvEntry};
use crate::domain::federation::{End, Header, Line};
use crate::domain::track_record::TrackRecord;

/// Identity chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cv {
    /// The identity that was asked for; null for all of them.
    pub name: Option<String>,
    /// The newest entries of that identity, the oldest first; empty for all of them.
    pub entries: Vec<CvEntry>,
    /// False when a chain breaks, of those that were checked.
    pub ok: bool,
    /// The chains.
    pub chains: Vec<Chain>,
    /// Set when there are more chains than an answer has.
    pub more: bool,
}

/// A chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// The city that it was imported from; null for one of this city.
    pub city: Option<String>,
    /// Set for the chain of a slot, which an older version wrote; its entries are in the chains of identities, too.
    pub is_slot: bool,
    /// The number of entries.
    pub entries: u64,
    /// The hash of the last entry.
    pub head: String,
    /// Set when every hash was checked.
    pub verified: bool,
    /// The first entry that does not follow, if it was checked.
    pub broken: Option<Break>,
    /// Sums over its entries, up to a break where they are checked; null for one of another city or of a slot in a list.
    pub record: Option<TrackRecord>,
}

/// A line of an export.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CvLine {
    /// The first line.
    Header(Header),
    /// Each further one.
    Entry(Line),
    /// The last line.
    End(End),
}

read_by_field!(CvLine { "format" => Header, "heads" => End, _ => Entry });

/// A batch that was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CvImported {
    /// The city.
    pub city: String,
    /// The number of entries that were added.
    pub added: u64,
    /// The number of entries that were there already.
    pub known: u64,
}

/// The answer to `cv.forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CvForgotten {
    /// The city.
    pub city: String,
    /// The number of its entries that were deleted.
    pub entries: u64,
}
