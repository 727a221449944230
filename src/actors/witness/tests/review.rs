//! Finished work that waits for a review: how long its raider is kept, and that a person is told.

use std::time::Duration;

use super::PATROL;
use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::merge::{MrState, Review};
use crate::domain::message;
use crate::domain::relic::RelicStatus;
use crate::testing::jumpy_clock::JumpyClock;
use crate::testing::world::{Scenario, Town, rig};

const HOUR: Duration = Duration::from_secs(3600);

fn reviewed() -> Scenario {
    Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = 3 * HOUR;
        rig.witness.keep_dirty = HOUR;
    })
}

async fn finished(town: &Town) -> Charged {
    let charged = town.worker("a").await;
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    assert!(town.mr(&charged.relic).await.unwrap().awaits_person());
    charged
}

async fn approve(town: &Town, charged: &Charged) {
    let mut mr = town.mr(&charged.relic).await.unwrap();
    mr.review = Review::Approved;
    town.store(move |txn| txn.put_mr(&mr)).await;
    town.world.nudge(&message::witness(&rig()));
    town.pass(PATROL).await;
}

#[tokio::test(start_paused = true)]
async fn raider_with_unreviewed_work_goes_after_review_hold_and_its_merge_request_waits_on() {
    let town = reviewed().start().await;
    let charged = finished(&town).await;
    town.pass_hours(3 * HOUR - PATROL).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    // The present configuration applies.
    town.reload(|city| city.rigs[0].witness.review_hold = 4 * HOUR)
        .await;
    town.pass_hours(HOUR - PATROL).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    town.pass(3 * PATROL).await;
    assert!(town.parts.repo.names().is_empty());
    assert!(town.hook(&charged.raider).await.is_none(), "a free slot");
    // It is clean and pushed, but its branch may be deleted: its head is kept as well.
    assert_eq!(town.parts.repo.salvages().len(), 1);
    let nuked = town.events(EventType::RaiderNuked).await;
    assert_eq!(nuked[0].cause, "review_hold");
    let mr = town.mr(&charged.relic).await.unwrap();
    assert_eq!(mr.state, MrState::Reviewing);
    approve(&town, &charged).await;
    assert!(town.parts.repo.has_landed(&mr.head));
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert!(town.escalations().await.is_empty());
}

/// A person tried something out in it.
#[tokio::test(start_paused = true)]
async fn sandbox_with_work_at_risk_is_kept_and_finally_salvaged() {
    let town = reviewed().start().await;
    let charged = finished(&town).await;
    town.parts.repo.dirty(&charged.raider.name, "tried.txt");
    town.pass_hours(4 * HOUR - PATROL).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert_eq!(town.escalations().await.len(), 1);
    town.pass(3 * PATROL).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(town.parts.repo.salvages().len(), 1);
    let mr = town.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(
        (relic.status, relic.charge_failures),
        (RelicStatus::Hooked, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_wall_clock_ends_no_review_before_its_time_or_after() {
    for jump in [48 * 3600, -48 * 3600] {
        let town = Scenario::new().start().await;
        let clock = JumpyClock::on(town.world.clock.clone());
        let town = reviewed().start_on(town.crash().await, clock.clone()).await;
        finished(&town).await;
        town.pass(PATROL).await;
        clock.jump(jump);
        town.pass_hours(3 * HOUR - 3 * PATROL).await;
        assert_eq!(town.parts.repo.names(), ["Toast"], "{jump}");
        town.pass(4 * PATROL).await;
        assert!(town.parts.repo.names().is_empty(), "{jump}");
    }
}

/// `[notify]` reports it like a question: it waits for a person's answer.
#[tokio::test(start_paused = true)]
async fn a_person_is_told_once_that_work_waits_for_them() {
    let town = reviewed().start().await;
    let charged = finished(&town).await;
    town.pass(10 * PATROL).await;
    let told = town.events(EventType::RaiderNeedsInput).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].subject, charged.raider.to_string());
    let mr = town.mr(&charged.relic).await.unwrap();
    let way = format!("hd mq approve {}", mr.id);
    let question = told[0].data["question"].as_str().unwrap();
    assert!(question.contains(&way), "{question}");
}
