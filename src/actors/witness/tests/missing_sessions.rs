//! Raiders that should work and have no session.

use super::PATROL;
use crate::actors::mail::WitnessMsg;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::testing::world::Scenario;

/// A raider that should work and has no session counts as stalled: journalled once each time, with the reason.
#[tokio::test(start_paused = true)]
async fn a_raider_without_a_session_is_said_to_be_stalled_once_and_why() {
    let (city, charged) = Scenario::at_work().await;
    let id = ChildId::Raider(charged.raider.clone());
    for times in 1..3 {
        city.rest(&id).await.unwrap();
        city.pass(PATROL * 4).await;
        let events = city.events(EventType::RaiderStalled).await;
        assert_eq!(events.len(), times, "{events:?}");
        assert!(events[times - 1].data["detail"].is_string(), "{events:?}");
        // A restarted witness does not journal it again.
        city.kill_actors::<WitnessMsg>();
        city.pass(PATROL * 2).await;
        assert_eq!(city.events(EventType::RaiderStalled).await.len(), times);
        city.wake(&id).await.unwrap();
        city.pass(PATROL * 2).await;
        assert_eq!(city.events(EventType::RaiderStalled).await.len(), times);
    }
}

/// A death is followed by a start within a moment, and is no stall.
#[tokio::test(start_paused = true)]
async fn restarting_and_suspended_raiders_are_not_reported_as_stalled() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL * 2).await;
    city.reload(|city| city.rigs[0].suspended = true).await;
    city.pass(PATROL * 2).await;
    assert!(!city.runs(&charged.session));
    assert!(city.events(EventType::RaiderStalled).await.is_empty());
}
