//! Merge requests and the order in which they land.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ids::{Incarnation, Oid, RaiderId, RelicId, RigName};

/// The longest that a parked merge request waits (`4-rules.md`).
pub const PARKED_MAX: Duration = Duration::from_secs(600);

/// How work becomes part of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LandStyle {
    /// Its commits are replayed on the target.
    Rebase,
    /// One commit holds all of it.
    Squash,
    /// A merge commit joins it.
    Merge,
}

/// What an in-memory merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// These commits would land.
    Clean {
        /// The new tip.
        tip: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// Everything of it is on the target already.
    Nothing,
    /// These paths conflict.
    Conflict(Vec<String>),
    /// It shares no history with the target.
    Unrelated,
}

/// State of a merge request (`2-contract.md`, 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MrState {
    /// Made by `done`; the witness has not vouched for it yet, or a person must look.
    Reviewing,
    /// Parked until what it needs works again: shown of one that is queued, and never stored.
    Held,
    /// Waits for its turn.
    Queued,
    /// Its gates run.
    Testing,
    /// It is being pushed.
    Merging,
    /// It is on the target.
    Merged,
    /// It conflicts; a fresh raider reworks the relic.
    Conflict,
    /// A gate failed; a fresh raider reworks the relic.
    Failed,
    /// A person said no.
    Rejected,
}

impl MrState {
    /// Whether nothing will change it any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Merged | Self::Conflict | Self::Failed | Self::Rejected
        )
    }
}

/// Whether a person must look at a merge request before it is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Nobody must.
    #[default]
    None,
    /// Somebody must, and has not.
    Wanted,
    /// Somebody did.
    Approved,
}

/// Why a merge request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// A person must look at it.
    Review,
    /// A person's checkout is in the way.
    Checkout,
    /// Its target moves all the time.
    Target,
    /// Something that it needs does not work.
    Infra,
}

/// Why a merge request failed, the `failure_type` of MERGE_FAILED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureType {
    /// It conflicts with the target.
    Conflict,
    /// A gate said no.
    Tests,
    /// It could not be built.
    Build,
    /// The remote refused it.
    Push,
    /// A gate could not run. That is never blamed on the branch: it is tried again, and a person is called.
    Infra,
    /// It shares no history with the target.
    Unrelated,
}

impl FailureType {
    /// The failure of a gate, by its name: one that builds says that it could not be built.
    #[must_use]
    pub fn of_gate(name: &str) -> Self {
        const BUILDS: [&str; 2] = ["build", "compile"];
        let name = name.to_lowercase();
        let mut words = name.split(|c: char| !c.is_alphanumeric());
        match words.any(|word| BUILDS.contains(&word)) {
            true => Self::Build,
            false => Self::Tests,
        }
    }
}

/// A gate's result, as kept with the merge request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateVerdict {
    /// The gate's name.
    pub name: String,
    /// `pass`, `fail` or `infra`.
    pub verdict: Verdict,
    /// Wall time in milliseconds.
    pub ms: u64,
    /// The end of its output.
    pub tail: String,
}

/// What a gate run says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Exit 0.
    Pass,
    /// The branch's fault.
    Fail,
    /// It could not run; says nothing about the branch.
    Infra,
}

impl Verdict {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Infra => "infra",
        }
    }
}

/// One merge request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRequest {
    /// Its id, a relic of its own.
    pub id: RelicId,
    /// The rig.
    pub rig: RigName,
    /// The work it lands.
    pub relic: RelicId,
    /// Who did it.
    pub raider: RaiderId,
    /// Which incarnation did it.
    pub incarnation: Incarnation,
    /// The pushed branch.
    pub branch: String,
    /// The pushed head.
    pub head: Oid,
    /// The branch it lands on.
    pub target: String,
    /// State.
    pub state: MrState,
    /// Larger lands first.
    pub priority: i64,
    /// When the relic's first merge request was queued; survives rework.
    pub queued_at: Timestamp,
    /// How many times it was tried.
    pub attempts: u32,
    /// Not before this time (infrastructure retries).
    pub not_before: Option<Timestamp>,
    /// What the gates said last.
    pub gates: Vec<GateVerdict>,
    /// Conflicting paths.
    pub conflict_files: Vec<String>,
    /// The landed commit.
    pub merge_commit: Option<Oid>,
    /// Why it is held or failed, for people.
    pub note: Option<String>,
    /// The tip that the target had when the work was begun on it; none where it was begun on a branch that was pushed
    /// before.
    #[serde(default)]
    pub began: Option<Oid>,
    /// Why it waits; none when it does not.
    #[serde(default)]
    pub hold: Option<HoldReason>,
    /// Since when it waits for that.
    #[serde(default)]
    pub held_since: Option<Timestamp>,
    /// When its merge was told: its relic closed, the outcome recorded, the calls about it closed.
    #[serde(default)]
    pub settled_at: Option<Timestamp>,
    /// A person must look before it is queued, and whether one has.
    #[serde(default)]
    pub review: Review,
}

/// Ends every note that says what a person can do about their checkout.
const WILL_LAND: &str = "and it will land";

/// Why a person's checkout cannot be moved at present. Each says what ends it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutBusy {
    /// Tracked files are changed or staged.
    #[error("has changes; commit or stash them {WILL_LAND}: {0}")]
    Changed(String),
    /// A rebase, merge, bisect, cherry-pick, revert or am has begun, or git runs.
    #[error("is in the middle of {0}; finish or abort it {WILL_LAND}")]
    Underway(String),
    /// Ignored or untracked files are where the landing puts files.
    #[error("has files in the way that are not tracked; move them {WILL_LAND}: {0}")]
    InTheWay(String),
    /// More than one worktree has the branch checked out, and only one of them could move with it.
    #[error(
        "has the branch checked out in several worktrees; leave it in one of them {WILL_LAND}: {0}"
    )]
    Several(String),
    /// The worktree that has the branch checked out is not there.
    #[error(
        "has the branch checked out in a worktree that is gone; `git worktree prune` there {WILL_LAND}"
    )]
    Gone,
}

/// How often the target moved while a merge request was tested or pushed. That is no fault of the merge
/// request, so it is no attempt of it; but it must not go round for ever unseen either.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chase {
    /// How often.
    pub moves: u32,
    /// When it moved first.
    pub since: Option<Timestamp>,
    /// Whether a person was called.
    pub called: bool,
}

impl Chase {
    /// So often it is tried again at once.
    const AT_ONCE: u32 = 3;
    /// So often, a person is called; or after so long.
    const CALLS: u32 = 8;
    const CALLS_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(30);
    /// The longest wait between two attempts.
    const WAIT_MAX: Duration = Duration::from_secs(300);

    /// The target moved once more. Returns whether a person is to be called about it now.
    pub fn moved(&mut self, now: Timestamp) -> bool {
        self.moves = self.moves.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        let long = now.duration_since(since) >= Self::CALLS_AFTER;
        let calls = !self.called && (self.moves >= Self::CALLS || long);
        self.called |= calls;
        calls
    }

    /// How long the next attempt waits: not at all, then a second, doubling.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let doublings = self.moves.checked_sub(Self::AT_ONCE + 1)?.min(10);
        Some(Duration::from_secs(1 << doublings).min(Self::WAIT_MAX))
    }

    /// Says why the merge request waits.
    #[must_use]
    pub fn note(&self, target: &str) -> String {
        let times = match self.moves {
            1 => "once".to_owned(),
            moves => format!("{moves} times"),
        };
        format!(
            "{target} moved {times} while this was tested and pushed; what was tested is not what \
             would land, so it is tested again"
        )
    }
}

impl MergeRequest {
    /// Has it wait for this reason, with a note for people.
    pub fn hold_for(&mut self, reason: HoldReason, note: String, now: Timestamp) {
        if self.hold != Some(reason) {
            self.held_since = Some(now);
        }
        self.hold = Some(reason);
        self.note = Some(note);
    }

    /// Ends its wait. The note says what comes of it, if anything.
    pub fn release(&mut self, note: Option<String>) {
        self.hold = None;
        self.held_since = None;
        self.note = note;
    }

    /// Whether nothing will change it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state.is_final()
    }

    /// Whether it was verified, and a person must look, and none has.
    #[must_use]
    pub fn awaits_person(&self) -> bool {
        let wanted = self.state == MrState::Reviewing && self.review == Review::Wanted;
        wanted && self.hold == Some(HoldReason::Review)
    }

    /// Whether it goes on when a person has done something, be it to look at it or to clear their checkout.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        let parked = self.state == MrState::Queued && self.not_before.is_some();
        self.awaits_person() || parked && self.hold == Some(HoldReason::Checkout)
    }

    /// Whether what becomes of it is a person's to say, or was said, and the forge has yet to take it. It
    /// does not need its raider for that.
    #[must_use]
    pub fn is_in_review(&self) -> bool {
        let approved = self.state == MrState::Reviewing && self.review == Review::Approved;
        approved || self.awaits_person()
    }

    /// Whether it must wait for its time.
    #[must_use]
    pub fn is_parked(&self, now: Timestamp) -> bool {
        // One that is further off than anything waits was noted by a clock that was set back since.
        let waits = |at: Timestamp| {
            let wait = Duration::try_from(at.duration_since(now));
            wait.is_ok_and(|wait| !wait.is_zero() && wait <= PARKED_MAX)
        };
        self.not_before.is_some_and(waits)
    }

    /// The state as it is shown: one that is parked in the queue is held.
    #[must_use]
    pub fn shown(&self, now: Timestamp) -> MrState {
        match self.state {
            MrState::Queued if self.is_parked(now) => MrState::Held,
            state => state,
        }
    }
}

/// The next merge request to land: priority, then age, then id. Held and parked ones do not block
/// others (`4-rules.md`, gates).
#[must_use]
pub fn next(queue: &[MergeRequest], now: Timestamp) -> Option<&MergeRequest> {
    queue
        .iter()
        .filter(|mr| mr.state == MrState::Queued)
        .filter(|mr| !mr.is_parked(now))
        .min_by(|a, b| order(a).cmp(&order(b)))
}

/// The sort key of the queue.
#[must_use]
pub fn order(mr: &MergeRequest) -> (std::cmp::Reverse<i64>, Timestamp, u64, &str) {
    // gt-10 comes after gt-9: ids are compared by number first.
    let number = mr
        .id
        .as_str()
        .rsplit_once('-')
        .and_then(|(_, n)| n.parse().ok())
        .unwrap_or(0);
    (
        std::cmp::Reverse(mr.priority),
        mr.queued_at,
        number,
        mr.id.as_str(),
    )
}

#[cfg(test)]
mod tests;
