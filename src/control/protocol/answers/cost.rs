//! Tokens and money: `cost`, and parts of other answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::usage::ledger::{By, Sum};

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

/// The answer to `cost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// The first day that counts.
    pub since: String,
    /// The time zone of the days; null where its name is not known.
    pub zone: Option<String>,
    /// The key by which the rows are grouped.
    pub by: By,
    /// The sums, ordered by their keys.
    pub rows: Vec<CostRow>,
    /// The sum of all.
    pub total: Usage,
    /// The budgets that do not count all usage, in words.
    pub not_counted: Vec<String>,
}

/// A row in the answer to `cost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostRow {
    /// The key; empty for usage that has none, such as that of standing agents by rig.
    pub key: String,
    /// The sum.
    #[serde(flatten)]
    pub usage: Usage,
}
