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
use crate::testing::world::{Scenario, TestCity, rig};

const HOUR: Duration = Duration::from_secs(3600);

/// Has the directory deleted while its branch is pushed, after this many more commits.
async fn lost_at_done(later: usize) -> (TestCity, Charged) {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let city = city.start().await;
    let charged = city.worker("a").await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    city.parts.repo.interlude("push_branch", move || {
        if repo.names().is_empty() {
            return;
        }
        for _ in 0..later {
            repo.commit(&name);
        }
        repo.lose(&name);
    });
    city.completed(&charged.raider).await.unwrap();
    (city, charged)
}

#[tokio::test(start_paused = true)]
async fn pushed_work_lands_although_its_sandbox_is_gone() {
    let (city, charged) = lost_at_done(0).await;
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.landings(), 1);
    assert!(city.hook(&charged.raider).await.is_none(), "a free slot");
    assert!(city.escalations().await.is_empty());
    assert!(city.parts.repo.salvages().is_empty());
}

/// The branch got commits after `done`: they were not declared, and no other ref holds them.
#[tokio::test(start_paused = true)]
async fn unpushed_branch_of_a_missing_sandbox_is_kept_and_finally_salvaged() {
    let (city, charged) = lost_at_done(1).await;
    city.pass(HOUR - 2 * PATROL).await;
    assert_eq!(city.parts.repo.landings(), 0);
    assert_eq!(city.escalations().await.len(), 1);
    assert!(city.hook(&charged.raider).await.is_some());
    city.pass(4 * PATROL).await;
    assert!(city.hook(&charged.raider).await.is_none());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Open);
    assert_eq!(relic.branch.as_ref(), Some(&charged.branch));
}

/// Has a person remove the raider of work that waits for their review.
async fn nuked_in_review() -> (TestCity, Charged) {
    let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    city.nuke(&charged.raider, false).await.unwrap();
    let other = city.worker("b").await;
    assert_eq!(other.raider, charged.raider, "its slot is free");
    city.pass(PATROL * 3).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!(
        city.status(&charged.relic).await,
        RelicStatus::Hooked,
        "for what is said of it"
    );
    (city, charged)
}

#[tokio::test(start_paused = true)]
async fn a_merge_request_that_waits_for_a_person_outlives_its_raider() {
    let (city, charged) = nuked_in_review().await;
    let mut mr = city.mr(&charged.relic).await.unwrap();
    let head = mr.head.clone();
    mr.review = Review::Approved;
    city.store(move |txn| txn.put_mr(&mr)).await;
    city.world.nudge(&message::witness(&rig()));
    city.settle().await;
    assert!(city.parts.repo.has_landed(&head));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.names(), ["Toast"], "its successor's");
    assert_eq!(city.events(EventType::RaiderNuked).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_rejected_after_its_raider_was_nuked_is_started_afresh() {
    let (city, charged) = nuked_in_review().await;
    let mut mr = city.mr(&charged.relic).await.unwrap();
    city.store(move |txn| {
        land::withdraw(txn, &mut mr, None, Cause::Operator)?;
        rework::reject(txn, &mr, None, &Asker::person())
    })
    .await;
    city.world.nudge(&message::witness(&rig()));
    city.settle().await;
    let (id, old) = (charged.relic.clone(), charged.raider.clone());
    let hook = city.store(move |txn| txn.hook_of_relic(&id)).await;
    assert_ne!(hook.expect("a fresh raider").raider, old);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Rejected);
    let inbox = city.store(|txn| txn.inbox(&message::witness(&rig())));
    assert!(inbox.await.is_empty(), "nothing waits for it any more");
}

/// The remote branch has other commits by now, which were not approved.
#[tokio::test(start_paused = true)]
async fn only_the_approved_commit_lands() {
    let (city, charged) = nuked_in_review().await;
    let mut mr = city.mr(&charged.relic).await.unwrap();
    let moved = crate::ports::repo::RepoError::Moved {
        name: charged.branch.clone(),
        expected: "at or before it".into(),
        found: "another".into(),
    };
    city.parts.repo.drop_remote(&charged.branch);
    city.parts.repo.break_op("push_branch", moved);
    mr.review = Review::Approved;
    city.store(move |txn| txn.put_mr(&mr)).await;
    city.pass(PATROL * 3).await;
    assert_eq!(city.parts.repo.landings(), 0);
    assert_eq!(city.escalations().await.len(), 1);
}
