//! Sessions that show a spinner and no progress.

use std::time::Duration;

use crate::actors::conditions;
use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, TestCity};

const MINUTE: Duration = Duration::from_secs(60);

async fn city() -> (TestCity, Charged) {
    let scenario = Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE));
    let city = scenario.start().await;
    // Holders report changed screens.
    conditions::connect(&city.world);
    let charged = city.worker("a").await;
    (city, charged)
}

/// Returns the condition of its session.
async fn condition(city: &TestCity, charged: &Charged) -> Option<String> {
    let id = ChildId::Raider(charged.raider.clone());
    let session = city.view(&id).await?.session?;
    let shown = city.world.directory.conditions.of(&session.handle)?;
    Some(shown.word().to_owned())
}

/// Turns its spinner and runs its clock for this many minutes, below this text.
async fn spin(city: &TestCity, charged: &Charged, minutes: u64, text: &str) {
    for half in 0..minutes * 2 {
        let turn = ['⠋', '⠙', '⠹', '⠸'][usize::try_from(half % 4).unwrap()];
        let screen = format!("{text}\n{turn} Thinking... ({}m 3s)\n> ", half / 2);
        let sessions = &city.parts.sessions;
        sessions.print(&charged.session, &screen);
        sessions.show(&charged.session, Some(&screen));
        city.pass(MINUTE / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn person_is_called_once_to_a_session_that_only_spins_and_nothing_is_done_to_it() {
    let (city, charged) = city().await;
    spin(&city, &charged, 9, "Reading").await;
    assert!(city.escalations().await.is_empty());
    assert_eq!(condition(&city, &charged).await, None);
    spin(&city, &charged, 5, "Reading").await;
    assert_eq!(condition(&city, &charged).await.as_deref(), Some("spins"));
    let events = city.events(EventType::RaiderUnclear).await;
    assert_eq!(events.len(), 1, "{events:?}");
    let screen = events[0].data["screen"].as_str().unwrap();
    assert!(screen.contains("Thinking"), "{screen}");
    spin(&city, &charged, by_tier(20, 60), "Reading").await;
    assert_eq!(city.events(EventType::RaiderUnclear).await.len(), 1);
    let called = city.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].title.contains("shows a spinner"), "{called:?}");
    assert!(called[0].body.contains("Thinking"), "{called:?}");
    assert!(city.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.events(EventType::RaiderStalled).await.is_empty());
    city.reword().await;
    city.parts.sessions.show(&charged.session, Some("Writing"));
    city.pass(Duration::from_secs(1)).await;
    assert_eq!(condition(&city, &charged).await, None, "within a second");
    spin(&city, &charged, 2, "Writing").await;
    let called = city.relic_now(&called[0].id).await;
    assert_eq!(called.status, RelicStatus::Closed, "it went on");
}

/// A long command is a reason to show only a spinner, for a while.
#[tokio::test(start_paused = true)]
async fn session_that_runs_a_command_is_left_three_times_as_long() {
    let (city, charged) = city().await;
    city.parts.sessions.run_command(&charged.session, true);
    spin(&city, &charged, 28, "Testing").await;
    assert!(city.escalations().await.is_empty());
    spin(&city, &charged, 6, "Testing").await;
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(condition(&city, &charged).await.as_deref(), Some("spins"));
}

#[tokio::test(start_paused = true)]
async fn spinner_beside_other_progress_is_not_escalated() {
    let (city, charged) = city().await;
    let slot = &charged.raider.name;
    for round in 0..8 {
        spin(&city, &charged, 8, &format!("Reading {}", round / 6)).await;
        match round % 3 {
            0 => drop(city.parts.repo.commit(slot)),
            1 => city.parts.repo.dirty(slot, &format!("{round}.txt")),
            _ => city
                .parts
                .sessions
                .use_cpu(&charged.session, Duration::from_secs(500)),
        }
    }
    assert!(city.escalations().await.is_empty());
}
