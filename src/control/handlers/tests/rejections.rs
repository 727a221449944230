//! A rejection holds until its relic lands, whatever became of the raiders that worked on it since.

use super::*;
use crate::actors::mail::DoneRequest;
use crate::domain::relic::Hook;
use crate::testing::world::completion;

/// Starts a city in which a person rejected work that its agent asked to have reviewed; the rig itself asks for no
/// review. A fresh raider works on it now.
async fn rejected() -> (TestCity, RelicId) {
    let scenario = Scenario::new().rig(|rig| rig.witness.review_hold = Duration::ZERO);
    let scenario = scenario.with(|city| city.daemon.restart.max_restarts = 1);
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    let asked = DoneRequest {
        wants_review: true,
        ..completion(&charged.raider)
    };
    city.done(asked).await.unwrap();
    city.pass(PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    let reject = json!({ "mr": mr.id, "note": "no", "yes": true });
    ask(&city, "mq.reject", reject).await.unwrap();
    city.pass(2 * PATROL).await;
    (city, charged.relic)
}

async fn hook(city: &TestCity, relic: &RelicId) -> Hook {
    let relic = relic.clone();
    let hook = city.store(move |txn| txn.hook_of_relic(&relic)).await;
    hook.unwrap()
}

/// Has the raider that holds the relic complete it, and checks that a person is asked once more.
async fn expect_review(city: &TestCity, relic: &RelicId) {
    let raider = hook(city, relic).await.raider;
    let head = city.parts.repo.commit(&raider.name);
    city.completed(&raider).await.unwrap();
    city.pass(4 * PATROL).await;
    let mr = city.mr(relic).await.unwrap();
    assert_eq!((mr.awaits_person(), &mr.head), (true, &head), "{mr:?}");
    assert!(!city.parts.repo.has_landed(&head));
}

#[tokio::test(start_paused = true)]
async fn rejected_work_that_is_cancelled_and_reopened_is_reviewed_again() {
    let (city, relic) = rejected().await;
    let before = hook(&city, &relic).await.incarnation;
    let cancel = json!({ "relic": relic, "yes": true });
    ask(&city, "relic.cancel", cancel).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.relic_now(&relic).await.status, RelicStatus::Closed);
    ask(&city, "relic.reopen", json!({ "relic": relic }))
        .await
        .unwrap();
    city.charge(&relic).await.unwrap();
    assert_ne!(hook(&city, &relic).await.incarnation, before);
    expect_review(&city, &relic).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_work_of_a_quarantined_raider_that_is_nuked_is_reviewed_again() {
    let (city, relic) = rejected().await;
    let held = hook(&city, &relic).await;
    let session = held.raider.session_id();
    for _ in 0..6 {
        city.parts.sessions.crash(&session, 9);
        city.pass(Duration::from_secs(2)).await;
    }
    let quarantined = city.events(EventType::AgentQuarantined).await;
    assert!(!quarantined.is_empty(), "it kept dying");
    let nuke = json!({ "name": held.raider, "salvage": true, "yes": true });
    ask(&city, "raider.nuke", nuke).await.unwrap();
    city.pass(PATROL).await;
    // Its deaths wait for a person, and a person's charge gives it fresh attempts.
    let now = city.relic_now(&relic).await.status;
    assert_eq!(now, RelicStatus::Blocked);
    city.charge(&relic).await.unwrap();
    assert_ne!(hook(&city, &relic).await.incarnation, held.incarnation);
    expect_review(&city, &relic).await;
}
