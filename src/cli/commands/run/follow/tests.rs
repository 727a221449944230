//! Tests of following relics.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::domain::event::NewEvent;
use crate::domain::event_data::{Charged, EventData};
use crate::domain::ids::{Incarnation, RelicId};
use crate::testing::samples::sample;

const RAIDER: &str = "horde/raiders/Toast";

fn started(relics: Value) -> Started {
    sample(json!({ "relics": relics }))
}

fn one() -> Follow {
    Follow::of(&started(
        json!([{"relic": "gt-1", "raider": "horde/raiders/Toast"}]),
    ))
}

fn journalled(event: NewEvent) -> Event {
    sample(json!({
        "type": event.kind, "subject": event.subject, "cause": event.cause, "data": event.data,
    }))
}

fn plain(kind: EventType, subject: &str) -> Event {
    journalled(NewEvent::new(kind, subject, Cause::Patrol))
}

fn told<T: EventData>(kind: EventType, subject: &str, cause: Cause, fields: &T) -> Event {
    journalled(NewEvent::new(kind, subject, cause).and(fields))
}

fn id(relic: &str) -> RelicId {
    RelicId::new(relic).unwrap()
}

fn relic(status: &str) -> Relic {
    sample(json!({ "status": status }))
}

#[test]
fn only_what_will_be_worked_on_is_followed() {
    let follow = Follow::of(&started(json!([
        {"relic": "gt-1", "raider": "horde/raiders/Toast"},
        {"relic": "gt-2", "raider": null, "auto_charge": true},
        {"relic": "gt-3", "raider": null, "auto_charge": false},
    ])));
    assert_eq!(follow.ends.keys().collect::<Vec<_>>(), ["gt-1", "gt-2"]);
}

#[test]
fn relics_are_found_in_events_by_subject_or_particulars_or_raider() {
    let mut follow = one();
    let mut found = |event: &Event| follow.about(event);
    assert_eq!(
        found(&plain(EventType::RelicUpdated, "gt-1")),
        Some("gt-1".into())
    );
    let mut named = NewEvent::new(EventType::MrQueued, "gt-4", Cause::Done);
    named.set_relic(&id("gt-1"));
    assert_eq!(found(&journalled(named)), Some("gt-1".into()));
    assert_eq!(found(&plain(EventType::RelicUpdated, "gt-10")), None);
    let crashed = plain(EventType::AgentCrashed, RAIDER);
    assert_eq!(found(&crashed), Some("gt-1".into()));
    let other = Charged {
        relic: id("gt-9"),
        incarnation: Incarnation(2),
    };
    let other = told(EventType::RaiderCharged, RAIDER, Cause::Charged, &other);
    assert_eq!(found(&other), None);
    assert_eq!(found(&crashed), None, "the slot was given out again");
}

#[test]
fn the_worst_end_decides_the_exit_code() {
    let exit = |ends: &[End]| {
        let ends = ends.iter().enumerate();
        let ends = ends.map(|(n, end)| (format!("gt-{n}"), Some(end.clone())));
        let follow = Follow {
            ends: ends.collect(),
            ..Follow::default()
        };
        follow.verdict().err().map_or(Exit::Ok, |error| error.exit)
    };
    let died = End::Quarantined("horde/raiders/Toast".into());
    assert_eq!(exit(&[End::Closed, End::Closed]), Exit::Ok);
    assert_eq!(exit(&[End::Closed, End::Deferred(None)]), Exit::Ok);
    assert_eq!(exit(&[End::Blocked, End::Deferred(None)]), Exit::NeedsHuman);
    assert_eq!(exit(&[End::Blocked, died.clone()]), Exit::Failed);
    assert_eq!(exit(&[died, End::Blocked]), Exit::Failed);
    assert_eq!(exit(&[End::NotMerged, End::Blocked]), Exit::MergeFailed);
    let parked = End::Parked("a limit".into());
    assert_eq!(exit(std::slice::from_ref(&parked)), Exit::Parked);
    assert_eq!(exit(&[End::Closed, parked.clone()]), Exit::Parked);
    assert_eq!(exit(&[parked, End::NotMerged]), Exit::MergeFailed);
}

#[test]
fn commit_that_a_relic_landed_as_is_told_at_the_end() {
    let mut follow = one();
    let merged = Merged {
        relic: id("gt-1"),
        target: "main".into(),
        merge_commit: "abc".into(),
        noop: false,
    };
    let merged = told(EventType::RaiderMerged, RAIDER, Cause::Merged, &merged);
    follow.record("gt-1", &merged, &relic("closed"));
    assert_eq!(follow.closed(), ["gt-1 landed as abc on main"]);
    let mut by_hand = one();
    let closed = plain(EventType::RelicClosed, "gt-1");
    by_hand.record("gt-1", &closed, &relic("closed"));
    assert_eq!(by_hand.closed(), ["gt-1 was closed without landing"]);
}

/// Contract 2.3, exit 9: a limit or a login ends the following, with the time of its end.
#[test]
fn parked_relic_ends_the_following_unless_its_session_has_gone_on() {
    let hooked = relic("hooked");
    let text = || "at your limit".to_owned();
    let until = Some(Timestamp::UNIX_EPOCH);
    let limit = Condition::RateLimited {
        text: text(),
        until,
    };
    for (kind, condition, said) in [
        (
            EventType::RaiderRateLimited,
            limit,
            "a limit until 1970-01-01T00:00:00Z: at your limit",
        ),
        (
            EventType::RaiderAuth,
            Condition::Auth { text: text() },
            "a login: at your limit",
        ),
    ] {
        let mut follow = one();
        let event = told(kind, RAIDER, Cause::RateLimit, &condition);
        follow.record("gt-1", &event, &hooked);
        assert_eq!(follow.ends["gt-1"], Some(End::Parked(said.into())));
        let error = follow.verdict().unwrap_err();
        assert_eq!(error.exit, Exit::Parked);
        assert!(error.message.contains(said), "{}", error.message);
        let resumed = plain(EventType::RaiderResumed, RAIDER);
        follow.record("gt-1", &resumed, &hooked);
        assert_eq!(follow.ends["gt-1"], None);
    }
}

#[test]
fn a_blocked_relic_is_a_failed_merge_only_when_the_queue_gave_it_up() {
    let blocked = relic("blocked");
    assert_eq!(end(&blocked, true), Some(End::NotMerged));
    assert_eq!(end(&blocked, false), Some(End::Blocked));
    assert_eq!(end(&relic("hooked"), false), None);
    let said = |cause, status| {
        let event = told(
            EventType::RelicUpdated,
            "gt-1",
            cause,
            &NotLanded { status },
        );
        is_given_up(&event)
    };
    assert!(said(Cause::ReworkExhausted, RelicStatus::Blocked));
    let refused = said(Cause::MergeFailed, RelicStatus::Blocked);
    assert!(refused, "the remote refused it");
    let again = said(Cause::MergeFailed, RelicStatus::Open);
    assert!(!again, "it is reworked");
    assert!(!said(Cause::Stuck, RelicStatus::Blocked));
}

/// The relic stays hooked; only the events tell that nothing moves.
#[test]
fn waiting_for_a_person_lasts_until_the_person_acted() {
    let hooked = relic("hooked");
    let mut follow = one();
    let mut saw = |event: Event| {
        follow.record("gt-1", &event, &hooked);
        follow.ends["gt-1"].clone()
    };
    let held = |fields| told(EventType::MrHeld, "gt-2", Cause::MergeFailed, &fields);
    let retried = MergeStep {
        note: Some("main moved".into()),
        not_before: Some(Timestamp::UNIX_EPOCH),
    };
    assert_eq!(saw(held(retried)), None);
    let waits = MergeStep {
        note: Some("hd mq approve gt-2".into()),
        not_before: None,
    };
    let waiting = Some(End::Held("hd mq approve gt-2".into()));
    assert_eq!(saw(held(waits)), waiting);
    assert_eq!(saw(plain(EventType::MessageSent, "shaman")), waiting);
    assert_eq!(saw(plain(EventType::MrApproved, "gt-2")), None);
    let died = plain(EventType::AgentQuarantined, RAIDER);
    assert_eq!(saw(died), Some(End::Quarantined(RAIDER.into())));
    assert_eq!(saw(plain(EventType::AgentUnquarantined, RAIDER)), None);
    let mut unknown = plain(EventType::MrHeld, "gt-2");
    unknown.kind = "mr.postponed".to_owned();
    assert_eq!(saw(unknown), None, "an event of a newer supervisor");
}
