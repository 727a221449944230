//! The ledger of tokens and money: transcripts that are read, and sums per day and session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cursor, Format, Tokens};

/// The owner of tokens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owner {
    /// The session.
    pub session: String,
    /// The rig; empty for a standing agent.
    pub rig: String,
    /// The raider (`horde/raiders/Toast`), or the name of the agent.
    pub child: String,
    /// The relic; empty for a standing agent.
    pub relic: String,
    /// The harness.
    pub harness: String,
}

/// A transcript that is being read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// The directory that must contain it, with links followed.
    pub root: PathBuf,
    /// Its format.
    pub format: Format,
    /// Its present owner. A conversation that continues in another session belongs to that session from then on.
    pub owner: Owner,
    /// The position up to which it was read.
    pub cursor: Cursor,
    /// Set while its session may write more.
    pub active: bool,
}

/// A sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The day, as `2026-01-31`, by the zone of this machine.
    pub day: String,
    /// The owner.
    #[serde(flatten)]
    pub owner: Owner,
    /// The model; empty where unknown.
    pub model: String,
    /// The tokens.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// Their known cost.
    pub usd: f64,
    /// The number of tokens whose cost is unknown.
    pub unpriced: u64,
}

/// The key by which rows are grouped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// Raiders and agents.
    Raider,
    /// Relics.
    Relic,
    /// Days.
    #[default]
    Day,
    /// Models.
    Model,
    /// Harnesses.
    Harness,
    /// Rigs; standing agents have none.
    Rig,
    /// Sessions, by the name in `status`: all sessions of a raider have the same name, whatever the relic.
    Session,
}

impl By {
    fn of(self, row: &Row) -> &str {
        match self {
            Self::Raider => &row.owner.child,
            Self::Relic => &row.owner.relic,
            Self::Day => &row.day,
            Self::Model => &row.model,
            Self::Harness => &row.owner.harness,
            Self::Rig => &row.owner.rig,
            Self::Session => &row.owner.session,
        }
    }
}

/// A sum over rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// The tokens.
    pub tokens: Tokens,
    /// Their known cost.
    pub usd: f64,
    /// The number of tokens whose cost is unknown.
    pub unpriced: u64,
}

impl Sum {
    /// Returns the sum of rows.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let mut sum = Self::default();
        for row in rows {
            sum.tokens += row.tokens;
            sum.usd += row.usd;
            sum.unpriced = sum.unpriced.saturating_add(row.unpriced);
        }
        sum
    }

    /// Adds another sum.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tokens += other.tokens;
        self.usd += other.usd;
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self
    }

    /// Returns the cost as it is shown; none where all costs are unknown.
    #[must_use]
    pub fn known_usd(&self) -> Option<f64> {
        let all = self.tokens.all();
        let known = self.unpriced < all || all == 0;
        known.then(|| (self.usd * 1e6).round() / 1e6)
    }
}

/// Groups rows and returns their sums, ordered by the key.
#[must_use]
pub fn together(rows: &[Row], by: By) -> Vec<(String, Sum)> {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(by.of(row)).or_default().push(row);
    }
    let groups = groups.into_iter();
    groups
        .map(|(key, rows)| (key.to_owned(), Sum::of(rows)))
        .collect()
}
