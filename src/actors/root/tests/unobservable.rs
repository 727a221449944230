//! Starts that are put off in a rig that is held.

use std::time::Duration;

use crate::actors::mail::Charged;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity};

const MINUTE: Duration = Duration::from_secs(60);

/// Makes a raider whose session has ended, and whose next one does not start, because the disk is full.
async fn put_off() -> (TestCity, Charged) {
    let (city, charged) = Scenario::at_work().await;
    for _ in 0..1000 {
        let full = StartError::Unwritable("no space left".into());
        city.parts.sessions.refuse_start(&charged.session, full);
    }
    city.parts.sessions.crash(&charged.session, 9);
    (city, charged)
}

/// It closed the call, although nothing had changed.
#[tokio::test(start_paused = true)]
async fn hold_does_not_close_the_call_about_a_session_that_cannot_start() {
    let (city, _) = put_off().await;
    city.pass(MINUTE * 12).await;
    let open = async || {
        let calls = city.escalations().await;
        let are_open = calls.iter().all(|it| it.status != RelicStatus::Closed);
        assert!(are_open && calls.len() == 1, "{calls:?}");
    };
    open().await;
    for why in [Some("its repository is missing"), None] {
        city.parts.repo.hold(why);
        city.pass(MINUTE * 12).await;
        open().await;
    }
}

#[tokio::test(start_paused = true)]
async fn start_that_waits_for_a_held_rig_calls_a_person_only_after_the_hold() {
    let (city, _) = put_off().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.pass(MINUTE * 30).await;
    assert_eq!(city.escalations().await, []);
    city.parts.repo.hold(None);
    city.pass(MINUTE * 9).await;
    assert_eq!(city.escalations().await, []);
    city.pass(MINUTE * 2).await;
    assert_eq!(city.escalations().await.len(), 1);
}
