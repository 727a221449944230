//! The merge queue's state machine: the only code that moves a merge request (`rules.md`, gates). Callers store the
//! result, and journal it.
//!
//! ```text
//!  reviewing ──Verified──► reviewing ──Approved──► reviewing
//!      └──Queued──► queued ──Tests──► testing ──Merges──► merging ──Landed──► merged
//!                     ▲ └─MergesAgain──────────────────────►┘
//!                     ├── Held, TargetMoved, Interrupted ◄── testing, merging
//!  reviewing ◄──NeedsReview── testing, merging (what would land changes a path that a person reviews)
//!                     ├── Retried ◄── failed, conflict (when the relic waits for it again)
//!                     └── testing, merging ──Failed──► failed, conflict
//!  rejected ◄──Withdrawn── any state that is not final
//!     └────────Rejected── reviewing
//! ```
//!
//! An attempt has members, and a step is taken by all of them or by none. The forge lands attempts of one member.

use std::time::Duration;

use jiff::Timestamp;

use super::ids::Oid;
use super::merge::{FailureType, HoldReason, MergeRequest, MrState, Review, order};

/// Number of attempts after which a held merge request needs a person.
pub const PATIENCE: u32 = 5;

/// Returns the delay of a held merge request after this number of attempts: 10 s, doubled with each, up to a maximum
/// (`rules.md`, gates).
#[must_use]
pub fn pause(attempts: u32, most: Duration) -> Duration {
    const FIRST: Duration = Duration::from_secs(10);
    let doublings = attempts.saturating_sub(1).min(10);
    (FIRST * 2_u32.pow(doublings)).min(most)
}

/// An event in the life of a merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The witness measured this head, and a person must review it.
    Verified {
        /// The measured head.
        head: Oid,
        /// The text for people.
        note: String,
    },
    /// The witness measured this head, and passes it on to the forge.
    Ready(Oid),
    /// The merge that would land needs a person's review, which was not made.
    NeedsReview {
        /// The text for people.
        note: String,
    },
    /// A person approved it; the witness measures it once more.
    Approved {
        /// The text for people.
        note: String,
    },
    /// The forge pinned this head, and takes it into the queue.
    Queued(Oid),
    /// An attempt begins to merge and test it.
    Tests,
    /// The tested commit was journalled: its push follows.
    Merges,
    /// The push of the journalled commit begins again after a wait.
    MergesAgain,
    /// The target has it.
    Landed(Oid),
    /// It cannot land as it is.
    Failed {
        /// The type of the failure.
        how: FailureType,
        /// The text for people.
        error: String,
        /// The paths that conflict.
        conflict_files: Vec<String>,
    },
    /// It waits, and is tried again at this time.
    Held {
        /// The reason.
        reason: HoldReason,
        /// The text for people.
        note: String,
        /// The time of the next attempt.
        until: Timestamp,
        /// True for an attempt that did not begin and counts all the same.
        counts: bool,
    },
    /// The target moved under its attempt, which does not count.
    TargetMoved {
        /// The time of the next attempt; none for at once.
        until: Option<Timestamp>,
        /// The text for people.
        note: String,
    },
    /// The supervisor ended during its attempt.
    Interrupted,
    /// It is taken out of the queue for good.
    Withdrawn {
        /// The text for people.
        note: Option<String>,
    },
    /// A person rejected it.
    Rejected {
        /// Their note.
        note: String,
    },
    /// A person asked for an attempt now.
    Retried {
        /// True when its relic, which its failure had blocked, waits for it again.
        revived: bool,
    },
}

/// The accounting of an attempt that failed: counted already, or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tried {
    /// The attempt was counted when it began.
    Begun,
    /// The attempt did not begin. It counts only until a person is called.
    Not,
}

/// The hold that follows an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The step that begins it.
    pub step: Step,
    /// True for another reason than before, whatever its text: the hold is journalled.
    pub is_new: bool,
    /// True when the number of attempts reaches [`PATIENCE`]: a person is called.
    pub calls_person: bool,
}

/// The state in which a step is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the merge request is {0:?}")]
pub struct NotPossible(pub MrState);

impl Step {
    /// Returns the state that follows `from`; none where the step is not possible. Written as one table, without a
    /// wildcard for steps.
    #[must_use]
    pub fn after(&self, from: MrState) -> Option<MrState> {
        use MrState::{
            Conflict, Failed, Held, Merged, Merging, Queued, Rejected, Reviewing, Testing,
        };
        match (self, from) {
            (Self::Verified { .. } | Self::Ready(_) | Self::Approved { .. }, Reviewing) => {
                Some(Reviewing)
            }
            (Self::NeedsReview { .. }, Testing | Merging) => Some(Reviewing),
            (Self::Queued(_), Reviewing) => Some(Queued),
            (Self::Tests, Queued) => Some(Testing),
            (Self::Merges, Testing) => Some(Merging),
            (Self::MergesAgain, Queued) => Some(Merging),
            // The target has it: every other record is wrong.
            (Self::Landed(_), _) if from != Merged => Some(Merged),
            (Self::Failed { how, .. }, Queued | Testing | Merging) => Some(match how {
                FailureType::Conflict => Conflict,
                FailureType::Tests
                | FailureType::Build
                | FailureType::Push
                | FailureType::Infra
                | FailureType::Unrelated => Failed,
            }),
            (Self::Held { .. } | Self::TargetMoved { .. }, Queued | Testing | Merging) => {
                Some(Queued)
            }
            (Self::Interrupted, Testing | Merging) => Some(Queued),
            (Self::Withdrawn { .. }, Reviewing | Held | Queued | Testing | Merging) => {
                Some(Rejected)
            }
            (Self::Rejected { .. }, Reviewing) => Some(Rejected),
            (Self::Retried { .. }, Queued | Held) => Some(Queued),
            (Self::Retried { revived: true }, Failed | Conflict) => Some(Queued),
            (
                Self::Verified { .. }
                | Self::Ready(_)
                | Self::NeedsReview { .. }
                | Self::Approved { .. }
                | Self::Queued(_)
                | Self::Tests
                | Self::Merges
                | Self::MergesAgain
                | Self::Landed(_)
                | Self::Failed { .. }
                | Self::Held { .. }
                | Self::TargetMoved { .. }
                | Self::Interrupted
                | Self::Withdrawn { .. }
                | Self::Rejected { .. }
                | Self::Retried { .. },
                _,
            ) => None,
        }
    }
}

impl MergeRequest {
    /// Takes a step at this time.
    ///
    /// # Errors
    /// The step is not possible in its state; nothing is changed.
    pub fn step(&mut self, step: &Step, now: Timestamp) -> Result<(), NotPossible> {
        let after = step.after(self.state).ok_or(NotPossible(self.state))?;
        let waited = self.awaits_person();
        self.state = after;
        self.apply(step, now);
        if waited && !self.awaits_person() {
            self.decided_at = Some(now);
        }
        Ok(())
    }

    /// Returns the hold that follows an attempt, for this reason with its text for people, until the next attempt.
    #[must_use]
    pub fn held(
        &self,
        (reason, note): (HoldReason, String),
        until: Timestamp,
        tried: Tried,
    ) -> Hold {
        let counts = match tried {
            Tried::Begun => false,
            Tried::Not => self.attempts < PATIENCE,
        };
        let attempts = self.attempts + u32::from(counts);
        Hold {
            step: Step::Held {
                reason,
                note,
                until,
                counts,
            },
            is_new: self.hold != Some(reason),
            calls_person: attempts == PATIENCE && (counts || tried == Tried::Begun),
        }
    }

    fn apply(&mut self, step: &Step, now: Timestamp) {
        match step {
            Step::Verified { head, note } => self.verified(head, note, now),
            Step::NeedsReview { note } => {
                self.attempts = self.attempts.saturating_sub(1);
                self.review = Review::Wanted;
                self.hold_for(HoldReason::Review, note.clone(), now);
            }
            Step::Ready(head) => {
                self.head = head.clone();
                self.release(None);
            }
            Step::Approved { note } => {
                self.review = Review::Approved;
                self.release(Some(note.clone()));
            }
            Step::Queued(head) => self.head = head.clone(),
            Step::Tests => {
                self.attempts += 1;
                self.release(None);
            }
            Step::Merges | Step::Interrupted => {}
            // What it waits for is over only when the push succeeds.
            Step::MergesAgain => self.attempts += 1,
            Step::Landed(commit) => {
                self.merge_commit = Some(commit.clone());
                self.not_before = None;
                // The note is of what it waited for.
                self.release(None);
            }
            Step::Failed {
                error,
                conflict_files,
                ..
            } => {
                self.conflict_files.clone_from(conflict_files);
                self.not_before = None;
                self.release(Some(error.clone()));
            }
            Step::Held {
                reason,
                note,
                until,
                counts,
            } => {
                self.attempts += u32::from(*counts);
                self.not_before = Some(*until);
                self.hold_for(*reason, note.clone(), now);
            }
            Step::TargetMoved { until, note } => {
                self.attempts = self.attempts.saturating_sub(1);
                self.not_before = *until;
                match until {
                    Some(_) => self.hold_for(HoldReason::Target, note.clone(), now),
                    None => self.release(Some(note.clone())),
                }
            }
            Step::Withdrawn { note } => self.leave(note.clone()),
            Step::Rejected { note } => {
                self.review = Review::Rejected;
                self.leave(Some(note.clone()));
            }
            Step::Retried { .. } => self.leave(None),
        }
    }

    /// Ends its wait, with this note.
    fn leave(&mut self, note: Option<String>) {
        self.not_before = None;
        self.release(note);
    }

    /// Holds it for the review of this head.
    fn verified(&mut self, head: &Oid, note: &str, now: Timestamp) {
        self.replaced = self.was_shown_before(head);
        if self.head != *head {
            // Another head is another review, which has all of its time.
            self.end_hold();
        }
        self.head = head.clone();
        self.review = Review::Wanted;
        self.hold_for(HoldReason::Review, note.to_owned(), now);
    }

    /// Holds it for this reason, with a note for people.
    pub(super) fn hold_for(&mut self, reason: HoldReason, note: String, now: Timestamp) {
        if self.hold != Some(reason) {
            self.held_since = Some(now);
        }
        self.hold = Some(reason);
        self.note = Some(note);
    }

    /// Ends the hold. The note describes the result, if there is one.
    pub(super) fn release(&mut self, note: Option<String>) {
        self.end_hold();
        self.note = note;
    }

    fn end_hold(&mut self) {
        self.hold = None;
        self.held_since = None;
    }
}

/// Returns the members of the next attempt, in the order in which they land: at most `most`, all for one target, by
/// priority, then age, then id. Held merge requests do not block others (`rules.md`, gates).
#[must_use]
pub fn next_attempt(queue: &[MergeRequest], most: usize, now: Timestamp) -> Vec<&MergeRequest> {
    let waits = |mr: &&MergeRequest| mr.state == MrState::Queued && !mr.is_held(now);
    let mut waiting: Vec<_> = queue.iter().filter(waits).collect();
    waiting.sort_by(|a, b| order(a).cmp(&order(b)));
    let target = waiting.first().map(|mr| &mr.target);
    let same = waiting.iter().filter(|mr| Some(&mr.target) == target);
    same.take(most).copied().collect()
}

/// Takes a step with every member of an attempt, or with none.
///
/// # Errors
/// The step is not possible for a member; nothing is changed.
pub fn step_all(
    members: &mut [MergeRequest],
    step: &Step,
    now: Timestamp,
) -> Result<(), NotPossible> {
    let refuses = |mr: &&MergeRequest| step.after(mr.state).is_none();
    if let Some(mr) = members.iter().find(refuses) {
        return Err(NotPossible(mr.state));
    }
    members.iter_mut().try_for_each(|mr| mr.step(step, now))
}

#[cfg(test)]
mod tests;
