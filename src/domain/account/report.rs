//! A session's report of trouble with its account.

use jiff::Timestamp;

use super::{NEAR, Why};
use crate::domain::condition::Condition;

/// The maximum length of a harness's text, in characters.
const TEXT_MOST: usize = 400;

/// A session's report of trouble with its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountReport {
    /// The kind of trouble.
    pub why: Why,
    /// The text of the harness.
    pub text: String,
    /// When it ends, where known.
    pub until: Option<Timestamp>,
    /// Set when it was seen to begin: the program reported it, or its text appeared on a screen that did not show it
    /// before. The stale text of a limit that is over never counts as that.
    pub fresh: bool,
}

impl AccountReport {
    /// Returns the trouble in a session's condition; none for a question.
    #[must_use]
    pub fn of(condition: &Condition) -> Option<Self> {
        let (why, text, until) = match condition {
            Condition::NeedsInput { .. }
            | Condition::Unrecognised { .. }
            | Condition::Spins { .. } => return None,
            Condition::RateLimited { text, until } => (Why::RateLimited, text, *until),
            Condition::Auth { text } => (Why::Auth, text, None),
        };
        let text = text.chars().take(TEXT_MOST).collect();
        Some(Self {
            why,
            text,
            until,
            fresh: false,
        })
    }
}

impl AccountReport {
    /// Returns true when both are the same trouble: a changed counter on a screen makes no new limit.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let same_end = match (self.until, other.until) {
            (Some(until), Some(other)) => is_near(until, other),
            (until, other) => until == other,
        };
        self.why == other.why && same_end
    }
}

/// Times read off a countdown differ by its delay.
pub(super) fn is_near(one: Timestamp, other: Timestamp) -> bool {
    one.duration_since(other).unsigned_abs() < NEAR
}
