//! Deaths: restart, back-off, quarantine.

use std::time::Duration;

use super::super::*;
use crate::actors::root::ChildState;
use crate::domain::event::EventType;
use crate::testing::world::{MOMENT, Scenario, agent, raider};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_raider_that_dies_is_restarted_on_its_sandbox_with_the_respawn_prompt() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    town.parts.sessions.crash(&charged.session, 9);
    town.settle().await;
    assert_eq!(town.starts(&charged.session), 2);
    assert!(town.runs(&charged.session));
    let starts = town.parts.sessions.starts();
    assert_eq!(starts[0].cwd, starts[1].cwd);
    assert_eq!(starts[1].generation.0, 2);
    let prompts = town.parts.tasks.prompts();
    assert!(prompts[1].contains("ended before it was finished"), "{}", prompts[1]);
    assert_eq!(town.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(town.events(EventType::RaiderRespawned).await.len(), 1);
}
