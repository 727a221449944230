//! What is kept of tokens and money: transcripts that are read, and sums per day and session.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Cursor, Format, Tokens};

/// Whose tokens they are.
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

/// A transcript that is read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// The directory that it must be in, links followed.
    pub root: PathBuf,
    /// How it is written.
    pub format: Format,
    /// Whose it is now. A conversation that goes on in another session is that one's from then on.
    pub owner: Owner,
    /// How far it was read.
    pub cursor: Cursor,
    /// Its session may write more.
    pub active: bool,
}

/// A sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The day, as `2026-01-31`, by the zone of this machine.
    pub day: String,
    /// Whose.
    #[serde(flatten)]
    pub owner: Owner,
    /// The model; empty where it is not known.
    pub model: String,
    /// How many.
    #[serde(flatten)]
    pub tokens: Tokens,
    /// What they cost, as far as it is known.
    pub usd: f64,
    /// Of these the cost is not known.
    pub unpriced: u64,
}

/// What rows are put together by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Sessions, by the name that `status` shows: those of a raider at one relic after the other have the same.
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
    /// How many.
    pub tokens: Tokens,
    /// What they cost, as far as it is known.
    pub usd: f64,
    /// Of these the cost is not known.
    pub unpriced: u64,
}

impl Sum {
    /// The sum of rows.
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

    /// Both together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.tokens += other.tokens;
        self.usd += other.usd;
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self
    }

    /// As it is shown; `usd` is null where nothing is known of the cost.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Tokens {
            input,
            output,
            cache_read,
            cache_write,
        } = self.tokens;
        let all = self.tokens.all();
        let known = self.unpriced < all || all == 0;
        json!({
            "input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write,
            "usd": known.then(|| (self.usd * 1e6).round() / 1e6), "unpriced": self.unpriced,
        })
    }
}

/// The rows put together, in the order of what they are put together by.
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
