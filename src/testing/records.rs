//! Records with defaults, for tests to change: of a raider at work, and of its merge request.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use jiff::Timestamp;

use crate::domain::facts::GitFacts;
use crate::domain::ids::{Incarnation, Oid, RaiderId, RelicId};
use crate::domain::merge::{MergeRequest, MrState, Review};
use crate::domain::message::{Escalation, RaiderDone, Severity};
use crate::domain::phase::RaiderRecord;
use crate::domain::problem::Problem;
use crate::domain::relic::{Completion, DoneIntent, Hook, Relic, RelicKind, RelicStatus};
use crate::ports::relics::NewRelic;

/// Returns the commit whose id has only this digit.
#[must_use]
pub fn oid(digit: char) -> Oid {
    Oid::new(digit.to_string().repeat(40)).unwrap()
}

/// Returns the first raider of the rig `horde`.
#[must_use]
pub fn toast() -> RaiderId {
    "horde/raiders/Toast".parse().unwrap()
}

/// Returns the order of a new task.
#[must_use]
pub fn task(title: &str) -> NewRelic {
    NewRelic {
        prefix: "gt".into(),
        kind: RelicKind::Task,
        title: title.into(),
        body: String::new(),
        priority: 0,
        labels: Vec::new(),
        parent: None,
        deps: Vec::new(),
        by: None,
    }
}

/// Returns an open task of this id, made at the beginning of time.
#[must_use]
pub fn relic(id: &str) -> Relic {
    Relic {
        id: id.parse().unwrap(),
        kind: RelicKind::Task,
        title: format!("task {id}"),
        body: String::new(),
        status: RelicStatus::Open,
        priority: 0,
        labels: Vec::new(),
        assignee: None,
        parent: None,
        deps: Vec::new(),
        created: Timestamp::UNIX_EPOCH,
        closed: None,
        raider: None,
        until: None,
        branch: None,
        starts_on: None,
        reworks: 0,
        charge_failures: 0,
        context: None,
        target: None,
        harness: None,
        by: None,
        source: None,
    }
}

/// Returns the hook of a raider's first incarnation, charged at the beginning of time.
#[must_use]
pub fn hook(raider: &RaiderId, relic: &RelicId) -> Hook {
    Hook {
        raider: raider.clone(),
        incarnation: Incarnation(1),
        relic: relic.clone(),
        branch: raider.branch(relic, Incarnation(1)),
        base: oid('a'),
        from_target: true,
        target: "main".into(),
        harness: "script".parse().unwrap(),
        charged_at: Timestamp::UNIX_EPOCH,
        done: None,
    }
}

/// Returns the record of the raider at work that has this hook.
#[must_use]
pub fn at_work(hook: Hook) -> RaiderRecord {
    RaiderRecord {
        hook,
        relic: RelicStatus::Hooked,
        closed: None,
        sagas: Vec::new(),
        mr: None,
        is_unhandled: false,
    }
}

/// Returns the declaration that the work is completed with this head.
#[must_use]
pub fn completed(head: Oid) -> DoneIntent {
    DoneIntent {
        exit: Completion::Completed,
        head,
        cleanup_status: None,
        mismatch: None,
        no_change: false,
        wants_review: false,
        until: None,
        reason: None,
        at: Timestamp::UNIX_EPOCH,
    }
}

/// Returns the message of a raider's completion.
#[must_use]
pub fn raider_done(hook: &Hook, head: Oid) -> RaiderDone {
    RaiderDone {
        raider: hook.raider.clone(),
        incarnation: hook.incarnation,
        rig: hook.raider.rig.clone(),
        relic: hook.relic.clone(),
        branch: hook.branch.clone(),
        head,
        exit: Completion::Completed,
        cleanup_status: None,
        gate: None,
    }
}

/// Returns the merge request of a hook's work, queued at the beginning of time.
#[must_use]
pub fn mr(id: &str, hook: Hook, state: MrState) -> MergeRequest {
    MergeRequest {
        id: id.parse().unwrap(),
        rig: hook.raider.rig.clone(),
        relic: hook.relic,
        raider: hook.raider,
        incarnation: hook.incarnation,
        branch: hook.branch,
        head: oid('a'),
        target: hook.target,
        state,
        priority: 0,
        queued_at: Timestamp::UNIX_EPOCH,
        attempts: 0,
        not_before: None,
        gates: Vec::new(),
        conflict_files: Vec::new(),
        merge_commit: None,
        note: None,
        began: None,
        hold: None,
        held_since: None,
        settled_at: None,
        review: Review::None,
        pr: None,
        replaced: false,
        decided_at: None,
    }
}

/// Returns an escalation in the agent's own words.
#[must_use]
pub fn call(agent: &str, problem: &str, severity: Severity) -> Escalation {
    Escalation {
        agent: agent.into(),
        relic: None,
        problem: Problem::in_own_words(problem),
        severity,
        evidence: String::new(),
    }
}

/// Returns the facts of a sandbox that holds nothing of its own at this head.
#[must_use]
pub fn clean(head: Oid) -> GitFacts {
    GitFacts {
        head,
        branch: None,
        merge_base: None,
        ahead: 0,
        dirty: Vec::new(),
        untracked: Vec::new(),
        stashes: Vec::new(),
        head_reachable: true,
        other_work: Vec::new(),
        fingerprint: String::new(),
    }
}
