//! Accounts over time: the held children, and the order in which children go on.

use proptest::prelude::*;

use super::*;
use crate::domain::condition::Condition;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn child(name: &str) -> ChildId {
    ChildId::Agent(name.parse().unwrap())
}

fn limit(until: Option<i64>) -> AccountReport {
    AccountReport {
        why: Why::RateLimited,
        text: "You've hit your limit".into(),
        until: until.map(at),
        fresh: false,
    }
}

/// The same trouble, seen to begin.
fn fresh(until: Option<i64>) -> AccountReport {
    AccountReport {
        fresh: true,
        ..limit(until)
    }
}

fn login() -> AccountReport {
    AccountReport {
        why: Why::Auth,
        text: "Please run /login".into(),
        until: None,
        fresh: false,
    }
}

fn middle() -> f64 {
    0.5
}

#[test]
fn limit_has_one_clock_for_all_sessions() {
    let mut account = Account::default();
    assert_eq!(
        account.report(&child("a"), limit(Some(3600)), at(0)),
        ReportEffect::Parked
    );
    assert_eq!(
        account.report(&child("b"), limit(Some(3600)), at(5)),
        ReportEffect::Known,
        "the same"
    );
    assert_eq!(
        account.report(&child("b"), limit(Some(1800)), at(5)),
        ReportEffect::Known,
        "an earlier one"
    );
    assert_eq!(
        account.report(&child("b"), limit(None), at(5)),
        ReportEffect::Known,
        "none"
    );
    assert_eq!(
        account.report(&child("b"), limit(Some(7200)), at(9)),
        ReportEffect::Parked,
        "a later one"
    );
    assert_eq!(
        account.report(&child("b"), limit(Some(7230)), at(10)),
        ReportEffect::Known,
        "a counter that was read later"
    );
    assert_eq!(account.next(), Some(at(7200)));
    for name in ["a", "b", "of another session"] {
        let child = child(&name.replace(' ', "-"));
        assert_eq!(account.holds(&child), Some(Why::RateLimited), "{name}");
    }
    assert_eq!(account.due(at(7199)), None);
    assert_eq!(account.due(at(7200)), Some(Due::Release));
}

#[test]
fn children_go_on_in_their_order_one_after_another() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    assert_eq!(account.due(at(100)), Some(Due::Release));
    let (first, second) = (child("urgent"), child("later"));
    account.release(&[first.clone(), second.clone()], at(100), &middle);
    assert_eq!(account.parked(), None, "new work may come");
    assert!(account.holds(&first).is_some(), "its turn has jitter");
    let turns = [&first, &second].map(|child| account.turn(child).unwrap());
    assert!(turns.is_sorted() && at(100) < turns[0] && turns[1] <= at(110));
    assert_eq!(account.due(at(103)), Some(Due::Turns(vec![first.clone()])));
    assert_eq!((account.holds(&first), account.turn(&first)), (None, None));
    assert!(account.holds(&second).is_some());
    assert_eq!(account.due(at(104)), None);
    assert_eq!(account.due(at(108)), Some(Due::Turns(vec![second])));
    assert!(!account.is_open());
    assert_eq!(account.due(at(170)), Some(Due::Open));
    assert!(account.is_open());
    assert_eq!(account.next(), None);
}

/// Jitter moves a turn within its own five seconds: no child overtakes a more urgent one, and none is at the same
/// place of its five seconds as all others.
#[test]
fn jitter_spreads_turns_and_never_changes_their_order() {
    let children: Vec<_> = (0..20).map(|n| child(&format!("c{n}"))).collect();
    let draws = std::cell::Cell::new(0_u32);
    let random = || {
        draws.set(draws.get().wrapping_mul(1_103_515_245).wrapping_add(12345));
        f64::from(draws.get() >> 16) / f64::from(u16::MAX)
    };
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    account.release(&children, at(100), &random);
    let turns: Vec<_> = children.iter().map(|child| account.turn(child)).collect();
    let mut places = std::collections::BTreeSet::new();
    for (nth, turn) in turns.iter().enumerate() {
        let begins = at(100) + APART * u32::try_from(nth).unwrap();
        let jitter = Duration::try_from(turn.unwrap().duration_since(begins)).unwrap();
        assert!(jitter <= APART, "{nth}: {jitter:?}");
        places.insert(jitter);
    }
    assert!(turns.is_sorted());
    assert!(places.len() > 10, "{places:?}");
}

#[test]
fn limit_that_is_told_again_by_a_child_that_went_on_parks_again() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    account.release(&[child("a"), child("b")], at(100), &middle);
    account.due(at(103));
    assert_eq!(
        account.report(&child("b"), limit(Some(100)), at(104)),
        ReportEffect::Known,
        "what its screen shows is old"
    );
    assert_eq!(
        account.report(&child("a"), limit(Some(500)), at(105)),
        ReportEffect::Parked
    );
    assert_eq!(account.parked().unwrap().until, Some(at(500)));
    assert_eq!(account.parked().unwrap().since, at(0));
    assert!(account.holds(&child("b")).is_some());
}

#[test]
fn time_that_was_not_told_is_guessed_and_one_child_tries_first() {
    let mut account = Account::default();
    let (mut now, mut waits) = (0, Vec::new());
    for _ in 0..4 {
        account.report(&child("a"), limit(None), at(now));
        let next = account.next().unwrap().as_second() - at(now).as_second();
        waits.push(next);
        now += next;
        assert_eq!(account.due(at(now)), Some(Due::Release));
        account.release(&[child("a"), child("b")], at(now), &middle);
        assert_eq!(account.due(at(now + 3)), Some(Due::Turns(vec![child("a")])));
        assert_eq!(
            account.due(at(now + 50)),
            None,
            "the second waits for the first"
        );
        now += 50;
    }
    assert_eq!(waits, [900, 1800, 3600, 3600]);
}

#[test]
fn end_that_is_weeks_away_is_not_believed() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(30 * 24 * 3600)), at(0));
    assert_eq!(account.next(), Some(at(900)));
}

/// A time of the day that has passed reads as tomorrow's: a text that stays on the screen must not park the account
/// again.
#[test]
fn limit_that_is_over_is_not_told_again_a_day_later() {
    let day = 24 * 3600;
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    // A child that waits for its turn: the text on its screen is not old.
    assert_eq!(
        account.report(&child("b"), limit(Some(100 + day)), at(100)),
        ReportEffect::Known
    );
    account.release(&[], at(100), &middle);
    assert_eq!(account.due(at(161)), Some(Due::Open));
    assert_eq!(
        account.report(&child("a"), limit(Some(100 + day)), at(200)),
        ReportEffect::Old
    );
    let mut next = Account::stored(account.record());
    assert_eq!(
        next.report(&child("a"), limit(Some(100 + day)), at(300)),
        ReportEffect::Old
    );
    assert!(!next.is_forgotten(at(300)) && next.is_forgotten(at(200 + day)));
    assert_eq!(
        next.report(&child("a"), limit(Some(900)), at(300)),
        ReportEffect::Parked
    );
}

/// Two people with the same working hours hit their limits at the same hours.
#[test]
fn limit_that_is_seen_to_begin_may_end_at_the_time_of_yesterdays() {
    let day = 24 * 3600;
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    account.release(&[], at(100), &middle);
    assert_eq!(account.due(at(161)), Some(Due::Open));
    let until = Some(100 + day);
    assert_eq!(
        account.report(&child("a"), limit(until), at(day)),
        ReportEffect::Old
    );
    assert_eq!(
        account.report(&child("a"), fresh(until), at(day)),
        ReportEffect::Parked
    );
    assert_eq!(account.next(), Some(at(100 + day)));
}

/// A session that reports its account as parked and open in turns changes nothing.
#[test]
fn session_does_not_open_and_close_the_account_at_will() {
    let (a, b) = (child("a"), child("b"));
    let mut account = Account::default();
    assert_eq!(account.report(&a, login(), at(0)), ReportEffect::Parked);
    assert!(account.went_on(&a, at(1)));
    account.release(&[], at(1), &middle);
    assert_eq!(account.due(at(62)), Some(Due::Open));
    assert!(!account.is_forgotten(at(63)) && account.is_forgotten(at(601)));
    assert_eq!(account.report(&a, login(), at(63)), ReportEffect::Hasty);
    assert!(account.is_open());
    assert_eq!(
        account.report(&b, login(), at(64)),
        ReportEffect::Parked,
        "another"
    );
    assert!(!account.went_on(&a, at(65)), "it ends no other park");
    assert!(account.went_on(&b, at(66)));
    account.release(&[], at(66), &middle);
    assert_eq!(account.due(at(127)), Some(Due::Open));
    assert_eq!(
        account.report(&b, login(), at(66 + 599)),
        ReportEffect::Hasty
    );
    assert_eq!(
        account.report(&b, login(), at(66 + 600)),
        ReportEffect::Parked
    );
}

#[test]
fn end_does_not_move_on_by_a_minute_at_a_time() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(3600)), at(0));
    let moved = (1..600).filter(|i| {
        let told = account.report(&child("a"), fresh(Some(3600 + 61 * i)), at(*i));
        told == ReportEffect::Parked
    });
    assert!(moved.count() < 12);
    let year = 365 * 24 * 3600;
    assert_eq!(
        account.report(&child("a"), fresh(Some(year)), at(700)),
        ReportEffect::Known,
        "too far away, and no reason to guess"
    );
}

#[test]
fn text_of_a_limit_is_kept_in_part() {
    let text = "é".repeat(100_000);
    let told = AccountReport::of(&Condition::Auth { text }).unwrap();
    assert_eq!(told.text.chars().count(), 400);
}

#[test]
fn end_that_has_passed_is_guessed_anew() {
    for until in [-10, 0, 3] {
        let mut account = Account::default();
        account.report(&child("a"), limit(Some(until)), at(0));
        assert_eq!(account.next(), Some(at(900)), "{until}");
    }
}

/// `hd harness resume` holds even if the supervisor is killed before the first turn.
#[test]
fn end_that_a_person_told_outlives_the_process() {
    let mut account = Account::default();
    account.report(&child("a"), login(), at(0));
    assert!(account.ended(at(5)));
    let mut next = Account::stored(account.record());
    assert_eq!(next.due(at(6)), Some(Due::Release));
}

#[test]
fn login_has_no_clock_and_outranks_a_limit() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    assert_eq!(
        account.report(&child("b"), login(), at(1)),
        ReportEffect::Parked
    );
    assert_eq!(
        account.report(&child("a"), limit(Some(200)), at(2)),
        ReportEffect::Known
    );
    assert_eq!(account.next(), None);
    assert_eq!(account.due(at(1_000_000)), None);
    assert!(account.ended(at(2)));
    assert!(account.next().is_some_and(|next| next <= at(3)));
    assert_eq!(account.due(at(3)), Some(Due::Release));
    account.release(&[], at(3), &middle);
    assert_eq!(account.due(at(63)), Some(Due::Open));
    assert!(!account.ended(at(64)), "there was nothing to end");
}

#[test]
fn child_that_came_since_is_not_held_by_the_release() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    account.release(&[child("a")], at(100), &middle);
    assert_eq!(account.holds(&child("new")), None);
    assert!(account.holds(&child("a")).is_some());
}

/// A raider that has landed meanwhile leaves its name to the next.
#[test]
fn child_that_ended_its_work_before_its_turn_holds_no_later_one_of_its_name() {
    let mut account = Account::default();
    account.report(&child("a"), limit(Some(100)), at(0));
    account.release(&[child("a"), child("b")], at(100), &middle);
    account.forget(&child("a"));
    assert_eq!(account.holds(&child("a")), None);
    assert_eq!(account.turn(&child("a")), None);
    assert!(account.holds(&child("b")).is_some());
}

#[test]
fn questions_say_nothing_of_the_account() {
    let question = Condition::NeedsInput {
        question: "Allow?".into(),
        choices: Vec::new(),
    };
    assert_eq!(AccountReport::of(&question), None);
}

proptest! {
    /// For all reports and times: a limit ends at some time, and every released child had its turn by then.
    #[test]
    fn limit_always_ends_and_holds_no_child_for_ever(
        untils in proptest::collection::vec(proptest::option::of(0i64..10_000), 1..6),
        random in 0.0f64..1.0,
    ) {
        let mut account = Account::default();
        let mut now = 0;
        for until in untils {
            account.report(&child("a"), limit(until), at(now));
            now += 1;
        }
        let children = [child("a"), child("b"), child("c")];
        for _ in 0..50 {
            let Some(next) = account.next() else { break };
            let due = next.max(at(now));
            now = due.as_second() - at(0).as_second();
            while let Some(what) = account.due(due) {
                if what == Due::Release {
                    account.release(&children, due, &|| random);
                }
            }
        }
        prop_assert!(account.is_open());
        for child in &children {
            prop_assert_eq!(account.holds(child), None);
        }
    }
}
