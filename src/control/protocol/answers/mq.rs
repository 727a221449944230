//! Merge requests.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drums::Delivery;
use crate::domain::ids::{Oid, RaiderId, RelicId, RigName};
use crate::domain::merge::{GateVerdict, MergeRequest, MrState, Review};
use crate::domain::raider_notes::RaiderNotes;
use crate::domain::self_review::Round;
use crate::domain::work_diff::DiffSum;

/// A merge request as a row of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MrRow {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The relic whose work it lands.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The raider that did the work.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// The pushed branch.
    pub branch: String,
    /// The pushed head.
    #[schemars(with = "String")]
    pub head: Oid,
    /// The branch it lands on.
    pub target: String,
    /// Its state.
    pub state: MrState,
    /// Larger lands first.
    pub priority: i64,
    /// The need for a person's review.
    pub review: Review,
    /// The number of attempts to land it.
    pub attempts: u32,
    /// The reason why it is held or failed.
    pub note: Option<String>,
    /// No attempt is made before.
    pub not_before: Option<Timestamp>,
    /// Set when it waits for a person.
    pub needs_person: bool,
}

impl MrRow {
    /// Returns the row as of now.
    #[must_use]
    pub fn of(mr: &MergeRequest, now: Timestamp) -> Self {
        Self {
            id: mr.id.clone(),
            rig: mr.rig.clone(),
            relic: mr.relic.clone(),
            raider: mr.raider.clone(),
            branch: mr.branch.clone(),
            head: mr.head.clone(),
            target: mr.target.clone(),
            state: mr.shown(now),
            priority: mr.priority,
            review: mr.review,
            attempts: mr.attempts,
            note: mr.note.clone(),
            not_before: mr.not_before,
            needs_person: mr.needs_person(),
        }
    }
}

/// A person's decision about a merge request: `mq.approve`, `mq.reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// `approved` or `rejected`.
    pub decision: String,
    /// The raider whose live session goes on with rejected work; none where a fresh raider gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub back_to: Option<RaiderId>,
    /// The delivery of the note to that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// Set when a fresh raider gets the rejected work, and automatic charging is paused: the relic waits for `hd charge`.
    #[serde(default)]
    pub charge_paused: bool,
    /// The merge request afterwards.
    #[serde(flatten)]
    pub mr: MrRow,
}

/// A pull request: `mq.pr`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PullRequest {
    /// Its address.
    pub url: Option<String>,
    /// Set when it had been opened before.
    pub already: bool,
    /// The end of the output of the command.
    pub output: String,
    /// The merge request.
    #[serde(flatten)]
    pub mr: MrRow,
}

/// The answer to `mq.show`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MrDetails {
    /// Its id.
    #[schemars(with = "String")]
    pub id: RelicId,
    /// The relic whose work it lands.
    #[schemars(with = "String")]
    pub relic: RelicId,
    /// The raider that did the work.
    #[schemars(with = "String")]
    pub raider: RaiderId,
    /// The incarnation that did the work.
    pub incarnation: u64,
    /// The rig.
    #[schemars(with = "String")]
    pub rig: RigName,
    /// The pushed branch.
    pub branch: String,
    /// The pushed head.
    #[schemars(with = "String")]
    pub head: Oid,
    /// The branch it lands on.
    pub target: String,
    /// Its state.
    pub state: MrState,
    /// Larger lands first.
    pub priority: i64,
    /// When the relic's first merge request was queued.
    pub queued_at: Timestamp,
    /// The number of attempts to land it.
    pub attempts: u32,
    /// No attempt is made before.
    pub not_before: Option<Timestamp>,
    /// The last results of the gates.
    pub gates: Vec<GateVerdict>,
    /// Conflicting paths.
    pub conflict_files: Vec<String>,
    /// The landed commit.
    #[schemars(with = "Option<String>")]
    pub merge_commit: Option<Oid>,
    /// The reason why it is held or failed.
    pub note: Option<String>,
    /// The address of its pull request, if `hd mq pr` opened one.
    pub pr: Option<String>,
    /// The raider's rounds of self-review.
    pub self_reviews: Vec<Round>,
    /// The raider's other notes about its work.
    #[serde(default)]
    pub raider_notes: RaiderNotes,
    /// The sum of what it changes; none when it has ended, or its commit cannot be read now.
    pub changes: Option<DiffSum>,
    /// The state of the session that did the work, for its reviewer; absent unless it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<ReviewedSession>,
}

/// The session whose work a person reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewedSession {
    /// It runs: a person can talk to it, and a rejection goes back to it.
    Live,
    /// It has ended, and is not started for the review: a rejection goes to a fresh raider.
    Ended,
}

impl MrDetails {
    /// Returns the details as of now, with the rounds of self-review of its work.
    #[must_use]
    pub fn of(mr: MergeRequest, self_reviews: Vec<Round>, now: Timestamp) -> Self {
        let state = mr.shown(now);
        Self {
            id: mr.id,
            relic: mr.relic,
            raider: mr.raider,
            incarnation: mr.incarnation.0,
            rig: mr.rig,
            branch: mr.branch,
            head: mr.head,
            target: mr.target,
            state,
            priority: mr.priority,
            queued_at: mr.queued_at,
            attempts: mr.attempts,
            not_before: mr.not_before,
            gates: mr.gates,
            conflict_files: mr.conflict_files,
            merge_commit: mr.merge_commit,
            note: mr.note,
            pr: mr.pr,
            self_reviews,
            raider_notes: RaiderNotes::default(),
            changes: None,
            session: None,
        }
    }
}
