//! The phase of a raider's work: what is known of it in the store, and what is next. Derived at each read and never
//! stored, by one function that all readers share (`raider-lifecycle.md`, the states of a raider).
//!
//! ```text
//!  charge saga                                        charging
//!  nuke saga                                          removing
//!  done saga                                          submitting          its work is pushed
//!  no completion, relic open to it                    working
//!  no completion, relic deferred or opened elsewhere  unbound
//!  no completion, relic closed elsewhere              orphaned
//!  completion, merge request not yet validated        validating
//!  completion, a person is to review it               in review
//!  completion, nothing needs the sandbox any more     over
//! ```

use jiff::Timestamp;

use super::merge::{MergeRequest, MrState};
use super::relic::{Hook, RelicStatus};
use super::saga::{Saga, SagaKind};

/// The records about a raider with a hook, read in one transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct RaiderRecord {
    /// Its hook.
    pub hook: Hook,
    /// The status of its relic.
    pub relic: RelicStatus,
    /// When its relic was closed.
    pub closed: Option<Timestamp>,
    /// The open sagas about it, the oldest first.
    pub sagas: Vec<Saga>,
    /// The newest merge request of this incarnation.
    pub mr: Option<MergeRequest>,
    /// Set while its POLECAT_DONE is not handled.
    pub is_unhandled: bool,
}

/// The phase of a raider's work, with what is valid in it only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkPhase {
    /// Its charge is not complete. An agent that is fast may declare its work done meanwhile.
    Charging {
        /// Set when it did.
        is_done: bool,
    },
    /// Its sandbox is being removed.
    Removing {
        /// Set when it had declared its work done.
        is_done: bool,
    },
    /// It is expected to work.
    Working,
    /// Its relic was put off, or opened for others, while it holds the hook.
    Unbound,
    /// Its relic was closed elsewhere.
    Orphaned {
        /// When, if known.
        since: Option<Timestamp>,
    },
    /// Its completion is checked, pushed and submitted.
    Submitting {
        /// The last progress of that.
        since: Timestamp,
        /// Set while the push does not succeed.
        is_blocked: bool,
        /// Set while its session may have to stay for a person's review.
        keeps_session: bool,
    },
    /// Its completion waits for the witness.
    Validating {
        /// When it was declared, or its review ended.
        since: Timestamp,
    },
    /// Its merge request waits for a person.
    InReview {
        /// When its completion was declared.
        since: Timestamp,
        /// Since when the person is asked.
        asked: Timestamp,
    },
    /// Nothing needs its sandbox any more, except for what is unsaved in it.
    Over {
        /// When its completion was declared, or its review ended.
        since: Timestamp,
    },
}

impl WorkPhase {
    /// Derives the phase.
    #[must_use]
    pub fn of(record: &RaiderRecord) -> Self {
        let saga = |kind| record.sagas.iter().find(|saga| saga.kind == kind);
        let done = record.hook.done.as_ref();
        let is_done = done.is_some();
        if saga(SagaKind::Nuke).is_some() {
            return Self::Removing { is_done };
        }
        if saga(SagaKind::Charge).is_some() {
            return Self::Charging { is_done };
        }
        if let Some(saga) = saga(SagaKind::Done) {
            return Self::Submitting {
                since: saga.progress_at,
                is_blocked: saga.push_error().is_some(),
                keeps_session: saga.keeps_session(),
            };
        }
        let Some(done) = done else {
            return match record.relic {
                RelicStatus::Hooked | RelicStatus::Blocked => Self::Working,
                RelicStatus::Open | RelicStatus::Deferred => Self::Unbound,
                RelicStatus::Closed => Self::Orphaned {
                    since: record.closed,
                },
            };
        };
        if let Some(mr) = record.mr.as_ref().filter(|mr| mr.awaits_person()) {
            return Self::InReview {
                since: done.at,
                asked: mr.held_since.unwrap_or(done.at),
            };
        }
        // A session that stayed for its review is not late before the review ends.
        let decided = record.mr.as_ref().and_then(|mr| mr.decided_at);
        let since = decided.map_or(done.at, |decided| done.at.max(decided));
        match &record.mr {
            // MERGE_READY may be on its way later: the forge pins the head before it accepts the message.
            Some(mr) if mr.state == MrState::Reviewing => Self::Validating { since },
            Some(_) | None if record.is_unhandled => Self::Validating { since },
            Some(_) | None => Self::Over { since },
        }
    }

    /// Returns true when the raider needs no session any more.
    #[must_use]
    pub fn is_finished(self) -> bool {
        match self {
            Self::Removing { .. }
            | Self::Submitting { .. }
            | Self::Validating { .. }
            | Self::InReview { .. }
            | Self::Over { .. } => true,
            Self::Charging { is_done } => is_done,
            // A relic that was closed elsewhere may be reopened: the witness decides that.
            Self::Working | Self::Unbound | Self::Orphaned { .. } => false,
        }
    }

    /// Returns true when the raider is in its sandbox for open work, and neither charged nor removed.
    #[must_use]
    pub fn is_open(self) -> bool {
        match self {
            Self::Working | Self::Unbound | Self::Orphaned { .. } => true,
            Self::Charging { .. }
            | Self::Removing { .. }
            | Self::Submitting { .. }
            | Self::Validating { .. }
            | Self::InReview { .. }
            | Self::Over { .. } => false,
        }
    }

    /// Returns true while the raider works on its relic, and nothing else is done with it.
    #[must_use]
    pub fn is_working(self) -> bool {
        match self {
            Self::Working => true,
            Self::Charging { .. }
            | Self::Removing { .. }
            | Self::Unbound
            | Self::Orphaned { .. }
            | Self::Submitting { .. }
            | Self::Validating { .. }
            | Self::InReview { .. }
            | Self::Over { .. } => false,
        }
    }

    /// Returns true while its merge request waits for a person.
    #[must_use]
    pub fn is_in_review(self) -> bool {
        match self {
            Self::InReview { .. } => true,
            Self::Charging { .. }
            | Self::Removing { .. }
            | Self::Working
            | Self::Unbound
            | Self::Orphaned { .. }
            | Self::Submitting { .. }
            | Self::Validating { .. }
            | Self::Over { .. } => false,
        }
    }

    /// Returns since when its completion makes no progress; none without a completion, or while its sandbox is being
    /// removed.
    #[must_use]
    pub fn done_since(self) -> Option<Timestamp> {
        match self {
            Self::Submitting { since, .. }
            | Self::Validating { since }
            | Self::InReview { since, .. }
            | Self::Over { since } => Some(since),
            Self::Charging { .. }
            | Self::Removing { .. }
            | Self::Working
            | Self::Unbound
            | Self::Orphaned { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
