//! Tokens and money of sessions, read from the transcripts that their programs write: one file per
//! program, all JSON Lines. A transcript is read on from where it was read to, and a message that stands
//! in it more than once is counted once.

mod claude;
mod codex;
mod copilot;
mod gemini;
pub mod ledger;
mod opencode;
mod pi;
pub mod places;
pub mod price;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::ops::AddAssign;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest name of a model.
const MODEL_MAX: usize = 128;
/// So many models are told apart in one transcript.
const MODELS: usize = 16;
/// Of the id of a message, so many characters are looked at.
const ID_MAX: usize = 128;
/// So many messages are remembered as counted: those that a program writes again follow closely.
const REMEMBERED: usize = 64;

/// Numbers of tokens. The four are disjoint: what was read from a cache is no `input`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read by the model, and neither from nor into a cache.
    pub input: u64,
    /// Written by the model, its thoughts included.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read, and put into a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// What is more than in another count; never less than nothing.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
        }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        let kinds = [self.input, self.output, self.cache_read, self.cache_write];
        kinds
            .iter()
            .fold(0, |sum: u64, more| sum.saturating_add(*more))
    }

    /// Whether it is none at all.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl AddAssign for Tokens {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
    }
}

/// Programs whose transcripts are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// GitHub Copilot CLI.
    Copilot,
    /// pi.
    Pi,
    /// opencode, by its plugin.
    Opencode,
}

impl Format {
    /// Whether the program tells what its tokens cost.
    #[must_use]
    pub fn tells_money(self) -> bool {
        match self {
            Self::Pi | Self::Opencode => true,
            Self::Claude | Self::Codex | Self::Gemini | Self::Copilot => false,
        }
    }
}

/// What one line of a transcript says was used.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// When, where the line says it.
    pub at: Option<Timestamp>,
    /// The model; empty where the transcript does not name it.
    pub model: String,
    /// How many tokens.
    pub tokens: Tokens,
    /// US dollars, where the program tells them.
    pub usd: Option<f64>,
}

/// How far a transcript was read, and what of it was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Bytes that were read.
    pub offset: u64,
    /// What is older was not used by a session of this city.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// A line that is too long to be read has begun: everything up to its end is passed over.
    #[serde(default)]
    skipping: bool,
    /// The model that was named last, for programs that name it apart.
    #[serde(default)]
    model: String,
    /// The models that were named.
    #[serde(default)]
    models: BTreeSet<String>,
    /// The newest messages, and what was counted of each.
    #[serde(default)]
    counted: VecDeque<(String, Tokens)>,
    /// The sum so far, for programs that tell sums.
    #[serde(default)]
    sum: Tokens,
    /// Each answer is told of by itself: sums would count it again.
    #[serde(default)]
    has_records: bool,
}

impl Cursor {
    /// The beginning of a transcript of which nothing counts that is older than this.
    #[must_use]
    pub fn since(since: Timestamp) -> Self {
        Self {
            since: Some(since),
            ..Self::default()
        }
    }

    /// Counts a message: what it has more than when it was counted before.
    fn count(&mut self, id: &str, tokens: Tokens) -> Tokens {
        let id: String = id.chars().take(ID_MAX).collect();
        if let Some((_, before)) = self.counted.iter_mut().find(|(known, _)| *known == id) {
            let more = tokens.beyond(before);
            *before += more;
            return more;
        }
        self.counted.push_back((id, tokens));
        if self.counted.len() > REMEMBERED {
            self.counted.pop_front();
        }
        tokens
    }

    /// The name of a model as it is kept: an agent can write any into its transcript, and each has its own sum.
    fn named(&mut self, model: &str) -> String {
        let fits = model.len() <= MODEL_MAX && model.chars().all(|c| c.is_ascii_graphic());
        let known = self.models.contains(model);
        if !fits || model.is_empty() || (!known && self.models.len() >= MODELS) {
            return String::new();
        }
        self.models.insert(model.to_owned());
        model.to_owned()
    }

    /// The next bytes of the transcript, from [`Cursor::offset`] on; `full` when there may be more of
    /// them at once. A line that is not at its end yet is left for the next time.
    pub fn read(&mut self, format: Format, bytes: &[u8], full: bool) -> Vec<Spent> {
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(end) = end else {
            if full {
                // It would be as long the next time.
                self.skipping = true;
                self.offset += bytes.len() as u64;
            }
            return Vec::new();
        };
        self.offset += end as u64 + 1;
        let mut lines = bytes[..end].split(|byte| *byte == b'\n');
        if std::mem::take(&mut self.skipping) {
            lines.next();
        }
        let mut spent = Vec::new();
        for line in lines {
            let Ok(line) = serde_json::from_slice::<Value>(line) else {
                continue;
            };
            let Some(mut one) = self.line(format, &line) else {
                continue;
            };
            one.model = self.named(&one.model);
            let old = one
                .at
                .is_some_and(|at| self.since.is_some_and(|since| at < since));
            if !old && !one.tokens.is_none() {
                spent.push(one);
            }
        }
        spent
    }

    fn line(&mut self, format: Format, line: &Value) -> Option<Spent> {
        match format {
            Format::Claude => claude::line(self, line),
            Format::Codex => codex::line(self, line),
            Format::Gemini => gemini::line(self, line),
            Format::Copilot => copilot::line(self, line),
            Format::Pi => pi::line(self, line),
            Format::Opencode => opencode::line(self, line),
        }
    }
}

/// The number at a path; 0 where there is none.
fn number(line: &Value, path: &str) -> u64 {
    line.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(line: &'a Value, path: &str) -> Option<&'a str> {
    line.pointer(path).and_then(Value::as_str)
}

fn time(line: &Value) -> Option<Timestamp> {
    text(line, "/timestamp")?.parse().ok()
}
