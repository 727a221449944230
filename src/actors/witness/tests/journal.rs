//! The journal is for people: with all its events deleted, every decision is the same.

use std::time::Duration;

use super::{GROWN, PATROL, unhook, zombies};
use crate::domain::event::EventType;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, Town};

const HOUR: Duration = Duration::from_secs(3600);

/// Deletes all events, as `[retention]` does later.
async fn forget(town: &Town) {
    town.store(|txn| {
        let (end, later) = (txn.last_seq()? + 1, txn.now() + HOUR);
        txn.prune_events(later, end, 100_000)
    })
    .await;
    assert!(town.events(EventType::MessageSent).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn merge_that_was_told_is_not_told_again() {
    let town = Scenario::new().start().await;
    let away = RepoError::Remote("authentication failed".into());
    town.parts.repo.break_op("delete_branch", away);
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL * 2).await;
    assert_eq!(town.events(EventType::RaiderMerged).await.len(), 1);
    let mr = town.mr(&charged.relic).await.unwrap();
    assert!(mr.settled_at.is_some(), "{mr:?}");
    forget(&town).await;
    town.pass(PATROL * 5).await;
    assert!(town.events(EventType::RaiderMerged).await.is_empty());
    let name = charged.raider.to_string();
    let chain = town.store(move |txn| txn.cv(&name)).await;
    let merged = chain.iter().filter(|entry| entry.kind == "merged");
    assert_eq!(merged.count(), 1, "{chain:?}");
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
}

/// The completion may be much older: the time counts from when a person was asked.
#[tokio::test(start_paused = true)]
async fn work_that_waits_for_a_person_waits_since_it_was_held() {
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
    });
    let town = scenario.start().await;
    let charged = town.worker("a").await;
    town.parts
        .repo
        .break_op("remote_head", RepoError::Remote("away".into()));
    town.completed(&charged.raider).await.unwrap();
    town.pass_hours(2 * HOUR).await;
    town.parts.repo.mend("remote_head");
    town.pass(PATROL * 2).await;
    let mr = town.mr(&charged.relic).await.unwrap();
    let held = town.events(EventType::MrHeld).await;
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!(mr.held_since, Some(held[0].ts));
    forget(&town).await;
    town.pass_hours(2 * HOUR).await;
    assert_eq!(town.parts.repo.names(), ["Toast"], "not for long enough");
    town.pass_hours(HOUR).await;
    assert!(town.parts.repo.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn raider_that_was_told_often_enough_of_its_outcome_is_not_told_again() {
    let (town, charged) = Scenario::at_work().await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let city = &town.world.city;
    let dir = city.task_dir(&charged.raider, &charged.relic, charged.incarnation);
    town.parts
        .tasks
        .write_outcome(&dir, r#"{"outcome":"passed"}"#);
    town.pass(PATROL * 20).await;
    let told = town.parts.sessions.sent(&charged.session).len();
    assert_eq!(told, 2);
    forget(&town).await;
    town.pass(PATROL * 20).await;
    assert_eq!(town.parts.sessions.sent(&charged.session).len(), told);
    assert!(town.events(EventType::RaiderNudged).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn zombie_that_was_noted_is_not_noted_again() {
    let (town, charged) = Scenario::at_work().await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    unhook(&town, &charged).await;
    town.pass(GROWN + PATROL * 3).await;
    assert_eq!(zombies(&town).await.len(), 1);
    forget(&town).await;
    town.pass(PATROL * 5).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert!(zombies(&town).await.is_empty());
}
