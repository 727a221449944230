//! The state of a relic after a charge that failed.

use crate::domain::event::EventType;
use crate::domain::message::{self, Body, Escalation};
use crate::domain::problem::ProblemKind;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, raider};

/// Automatic charging would take it from the person otherwise.
#[tokio::test(start_paused = true)]
async fn relic_whose_charge_failed_has_the_assignee_and_the_harness_that_it_had() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let id = relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.assignee = Some("carol".to_owned());
        txn.put_relic(&relic)
    })
    .await;
    let error = StartError::Provider("no memory".into());
    let session = raider("Toast").session_id();
    city.parts.sessions.refuse_start(&session, error);
    city.charge(&relic).await.unwrap_err();
    let now = city.relic_now(&relic).await;
    assert_eq!((now.status, now.harness), (RelicStatus::Open, None));
    assert_eq!(now.assignee.as_deref(), Some("carol"));
}

/// It would be charged automatically otherwise, and nothing would tell the person that it needs one.
#[tokio::test(start_paused = true)]
async fn blocked_relic_whose_charge_failed_is_blocked_with_its_escalation() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let id = relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Blocked;
        (relic.reworks, relic.charge_failures) = (2, 3);
        relic.raider = Some(raider("Toast"));
        txn.put_relic(&relic)?;
        let from = message::witness(&raider("Toast").rig);
        let title = ProblemKind::Quarantined.in_words("it died too often".to_owned());
        let body = Body::Escalation(Escalation::high(&from, title, "5 deaths").on(id.clone()));
        txn.send(&from, message::SHAMAN, body)
    })
    .await;
    city.world.nudge(message::SHAMAN);
    city.settle().await;
    let open = async || {
        let mut open = city.escalations().await;
        open.retain(|it| it.status != RelicStatus::Closed);
        open.len()
    };
    assert_eq!(open().await, 1);
    let before = city.relic_now(&relic).await;
    let session = raider("Toast").session_id();
    let error = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&session, error);
    city.charge(&relic).await.unwrap_err();
    let now = city.relic_now(&relic).await;
    assert_eq!(now.status, RelicStatus::Blocked);
    assert_eq!((now.reworks, now.charge_failures), (2, 3));
    assert_eq!(
        (&now.raider, &now.assignee),
        (&before.raider, &before.assignee)
    );
    let told = city.events(EventType::RelicUpdated).await.pop().unwrap();
    assert_eq!(told.data["status"], "blocked");
    assert_eq!(open().await, 1);
    // A charge that succeeds ends all of that.
    city.charge(&relic).await.unwrap();
    let now = city.relic_now(&relic).await;
    assert_eq!(now.status, RelicStatus::Hooked);
    assert_eq!((now.reworks, now.charge_failures), (0, 0));
    assert_eq!(open().await, 0);
}
