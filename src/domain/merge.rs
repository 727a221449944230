//! Merge requests and the order in which they land.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{Incarnation, Oid, RaiderId, RelicId, RigName};

/// The longest that a held merge request waits (`rules.md`).
pub const HELD_MAX: Duration = Duration::from_secs(600);

words! {
    /// The style in which a branch lands on the target.
    LandStyle {
        /// Replays its commits on the target.
        Rebase => "rebase",
        /// Lands all of it as one commit.
        Squash => "squash",
        /// Joins it by a merge commit.
        Merge => "merge",
    }
}

/// The result of an in-memory merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeOutcome {
    /// These commits would land.
    Clean {
        /// The new tip.
        tip: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// The target already has everything of it.
    Nothing,
    /// These paths conflict.
    Conflict(Vec<String>),
    /// The branch shares no history with the target.
    Unrelated,
}

/// State of a merge request (`contract.md`, 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MrState {
    /// Made by `done`; the witness has not validated it yet, or a person must review it.
    Reviewing,
    /// Queued, but waiting until what it needs works again: a word for displays only, which no step enters or stores.
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
    /// A person rejected it.
    Rejected,
}

impl MrState {
    /// Returns true when the state will not change any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(
            self,
            Self::Merged | Self::Conflict | Self::Failed | Self::Rejected
        )
    }
}

/// Need for a person's review before a merge request is queued, and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// No review is needed.
    #[default]
    None,
    /// A review is needed and has not been made.
    Wanted,
    /// A person approved.
    Approved,
    /// A person rejected it. A merge request that leaves the queue for another reason is withdrawn, which is no rejection.
    Rejected,
}

/// The reason why a merge request waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// A person must review it.
    Review,
    /// A person's checkout is in the way.
    Checkout,
    /// The target keeps moving.
    Target,
    /// Something that it needs does not work (infrastructure).
    Infra,
    /// The target does not exist at the remote any more.
    TargetGone,
}

impl HoldReason {
    /// Returns true when work in the queue waits for a person. Of work in review its state says so.
    #[must_use]
    pub fn needs_person_in_queue(self) -> bool {
        match self {
            Self::Checkout | Self::TargetGone => true,
            Self::Review | Self::Target | Self::Infra => false,
        }
    }
}

/// The reason why a merge request failed, the `failure_type` of MERGE_FAILED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureType {
    /// It conflicts with the target.
    Conflict,
    /// A gate failed.
    Tests,
    /// It could not be built.
    Build,
    /// The remote refused it.
    Push,
    /// A gate could not run. The branch is never blamed for that: the forge retries, and a person is called.
    Infra,
    /// It shares no history with the target.
    Unrelated,
}

impl FailureType {
    /// Returns the failure type of a gate by its name: `Build` for a gate that builds.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

words! {
    /// The result of a gate run.
    #[derive(JsonSchema)]
    Verdict {
        /// The gate exited with 0.
        Pass => "pass",
        /// The gate failed because of the branch.
        Fail => "fail",
        /// The gate could not run, which says nothing about the branch.
        Infra => "infra",
    }
}

/// A merge request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeRequest {
    /// Id of the merge request, which is a relic itself.
    pub id: RelicId,
    /// The rig.
    pub rig: RigName,
    /// The relic whose work it lands.
    pub relic: RelicId,
    /// The raider that did the work.
    pub raider: RaiderId,
    /// The incarnation that did the work.
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
    /// The number of attempts to land it.
    pub attempts: u32,
    /// No attempt is made before this time (infrastructure retries).
    pub not_before: Option<Timestamp>,
    /// The last results of the gates.
    pub gates: Vec<GateVerdict>,
    /// Conflicting paths.
    pub conflict_files: Vec<String>,
    /// The landed commit.
    pub merge_commit: Option<Oid>,
    /// The reason why it is held or failed, for people.
    pub note: Option<String>,
    /// The tip of the target when the work began; none when the work began on a branch that was pushed before.
    #[serde(default)]
    pub began: Option<Oid>,
    /// The reason why it waits; none when it does not.
    #[serde(default)]
    pub hold: Option<HoldReason>,
    /// When the present wait began.
    #[serde(default)]
    pub held_since: Option<Timestamp>,
    /// When its merge was settled: relic closed, outcome recorded, escalations about it closed.
    #[serde(default)]
    pub settled_at: Option<Timestamp>,
    /// Need for a person's review.
    #[serde(default)]
    pub review: Review,
    /// The address of the pull request that was opened for it.
    #[serde(default)]
    pub pr: Option<String>,
    /// Set when its head was replaced while a person reviewed it, or after its approval.
    #[serde(default)]
    pub replaced: bool,
    /// When its review last ended.
    #[serde(default)]
    pub decided_at: Option<Timestamp>,
}

/// Ends every note that tells a person how to free their checkout.
const WILL_LAND: &str = "and it will land";

/// The reason why a person's checkout cannot be moved now. Each says how to end it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckoutBusy {
    /// Tracked files are changed or staged.
    #[error("has changes; commit or stash them {WILL_LAND}: {0}")]
    Changed(String),
    /// Tracked files are changed that a flag of the index hides from `git status`.
    #[error(
        "may have changes that `git status` does not show; `git update-index --no-FLAG FILE` clears a flag of the \
        index, then commit or stash them {WILL_LAND}: {0}"
    )]
    Hidden(String),
    /// A rebase, merge, bisect, cherry-pick, revert or am has begun, or git runs.
    #[error("is in the middle of {0}; finish or abort it {WILL_LAND}")]
    Underway(String),
    /// Another rig or supervisor lands on it.
    #[error("is moved by the landing of another {0}; this landing is tried again after it")]
    Landing(String),
    /// Ignored or untracked files are where the landing puts files.
    #[error("has files in the way that are not tracked; move them {WILL_LAND}: {0}")]
    InTheWay(String),
    /// Several worktrees have the branch checked out, and only one of them could move with it.
    #[error(
        "has the branch checked out in several worktrees; leave it in one of them {WILL_LAND}: {0}"
    )]
    Several(String),
    /// The worktree that has the branch checked out is missing.
    #[error(
        "has the branch checked out in a worktree that is gone; `git worktree prune` there {WILL_LAND}"
    )]
    Gone,
}

/// Counts how often the target moved while a merge request was tested or pushed. That is not the merge request's fault,
/// so it does not count as an attempt; but it must not repeat for ever without a person knowing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chase {
    /// The number of moves.
    pub moves: u32,
    /// Time of the first move.
    pub since: Option<Timestamp>,
    /// Set when a person was called.
    pub called: bool,
}

impl Chase {
    /// Up to this number of moves, the next attempt starts at once.
    const AT_ONCE: u32 = 3;
    /// A person is called after this number of moves, or after `CALLS_AFTER`.
    const CALLS: u32 = 8;
    const CALLS_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(30);
    /// The longest wait between two attempts.
    const WAIT_MAX: Duration = Duration::from_secs(300);

    /// Records a move of the target. Returns true when a person is to be called about it now.
    pub fn moved(&mut self, now: Timestamp) -> bool {
        self.moves = self.moves.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        let long = now.duration_since(since) >= Self::CALLS_AFTER;
        let calls = !self.called && (self.moves >= Self::CALLS || long);
        self.called |= calls;
        calls
    }

    /// Returns the wait before the next attempt: none at first, then a second, doubling.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        let doublings = self.moves.checked_sub(Self::AT_ONCE + 1)?.min(10);
        Some(Duration::from_secs(1 << doublings).min(Self::WAIT_MAX))
    }

    /// Returns the note that explains the wait.
    #[must_use]
    pub fn explanation(&self, target: &str) -> String {
        let times = match self.moves {
            1 => "once".to_owned(),
            moves => format!("{moves} times"),
        };
        format!(
            "{target} moved {times} while this was tested and pushed; the tested tree is no \
            longer the one that would land, so it is tested again"
        )
    }
}

impl MergeRequest {
    /// Returns true when the state will not change any more.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.state.is_final()
    }

    /// Returns true when the witness validated it and a person's review is outstanding.
    #[must_use]
    pub fn awaits_person(&self) -> bool {
        let wanted = self.state == MrState::Reviewing && self.review == Review::Wanted;
        wanted && self.hold == Some(HoldReason::Review)
    }

    /// Returns true when a person may have been shown another head than this one.
    #[must_use]
    pub fn was_shown_before(&self, head: &Oid) -> bool {
        let is_shown = self.awaits_person() || self.review == Review::Approved;
        self.replaced || is_shown && self.head != *head
    }

    /// Returns true when it goes on only after a person acts: reviews it, or frees their checkout.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        let held = self.state == MrState::Queued && self.not_before.is_some();
        self.awaits_person() || held && self.hold.is_some_and(HoldReason::needs_person_in_queue)
    }

    /// Returns true while a person's review is outstanding, or was given and the forge has not queued it yet. Its
    /// raider is not needed for that.
    #[must_use]
    pub fn is_in_review(&self) -> bool {
        let approved = self.state == MrState::Reviewing && self.review == Review::Approved;
        approved || self.awaits_person()
    }

    /// Returns true while its time (`not_before`) has not come.
    #[must_use]
    pub fn is_held(&self, now: Timestamp) -> bool {
        // A time further off than the longest wait was written before the clock was set back.
        let waits = |at: Timestamp| {
            let wait = Duration::try_from(at.duration_since(now));
            wait.is_ok_and(|wait| !wait.is_zero() && wait <= HELD_MAX)
        };
        self.not_before.is_some_and(waits)
    }

    /// Returns the state to show: a queued merge request that waits for its next attempt is held.
    #[must_use]
    pub fn shown(&self, now: Timestamp) -> MrState {
        match self.state {
            MrState::Queued if self.is_held(now) => MrState::Held,
            state => state,
        }
    }
}

/// Returns the sort key of the queue.
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
