//! The journal is for people: with all its events deleted, every decision is the same.

use std::time::Duration;

use super::{GROWN, PATROL, unhook, zombies};
use crate::domain::event::EventType;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

const HOUR: Duration = Duration::from_secs(3600);

/// Deletes all events, as `[retention]` does later.
async fn forget(test_city: &TestCity) {
    test_city
        .store(|txn| {
            let (end, later) = (txn.last_seq()? + 1, txn.now() + HOUR);
            txn.prune_events(later, end, &[], 100_000)
        })
        .await;
    assert!(test_city.events(EventType::MessageSent).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn merge_that_was_told_is_not_told_again() {
    let test_city = Scenario::new().start().await;
    let away = RepoError::Remote("authentication failed".into());
    test_city.parts.repo.break_op("delete_branch", away);
    let charged = test_city.worker("a").await;
    test_city.completed(&charged.raider).await.unwrap();
    test_city.pass(PATROL * 2).await;
    assert_eq!(test_city.events(EventType::RaiderMerged).await.len(), 1);
    let mr = test_city.mr(&charged.relic).await.unwrap();
    assert!(mr.settled_at.is_some(), "{mr:?}");
    forget(&test_city).await;
    test_city.pass(PATROL * 5).await;
    assert!(test_city.events(EventType::RaiderMerged).await.is_empty());
    let chain = super::identities::chain(&test_city, "script").await;
    let merged = chain.iter().filter(|entry| entry.kind == "merged");
    assert_eq!(merged.count(), 1, "{chain:?}");
    assert_eq!(test_city.status(&charged.relic).await, RelicStatus::Closed);
}

/// The completion may be much older: the time counts from when a person was asked.
#[tokio::test(start_paused = true)]
async fn work_that_waits_for_a_person_waits_since_it_was_held() {
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
    });
    let test_city = scenario.start().await;
    let charged = test_city.worker("a").await;
    test_city
        .parts
        .repo
        .break_op("push_branch", RepoError::Remote("away".into()));
    test_city.completed(&charged.raider).await.unwrap();
    test_city.pass_hours(2 * HOUR).await;
    test_city.parts.repo.mend("push_branch");
    test_city.pass(PATROL * 2).await;
    let mr = test_city.mr(&charged.relic).await.unwrap();
    let held = test_city.events(EventType::MrHeld).await;
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(mr.held_since, Some(held[0].ts));
    forget(&test_city).await;
    test_city.pass_hours(2 * HOUR).await;
    assert_eq!(
        test_city.parts.repo.names(),
        ["Toast"],
        "not for long enough"
    );
    test_city.pass_hours(HOUR).await;
    assert!(test_city.parts.repo.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn raider_that_was_told_often_enough_of_its_outcome_is_not_told_again() {
    let (test_city, charged) = Scenario::at_work().await;
    test_city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let city = &test_city.world.city;
    let dir = city.task_dir(&charged.raider, &charged.relic, charged.incarnation);
    test_city
        .parts
        .tasks
        .write_outcome(&dir, r#"{"outcome":"passed"}"#);
    test_city.pass(PATROL * 20).await;
    let told = test_city.parts.sessions.sent(&charged.session).len();
    assert_eq!(told, 2);
    forget(&test_city).await;
    test_city.pass(PATROL * 20).await;
    assert_eq!(test_city.parts.sessions.sent(&charged.session).len(), told);
    assert!(test_city.events(EventType::RaiderNudged).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn zombie_that_was_noted_is_not_noted_again() {
    let (test_city, charged) = Scenario::at_work().await;
    test_city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unhook(&test_city, &charged).await;
    test_city.pass(GROWN + PATROL * 3).await;
    assert_eq!(zombies(&test_city).await.len(), 1);
    forget(&test_city).await;
    test_city.pass(PATROL * 5).await;
    assert_eq!(test_city.parts.repo.names(), ["Toast"]);
    assert!(zombies(&test_city).await.is_empty());
}
