//! The record of an identity: what its chain adds up to.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::{BY_UNKNOWN, Outcome, WORD_MAX, Work};
use super::cv::CvEntry;

/// The most skills of a kind that are told apart; those that come later are left out.
const SKILLS_MAX: usize = 256;

/// Successes among results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Results that were successes.
    pub successes: u64,
    /// Results that were successes or failures.
    pub results: u64,
}

impl Tally {
    fn add(&mut self, success: bool) {
        self.results += 1;
        self.successes += u64::from(success);
    }
}

/// A record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrackRecord {
    /// The number of entries.
    pub entries: u64,
    /// All results.
    pub all: Tally,
    /// Landed work that passed at its first attempt.
    pub first_pass: u64,
    /// Landed work that earlier attempts had failed at.
    pub reworked: u64,
    /// By label of the relic.
    pub labels: BTreeMap<String, Tally>,
    /// By type of the files that landed: the number of landings that changed some.
    pub file_types: BTreeMap<String, u64>,
    /// Seconds of work, where known.
    pub seconds: u64,
    /// The number of entries whose duration is known.
    pub timed: u64,
    /// Tokens, where known.
    pub tokens: u64,
    /// Cost in millionths of a US dollar, where known.
    pub usd_micros: u64,
    /// When the newest entry was recorded.
    pub newest: Option<Timestamp>,
}

impl TrackRecord {
    /// Adds an entry. An entry of an unknown kind, as a newer version may write it, is only counted.
    pub fn add(&mut self, entry: &CvEntry) {
        self.entries += 1;
        let Some((outcome, work)) = read(entry) else {
            return;
        };
        self.newest = self.newest.max(work.at);
        if let Some(seconds) = work.duration_s {
            self.seconds = self.seconds.saturating_add(seconds);
            self.timed += 1;
        }
        let tokens = work.tokens.map_or(0, |tokens| tokens.all());
        self.tokens = self.tokens.saturating_add(tokens);
        let usd = work.usd_micros.unwrap_or_default();
        self.usd_micros = self.usd_micros.saturating_add(usd);
        let succeeded = work.succeeded(outcome);
        if outcome == Outcome::Merged {
            match work.first_pass {
                Some(true) => self.first_pass += 1,
                Some(false) => self.reworked += 1,
                None => {}
            }
            for kind in work.files.unwrap_or_default().into_keys() {
                if let Some(count) = skill(&mut self.file_types, kind) {
                    *count += 1;
                }
            }
        }
        let Some(success) = succeeded else {
            return;
        };
        self.all.add(success);
        for label in work.labels {
            if let Some(tally) = skill(&mut self.labels, label) {
                tally.add(success);
            }
        }
    }
}

/// Returns the count of a skill, unless there are too many, or its name is longer than this city writes them: another
/// city may have written it.
fn skill<T: Default>(skills: &mut BTreeMap<String, T>, name: String) -> Option<&mut T> {
    if name.chars().count() > WORD_MAX {
        return None;
    }
    let known = skills.contains_key(&name) || skills.len() < SKILLS_MAX;
    known.then(|| skills.entry(name).or_default())
}

/// Returns the result and the data of an entry, as far as this version can read them.
#[must_use]
pub fn read(entry: &CvEntry) -> Option<(Outcome, Work)> {
    let outcome = Outcome::named(&entry.kind)?;
    let mut work: Work = serde_json::from_value(entry.data.clone()).ok()?;
    if outcome == Outcome::Rejected && work.moved.is_some() && work.failure.is_none() {
        work.failure = Some(BY_UNKNOWN.to_owned());
    }
    Some((outcome, work))
}

/// The attempts with a label.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Their results that were successes or failures.
    pub tally: Tally,
    /// All entries, whatever their results.
    pub entries: u64,
    /// When the session of the newest one could not be started.
    pub failed_start: Option<Timestamp>,
}

/// Counts the attempts with a label among entries, the newest first.
#[must_use]
pub fn with_label<'a>(entries: impl IntoIterator<Item = &'a CvEntry>, label: &str) -> Tried {
    let mut tried = Tried::default();
    for (outcome, work) in entries.into_iter().filter_map(read) {
        // The work of standing agents is none that a charge could give to a harness.
        if work.agent.is_some() || !work.labels.iter().any(|of| of == label) {
            continue;
        }
        if tried.entries == 0 && outcome == Outcome::ChargeFailed {
            tried.failed_start = work.at;
        }
        tried.entries += 1;
        if let Some(success) = work.succeeded(outcome) {
            tried.tally.add(success);
        }
    }
    tried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cv::Head;
    use serde_json::{Value, json};

    fn entry(kind: &str, data: &Value) -> CvEntry {
        Head::default().next("claude", kind, data)
    }

    /// The chains of slots did not record the caller that rejected the work: it may have been an agent.
    #[test]
    fn rejection_from_before_the_chain_is_no_failure() {
        let moved = json!({ "chain": "horde/raiders/Toast", "seq": 1, "hash": "x" });
        let rejected = |data| entry("rejected", &data);
        let old = rejected(json!({ "labels": ["ui"], "moved": moved }));
        let new = rejected(json!({ "labels": ["ui"], "failure": "by_person" }));
        let mut record = TrackRecord::default();
        [&old, &new].into_iter().for_each(|entry| record.add(entry));
        assert_eq!((record.entries, record.all.results), (2, 1));
        let (outcome, work) = read(&old).unwrap();
        assert!(!outcome.is_rework(work.failure.as_deref()));
        // The entry itself is as it was written.
        assert_eq!(old.data.get("failure"), None);
    }

    #[test]
    fn record_sums_up_results_skills_time_and_cost() {
        let entries = [
            entry(
                "merged",
                &json!({
                    "labels": ["ui"], "files": { "rs": 3, "md": 1 }, "first_pass": true, "duration_s": 60,
                    "tokens": { "input": 5, "output": 5, "cache_read": 0, "cache_write": 0 }, "usd_micros": 10,
                }),
            ),
            entry(
                "merge_failed",
                &json!({ "labels": ["ui", "db"], "failure": "tests" }),
            ),
            entry(
                "merge_failed",
                &json!({ "labels": ["ui"], "failure": "infra" }),
            ),
            entry(
                "merged",
                &json!({ "labels": ["db"], "files": { "rs": 1 }, "first_pass": false }),
            ),
            entry("promoted", &json!({ "labels": ["ui"] })),
            entry("merged", &json!("not an object")),
        ];
        let mut record = TrackRecord::default();
        entries.iter().for_each(|entry| record.add(entry));
        let tally = |successes, results| Tally { successes, results };
        assert_eq!((record.entries, record.all), (6, tally(2, 3)));
        assert_eq!((record.first_pass, record.reworked), (1, 1));
        assert_eq!(record.labels["ui"], tally(1, 2));
        assert_eq!(record.labels["db"], tally(1, 2));
        assert_eq!(record.file_types["rs"], 2);
        assert_eq!((record.seconds, record.timed), (60, 1));
        assert_eq!((record.tokens, record.usd_micros), (10, 10));
        let tried = with_label(&entries, "ui");
        assert_eq!((tried.tally, tried.entries), (tally(1, 2), 3));
        assert_eq!(with_label(&entries, "none"), Tried::default());
        let data = json!({ "labels": ["ui"], "at": "2026-01-01T00:00:00Z" });
        let failed = entry("charge_failed", &data);
        let failed_start = |newest: [&CvEntry; 2]| with_label(newest, "ui").failed_start;
        assert!(failed_start([&failed, &entries[0]]).is_some());
        assert!(failed_start([&entries[0], &failed]).is_none());
    }

    #[test]
    fn number_of_skills_is_bounded() {
        let mut record = TrackRecord::default();
        for n in 0..1000 {
            let label = format!("label-{n}");
            record.add(&entry("merged", &json!({ "labels": [label] })));
        }
        assert_eq!(record.labels.len(), SKILLS_MAX);
        assert_eq!(record.all.results, 1000);
        let long = "x".repeat(WORD_MAX + 1);
        let mut record = TrackRecord::default();
        record.add(&entry(
            "merged",
            &json!({ "labels": [long], "files": { long.as_str(): 1 } }),
        ));
        assert!(record.labels.is_empty() && record.file_types.is_empty());
    }
}
