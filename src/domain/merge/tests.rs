//! Waits of a merge request, and what a person is told of them.

use super::*;

/// The first moves are a colleague who pushes; what goes on like that cannot be followed.
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
    assert!(chase.note("main").starts_with("main moved 20 times while"));
}

/// A gate of twenty minutes need not be outrun eight times before a person hears of it.
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
fn each_reason_of_a_busy_checkout_says_what_ends_it() {
    let text = String::from("x");
    for why in [
        CheckoutBusy::Changed(text.clone()),
        CheckoutBusy::Underway(text.clone()),
        CheckoutBusy::InTheWay(text.clone()),
        CheckoutBusy::Several(text),
        CheckoutBusy::Gone,
    ] {
        assert!(why.to_string().contains(WILL_LAND), "{why}");
    }
}
