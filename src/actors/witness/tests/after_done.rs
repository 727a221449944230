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
use crate::testing::world::{Scenario, Town, rig};

async fn waiting() -> (Town, Charged) {
    let town = Scenario::new().rig(|rig| rig.forge.review_human = true);
    let town = town.start().await;
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    assert!(town.mr(&charged.relic).await.unwrap().awaits_person());
    (town, charged)
}

async fn approve(town: &Town, charged: &Charged) {
    let mut mr = town.mr(&charged.relic).await.unwrap();
    let note = "approved".to_owned();
    mr.step(&Step::Approved { note }, town.world.clock.now())
        .unwrap();
    town.store(move |txn| txn.put_mr(&mr)).await;
    town.world.nudge(&message::witness(&rig()));
    town.pass(PATROL).await;
}

/// A head that is pushed is checked; that of `done` is not the only one.
#[tokio::test(start_paused = true)]
async fn commits_after_done_that_a_remote_may_refuse_are_kept_and_told() {
    let (town, charged) = waiting().await;
    let head = town.parts.repo.commit(&charged.raider.name);
    let broken = RepoError::Rejected("1234abcd: .git in a tree".into());
    town.parts.repo.break_op("fit", broken);
    approve(&town, &charged).await;
    assert_eq!(town.parts.repo.landings(), 0);
    let mr = town.mr(&charged.relic).await.unwrap();
    assert_ne!(town.parts.repo.remote(&mr.branch), Some(head));
    assert_eq!(town.parts.repo.names(), ["Toast"], "it is kept");
    let calls: Vec<Relic> = town.escalations().await;
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
    let (town, charged) = waiting().await;
    let shown = town.mr(&charged.relic).await.unwrap().head;
    let later = town.parts.repo.commit(&charged.raider.name);
    approve(&town, &charged).await;
    assert_eq!(town.parts.repo.landings(), 0);
    let mr = town.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    assert_eq!((mr.review, &mr.head), (Review::Wanted, &later));
    assert_ne!(shown, later);
    let note = mr.note.unwrap();
    assert!(note.contains("changed after the approval"), "{note}");
    assert_eq!(town.events(EventType::MrHeld).await.len(), 2, "told again");
    approve(&town, &charged).await;
    assert!(town.parts.repo.has_landed(&later));
    let mr = town.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Merged);
}
