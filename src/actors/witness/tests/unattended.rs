//! Finished work whose sandbox is gone before it is queued: the pushed commits are not lost.

use std::sync::Arc;
use std::time::Duration;

use super::PATROL;
use crate::actors::mail::Charged;
use crate::actors::records::rework;
use crate::actors::sagas::land;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, Town, rig};

const HOUR: Duration = Duration::from_secs(3600);

/// Has the directory deleted while its branch is pushed, after this many more commits.
async fn lost_at_done(later: usize) -> (Town, Charged) {
    let town = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let town = town.start().await;
    let charged = town.worker("a").await;
    let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
    town.parts.repo.interlude("push_branch", move || {
        if repo.names().is_empty() {
            return;
        }
        for _ in 0..later {
            repo.commit(&name);
        }
        repo.lose(&name);
    });
    town.completed(&charged.raider).await.unwrap();
    (town, charged)
}

#[tokio::test(start_paused = true)]
async fn pushed_work_lands_although_its_sandbox_is_gone() {
    let (town, charged) = lost_at_done(0).await;
    town.pass(PATROL).await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(town.parts.repo.landings(), 1);
    assert!(town.hook(&charged.raider).await.is_none(), "a free slot");
    assert!(town.escalations().await.is_empty());
    assert!(town.parts.repo.salvages().is_empty());
}

/// The branch got commits after `done`: they were not declared, and no other ref holds them.
#[tokio::test(start_paused = true)]
async fn unpushed_branch_of_a_missing_sandbox_is_kept_and_finally_salvaged() {
    let (town, charged) = lost_at_done(1).await;
    town.pass(HOUR - 2 * PATROL).await;
    assert_eq!(town.parts.repo.landings(), 0);
    assert_eq!(town.escalations().await.len(), 1);
    assert!(town.hook(&charged.raider).await.is_some());
    town.pass(4 * PATROL).await;
    assert!(town.hook(&charged.raider).await.is_none());
    assert_eq!(town.parts.repo.salvages().len(), 1);
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Open);
    assert_eq!(relic.branch.as_ref(), Some(&charged.branch));
}

/// Has a person remove the raider of work that waits for their review.
async fn nuked_in_review() -> (Town, Charged) {
    let town = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let town = town.start().await;
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    town.nuke(&charged.raider, false).await.unwrap();
    let other = town.worker("b").await;
    assert_eq!(other.raider, charged.raider, "its slot is free");
    town.pass(PATROL * 3).await;
    let mr = town.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!(
        town.status(&charged.relic).await,
        RelicStatus::Hooked,
        "for what is said of it"
    );
    (town, charged)
}

#[tokio::test(start_paused = true)]
async fn a_merge_request_that_waits_for_a_person_outlives_its_raider() {
    let (town, charged) = nuked_in_review().await;
    let mut mr = town.mr(&charged.relic).await.unwrap();
    let head = mr.head.clone();
    mr.review = Review::Approved;
    town.store(move |txn| txn.put_mr(&mr)).await;
    town.world.nudge(&message::witness(&rig()));
    town.settle().await;
    assert!(town.parts.repo.has_landed(&head));
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(town.parts.repo.names(), ["Toast"], "its successor's");
    assert_eq!(town.events(EventType::RaiderNuked).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_rejected_after_its_raider_was_nuked_is_started_afresh() {
    let (town, charged) = nuked_in_review().await;
    let mut mr = town.mr(&charged.relic).await.unwrap();
    town.store(move |txn| {
        land::withdraw(txn, &mut mr, None, Cause::Operator)?;
        rework::reject(txn, &mr, None, &Asker::person())
    })
    .await;
    town.world.nudge(&message::witness(&rig()));
    town.settle().await;
    let (id, old) = (charged.relic.clone(), charged.raider.clone());
    let hook = town.store(move |txn| txn.hook_of_relic(&id)).await;
    assert_ne!(hook.expect("a fresh raider").raider, old);
    let mr = town.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    let inbox = town.store(|txn| txn.inbox(&message::witness(&rig())));
    assert!(inbox.await.is_empty(), "nothing waits for it any more");
}

/// The remote branch has other commits by now, which were not approved.
#[tokio::test(start_paused = true)]
async fn only_the_approved_commit_lands() {
    let (town, charged) = nuked_in_review().await;
    let mut mr = town.mr(&charged.relic).await.unwrap();
    let moved = crate::ports::repo::RepoError::Moved {
        name: charged.branch.clone(),
        expected: "at or before it".into(),
        found: "another".into(),
    };
    town.parts.repo.drop_remote(&charged.branch);
    town.parts.repo.break_op("push_branch", moved);
    mr.review = Review::Approved;
    town.store(move |txn| txn.put_mr(&mr)).await;
    town.pass(PATROL * 3).await;
    assert_eq!(town.parts.repo.landings(), 0);
    assert_eq!(town.escalations().await.len(), 1);
}
