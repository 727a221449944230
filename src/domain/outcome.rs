//! The outcome file: completion that any harness can write (`agent-lifecycle.md`, section 5).

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::ids::RelicId;

/// An agent's report about its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Finished.
    Passed {
        /// A note for the person that reads the merge request.
        reason: Option<String>,
    },
    /// Finished, and nothing had to change.
    NoChange {
        /// The reason.
        reason: String,
    },
    /// Finished; a person should review it first.
    Reviewing {
        /// The note for the person that reviews it.
        reason: Option<String>,
    },
    /// It cannot go on by itself.
    Stuck {
        /// The reason.
        reason: String,
    },
}

/// The content of an outcome file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutcomeFile {
    /// Empty.
    Empty,
    /// A complete outcome for this relic.
    Complete(Outcome),
    /// Something else: half-written, malformed, or for another relic.
    Unclear(String),
}

words! {
    /// The content of an outcome file, in a word.
    #[derive(JsonSchema)]
    OutcomeWord {
        /// Nothing.
        Empty => "empty",
        /// The work is finished.
        Passed => "passed",
        /// The work is finished, and nothing had to change.
        NoChange => "no_change",
        /// The work is finished, and a person should review it.
        Reviewing => "reviewing",
        /// The raider cannot continue.
        Stuck => "stuck",
        /// Something that is no outcome of this relic.
        Unclear => "unclear",
        /// The file cannot be read.
        Unknown => "unknown",
    }
}

impl OutcomeFile {
    /// Returns its word, and the reason that it gives or for which it is unclear.
    #[must_use]
    pub fn told(self) -> (OutcomeWord, Option<String>) {
        match self {
            Self::Empty => (OutcomeWord::Empty, None),
            Self::Unclear(why) => (OutcomeWord::Unclear, Some(why)),
            Self::Complete(Outcome::Passed { reason }) => (OutcomeWord::Passed, reason),
            Self::Complete(Outcome::NoChange { reason }) => (OutcomeWord::NoChange, Some(reason)),
            Self::Complete(Outcome::Reviewing { reason }) => (OutcomeWord::Reviewing, reason),
            Self::Complete(Outcome::Stuck { reason }) => (OutcomeWord::Stuck, Some(reason)),
        }
    }
}

#[derive(Deserialize)]
struct Raw {
    id: Option<String>,
    outcome: String,
    reason: Option<String>,
    no_change: Option<bool>,
}

/// Parses the file's text. The id may be missing; an outcome for another relic is unclear.
#[must_use]
pub fn parse(text: &str, relic: &RelicId) -> OutcomeFile {
    let text = text.trim();
    if text.is_empty() {
        return OutcomeFile::Empty;
    }
    let raw: Raw = match serde_json::from_str(text) {
        Ok(raw) => raw,
        Err(error) => return OutcomeFile::Unclear(format!("not an outcome: {error}")),
    };
    if let Some(id) = raw.id
        && id != relic.as_str()
    {
        return OutcomeFile::Unclear(format!("it names {id}, but this sandbox works on {relic}"));
    }
    let reason = raw.reason.filter(|reason| !reason.trim().is_empty());
    OutcomeFile::Complete(match raw.outcome.as_str() {
        "passed" if raw.no_change == Some(true) => match reason {
            Some(reason) => Outcome::NoChange { reason },
            None => return OutcomeFile::Unclear("no_change needs a reason".into()),
        },
        "passed" => Outcome::Passed { reason },
        "reviewing" => Outcome::Reviewing { reason },
        "stuck" => Outcome::Stuck {
            reason: reason.unwrap_or_default(),
        },
        other => return OutcomeFile::Unclear(format!("unknown outcome {other:?}")),
    })
}

/// Writes an outcome in the form of the file.
#[must_use]
pub fn render(relic: &RelicId, outcome: &Outcome) -> String {
    let (outcome, no_change, reason) = match outcome {
        Outcome::Passed { reason } => ("passed", false, reason.as_ref()),
        Outcome::NoChange { reason } => ("passed", true, Some(reason)),
        Outcome::Reviewing { reason } => ("reviewing", false, reason.as_ref()),
        Outcome::Stuck { reason } => ("stuck", false, Some(reason)),
    };
    let mut value = json!({"id": relic, "outcome": outcome});
    if no_change {
        value["no_change"] = json!(true);
    }
    if let Some(reason) = reason {
        value["reason"] = json!(reason);
    }
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_outcomes_of_the_seed_are_read() {
        let relic = RelicId::new("gt-1").unwrap();
        let said = |text: &str| parse(text, &relic);
        assert_eq!(said(""), OutcomeFile::Empty);
        assert_eq!(said(" \n"), OutcomeFile::Empty);
        for (rest, reason) in [
            ("", None),
            (r#","id":"gt-1""#, None),
            (r#","reason":" ""#, None),
            (r#","reason":"look at b""#, Some("look at b".to_owned())),
        ] {
            let of = |word| said(&format!(r#"{{"outcome":"{word}"{rest}}}"#));
            let note = reason.clone();
            let passed = OutcomeFile::Complete(Outcome::Passed { reason: note });
            assert_eq!(of("passed"), passed, "{rest}");
            let reviewing = OutcomeFile::Complete(Outcome::Reviewing { reason });
            assert_eq!(of("reviewing"), reviewing, "{rest}");
        }
        let stuck = OutcomeFile::Complete(Outcome::Stuck {
            reason: "no key".into(),
        });
        assert_eq!(
            said(r#"{"id":"gt-1","outcome":"stuck","reason":"no key"}"#),
            stuck
        );
        let same = r#"{"outcome":"passed","no_change":true,"reason":"done before"}"#;
        let reason = "done before".to_owned();
        assert_eq!(
            said(same),
            OutcomeFile::Complete(Outcome::NoChange { reason })
        );
    }

    #[test]
    fn written_outcome_is_read_back_unchanged() {
        let relic = RelicId::new("gt-1").unwrap();
        for outcome in [
            Outcome::Passed { reason: None },
            Outcome::Passed {
                reason: Some("b is left alone".into()),
            },
            Outcome::NoChange {
                reason: "done before".into(),
            },
            Outcome::Reviewing { reason: None },
            Outcome::Reviewing {
                reason: Some("look at b".into()),
            },
            Outcome::Stuck {
                reason: "two\nlines \"quoted\"".into(),
            },
        ] {
            let text = render(&relic, &outcome);
            assert_eq!(parse(&text, &relic), OutcomeFile::Complete(outcome));
        }
    }

    #[test]
    fn anything_else_is_unclear_and_completes_nothing() {
        let relic = RelicId::new("gt-1").unwrap();
        for text in [
            "{",
            "passed",
            r#"{"id":"gt-2","outcome":"passed"}"#,
            r#"{"outcome":"done"}"#,
            r#"{"outcome":"passed","no_change":true}"#,
            r#"{"outcome":"passed","no_change":true,"reason":" "}"#,
        ] {
            assert!(
                matches!(parse(text, &relic), OutcomeFile::Unclear(_)),
                "{text}"
            );
        }
    }
}
