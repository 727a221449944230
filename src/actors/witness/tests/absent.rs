//! Raiders that should work and have no session.

use super::PATROL;
use crate::actors::mail::WitnessMsg;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::testing::world::Scenario;

/// A raider that should work and has no session counts as stalled: journalled once each time, with the reason.
#[tokio::test(start_paused = true)]
async fn a_raider_without_a_session_is_said_to_be_stalled_once_and_why() {
    let (town, charged) = Scenario::at_work().await;
    let id = ChildId::Raider(charged.raider.clone());
    for times in 1..3 {
        town.rest(&id).await.unwrap();
        town.pass(PATROL * 4).await;
        let said = town.events(EventType::RaiderStalled).await;
        assert_eq!(said.len(), times, "{said:?}");
        assert!(said[times - 1].data["detail"].is_string(), "{said:?}");
        // A restarted witness does not journal it again.
        town.kill_actors::<WitnessMsg>();
        town.pass(PATROL * 2).await;
        assert_eq!(town.events(EventType::RaiderStalled).await.len(), times);
        town.wake(&id).await.unwrap();
        town.pass(PATROL * 2).await;
        assert_eq!(town.events(EventType::RaiderStalled).await.len(), times);
    }
}

/// A death is followed by a start within a moment, and is no stall.
#[tokio::test(start_paused = true)]
async fn restarting_and_suspended_raiders_are_not_reported_as_stalled() {
    let (town, charged) = Scenario::at_work().await;
    town.parts.sessions.crash(&charged.session, 9);
    town.pass(PATROL * 2).await;
    town.reload(|city| city.rigs[0].suspended = true).await;
    town.pass(PATROL * 2).await;
    assert!(!town.runs(&charged.session));
    assert!(town.events(EventType::RaiderStalled).await.is_empty());
}
