//! The outcome file: completion that any harness can write (`agent-lifecycle.md`, section 5).

use serde::Deserialize;
use serde_json::json;

use super::ids::RelicId;

/// An agent's report about its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Finished. With a reason when nothing had to change.
    Passed {
        /// Nothing had to change, and why.
        no_change: Option<String>,
    },
    /// Finished; a person should review it first.
    Reviewing,
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
    let reason = raw.reason.unwrap_or_default();
    OutcomeFile::Complete(match raw.outcome.as_str() {
        "passed" if raw.no_change == Some(true) && reason.is_empty() => {
            return OutcomeFile::Unclear("no_change needs a reason".into());
        }
        "passed" => Outcome::Passed {
            no_change: raw.no_change.unwrap_or(false).then_some(reason),
        },
        "reviewing" => Outcome::Reviewing,
        "stuck" => Outcome::Stuck { reason },
        other => return OutcomeFile::Unclear(format!("unknown outcome {other:?}")),
    })
}

/// Writes an outcome in the form of the file.
#[must_use]
pub fn render(relic: &RelicId, outcome: &Outcome) -> String {
    let value = match outcome {
        Outcome::Passed { no_change: None } => json!({"id": relic, "outcome": "passed"}),
        Outcome::Passed {
            no_change: Some(reason),
        } => json!({"id": relic, "outcome": "passed", "no_change": true, "reason": reason}),
        Outcome::Reviewing => json!({"id": relic, "outcome": "reviewing"}),
        Outcome::Stuck { reason } => json!({"id": relic, "outcome": "stuck", "reason": reason}),
    };
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_outcomes_of_the_seed_are_read() {
        let relic = RelicId::new("gt-1").unwrap();
        let said = |text| parse(text, &relic);
        assert_eq!(said(""), OutcomeFile::Empty);
        assert_eq!(said(" \n"), OutcomeFile::Empty);
        let passed = OutcomeFile::Complete(Outcome::Passed { no_change: None });
        assert_eq!(said(r#"{"id":"gt-1","outcome":"passed"}"#), passed);
        assert_eq!(said(r#"{"outcome":"passed"}"#), passed);
        let reviewing = OutcomeFile::Complete(Outcome::Reviewing);
        assert_eq!(said(r#"{"id":"gt-1","outcome":"reviewing"}"#), reviewing);
        let stuck = OutcomeFile::Complete(Outcome::Stuck {
            reason: "no key".into(),
        });
        assert_eq!(
            said(r#"{"id":"gt-1","outcome":"stuck","reason":"no key"}"#),
            stuck
        );
        let same = r#"{"outcome":"passed","no_change":true,"reason":"done before"}"#;
        let no_change = Some("done before".to_owned());
        assert_eq!(
            said(same),
            OutcomeFile::Complete(Outcome::Passed { no_change })
        );
    }

    #[test]
    fn written_outcome_is_read_back_unchanged() {
        let relic = RelicId::new("gt-1").unwrap();
        for outcome in [
            Outcome::Passed { no_change: None },
            Outcome::Passed {
                no_change: Some("done before".into()),
            },
            Outcome::Reviewing,
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
        ] {
            assert!(
                matches!(parse(text, &relic), OutcomeFile::Unclear(_)),
                "{text}"
            );
        }
    }
}
