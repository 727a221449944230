//! The results of an attempt, and what each counts as.

use serde::Deserialize as _;
use serde::de::value::{Error as Unknown, StrDeserializer};

use crate::domain::asker::AskerKind;
use crate::domain::cause::Cause;
use crate::domain::merge::FailureType;

const BY_PERSON: &str = "by_person";
const BY_AGENT: &str = "by_agent";
const BY_AUTOMATION: &str = "by_automation";
/// The word of a rejection by a caller that an older version did not record.
pub const BY_UNKNOWN: &str = "by_unknown";

words! {
    /// The result of an attempt. An attempt can have several: a failed landing that a person retries may still land.
    Outcome {
        /// It landed.
        Merged => "merged",
        /// A standing agent declared it done, and its relic was closed.
        Closed => "closed",
        /// Nothing was changed: the agent said so, or the target had all of it.
        NoChange => "no_change",
        /// Its merge request failed.
        MergeFailed => "merge_failed",
        /// Its merge request was rejected; [`rejected_by`] tells by which kind of caller.
        Rejected => "rejected",
        /// The agent was stuck and called a person.
        Escalated => "escalated",
        /// The agent put it off.
        Deferred => "deferred",
        /// Its sessions died too often.
        Quarantined => "quarantined",
        /// Its raider was removed, or its work was withdrawn from the queue.
        Abandoned => "abandoned",
        /// Its session could not be started.
        ChargeFailed => "charge_failed",
    }
}

impl Outcome {
    /// Returns true for a success, false for a failure; none for a result that says nothing about the agent.
    #[must_use]
    pub fn succeeded(self, failure: Option<&str>) -> Option<bool> {
        match self {
            Self::Merged => Some(true),
            // An agent that declares either without work would have a perfect record.
            Self::NoChange | Self::Closed => None,
            Self::MergeFailed => match failure.and_then(failure_of) {
                // The remote or a gate's own infrastructure failed, not the work.
                Some(FailureType::Push | FailureType::Infra) => None,
                Some(
                    FailureType::Conflict
                    | FailureType::Tests
                    | FailureType::Build
                    | FailureType::Unrelated,
                ) => Some(false),
                // A word of another version, or none.
                None => Some(false),
            },
            // An agent could spoil the record of another one, and could have done so before that was recorded.
            Self::Rejected
                if [BY_AGENT, BY_AUTOMATION, BY_UNKNOWN]
                    .map(Some)
                    .contains(&failure) =>
            {
                None
            }
            Self::Rejected | Self::Escalated | Self::Quarantined => Some(false),
            Self::Deferred | Self::ChargeFailed => None,
            // A quarantine has its own entry; a person may remove any raider.
            Self::Abandoned => (failure == Some(Cause::KeptLongEnough.as_str())).then_some(false),
        }
    }

    /// Returns true for a failure after which the relic's work is done again.
    #[must_use]
    pub fn is_rework(self, failure: Option<&str>) -> bool {
        let again = matches!(self, Self::MergeFailed | Self::Rejected);
        again && self.succeeded(failure) == Some(false)
    }
}

/// Returns the word of a rejection by a caller of this kind.
#[must_use]
pub fn rejected_by(kind: AskerKind) -> &'static str {
    match kind {
        AskerKind::Person => BY_PERSON,
        AskerKind::Agent => BY_AGENT,
        AskerKind::Automation => BY_AUTOMATION,
    }
}

/// Returns the failure of a landing that has this word.
fn failure_of(word: &str) -> Option<FailureType> {
    FailureType::deserialize(StrDeserializer::<Unknown>::new(word)).ok()
}

/// Returns the word of a failure of a landing.
#[must_use]
pub fn word(kind: FailureType) -> &'static str {
    match kind {
        FailureType::Conflict => "conflict",
        FailureType::Tests => "tests",
        FailureType::Build => "build",
        FailureType::Push => "push",
        FailureType::Infra => "infra",
        FailureType::Unrelated => "unrelated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_counts_as_success_failure_or_neither() {
        let cases = [
            (Outcome::Merged, None, Some(true), false),
            (Outcome::NoChange, None, None, false),
            (Outcome::Closed, None, None, false),
            (Outcome::MergeFailed, Some("conflict"), Some(false), true),
            (Outcome::MergeFailed, Some("tests"), Some(false), true),
            (Outcome::MergeFailed, Some("build"), Some(false), true),
            (Outcome::MergeFailed, Some("unrelated"), Some(false), true),
            (Outcome::MergeFailed, Some("push"), None, false),
            (Outcome::MergeFailed, Some("infra"), None, false),
            (Outcome::Rejected, None, Some(false), true),
            (Outcome::Rejected, Some("by_person"), Some(false), true),
            (Outcome::Rejected, Some("by_agent"), None, false),
            (Outcome::Rejected, Some("by_automation"), None, false),
            (Outcome::ChargeFailed, None, None, false),
            (Outcome::Escalated, None, Some(false), false),
            (Outcome::Deferred, None, None, false),
            (Outcome::Quarantined, None, Some(false), false),
            (Outcome::Abandoned, Some("operator"), None, false),
            (
                Outcome::Abandoned,
                Some("kept_long_enough"),
                Some(false),
                false,
            ),
        ];
        for (outcome, failure, succeeded, rework) in cases {
            assert_eq!(
                outcome.succeeded(failure),
                succeeded,
                "{outcome} {failure:?}"
            );
            assert_eq!(outcome.is_rework(failure), rework, "{outcome} {failure:?}");
        }
    }
}
