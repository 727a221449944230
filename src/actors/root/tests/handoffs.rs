//! The brake on handoffs (`domain/handoff.rs`): successors wait, then a person is called.

use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::Charged;
use crate::actors::mail::{ChildRef, ChildState};
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Relic, RelicStatus};
use crate::testing::world::{Scenario, TestCity};

const SECOND: Duration = Duration::from_secs(1);

/// Has the session work for four seconds, then hand off with this progress.
async fn hand_off(city: &TestCity, charged: &Charged, progress: &str) {
    city.pass(SECOND * 4).await;
    let meant = ChildRef::raider(&charged.raider, charged.incarnation);
    let progress = Some(progress.to_owned());
    ask::hand_off(&city.world, meant, progress).await.unwrap();
    city.settle().await;
}

async fn calls(city: &TestCity) -> Vec<Relic> {
    let mut open = city.escalations().await;
    open.retain(|call| {
        call.status == RelicStatus::Open && call.title == ProblemKind::HandoffLoop.text()
    });
    open
}

#[tokio::test(start_paused = true)]
async fn hurried_handoffs_wait_longer_each_time_and_the_sixth_calls_a_person_once() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for handoff in 1..=3 {
        hand_off(&city, &charged, "same").await;
        assert_eq!(city.starts(&charged.session), 1 + handoff, "at once");
    }
    for (handoff, wait) in (4..).zip([10, 20, 40, 80]) {
        hand_off(&city, &charged, "same").await;
        let view = city.view(&id).await.unwrap();
        assert_eq!((view.state, view.restarts), (ChildState::Backoff, 0));
        assert!(view.absence().unwrap().contains("starts again at"));
        assert_eq!(city.starts(&charged.session), handoff);
        assert_eq!(calls(&city).await.len(), usize::from(handoff >= 6));
        city.pass(SECOND * wait - SECOND).await;
        assert_eq!(city.starts(&charged.session), handoff, "it waits {wait} s");
        city.pass(SECOND * 2).await;
        assert_eq!(city.starts(&charged.session), handoff + 1);
    }
    let call = calls(&city).await.remove(0);
    assert!(call.body.contains("6 handoffs in a row"), "{}", call.body);
    assert!(call.body.contains("hd agent stop horde/raiders/Toast"));
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    let events = city.events(EventType::AgentRestarted).await;
    let braked = events
        .iter()
        .filter(|it| it.cause == Cause::HandoffLoop.as_str());
    let waits: Vec<_> = braked
        .map(|it| it.data["wait_s"].as_u64().unwrap())
        .collect();
    assert_eq!(waits, [10, 20, 40, 80]);
}

#[tokio::test(start_paused = true)]
async fn handoffs_with_progress_are_free_and_end_the_call() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    for handoff in 1..=6 {
        hand_off(&city, &charged, "same").await;
        city.pass(SECOND * 41).await;
        assert_eq!(city.starts(&charged.session), 1 + handoff);
    }
    assert_eq!(calls(&city).await.len(), 1);
    hand_off(&city, &charged, "a commit").await;
    assert_eq!(city.starts(&charged.session), 8, "at once");
    assert!(calls(&city).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_operator_need_not_wait_for_a_braked_session() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    for _ in 0..4 {
        hand_off(&city, &charged, "same").await;
    }
    assert!(!city.runs(&charged.session));
    let id = ChildId::Raider(charged.raider.clone());
    city.wake(&id).await.unwrap();
    assert!(city.runs(&charged.session));
    city.pass(SECOND * 60).await;
    assert_eq!(city.starts(&charged.session), 5, "the timer is void");
}
