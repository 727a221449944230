//! Charge: all or nothing, whatever fails.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::refusal::RefusalKind;
use crate::actors::root::ChildState;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, Town, raider};

async fn nothing_is_left(town: &Town, relic: &crate::domain::ids::RelicId) {
    let now = town.relic_now(relic).await;
    assert_eq!(now.status, RelicStatus::Open);
    assert_eq!(now.assignee, None);
    assert_eq!(town.sagas().await, 0);
    assert!(town.parts.repo.names().is_empty());
    assert!(town.hook(&raider("Toast")).await.is_none());
    assert!(town.parts.sessions.running().is_empty());
    let id = ChildId::Raider(raider("Toast"));
    assert!(town.view(&id).await.is_none());
}

async fn works_now(town: &Town, relic: &crate::domain::ids::RelicId) {
    let charged = town.charge(relic).await.unwrap();
    assert_eq!(charged.raider, raider("Toast"), "the slot is free again");
    let id = ChildId::Raider(charged.raider);
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    assert_eq!(town.sagas().await, 0);
    assert_eq!(town.relic_now(relic).await.status, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_cannot_be_made_unwinds() {
    for error in [
        RepoError::Failed("no room".into()),
        RepoError::Remote("away".into()),
    ] {
        let town = Scenario::new().start().await;
        let relic = town.relic("a").await;
        town.parts.repo.fail("make_sandbox", error);
        town.charge(&relic).await.unwrap_err();
        nothing_is_left(&town, &relic).await;
        works_now(&town, &relic).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_set_up_that_fails_unwinds() {
    let town = Scenario::new()
        .rig(|rig| rig.raiders.setup = vec!["make deps".into()])
        .start()
        .await;
    let relic = town.relic("a").await;
    town.parts.tasks.break_set_up(Some("make: no rule"));
    let error = town.charge(&relic).await.unwrap_err();
    assert!(error.message.contains("no rule"), "{error}");
    nothing_is_left(&town, &relic).await;
    town.parts.tasks.break_set_up(None);
    works_now(&town, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_does_not_start_unwinds() {
    let town = Scenario::new().start().await;
    let relic = town.relic("a").await;
    let error = StartError::Provider("no memory".into());
    let session = raider("Toast").session_id();
    town.parts.sessions.refuse_start(&session, error);
    town.charge(&relic).await.unwrap_err();
    nothing_is_left(&town, &relic).await;
    works_now(&town, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn a_relic_closed_meanwhile_unwinds_and_stays_closed() {
    let town = Scenario::new().start().await;
    let relic = town.relic("a").await;
    let (store, id) = (town.world.store.clone(), relic.clone());
    let runtime = tokio::runtime::Handle::current();
    town.parts.repo.interlude("make_sandbox", move || {
        let id = id.clone();
        let close = store.run(move |txn| {
            let mut relic = txn.relic(&id)?;
            relic.status = RelicStatus::Closed;
            txn.put_relic(&relic)
        });
        runtime.block_on(close).unwrap();
    });
    let error = town.charge(&relic).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::Conflict);
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Closed);
    assert_eq!(town.sagas().await, 0);
    assert!(town.parts.repo.names().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_pool_says_so_and_changes_nothing() {
    let town = Scenario::new().rig(|rig| rig.raiders.max = 1).start().await;
    let (first, second) = (town.relic("a").await, town.relic("b").await);
    town.charge(&first).await.unwrap();
    let before = town.store(|txn| txn.last_seq()).await;
    let error = town.charge(&second).await.unwrap_err();
    assert_eq!(error.kind, RefusalKind::Conflict);
    assert_eq!(town.store(|txn| txn.last_seq()).await, before);
    assert_eq!(town.parts.repo.count("make_sandbox"), 1);
    assert_eq!(town.relic_now(&second).await.status, RelicStatus::Open);
    let twice = town.charge(&first).await.unwrap_err();
    assert_eq!(twice.kind, RefusalKind::Conflict);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_charge_is_resumed_by_the_patrol() {
    let once = std::sync::atomic::AtomicBool::new(true);
    let fault = move |point| {
        let first = || once.swap(false, std::sync::atomic::Ordering::SeqCst);
        if point == FaultPoint::ChargeSessionBefore && first() {
            panic!("at {point:?}");
        }
    };
    let town = Scenario::new().fault(Arc::new(fault)).start().await;
    let relic = town.relic("a").await;
    town.charge(&relic).await.unwrap_err();
    assert_eq!(town.sagas().await, 1, "it waits to be resumed");
    town.pass(Duration::from_secs(31)).await;
    assert_eq!(town.sagas().await, 0);
    assert_eq!(town.starts(&raider("Toast").session_id()), 1);
    assert_eq!(town.relic_now(&relic).await.status, RelicStatus::Hooked);
}
