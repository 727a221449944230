//! Choice of the harness for a relic among several, by the records of their identities with a label
//! (`raider-lifecycle.md`, skill routing).
//!
//! The score of a candidate is `(successes + 1) / (results + 2)` (Laplace's rule of succession) over the newest entries of
//! its identity with the label: 1/2 for a newcomer. The best score is chosen; the earlier candidate wins a tie. Each
//! [`TRIAL_EVERY`]th choice for a label is a trial, and goes to the candidate with the fewest attempts, whatever their
//! results: so a newcomer gets its turn however good the others are, and one without results does not take all trials. A
//! candidate whose last attempt could not start gets trials only for [`START_PAUSE`], unless no other can start.

use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::HarnessName;

/// The number of choices of which the last is a trial.
pub const TRIAL_EVERY: u64 = 4;
/// The time after a charge that could not start in which its harness gets trials only.
pub const START_PAUSE: SignedDuration = SignedDuration::from_hours(1);
/// The number of newest entries with the label that are read, of each identity.
pub const WINDOW: usize = 500;

/// A harness that may do the work, with its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// The harness.
    #[schemars(with = "String")]
    pub harness: HarnessName,
    /// Its identity.
    pub identity: String,
    /// Results with the label that were successes.
    pub successes: u64,
    /// Results with the label that were successes or failures.
    pub results: u64,
    /// Attempts with the label that are over, whatever their results.
    #[serde(default)]
    pub tried: u64,
    /// Attempts with the label that are in progress.
    pub running: u64,
    /// Set when the last attempt with the label could not start, a short time ago.
    #[serde(default)]
    pub cannot_start: bool,
}

impl Candidate {
    /// Returns the score in thousandths.
    #[must_use]
    pub fn score(&self) -> u64 {
        let successes = self.successes.min(self.results);
        successes.saturating_add(1).saturating_mul(1000) / self.results.saturating_add(2)
    }

    fn all_tried(&self) -> u64 {
        self.tried.saturating_add(self.running)
    }
}

words! {
    /// The reason of a choice.
    #[derive(JsonSchema)]
    Reason {
        /// It has the best score.
        Record => "record",
        /// It was tried least, and this choice is a trial.
        Trial => "trial",
        /// It is the only one that can take work now.
        Only => "only",
    }
}

/// A choice among harnesses, with what it was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Choice {
    /// The label.
    pub label: String,
    /// The harness that was chosen.
    #[schemars(with = "String")]
    pub harness: HarnessName,
    /// The reason.
    pub reason: Reason,
    /// The number of earlier choices for the label in the rig.
    pub turn: u64,
    /// The candidates that could take work, in the order of the configuration.
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Returns the choice as a phrase: `codex for label ui: best record (codex 3 of 4, claude 1 of 3)`.
    #[must_use]
    pub fn says(&self) -> String {
        let why = match self.reason {
            Reason::Record => "best record",
            Reason::Trial => "trial of the least tried",
            Reason::Only => "the only one that can take work",
        };
        let record = |one: &Candidate| {
            let running = match one.running {
                0 => String::new(),
                running => format!(", {running} in progress"),
            };
            let (harness, score) = (&one.harness, one.score());
            let (whole, part) = (score / 1000, score % 1000);
            let failed = if one.cannot_start {
                ", its last charge failed"
            } else {
                ""
            };
            format!(
                "{harness} {} of {}, score {whole}.{part:03}{running}{failed}",
                one.successes, one.results
            )
        };
        let records: Vec<String> = self.candidates.iter().map(record).collect();
        format!(
            "{} for label {}: {why} ({})",
            self.harness,
            self.label,
            records.join("; ")
        )
    }
}

/// Chooses among the candidates for a label. `turn` is the number of earlier choices for it. None without a candidate.
#[must_use]
pub fn choose(label: &str, candidates: Vec<Candidate>, turn: u64) -> Option<Choice> {
    let is_trial = turn % TRIAL_EVERY == TRIAL_EVERY - 1;
    let places = candidates.iter().enumerate();
    let (reason, chosen) = match (candidates.len(), is_trial) {
        (0, _) => return None,
        (1, _) => (Reason::Only, candidates.first()),
        (_, true) => {
            let least = places.min_by_key(|(place, one)| (one.all_tried(), *place));
            (Reason::Trial, least.map(|(_, one)| one))
        }
        (_, false) => {
            let best = places.max_by_key(|(place, one)| {
                (!one.cannot_start, one.score(), std::cmp::Reverse(*place))
            });
            (Reason::Record, best.map(|(_, one)| one))
        }
    };
    Some(Choice {
        label: label.to_owned(),
        harness: chosen?.harness.clone(),
        reason,
        turn,
        candidates,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn one(harness: &str, successes: u64, results: u64, running: u64) -> Candidate {
        Candidate {
            harness: HarnessName::new(harness).unwrap(),
            identity: harness.to_owned(),
            successes,
            results,
            tried: results,
            running,
            cannot_start: false,
        }
    }

    fn tried(harness: &str, tried: u64, cannot_start: bool) -> Candidate {
        Candidate {
            tried,
            cannot_start,
            ..one(harness, 0, 0, 0)
        }
    }

    #[test]
    fn better_record_is_chosen_and_each_fourth_choice_is_a_trial() {
        type Row = (Vec<Candidate>, u64, &'static str, Reason);
        let cases: Vec<Row> = vec![
            (
                vec![one("a", 1, 3, 0), one("b", 3, 4, 0)],
                0,
                "b",
                Reason::Record,
            ),
            // A newcomer has 1/2: more than a bad record, less than a good one.
            (
                vec![one("a", 0, 1, 0), one("new", 0, 0, 0)],
                0,
                "new",
                Reason::Record,
            ),
            (
                vec![one("a", 9, 10, 0), one("new", 0, 0, 0)],
                2,
                "a",
                Reason::Record,
            ),
            (
                vec![one("a", 9, 10, 0), one("new", 0, 0, 0)],
                3,
                "new",
                Reason::Trial,
            ),
            (
                vec![one("a", 9, 10, 0), one("new", 0, 0, 0)],
                7,
                "new",
                Reason::Trial,
            ),
            // A tie goes to the first of the configuration.
            (
                vec![one("a", 0, 0, 0), one("b", 0, 0, 0)],
                0,
                "a",
                Reason::Record,
            ),
            (
                vec![one("a", 0, 0, 1), one("b", 0, 0, 0)],
                3,
                "b",
                Reason::Trial,
            ),
            // One success of one is worth less than nine of ten.
            (
                vec![one("a", 1, 1, 0), one("b", 9, 10, 0)],
                0,
                "b",
                Reason::Record,
            ),
            (vec![one("a", 0, 50, 0)], 3, "a", Reason::Only),
        ];
        for (candidates, earlier, harness, reason) in cases {
            let choice = choose("ui", candidates.clone(), earlier).unwrap();
            let made = (choice.harness.as_str(), choice.reason);
            assert_eq!(made, (harness, reason), "{candidates:?} {earlier}");
        }
        assert_eq!(choose("ui", Vec::new(), 0), None);
    }

    #[test]
    fn attempts_without_result_are_tried_and_one_that_cannot_start_gets_trials() {
        type Row = (Vec<Candidate>, u64, &'static str);
        let cases: Vec<Row> = vec![
            // Attempts without a result are attempts: the newcomer after them gets the trial.
            (
                vec![
                    one("a", 9, 10, 0),
                    tried("b", 2, false),
                    one("new", 0, 0, 0),
                ],
                3,
                "new",
            ),
            // One that cannot start is not better than one that fails, but is tried again.
            (vec![one("a", 0, 9, 0), tried("b", 1, true)], 0, "a"),
            (vec![one("a", 0, 9, 0), tried("b", 1, true)], 3, "b"),
            (vec![tried("a", 2, true), tried("b", 1, true)], 0, "a"),
        ];
        for (candidates, earlier, harness) in cases {
            let choice = choose("ui", candidates.clone(), earlier).unwrap();
            assert_eq!(choice.harness.as_str(), harness, "{candidates:?} {earlier}");
        }
    }

    #[test]
    fn choice_says_why() {
        let choice = choose("ui", vec![one("a", 1, 3, 0), one("b", 3, 4, 1)], 0).unwrap();
        assert_eq!(
            choice.says(),
            "b for label ui: best record (a 1 of 3, score 0.400; b 3 of 4, score 0.666, 1 in progress)"
        );
    }

    proptest! {
        /// A newcomer is chosen within `TRIAL_EVERY` choices for each newcomer, whatever the records of the others are
        /// and become, and whether or not its own attempts succeed.
        #[test]
        fn newcomer_is_never_starved(
            records in proptest::collection::vec((0u64..1000, 1u64..1000), 1..5),
            newcomers in 1usize..4,
            earlier in 0u64..1000,
            luck in proptest::collection::vec(0u8..4, 64),
        ) {
            let mut all: Vec<Candidate> = records
                .iter()
                .enumerate()
                .map(|(n, (good, all))| one(&format!("old{n}"), *good.min(all), *all, 0))
                .collect();
            all.extend((0..newcomers).map(|n| one(&format!("new{n}"), 0, 0, 0)));
            let limit = TRIAL_EVERY * newcomers as u64;
            for turn in 0..limit {
                let choice = choose("ui", all.clone(), earlier + turn).unwrap();
                let chosen = all.iter_mut().find(|one| one.harness == choice.harness).unwrap();
                let luck = luck[turn as usize % luck.len()];
                chosen.tried += 1;
                chosen.cannot_start = luck == 3;
                // Some attempts have no result.
                chosen.results += u64::from(luck < 2);
                chosen.successes += u64::from(luck == 1);
            }
            for one in all.iter().filter(|one| one.identity.starts_with("new")) {
                prop_assert!(one.tried > 0, "{} was not chosen in {limit} choices", one.identity);
            }
        }
    }
}
