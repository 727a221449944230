//! Every step in every state, and the members of an attempt.

use super::*;
use crate::domain::merge::HELD_MAX;
use crate::testing::records::{self, oid, toast};

const STATES: [MrState; 9] = [
    MrState::Reviewing,
    MrState::Held,
    MrState::Queued,
    MrState::Testing,
    MrState::Merging,
    MrState::Merged,
    MrState::Conflict,
    MrState::Failed,
    MrState::Rejected,
];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn request(number: u32, state: MrState) -> MergeRequest {
    let hook = records::hook(&toast(), &"gt-1".parse().unwrap());
    MergeRequest {
        attempts: 1,
        not_before: Some(at(5)),
        note: Some("before".into()),
        ..records::mr(&format!("gt-{number}"), hook, state)
    }
}

fn failed(how: FailureType) -> Step {
    Step::Failed {
        how,
        error: "why".into(),
        conflict_files: vec!["a.rs".into()],
    }
}

fn held(counts: bool) -> Step {
    Step::Held {
        reason: HoldReason::Checkout,
        note: "busy".into(),
        until: at(60),
        counts,
    }
}

/// A person is called once, at the fifth attempt.
#[test]
fn hold_counts_an_attempt_that_did_not_begin_until_a_person_is_called() {
    use Tried::{Begun, Not};
    #[rustfmt::skip]
    let cases = [
        // Attempts so far, whether this one was counted, whether it counts now, whether a person is called.
        (1, Begun, false, false),
        (4, Begun, false, false),
        (5, Begun, false, true),
        (6, Begun, false, false),
        (0, Not, true, false),
        (3, Not, true, false),
        (4, Not, true, true),
        (5, Not, false, false),
        (6, Not, false, false),
    ];
    for (attempts, tried, counted, calls) in cases {
        let mut mr = request(1, MrState::Queued);
        mr.attempts = attempts;
        let hold = mr.held((HoldReason::Infra, "why".into()), at(9), tried);
        assert_eq!(hold.calls_person, calls, "{attempts} {tried:?}");
        assert!(hold.is_new);
        mr.step(&hold.step, at(1)).unwrap();
        assert_eq!(
            mr.attempts,
            attempts + u32::from(counted),
            "{attempts} {tried:?}"
        );
        assert_eq!(
            (mr.not_before, mr.note.as_deref()),
            (Some(at(9)), Some("why"))
        );
        let same = mr.held((HoldReason::Infra, "another text".into()), at(9), tried);
        assert!(!same.is_new, "the reason is the same");
        let other = mr.held((HoldReason::Checkout, "why".into()), at(9), tried);
        assert!(other.is_new);
    }
}

fn moved(until: Option<Timestamp>) -> Step {
    Step::TargetMoved {
        until,
        note: "main moved".into(),
    }
}

/// The states in which a step is possible, and the state that follows. Every other pair is refused.
fn table() -> Vec<(Step, Vec<MrState>, MrState)> {
    use MrState::{Conflict, Failed, Held, Merged, Merging, Queued, Rejected, Reviewing, Testing};
    let note = || "note".to_owned();
    let lane = || vec![Queued, Testing, Merging];
    let open = || vec![Reviewing, Held, Queued, Testing, Merging];
    let verified = Step::Verified {
        head: oid('b'),
        note: note(),
    };
    vec![
        (verified, vec![Reviewing], Reviewing),
        (Step::Ready(oid('b')), vec![Reviewing], Reviewing),
        (
            Step::NeedsReview { note: note() },
            vec![Testing, Merging],
            Reviewing,
        ),
        (Step::Approved { note: note() }, vec![Reviewing], Reviewing),
        (Step::Queued(oid('b')), vec![Reviewing], Queued),
        (Step::Tests, vec![Queued], Testing),
        (Step::Merges, vec![Testing], Merging),
        (Step::MergesAgain, vec![Queued], Merging),
        (
            Step::Landed(oid('c')),
            STATES.into_iter().filter(|it| *it != Merged).collect(),
            Merged,
        ),
        (failed(FailureType::Conflict), lane(), Conflict),
        (failed(FailureType::Tests), lane(), Failed),
        (failed(FailureType::Build), lane(), Failed),
        (failed(FailureType::Push), lane(), Failed),
        (failed(FailureType::Infra), lane(), Failed),
        (failed(FailureType::Unrelated), lane(), Failed),
        (held(false), lane(), Queued),
        (moved(None), lane(), Queued),
        (Step::Interrupted, vec![Testing, Merging], Queued),
        (Step::Withdrawn { note: None }, open(), Rejected),
        (Step::Rejected { note: note() }, vec![Reviewing], Rejected),
        (Step::Retried { revived: false }, vec![Queued, Held], Queued),
        (
            Step::Retried { revived: true },
            vec![Queued, Held, Failed, Conflict],
            Queued,
        ),
    ]
}

#[test]
fn every_step_in_every_state_is_as_the_table_says() {
    for (step, from, to) in table() {
        for state in STATES {
            let expected = from.contains(&state).then_some(to);
            assert_eq!(step.after(state), expected, "{step:?} in {state:?}");
            let before = request(2, state);
            let mut mr = before.clone();
            match expected {
                Some(to) => {
                    mr.step(&step, at(1)).unwrap();
                    assert_eq!(mr.state, to, "{step:?} in {state:?}");
                }
                None => {
                    let refused = mr.step(&step, at(1)).unwrap_err();
                    assert_eq!(refused, NotPossible(state));
                    assert_eq!(mr, before, "a refused step changes nothing");
                }
            }
        }
    }
}

/// A merge request that is over comes back by a person's order alone, or because the target has it.
#[test]
fn state_that_is_final_is_left_by_a_retry_or_a_landing_alone() {
    for (step, ..) in table() {
        for state in STATES.into_iter().filter(|state| state.is_final()) {
            let leaves = matches!(step, Step::Landed(_) | Step::Retried { revived: true });
            assert!(step.after(state).is_none() || leaves, "{step:?}");
        }
    }
}

#[test]
fn attempts_are_counted_when_they_begin_and_not_for_a_target_that_moved() {
    let after = |state, step: &Step| {
        let mut mr = request(2, state);
        mr.step(step, at(1)).unwrap();
        mr
    };
    assert_eq!(after(MrState::Queued, &Step::Tests).attempts, 2);
    assert_eq!(after(MrState::Queued, &Step::MergesAgain).attempts, 2);
    assert_eq!(after(MrState::Testing, &held(false)).attempts, 1);
    assert_eq!(after(MrState::Queued, &held(true)).attempts, 2);
    assert_eq!(after(MrState::Merging, &moved(None)).attempts, 0);
    assert_eq!(after(MrState::Testing, &Step::Interrupted).attempts, 1);
    let asks = Step::NeedsReview {
        note: "look".into(),
    };
    let mr = after(MrState::Testing, &asks);
    assert_eq!((mr.attempts, mr.awaits_person()), (0, true));
}

/// The reason of a wait, its begin and its text go together.
#[test]
fn wait_has_its_reason_and_begin_and_ends_with_the_next_attempt() {
    let mut mr = request(2, MrState::Queued);
    mr.step(&held(false), at(1)).unwrap();
    assert_eq!(
        (mr.hold, mr.held_since),
        (Some(HoldReason::Checkout), Some(at(1)))
    );
    assert_eq!(mr.not_before, Some(at(60)));
    mr.step(&held(false), at(9)).unwrap();
    assert_eq!(mr.held_since, Some(at(1)), "the same wait goes on");
    mr.step(&moved(Some(at(70))), at(10)).unwrap();
    assert_eq!(
        (mr.hold, mr.held_since),
        (Some(HoldReason::Target), Some(at(10)))
    );
    mr.step(&Step::Tests, at(70)).unwrap();
    assert_eq!((mr.hold, mr.held_since, mr.note), (None, None, None));
}

#[test]
fn failure_keeps_its_reason_and_a_retry_forgets_it() {
    let mut mr = request(2, MrState::Testing);
    mr.step(&failed(FailureType::Conflict), at(1)).unwrap();
    assert_eq!(mr.note.as_deref(), Some("why"));
    assert_eq!(mr.conflict_files, ["a.rs"]);
    assert_eq!(mr.not_before, None);
    mr.step(&Step::Retried { revived: true }, at(2)).unwrap();
    assert_eq!((mr.note, mr.not_before), (None, None));
}

#[test]
fn review_is_noted_and_the_measured_head_goes_on() {
    let mut mr = request(2, MrState::Reviewing);
    let verified = Step::Verified {
        head: oid('b'),
        note: "a person must look".into(),
    };
    mr.step(&verified, at(1)).unwrap();
    assert!(mr.awaits_person());
    assert_eq!(mr.head, oid('b'));
    let note = "approved".to_owned();
    mr.step(&Step::Approved { note }, at(2)).unwrap();
    assert!(!mr.awaits_person() && mr.is_in_review());
    mr.step(&Step::Ready(oid('c')), at(3)).unwrap();
    assert_eq!((mr.head.clone(), mr.note.clone()), (oid('c'), None));
    mr.step(&Step::Queued(oid('c')), at(4)).unwrap();
    assert_eq!(mr.state, MrState::Queued);
}

#[test]
fn attempt_takes_the_most_urgent_of_one_target_and_no_parked_one() {
    let ready = |number| {
        let mut mr = request(number, MrState::Queued);
        mr.not_before = None;
        mr
    };
    let (mut other, mut urgent, mut held) = (ready(2), ready(9), ready(3));
    other.target = "release".into();
    urgent.priority = 4;
    held.not_before = Some(at(100));
    let queue = [ready(10), other, held, ready(4), urgent];
    let members = |most| {
        let members = next_attempt(&queue, most, at(90));
        let ids = members.iter().map(|mr| mr.id.as_str().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(members(1), ["gt-9"]);
    assert_eq!(members(2), ["gt-9", "gt-4"]);
    assert_eq!(members(9), ["gt-9", "gt-4", "gt-10"]);
    assert!(next_attempt(&[], 1, at(0)).is_empty());
}

#[test]
fn step_is_taken_by_every_member_or_by_none() {
    let mut members = [request(2, MrState::Queued), request(3, MrState::Queued)];
    step_all(&mut members, &Step::Tests, at(1)).unwrap();
    assert!(members.iter().all(|mr| mr.state == MrState::Testing));
    members[1].state = MrState::Rejected;
    let before = members.clone();
    let refused = step_all(&mut members, &Step::Merges, at(2)).unwrap_err();
    assert_eq!(refused, NotPossible(MrState::Rejected));
    assert_eq!(members, before);
}

/// A person may approve only what they were shown, and a session that stayed is late only after the decision.
#[test]
fn replaced_head_and_end_of_a_review_are_recorded() {
    let verified = |head| Step::Verified {
        head: oid(head),
        note: "look".into(),
    };
    let mut mr = request(2, MrState::Reviewing);
    mr.step(&verified('b'), at(1)).unwrap();
    mr.step(&verified('b'), at(2)).unwrap();
    assert!(!mr.replaced, "the first shown head");
    assert_eq!(mr.held_since, Some(at(1)), "the same review goes on");
    let shown = mr.clone();
    mr.step(&verified('c'), at(3)).unwrap();
    mr.step(&verified('c'), at(4)).unwrap();
    assert!(mr.replaced);
    assert_eq!(mr.decided_at, None);
    assert_eq!(mr.held_since, Some(at(3)), "another head, another review");
    let approved = Step::Approved { note: "yes".into() };
    let mut changed = shown.clone();
    changed.step(&approved, at(5)).unwrap();
    assert_eq!((changed.replaced, changed.decided_at), (false, Some(at(5))));
    changed.step(&verified('d'), at(6)).unwrap();
    assert!(changed.replaced, "changed after the approval");
    for end in [
        approved,
        Step::Withdrawn { note: None },
        Step::Rejected { note: "no".into() },
        Step::Landed(oid('e')),
    ] {
        let mut mr = shown.clone();
        mr.step(&end, at(7)).unwrap();
        let is_rejection = matches!(end, Step::Rejected { .. });
        assert_eq!(mr.review == Review::Rejected, is_rejection, "{end:?}");
        assert_eq!(mr.decided_at, Some(at(7)), "{end:?}");
        let note = mr.note.clone().unwrap_or_default();
        assert!(!note.contains("look"), "it asks nothing any more: {end:?}");
        assert!(!mr.awaits_person());
    }
}

/// `rules.md`, gates: 10 s, doubling to 10 min.
#[test]
fn delay_of_a_held_merge_request_doubles_up_to_its_maximum() {
    let delays = [0, 1, 2, 3, 6, 7, 8, u32::MAX].map(|attempts| pause(attempts, HELD_MAX));
    let seconds = [10, 10, 20, 40, 320, 600, 600, 600];
    assert_eq!(delays, seconds.map(Duration::from_secs));
}
