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
use crate::testing::world::{Scenario, Town};

const SECOND: Duration = Duration::from_secs(1);

/// Has the session work for four seconds, then hand off with this progress.
async fn hand_off(town: &Town, charged: &Charged, progress: &str) {
    town.pass(SECOND * 4).await;
    let meant = ChildRef::raider(&charged.raider, charged.incarnation);
    let progress = Some(progress.to_owned());
    ask::hand_off(&town.world, meant, progress).await.unwrap();
    town.settle().await;
}

async fn calls(town: &Town) -> Vec<Relic> {
    let mut open = town.escalations().await;
    open.retain(|call| {
        call.status == RelicStatus::Open && call.title == ProblemKind::HandoffLoop.text()
    });
    open
}

#[tokio::test(start_paused = true)]
async fn hurried_handoffs_wait_longer_each_time_and_the_sixth_calls_a_person_once() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for handoff in 1..=3 {
        hand_off(&town, &charged, "same").await;
        assert_eq!(town.starts(&charged.session), 1 + handoff, "at once");
    }
    for (handoff, wait) in (4..).zip([10, 20, 40, 80]) {
        hand_off(&town, &charged, "same").await;
        let view = town.view(&id).await.unwrap();
        assert_eq!((view.state, view.restarts), (ChildState::Backoff, 0));
        assert!(view.absence().unwrap().contains("starts again at"));
        assert_eq!(town.starts(&charged.session), handoff);
        assert_eq!(calls(&town).await.len(), usize::from(handoff >= 6));
        town.pass(SECOND * wait - SECOND).await;
        assert_eq!(town.starts(&charged.session), handoff, "it waits {wait} s");
        town.pass(SECOND * 2).await;
        assert_eq!(town.starts(&charged.session), handoff + 1);
    }
    let call = calls(&town).await.remove(0);
    assert!(call.body.contains("6 handoffs in a row"), "{}", call.body);
    assert!(call.body.contains("hd agent stop horde/raiders/Toast"));
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    let told = town.events(EventType::AgentRestarted).await;
    let braked = told
        .iter()
        .filter(|it| it.cause == Cause::HandoffLoop.as_str());
    let waits: Vec<_> = braked
        .map(|it| it.data["wait_s"].as_u64().unwrap())
        .collect();
    assert_eq!(waits, [10, 20, 40, 80]);
}

#[tokio::test(start_paused = true)]
async fn handoffs_with_progress_are_free_and_end_the_call() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    for handoff in 1..=6 {
        hand_off(&town, &charged, "same").await;
        town.pass(SECOND * 41).await;
        assert_eq!(town.starts(&charged.session), 1 + handoff);
    }
    assert_eq!(calls(&town).await.len(), 1);
    hand_off(&town, &charged, "a commit").await;
    assert_eq!(town.starts(&charged.session), 8, "at once");
    assert!(calls(&town).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_operator_need_not_wait_for_a_braked_session() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    for _ in 0..4 {
        hand_off(&town, &charged, "same").await;
    }
    assert!(!town.runs(&charged.session));
    let id = ChildId::Raider(charged.raider.clone());
    town.wake(&id).await.unwrap();
    assert!(town.runs(&charged.session));
    town.pass(SECOND * 60).await;
    assert_eq!(town.starts(&charged.session), 5, "the timer is void");
}
