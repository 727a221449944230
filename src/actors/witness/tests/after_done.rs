//! Commits that are made after `done`, or after an approval: they are checked and reviewed like the others.

use super::PATROL;
use crate::actors::mail::{Charged, DoneRequest};
use crate::actors::sagas::rejection;
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::queue::Step;
use crate::domain::relic::{Completion, Relic, RelicStatus};
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity, completion, rig};

async fn waiting() -> (TestCity, Charged) {
    let city = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert!(city.mr(&charged.relic).await.unwrap().awaits_person());
    (city, charged)
}

async fn approve(city: &TestCity, charged: &Charged) {
    let mut mr = city.mr(&charged.relic).await.unwrap();
    let note = "approved".to_owned();
    mr.step(&Step::Approved { note }, city.world.clock.now())
        .unwrap();
    city.store(move |txn| txn.put_mr(&mr)).await;
    city.world.nudge(&message::witness(&rig()));
    city.pass(PATROL).await;
}

/// Only the submitted and reviewed commit lands; later work stays, and a person is told.
#[tokio::test(start_paused = true)]
async fn commits_after_the_submission_do_not_land_with_its_approval_and_are_told() {
    let (city, charged) = waiting().await;
    let shown = city.mr(&charged.relic).await.unwrap().head;
    let later = city.parts.repo.commit(&charged.raider.name);
    city.parts.repo.dirty(&charged.raider.name, "tried.txt");
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&shown));
    assert!(!city.parts.repo.has_landed(&later));
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.names(), ["Toast"], "it is kept");
    assert!(!city.runs(&charged.session), "its session has ended");
    let calls: Vec<Relic> = city.escalations().await;
    let open = calls.iter().find(|it| it.status != RelicStatus::Closed);
    let open = open.unwrap();
    let problem = Problem::stored(&open.labels, &open.title).kind();
    assert_eq!(problem, ProblemKind::FinishedUnsaved);
    assert!(open.body.contains("tried.txt"), "{}", open.body);
}

/// The branch has the head of the last attempt: the log said of each earlier one that it had new commits.
#[tokio::test(start_paused = true)]
async fn branch_of_work_that_was_rejected_before_it_landed_is_deleted_once() {
    let (city, charged) = waiting().await;
    let id = city.mr(&charged.relic).await.unwrap().id;
    let rejected = rejection::reject(&city.world, id, "more".to_owned(), Asker::person());
    rejected.await.unwrap();
    city.settle().await;
    city.parts.repo.commit(&charged.raider.name);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    approve(&city, &charged).await;
    city.pass(2 * PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.count("delete_branch"), 1);
    assert!(city.parts.repo.remote_branches().is_empty());
}

/// An approval is of the head that a person was shown.
#[tokio::test(start_paused = true)]
async fn later_commits_that_are_submitted_are_reviewed_in_the_same_merge_request() {
    let (city, charged) = waiting().await;
    let shown = city.mr(&charged.relic).await.unwrap();
    let again = city.completed(&charged.raider).await.unwrap();
    assert!(again.already, "nothing new");
    let later = city.parts.repo.commit(&charged.raider.name);
    let again = city.completed(&charged.raider).await.unwrap();
    assert!(!again.already);
    city.settle().await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!((&mr.id, &mr.head), (&shown.id, &later));
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!(city.parts.repo.remote(&mr.branch), Some(later.clone()));
    assert_eq!(city.events(EventType::MrHeld).await.len(), 2, "told again");
    assert!(city.runs(&charged.session));
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&later));
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged);
}

/// The approval was of the commits before.
#[tokio::test(start_paused = true)]
async fn submission_that_crosses_an_approval_is_reviewed_again() {
    let (city, charged) = waiting().await;
    let later = city.parts.repo.commit(&charged.raider.name);
    let held = RepoError::Remote("the remote is away".into());
    city.parts.repo.break_op("push_branch", held);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    approve(&city, &charged).await;
    assert_eq!(city.parts.repo.landings(), 0);
    city.parts.repo.mend("push_branch");
    city.pass(PATROL * 4).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!((mr.review, &mr.head), (Review::Wanted, &later));
    let note = mr.note.unwrap();
    assert!(note.contains("changed after the approval"), "{note}");
}

/// The agent cannot take back what a person reviews, except by saying so.
#[tokio::test(start_paused = true)]
async fn work_in_review_is_not_declared_stuck() {
    let (city, charged) = waiting().await;
    for commits in [false, true] {
        if commits {
            city.parts.repo.commit(&charged.raider.name);
        }
        let refused = city
            .done(DoneRequest {
                exit: Completion::Escalated,
                reason: Some("no".into()),
                ..completion(&charged.raider)
            })
            .await
            .unwrap_err();
        assert!(
            refused.message.contains("waits for the review"),
            "{refused}"
        );
    }
}
