//! Tokens and money of sessions, read from the transcripts that their programs write: a file per program, all JSON
//! Lines. Reading continues from the last position, and a message that occurs several times is counted once.

mod claude;
mod codex;
mod copilot;
mod gemini;
pub mod ledger;
mod opencode;
mod pi;
pub mod price;
#[cfg(test)]
mod tests;
pub mod transcript_dirs;

use std::collections::{BTreeSet, VecDeque};
use std::ops::AddAssign;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The maximum length of a model's name.
const MODEL_MAX: usize = 128;
/// The maximum number of models that are told apart in one transcript.
const MODELS: usize = 16;
/// The number of characters of a message id that are compared.
const ID_MAX: usize = 128;
/// The number of counted messages that are remembered: a program that writes a message again does so soon after.
const REMEMBERED: usize = 64;

/// Numbers of tokens. The four are disjoint: tokens read from a cache are no `input`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read by the model, neither from nor into a cache.
    pub input: u64,
    /// Written by the model, its thoughts included.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Read, and put into a cache.
    pub cache_write: u64,
}

impl Tokens {
    /// Returns the excess over another count; never negative.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        Self {
            input: self.input.saturating_sub(before.input),
            output: self.output.saturating_sub(before.output),
            cache_read: self.cache_read.saturating_sub(before.cache_read),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
        }
    }

    /// Returns the total.
    #[must_use]
    pub fn all(&self) -> u64 {
        let kinds = [self.input, self.output, self.cache_read, self.cache_write];
        kinds
            .iter()
            .fold(0, |sum: u64, more| sum.saturating_add(*more))
    }

    /// Returns true when all numbers are 0.
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

/// Formats of transcripts, by program.
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
    /// Returns true when the program reports the cost of its tokens.
    #[must_use]
    pub fn tells_money(self) -> bool {
        match self {
            Self::Pi | Self::Opencode => true,
            Self::Claude | Self::Codex | Self::Gemini | Self::Copilot => false,
        }
    }
}

/// The usage in one line of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    /// Time, where the line has one.
    pub at: Option<Timestamp>,
    /// The model; empty where the transcript does not name it.
    pub model: String,
    /// The tokens.
    pub tokens: Tokens,
    /// US dollars, where the program reports them.
    pub usd: Option<f64>,
}

/// The position up to which a transcript was read, and what of it was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The number of bytes read.
    pub offset: u64,
    /// Older lines were not written by a session of this city.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Set within a line that is too long to be read, which is skipped up to its end.
    #[serde(default)]
    skipping: bool,
    /// The last named model, for programs that name it separately.
    #[serde(default)]
    model: String,
    /// The models that were named.
    #[serde(default)]
    models: BTreeSet<String>,
    /// The newest messages, with the tokens counted of each.
    #[serde(default)]
    counted: VecDeque<(String, Tokens)>,
    /// The sum so far, for programs that report sums.
    #[serde(default)]
    sum: Tokens,
    /// Set when each answer is reported separately, so that sums would count it again.
    #[serde(default)]
    has_records: bool,
}

impl Cursor {
    /// Starts at the beginning of a transcript; lines older than `since` do not count.
    #[must_use]
    pub fn since(since: Timestamp) -> Self {
        Self {
            since: Some(since),
            ..Self::default()
        }
    }

    /// Counts a message, without the tokens that were counted of it before.
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

    /// Returns the name under which a model is counted. An agent can write any name into its transcript, and each name
    /// has a sum of its own, so their number is limited.
    fn named(&mut self, model: &str) -> String {
        let fits = model.len() <= MODEL_MAX && model.chars().all(|c| c.is_ascii_graphic());
        let known = self.models.contains(model);
        if !fits || model.is_empty() || (!known && self.models.len() >= MODELS) {
            return String::new();
        }
        self.models.insert(model.to_owned());
        model.to_owned()
    }

    /// Reads the next bytes of the transcript, from [`Cursor::offset`] on; `full` when there may be more of them. An
    /// incomplete line is left for the next call.
    pub fn read(&mut self, format: Format, bytes: &[u8], full: bool) -> Vec<Spent> {
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(end) = end else {
            if full {
                // The line would be as long the next time.
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

/// Returns the number at a path; 0 where there is none.
fn number(line: &Value, path: &str) -> u64 {
    line.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

fn text<'a>(line: &'a Value, path: &str) -> Option<&'a str> {
    line.pointer(path).and_then(Value::as_str)
}

fn time(line: &Value) -> Option<Timestamp> {
    text(line, "/timestamp")?.parse().ok()
}
