//! Sessions older than `max_session`: asked to hand off when their program takes text, a few times, across restarts of the
//! supervisor.

use std::time::Duration;

use crate::domain::event::EventType;
use crate::testing::world::{Scenario, TestCity, asking};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

fn scenario() -> Scenario {
    Scenario::new().rig(|rig| rig.raiders.max_session = Some(HOUR))
}

fn sent(city: &TestCity, session: &crate::domain::ids::SessionId) -> Vec<String> {
    let sent = city.parts.sessions.sent(session).into_iter();
    sent.map(|text| format!("{text:?}")).collect()
}

#[tokio::test(start_paused = true)]
async fn old_session_is_asked_to_hand_off_a_few_times_and_never_ended() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.pass(59 * MINUTE).await;
    assert!(sent(&city, &charged.session).is_empty());
    city.pass(2 * MINUTE).await;
    let said = sent(&city, &charged.session);
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("handoff -m"), "{said:?}");
    let nudged = city.events(EventType::RaiderNudged).await;
    assert_eq!((nudged.len(), nudged[0].cause.as_str()), (1, "session_age"));
    city.pass(28 * MINUTE).await;
    assert_eq!(sent(&city, &charged.session).len(), 1);
    city.pass_hours(5 * HOUR).await;
    assert_eq!(sent(&city, &charged.session).len(), 3);
    assert_eq!(city.starts(&charged.session), 1, "nothing is forced");
}

/// A question is no moment for it: the text would answer the question.
#[tokio::test(start_paused = true)]
async fn old_session_that_asks_something_is_not_typed_into() {
    let city = scenario().with(asking).start().await;
    let charged = city.worker("a").await;
    city.parts.sessions.print(&charged.session, "Overwrite?");
    city.pass_hours(2 * HOUR).await;
    assert!(sent(&city, &charged.session).is_empty());
}

/// The age is that of the session, and the request is stored.
#[tokio::test(start_paused = true)]
async fn supervisor_that_was_killed_neither_forgets_the_age_nor_asks_again() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    city.pass(50 * MINUTE).await;
    let clock = city.world.clock.clone();
    let city = scenario().start_on(city.crash().await, clock).await;
    city.pass(12 * MINUTE).await;
    assert_eq!(
        sent(&city, &charged.session).len(),
        1,
        "50 minutes were not forgotten"
    );
    let clock = city.world.clock.clone();
    let city = scenario().start_on(city.crash().await, clock).await;
    city.pass(20 * MINUTE).await;
    assert_eq!(sent(&city, &charged.session).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn without_max_session_no_session_is_asked() {
    let (city, charged) = Scenario::at_work().await;
    city.pass_hours(30 * HOUR).await;
    assert!(sent(&city, &charged.session).is_empty());
}
