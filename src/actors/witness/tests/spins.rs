//! Sessions that show a spinner and no progress.

use std::time::Duration;

use crate::actors::conditions;
use crate::actors::mail::Charged;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::testing::tier::by_tier;
use crate::testing::world::{Scenario, Town};

const MINUTE: Duration = Duration::from_secs(60);

async fn town() -> (Town, Charged) {
    let scenario = Scenario::new().rig(|rig| rig.raiders.stall_after = Some(10 * MINUTE));
    let town = scenario.start().await;
    // Holders report changed screens.
    conditions::connect(&town.world);
    let charged = town.worker("a").await;
    (town, charged)
}

/// Returns the condition of its session.
async fn condition(town: &Town, charged: &Charged) -> Option<String> {
    let id = ChildId::Raider(charged.raider.clone());
    let session = town.view(&id).await?.session?;
    let shown = town.world.directory.conditions.of(&session.handle)?;
    Some(shown.word().to_owned())
}

/// Turns its spinner and runs its clock for this many minutes, below this text.
async fn spin(town: &Town, charged: &Charged, minutes: u64, text: &str) {
    for half in 0..minutes * 2 {
        let turn = ['⠋', '⠙', '⠹', '⠸'][usize::try_from(half % 4).unwrap()];
        let screen = format!("{text}\n{turn} Thinking... ({}m 3s)\n> ", half / 2);
        let sessions = &town.parts.sessions;
        sessions.print(&charged.session, &screen);
        sessions.show(&charged.session, Some(&screen));
        town.pass(MINUTE / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn person_is_called_once_to_a_session_that_only_spins_and_nothing_is_done_to_it() {
    let (town, charged) = town().await;
    spin(&town, &charged, 9, "Reading").await;
    assert!(town.escalations().await.is_empty());
    assert_eq!(condition(&town, &charged).await, None);
    spin(&town, &charged, 5, "Reading").await;
    assert_eq!(condition(&town, &charged).await.as_deref(), Some("spins"));
    let told = town.events(EventType::RaiderUnclear).await;
    assert_eq!(told.len(), 1, "{told:?}");
    let screen = told[0].data["screen"].as_str().unwrap();
    assert!(screen.contains("Thinking"), "{screen}");
    spin(&town, &charged, by_tier(20, 60), "Reading").await;
    assert_eq!(town.events(EventType::RaiderUnclear).await.len(), 1);
    let called = town.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].title.contains("shows a spinner"), "{called:?}");
    assert!(called[0].body.contains("Thinking"), "{called:?}");
    assert!(town.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(town.starts(&charged.session), 1);
    assert!(town.events(EventType::RaiderStalled).await.is_empty());
    town.reword().await;
    town.parts.sessions.show(&charged.session, Some("Writing"));
    town.pass(Duration::from_secs(1)).await;
    assert_eq!(condition(&town, &charged).await, None, "within a second");
    spin(&town, &charged, 2, "Writing").await;
    let called = town.relic_now(&called[0].id).await;
    assert_eq!(called.status, RelicStatus::Closed, "it went on");
}

/// A long command is a reason to show only a spinner, for a while.
#[tokio::test(start_paused = true)]
async fn session_that_runs_a_command_is_left_three_times_as_long() {
    let (town, charged) = town().await;
    town.parts.sessions.run_command(&charged.session, true);
    spin(&town, &charged, 28, "Testing").await;
    assert!(town.escalations().await.is_empty());
    spin(&town, &charged, 6, "Testing").await;
    assert_eq!(town.escalations().await.len(), 1);
    assert_eq!(condition(&town, &charged).await.as_deref(), Some("spins"));
}

#[tokio::test(start_paused = true)]
async fn spinner_beside_other_progress_is_not_escalated() {
    let (town, charged) = town().await;
    let slot = &charged.raider.name;
    for round in 0..8 {
        spin(&town, &charged, 8, &format!("Reading {}", round / 6)).await;
        match round % 3 {
            0 => drop(town.parts.repo.commit(slot)),
            1 => town.parts.repo.dirty(slot, &format!("{round}.txt")),
            _ => town
                .parts
                .sessions
                .use_cpu(&charged.session, Duration::from_secs(500)),
        }
    }
    assert!(town.escalations().await.is_empty());
}
