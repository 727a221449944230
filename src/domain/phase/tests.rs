//! Tests of the phase: a table of examples, and rules that hold for every combination of records.

use super::*;
use crate::domain::ids::RelicId;
use crate::domain::merge::{HoldReason, Review};
use crate::domain::relic::DoneIntent;
use crate::testing::records::{self, oid, toast};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Makes the record of a raider at work.
fn record() -> RaiderRecord {
    let hook = records::hook(&toast(), &RelicId::new("gt-1").unwrap());
    records::at_work(Hook {
        charged_at: at(1),
        ..hook
    })
}

fn saga(kind: SagaKind, data: serde_json::Value) -> Saga {
    Saga {
        id: 1,
        kind,
        rig: "horde".parse().unwrap(),
        subject: "horde/raiders/Toast".into(),
        step: "intent".into(),
        data,
        opened_at: at(2),
        progress_at: at(3),
    }
}

fn done() -> DoneIntent {
    DoneIntent {
        at: at(4),
        ..records::completed(oid('1'))
    }
}

fn mr(state: MrState, hold: Option<HoldReason>) -> MergeRequest {
    MergeRequest {
        head: oid('1'),
        queued_at: at(5),
        hold,
        held_since: hold.map(|_| at(6)),
        review: match hold {
            Some(_) => Review::Wanted,
            None => Review::None,
        },
        ..records::mr("mr-1", record().hook, state)
    }
}

/// Returns all combinations of records.
fn combinations() -> Vec<RaiderRecord> {
    let none = serde_json::Value::Null;
    let kinds = [SagaKind::Charge, SagaKind::Done, SagaKind::Nuke];
    let statuses = [
        RelicStatus::Open,
        RelicStatus::Hooked,
        RelicStatus::Blocked,
        RelicStatus::Deferred,
        RelicStatus::Closed,
    ];
    let mut mrs = vec![None, Some(mr(MrState::Reviewing, Some(HoldReason::Review)))];
    for state in [
        MrState::Reviewing,
        MrState::Queued,
        MrState::Testing,
        MrState::Merging,
        MrState::Merged,
        MrState::Conflict,
        MrState::Failed,
        MrState::Rejected,
    ] {
        mrs.push(Some(mr(state, None)));
    }
    let mut all = Vec::new();
    for subset in 0..1 << kinds.len() {
        let sagas = kinds.iter().enumerate();
        let sagas = sagas.filter(|(bit, _)| subset & (1 << bit) != 0);
        let sagas: Vec<_> = sagas.map(|(_, kind)| saga(*kind, none.clone())).collect();
        for relic in statuses {
            for mr in &mrs {
                for (done, is_unhandled) in [
                    (None, false),
                    (None, true),
                    (Some(done()), false),
                    (Some(done()), true),
                ] {
                    let mut one = record();
                    one.hook.done = done;
                    one.closed = (relic == RelicStatus::Closed).then(|| at(7));
                    (one.relic, one.mr) = (relic, mr.clone());
                    (one.sagas, one.is_unhandled) = (sagas.clone(), is_unhandled);
                    all.push(one);
                }
            }
        }
    }
    all
}

#[test]
fn phase_follows_sagas_then_completion_then_relic() {
    use WorkPhase::{
        Charging, InReview, Orphaned, Over, Removing, Submitting, Unbound, Validating, Working,
    };
    let of = |change: &dyn Fn(&mut RaiderRecord)| {
        let mut one = record();
        change(&mut one);
        WorkPhase::of(&one)
    };
    let none = serde_json::Value::Null;
    let finished = |one: &mut RaiderRecord| one.hook.done = Some(done());
    let is_done = false;
    assert_eq!(of(&|_| {}), Working);
    assert_eq!(of(&|one| one.relic = RelicStatus::Blocked), Working);
    assert_eq!(of(&|one| one.relic = RelicStatus::Deferred), Unbound);
    assert_eq!(
        of(&|one| (one.relic, one.closed) = (RelicStatus::Closed, Some(at(7)))),
        Orphaned { since: Some(at(7)) }
    );
    let charge = || vec![saga(SagaKind::Charge, none.clone())];
    assert_eq!(of(&|one| one.sagas = charge()), Charging { is_done });
    assert_eq!(
        of(&|one| (one.sagas, one.hook.done) = (charge(), Some(done()))),
        Charging { is_done: true }
    );
    let nuke = || {
        vec![
            saga(SagaKind::Done, none.clone()),
            saga(SagaKind::Nuke, none.clone()),
        ]
    };
    assert_eq!(of(&|one| one.sagas = nuke()), Removing { is_done });
    for (data, is_blocked, keeps_session) in [
        (none.clone(), false, false),
        (serde_json::json!({ "blocked": "no route" }), true, false),
        (serde_json::json!({ "may_be_reviewed": true }), false, true),
    ] {
        let since = at(3);
        assert_eq!(
            of(&|one| one.sagas = vec![saga(SagaKind::Done, data.clone())]),
            Submitting {
                since,
                is_blocked,
                keeps_session
            }
        );
    }
    let since = at(4);
    assert_eq!(of(&finished), Over { since });
    assert_eq!(
        of(&|one| (one.hook.done, one.is_unhandled) = (Some(done()), true)),
        Validating { since }
    );
    let with = |state, hold| {
        let mr = mr(state, hold);
        of(&|one| (one.hook.done, one.mr) = (Some(done()), Some(mr.clone())))
    };
    assert_eq!(with(MrState::Reviewing, None), Validating { since });
    assert_eq!(with(MrState::Queued, None), Over { since });
    assert_eq!(
        with(MrState::Reviewing, Some(HoldReason::Review)),
        InReview {
            since,
            asked: at(6)
        }
    );
}

/// A session that stayed for its review is late only after the decision.
#[test]
fn completion_that_was_reviewed_has_the_time_of_the_decision() {
    for state in [MrState::Reviewing, MrState::Queued, MrState::Merged] {
        let mut mr = mr(state, None);
        mr.decided_at = Some(at(9));
        let mut one = combinations().remove(0);
        (one.sagas, one.hook.done, one.mr) = (Vec::new(), Some(done()), Some(mr));
        let phase = WorkPhase::of(&one);
        assert_eq!(phase.done_since(), Some(at(9)), "{phase:?}");
    }
}

/// A session ends with the completion, or before its sandbox is removed, and for nothing else.
#[test]
fn raider_is_finished_by_its_completion_or_its_removal() {
    for one in combinations() {
        let kinds: Vec<_> = one.sagas.iter().map(|saga| saga.kind).collect();
        let is_removed = kinds.contains(&SagaKind::Nuke);
        let is_submitted = kinds == [SagaKind::Done];
        let expected = one.hook.done.is_some() || is_removed || is_submitted;
        assert_eq!(WorkPhase::of(&one).is_finished(), expected, "{one:?}");
    }
}

/// `witness-patrol.md`: a sandbox goes when its work is handled, and nothing waits for it.
#[test]
fn work_is_over_only_when_it_is_done_and_handled_and_neither_reviewed_nor_in_a_saga() {
    for one in combinations() {
        let is_reviewed = one
            .mr
            .as_ref()
            .is_some_and(|mr| mr.state == MrState::Reviewing);
        let expected =
            one.sagas.is_empty() && one.hook.done.is_some() && !one.is_unhandled && !is_reviewed;
        let phase = WorkPhase::of(&one);
        assert_eq!(matches!(phase, WorkPhase::Over { .. }), expected, "{one:?}");
    }
}

/// Only such a raider is observed for a stall, judged for a broken sandbox, or started again.
#[test]
fn open_work_is_neither_done_nor_in_a_saga() {
    for one in combinations() {
        let expected = one.sagas.is_empty() && one.hook.done.is_none();
        let phase = WorkPhase::of(&one);
        assert_eq!(phase.is_open(), expected, "{one:?}");
        let is_bound = expected && one.relic.is_bound();
        assert_eq!(phase == WorkPhase::Working, is_bound, "{one:?}");
        let is_closed = expected && one.relic == RelicStatus::Closed;
        let since = Some(at(7));
        assert_eq!(phase == WorkPhase::Orphaned { since }, is_closed, "{one:?}");
    }
}

/// A completion that makes no progress is found, whatever it waits for (`raider-lifecycle.md`, zombies).
#[test]
fn every_completion_has_a_time_unless_its_raider_is_being_charged_or_removed() {
    for one in combinations() {
        let kinds: Vec<_> = one.sagas.iter().map(|saga| saga.kind).collect();
        let is_busy = kinds.contains(&SagaKind::Nuke) || kinds.contains(&SagaKind::Charge);
        let expected = match (is_busy, kinds.is_empty()) {
            (true, _) => None,
            (false, false) => Some(at(3)),
            (false, true) => one.hook.done.as_ref().map(|done| done.at),
        };
        assert_eq!(WorkPhase::of(&one).done_since(), expected, "{one:?}");
    }
}
