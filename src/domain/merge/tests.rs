//! Waits of a merge request, and the notices about them.

use super::*;
use crate::testing::records::{self, toast};

/// The first moves may be pushes of a colleague; further moves are too fast to follow.
#[test]
fn target_that_keeps_moving_is_followed_ever_more_slowly_and_calls_a_person_once() {
    let start = Timestamp::UNIX_EPOCH;
    let mut chase = Chase::default();
    let (mut waits, mut calls) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        calls.push(chase.moved(start));
        waits.push(chase.wait().map(|wait| wait.as_secs()));
    }
    assert_eq!(waits[..3], [None; 3]);
    assert_eq!(waits[3..7], [Some(1), Some(2), Some(4), Some(8)]);
    assert_eq!(waits.last(), Some(&Some(300)), "it never stops trying");
    assert_eq!(calls.iter().filter(|call| **call).count(), 1);
    assert!(calls[7]);
    assert!(
        chase
            .explanation("main")
            .starts_with("main moved 20 times while")
    );
}

/// With a gate of twenty minutes, a person is called before the target has moved eight times.
#[test]
fn target_that_is_faster_than_a_slow_gate_calls_a_person_after_half_an_hour() {
    let at = |minutes: i64| Timestamp::from_second(60 * minutes).unwrap();
    let mut chase = Chase::default();
    assert!(!chase.moved(at(0)));
    assert!(!chase.moved(at(20)));
    assert!(chase.moved(at(40)));
    assert!(!chase.moved(at(60)), "once");
}

#[test]
fn each_reason_of_a_busy_checkout_names_its_remedy() {
    let text = String::from("x");
    for why in [
        CheckoutBusy::Changed(text.clone()),
        CheckoutBusy::Hidden(text.clone()),
        CheckoutBusy::Underway(text.clone()),
        CheckoutBusy::InTheWay(text.clone()),
        CheckoutBusy::Several(text),
        CheckoutBusy::Gone,
    ] {
        assert!(why.to_string().contains(WILL_LAND), "{why}");
    }
}

fn queued() -> MergeRequest {
    let hook = records::hook(&toast(), &"gt-1".parse().unwrap());
    MergeRequest {
        not_before: Some(Timestamp::UNIX_EPOCH),
        review: Review::Wanted,
        ..records::mr("gt-2", hook, MrState::Queued)
    }
}

#[test]
fn why_it_waits_says_whether_a_person_is_needed_whatever_the_note() {
    for (reason, in_queue, in_review) in [
        (HoldReason::Review, false, true),
        (HoldReason::Checkout, true, false),
        (HoldReason::Target, false, false),
        (HoldReason::Infra, false, false),
        (HoldReason::TargetGone, true, false),
    ] {
        let mut mr = queued();
        mr.hold_for(reason, "and it will land".into(), Timestamp::UNIX_EPOCH);
        assert_eq!(mr.needs_person(), in_queue, "{reason:?}");
        mr.state = MrState::Reviewing;
        assert_eq!(mr.needs_person(), in_review, "{reason:?}");
        assert_eq!(mr.awaits_person(), in_review, "{reason:?}");
        mr.release(Some("and it will land".into()));
        assert!(!mr.needs_person(), "{reason:?}");
    }
}

#[test]
fn wait_counts_from_when_its_reason_began() {
    let at = |second| Timestamp::from_second(second).unwrap();
    let mut mr = queued();
    for (reason, now, since) in [
        (HoldReason::Infra, 1, 1),
        (HoldReason::Infra, 2, 1),
        (HoldReason::Checkout, 3, 3),
    ] {
        mr.hold_for(reason, format!("since {now}"), at(now));
        assert_eq!(mr.held_since, Some(at(since)));
        assert_eq!(mr.note, Some(format!("since {now}")));
    }
    mr.release(None);
    assert_eq!((mr.hold, mr.held_since, mr.note), (None, None, None));
}

/// The store keeps these words: a change of one needs a migration.
#[test]
fn words_of_hold_reasons_are_those_in_the_store() {
    for (reason, word) in [
        (HoldReason::Review, "review"),
        (HoldReason::Checkout, "checkout"),
        (HoldReason::Target, "target"),
        (HoldReason::Infra, "infra"),
        (HoldReason::TargetGone, "target_gone"),
    ] {
        assert_eq!(serde_json::to_value(reason).unwrap(), word);
    }
}
