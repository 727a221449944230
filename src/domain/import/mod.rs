//! Relics from other systems: what a file says, in the words of the store. Files are read here, whole, before the first
//! relic is stored; the supervisor stores them in batches.
//!
//! ```text
//!   format   a record                          its identity            priority
//!   jsonl    a line of `hd relic export`       its `source`, or `id`   as it is: 4 is the most urgent
//!   beads    a line of an export of beads      `id`                    4 - p: there, 0 is the most urgent
//!   github   an element of an array of issues  `html_url` or `url`     a label such as `priority: high`; an update without
//!                                                                     one leaves it
//! ```

mod beads;
mod github;
mod jsonl;
mod order;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ids::{HarnessName, RaiderId, RelicId, is_branch_name};
use super::relic::{RelicStatus, Source};

pub use order::ordered;

/// The system of a link to a relic of the city by its own id, for relics that the file does not have.
pub const RELIC: &str = "relic";
/// The system of a record of a file of JSON lines that no city exported.
pub const JSONL: &str = "jsonl";
/// The text before the id of the store in the system of a record that a city exported.
pub const CITY: &str = "city:";

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// The lines that `hd relic export` writes.
    Jsonl,
    /// The lines that `bd export` writes.
    Beads,
    /// Issues as `gh issue list --json` and the REST API write them.
    Github,
}

impl Format {
    /// Returns the mapping of priorities, in a sentence.
    #[must_use]
    pub fn priorities(self) -> &'static str {
        match self {
            Self::Jsonl => "priorities are those of the file (4 is the most urgent)",
            Self::Beads => {
                "priorities are mapped: 0 there, the most urgent, is 4 here; 4 there is 0"
            }
            Self::Github => {
                "priorities come from labels: P0 or critical is 4, P1 or high 3, P2 or medium 2, P3 or low 1; without such a \
                 label, a relic is made with 0, and an update leaves its priority"
            }
        }
    }

    /// Returns the format that a file seems to have.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let text = text.trim_start();
        if text.starts_with('[') {
            return Self::Github;
        }
        let first = text.lines().next().unwrap_or_default();
        let Ok(Value::Object(first)) = serde_json::from_str::<Value>(first) else {
            return Self::Jsonl;
        };
        let has = |keys: &[&str]| keys.iter().any(|key| first.contains_key(*key));
        if has(&["number"]) && has(&["state", "html_url"]) {
            Self::Github
        } else if has(&["issue_type", "dependencies", "created_at", "updated_at"]) {
            Self::Beads
        } else {
            Self::Jsonl
        }
    }
}

/// A record to import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its identity.
    pub source: Source,
    /// The id that it had as a relic; it gets the same if that is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RelicId>,
    /// The title, on one line.
    pub title: String,
    /// The description.
    #[serde(default)]
    pub body: String,
    /// The status.
    pub status: RelicStatus,
    /// Larger is more urgent; none where the source has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Free words.
    #[serde(default)]
    pub labels: Vec<String>,
    /// The person or agent that it is assigned to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The record that it is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Source>,
    /// The records that must be closed first; none where the source has no dependencies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deps: Option<Vec<Source>>,
    /// When it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Timestamp>,
    /// The fields that only an export of a city has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Box<Rest>>,
}

/// The fields of a relic that no other system has. They are restored when the relic is created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rest {
    /// A deferred relic's time.
    pub until: Option<Timestamp>,
    /// The raider that last worked on it.
    pub raider: Option<RaiderId>,
    /// The branch that was pushed for it last.
    pub branch: Option<String>,
    /// The existing branch that its work begins on.
    pub starts_on: Option<String>,
    /// The number of fresh raiders after a conflict or a failed gate.
    pub reworks: u32,
    /// The number of automatic charges that failed in a row.
    pub charge_failures: u32,
    /// The reason why the last attempt failed.
    pub context: Option<String>,
    /// The branch that it lands on.
    pub target: Option<String>,
    /// The harness that works on it.
    pub harness: Option<HarnessName>,
    /// The caller that made it.
    pub by: Option<String>,
}

/// A record with the line of the file where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The line, counted from 1.
    pub line: usize,
    /// The record.
    pub item: Item,
}

/// The contents of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The records, in the order of the file.
    pub items: Vec<Placed>,
    /// The kinds of records and links that were left out, each with its number.
    pub skipped: BTreeMap<String, usize>,
}

/// A fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// The fault.
    pub why: String,
}

impl Rest {
    /// Checks the names of branches, which reach git.
    ///
    /// # Errors
    /// A sentence about the first that is not valid.
    pub fn check(&self) -> Result<(), String> {
        let fields = [
            ("branch", &self.branch),
            ("starts_on", &self.starts_on),
            ("target", &self.target),
        ];
        for (field, name) in fields {
            if let Some(name) = name.as_ref().filter(|name| !is_branch_name(name)) {
                return Err(format!("its {field} {name:?} is not a valid branch name"));
            }
        }
        Ok(())
    }
}

impl Parsed {
    fn skip(&mut self, kind: &str) {
        *self.skipped.entry(kind.to_owned()).or_default() += 1;
    }
}

/// Reads a file.
///
/// # Errors
/// The first fault: then nothing of the file may be imported.
pub fn parse(text: &str, format: Format) -> Result<Parsed, Fault> {
    let mut parsed = Parsed::default();
    match format {
        Format::Jsonl => jsonl::read(text, &mut parsed)?,
        Format::Beads => beads::read(text, &mut parsed)?,
        Format::Github => github::read(text, &mut parsed)?,
    }
    let mut lines: BTreeMap<&Source, usize> = BTreeMap::new();
    for placed in &parsed.items {
        if let Some(first) = lines.insert(&placed.item.source, placed.line) {
            let id = &placed.item.source.id;
            return Err(fault(
                placed.line,
                format!("{id} stands in line {first} already"),
            ));
        }
    }
    Ok(parsed)
}

fn fault(line: usize, why: impl Into<String>) -> Fault {
    Fault {
        line,
        why: why.into(),
    }
}

/// Returns the lines that are not blank, each with its number and as an object of that type.
fn lines<'t, T: serde::de::DeserializeOwned>(
    text: &'t str,
) -> impl Iterator<Item = Result<(usize, T), Fault>> + 't {
    let numbered = text.lines().enumerate();
    let numbered = numbered.filter(|(_, line)| !line.trim().is_empty());
    numbered.map(|(index, line)| {
        let read = serde_json::from_str(line);
        read.map(|object| (index + 1, object))
            .map_err(|error| fault(index + 1, without_place(&error)))
    })
}

/// Returns the text of an error without its place, which is that of the line alone.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((text, _)) => text.to_owned(),
        None => text,
    }
}

/// Returns a title on one line.
fn title(line: usize, text: &str) -> Result<String, Fault> {
    let words: Vec<_> = text.split_whitespace().collect();
    match words.is_empty() {
        true => Err(fault(line, "it has no title")),
        // Only line breaks are replaced: a title keeps its spaces.
        false if text.contains(['\n', '\r']) => Ok(words.join(" ")),
        false => Ok(text.trim().to_owned()),
    }
}

/// Returns the labels that are not blank, each once, in their order.
fn labels(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for label in all {
        let label = label.trim();
        if !label.is_empty() && !kept.iter().any(|one| one == label) {
            kept.push(label.to_owned());
        }
    }
    kept
}

/// Returns a name unless it is blank.
fn named(name: Option<String>) -> Option<String> {
    name.filter(|name| !name.trim().is_empty())
}

/// Returns the status of a relic after an import. An import does not change the status of a relic that a raider is bound
/// to or that waits to land (`bound`); a closed relic stays closed; a blocked or deferred one waits for a person, or is closed.
#[must_use]
pub fn status_after(now: RelicStatus, bound: bool, given: RelicStatus) -> RelicStatus {
    match (now, given) {
        (RelicStatus::Hooked | RelicStatus::Closed, _) => now,
        _ if bound => now,
        (_, RelicStatus::Closed) => RelicStatus::Closed,
        (RelicStatus::Blocked | RelicStatus::Deferred, _) => now,
        (RelicStatus::Open, given) => status_at_first(given),
    }
}

/// Returns the status of a relic that an import creates: it has no raider here.
#[must_use]
pub fn status_at_first(given: RelicStatus) -> RelicStatus {
    match given {
        RelicStatus::Hooked => RelicStatus::Open,
        other => other,
    }
}

#[cfg(test)]
mod tests;
