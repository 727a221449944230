//! Attempts at relics, and the entry of an identity chain that each result of one makes (`raider-lifecycle.md`,
//! identity). An attempt is the work of one incarnation of a raider. All facts of an entry were measured by the
//! supervisor or come from its configuration; tokens, money and models are those of `hd cost`.

mod outcome;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::ids::{AgentName, HarnessName, Incarnation, Oid, RaiderId, RelicId};
use super::relic::REWORK;
use super::routing::Choice;
use super::usage::Tokens;
use super::usage::ledger::Sum;

pub use self::outcome::{BY_UNKNOWN, Outcome, rejected_by, word};

/// The most labels, types of files, or models that an entry names.
const NAMED_MAX: usize = 24;
/// The longest word of an entry.
pub const WORD_MAX: usize = 64;
/// The type of files without an extension.
const NO_TYPE: &str = "none";

words! {
    /// The kind of the party that charged an attempt.
    Charger {
        /// A person.
        Person => "person",
        /// An agent.
        Agent => "agent",
        /// An automation.
        Automation => "automation",
        /// The supervisor, for work that waited.
        Supervisor => "supervisor",
    }
}

/// The party that charged an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChargedBy {
    /// Its kind.
    pub kind: Charger,
    /// The name of the caller; none for the supervisor.
    pub name: Option<String>,
    /// The caller that made the relic, where the supervisor charged it.
    #[serde(default)]
    pub maker: Option<String>,
}

impl ChargedBy {
    /// Returns the party by the cause of the charge, its caller, and the maker of the relic.
    #[must_use]
    pub fn new(cause: Cause, by: Option<&str>, maker: Option<&str>) -> Self {
        let kind = match cause {
            Cause::Operator => Charger::Person,
            Cause::Agent => Charger::Agent,
            Cause::Automation => Charger::Automation,
            _ => Charger::Supervisor,
        };
        let is_own = kind == Charger::Supervisor;
        Self {
            kind,
            name: by.filter(|_| !is_own).map(clipped),
            maker: maker.filter(|_| is_own).map(clipped),
        }
    }
}

/// An attempt at a relic, from its charge on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The raider.
    pub raider: RaiderId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// The relic.
    pub relic: RelicId,
    /// The harness of its present session; none where an older version did not record it.
    pub harness: Option<HarnessName>,
    /// The identity.
    pub identity: String,
    /// When it was charged.
    pub charged_at: Option<Timestamp>,
    /// The party that charged it.
    pub charged_by: Option<ChargedBy>,
    /// The assignee that the relic had before; none without one.
    #[serde(default)]
    pub assignee: Option<String>,
    /// The choice of its harness among several; none when there was none.
    #[serde(default)]
    pub choice: Option<Choice>,
    /// The labels of the relic when it was charged; none where an older version did not record them.
    #[serde(default)]
    pub labels: Option<Vec<String>>,
    /// Tokens and money that are counted already: those of earlier attempts of a raider of this name at the relic, and
    /// those in an entry of this attempt.
    #[serde(default)]
    pub used_before: Used,
    /// Tokens and money when a later attempt of a raider of this name at the relic began: more are not of this one.
    #[serde(default)]
    pub used_until: Option<Used>,
    /// The end of the time that an entry counts; none before its first entry.
    #[serde(default)]
    pub counted_until: Option<Timestamp>,
    /// The newest commit of the target that the existing branch had on which the work began; none for work that began
    /// elsewhere.
    #[serde(default)]
    pub began: Option<Oid>,
    /// The changed files of its landing, by type.
    #[serde(default)]
    pub files: Option<BTreeMap<String, u64>>,
}

impl Attempt {
    /// Returns the attempt of an older version, of which nothing is known but the work.
    #[must_use]
    pub fn unknown(raider: &RaiderId, incarnation: Incarnation, relic: &RelicId) -> Self {
        Self {
            raider: raider.clone(),
            incarnation,
            relic: relic.clone(),
            harness: None,
            identity: super::identity::UNKNOWN.to_owned(),
            charged_at: None,
            charged_by: None,
            assignee: None,
            choice: None,
            labels: None,
            used_before: Used::default(),
            used_until: None,
            counted_until: None,
            began: None,
            files: None,
        }
    }

    /// Returns the id of the work: no other attempt in this city has it.
    #[must_use]
    pub fn work(&self) -> String {
        work_id(&self.raider.to_string(), self.incarnation)
    }
}

/// Returns the id of the work of one incarnation of a raider.
#[must_use]
pub fn work_id(raider: &str, incarnation: Incarnation) -> String {
    format!("{raider}#{incarnation}")
}

/// Returns the id of the work of a standing agent on a relic that it took at this time.
#[must_use]
pub fn agent_work_id(agent: &AgentName, relic: &RelicId, since: Timestamp) -> String {
    format!("agents/{agent}#{relic}@{since}")
}

/// Tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// The tokens.
    pub tokens: Tokens,
    /// Their known cost in millionths of a US dollar.
    pub usd_micros: u64,
    /// The number of tokens without a known price.
    pub unpriced: u64,
}

impl Used {
    /// Returns a sum of the ledger in whole numbers, so that an entry has the same bytes everywhere.
    #[must_use]
    pub fn of(sum: &Sum) -> Self {
        let micros = (sum.usd * 1e6).round();
        Self {
            tokens: sum.tokens,
            usd_micros: if micros.is_finite() && micros > 0.0 {
                micros as u64
            } else {
                0
            },
            unpriced: sum.unpriced,
        }
    }

    /// Returns the excess over an earlier count.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Self {
        Self {
            tokens: self.tokens.beyond(&before.tokens),
            usd_micros: self.usd_micros.saturating_sub(before.usd_micros),
            unpriced: self.unpriced.saturating_sub(before.unpriced),
        }
    }

    /// Returns the sum with another count.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.tokens += other.tokens;
        self.usd_micros = self.usd_micros.saturating_add(other.usd_micros);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
        self
    }

    /// Returns the cost; none where no token has a known price.
    #[must_use]
    pub fn known_cost(&self) -> Option<u64> {
        (self.unpriced < self.tokens.all()).then_some(self.usd_micros)
    }
}

/// The place of an entry in the chain of an older version, which had a chain for each slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// The name of that chain.
    pub chain: String,
    /// The number of the entry there.
    pub seq: u64,
    /// Its hash there.
    pub hash: String,
}

/// The data of an entry. Fields may be added; readers take a missing one for unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The id of the city's store.
    pub city: String,
    /// When it was recorded.
    pub at: Option<Timestamp>,
    /// The id of the work within the city.
    pub work: String,
    /// The standing agent that did the work; none for a raider's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The rig.
    pub rig: String,
    /// The relic.
    pub relic: String,
    /// The merge request.
    pub mr: Option<String>,
    /// The number of attempts to land that merge request until then.
    pub tries: Option<u32>,
    /// The harness.
    pub harness: Option<String>,
    /// The models that its sessions used, as far as known.
    pub models: Vec<String>,
    /// The labels of the relic when it was charged.
    pub labels: Vec<String>,
    /// The changed files, by type, of what landed.
    pub files: Option<BTreeMap<String, u64>>,
    /// Set when the work landed without an earlier failure or rejection of the relic.
    pub first_pass: Option<bool>,
    /// Seconds from the charge, or the last entry of the attempt, to the declaration of the result.
    pub duration_s: Option<u64>,
    /// The tokens that no earlier entry counts.
    pub tokens: Option<Tokens>,
    /// The cost in millionths of a US dollar.
    pub usd_micros: Option<u64>,
    /// The party that charged it.
    pub charged_by: Option<ChargedBy>,
    /// The kind of failure.
    pub failure: Option<String>,
    /// Its place in a chain of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
}

impl Work {
    /// Returns true for a success, false for a failure; none for a result that says nothing about the identity. So does
    /// each result of a standing agent: its `hd done` is its word, and nothing lands that the supervisor could verify.
    #[must_use]
    pub fn succeeded(&self, outcome: Outcome) -> Option<bool> {
        match &self.agent {
            Some(_) => None,
            None => outcome.succeeded(self.failure.as_deref()),
        }
    }
}

/// Returns the labels that an entry names.
#[must_use]
pub fn labels(of_relic: &[String]) -> Vec<String> {
    let own = of_relic.iter().filter(|label| *label != REWORK);
    own.take(NAMED_MAX).map(|label| clipped(label)).collect()
}

/// Returns a label as entries name it: labels with the same beginning share their records.
#[must_use]
pub fn label(of_relic: &str) -> String {
    clipped(of_relic)
}

/// Returns the models that an entry names.
#[must_use]
pub fn models<'a>(used: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut models: Vec<String> = used
        .into_iter()
        .filter(|model| !model.is_empty())
        .map(clipped)
        .collect();
    models.sort_unstable();
    models.dedup();
    models.truncate(NAMED_MAX);
    models
}

/// Counts changed files by type: the extension in lower case.
#[must_use]
pub fn file_types<'a>(paths: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, u64> {
    let mut types: BTreeMap<String, u64> = BTreeMap::new();
    for path in paths {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty());
        let plain = |text: &str| {
            let all = text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_+".contains(c));
            !text.is_empty() && text.len() <= 16 && all
        };
        let kind = match extension {
            Some((_, extension)) if plain(extension) => extension.to_ascii_lowercase(),
            _ => NO_TYPE.to_owned(),
        };
        *types.entry(kind).or_default() += 1;
    }
    // The most frequent types stay.
    while types.len() > NAMED_MAX {
        let rarest = types.iter().min_by_key(|(_, count)| **count);
        let Some(rarest) = rarest.map(|(kind, _)| kind.clone()) else {
            break;
        };
        types.remove(&rarest);
    }
    types
}

/// Returns the beginning of a word.
fn clipped(text: &str) -> String {
    text.chars().take(WORD_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::merge::FailureType;

    #[test]
    fn words_of_failures_are_those_of_messages() {
        for kind in [
            FailureType::Conflict,
            FailureType::Tests,
            FailureType::Build,
            FailureType::Push,
            FailureType::Infra,
            FailureType::Unrelated,
        ] {
            assert_eq!(serde_json::to_value(kind).unwrap(), word(kind));
        }
        assert_eq!(Cause::KeptLongEnough.as_str(), "kept_long_enough");
    }

    #[test]
    fn files_are_counted_by_extension() {
        let paths = [
            "src/a.rs",
            "src/b.RS",
            "Makefile",
            ".gitignore",
            "a/.hidden.toml",
            "x.\u{1b}[31m",
            "archive.tar.gz",
            "dir.d/file",
            "trailing.",
        ];
        let types: Vec<_> = file_types(paths).into_iter().collect();
        let wanted = [("gz", 1), ("none", 5), ("rs", 2), ("toml", 1)];
        let wanted: Vec<_> = wanted.map(|(kind, n)| (kind.to_owned(), n)).into();
        assert_eq!(types, wanted);
        let many: Vec<String> = (0..100).map(|n| format!("a.e{n}")).collect();
        let types = file_types(many.iter().map(String::as_str).chain(["a.rs", "b.rs"]));
        assert_eq!((types.len(), types["rs"]), (NAMED_MAX, 2));
    }

    #[test]
    fn entry_names_no_more_than_its_limits() {
        let many: Vec<String> = (0..100)
            .map(|n| format!("{n}{}", "x".repeat(500)))
            .collect();
        let named = labels(&many);
        assert_eq!((named.len(), named[0].len()), (NAMED_MAX, WORD_MAX));
        assert_eq!(labels(&["rework".into(), "ui".into()]), ["ui"]);
        assert_eq!(models(["b", "", "a", "b"]), ["a", "b"]);
    }

    #[test]
    fn charge_names_the_party_that_asked_or_the_maker_of_the_relic() {
        let person = ChargedBy::new(Cause::Operator, Some("operator"), Some("clerk"));
        assert_eq!(
            (person.kind, person.name.as_deref()),
            (Charger::Person, Some("operator"))
        );
        assert_eq!(person.maker, None);
        let own = ChargedBy::new(Cause::Config, None, Some("automation/nightly"));
        assert_eq!((own.kind, own.name), (Charger::Supervisor, None));
        assert_eq!(own.maker.as_deref(), Some("automation/nightly"));
    }

    #[test]
    fn cost_is_known_only_where_a_token_has_a_price() {
        let tokens = Tokens {
            input: 10,
            ..Tokens::default()
        };
        let sum = Sum {
            tokens,
            usd: 0.25,
            unpriced: 0,
        };
        assert_eq!(Used::of(&sum).known_cost(), Some(250_000));
        assert_eq!(
            Used::of(&Sum {
                unpriced: 10,
                ..sum
            })
            .known_cost(),
            None
        );
        let later = Used::of(&Sum {
            usd: 0.75,
            tokens: Tokens {
                input: 30,
                ..tokens
            },
            ..sum
        });
        let own = later.beyond(&Used::of(&sum));
        assert_eq!((own.tokens.input, own.usd_micros), (20, 500_000));
    }
}
