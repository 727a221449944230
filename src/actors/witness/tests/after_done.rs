//! Commits that are made after `done`, or after an approval: they are checked and reviewed like the others.

use super::PATROL;
use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::problem::{Problem, ProblemKind};
use crate::domain::queue::Step;
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity, rig};

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

/// A head that is pushed is checked; that of `done` is not the only one.
#[tokio::test(start_paused = true)]
async fn commits_after_done_that_a_remote_may_refuse_are_kept_and_told() {
    let (city, charged) = waiting().await;
    let head = city.parts.repo.commit(&charged.raider.name);
    let broken = RepoError::Rejected("1234abcd: .git in a tree".into());
    city.parts.repo.break_op("fit", broken);
    approve(&city, &charged).await;
    assert_eq!(city.parts.repo.landings(), 0);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_ne!(city.parts.repo.remote(&mr.branch), Some(head));
    assert_eq!(city.parts.repo.names(), ["Toast"], "it is kept");
    let calls: Vec<Relic> = city.escalations().await;
    let open = calls.iter().find(|it| it.status != RelicStatus::Closed);
    let open = open.unwrap();
    assert_eq!(
        Problem::stored(&open.labels, &open.title).kind(),
        ProblemKind::Unpushed
    );
    assert!(open.body.contains(".git in a tree"), "{}", open.body);
}

/// An approval is of the head that a person was shown.
#[tokio::test(start_paused = true)]
async fn commits_after_a_review_are_reviewed_before_they_land() {
    let (city, charged) = waiting().await;
    let shown = city.mr(&charged.relic).await.unwrap().head;
    let later = city.parts.repo.commit(&charged.raider.name);
    approve(&city, &charged).await;
    assert_eq!(city.parts.repo.landings(), 0);
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!((mr.review, &mr.head), (Review::Wanted, &later));
    assert_ne!(shown, later);
    let note = mr.note.unwrap();
    assert!(note.contains("changed after the approval"), "{note}");
    assert_eq!(city.events(EventType::MrHeld).await.len(), 2, "told again");
    approve(&city, &charged).await;
    assert!(city.parts.repo.has_landed(&later));
    let mr = city.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged);
}
