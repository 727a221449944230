//! Standing agents whose program died inside its wrapper (`health-patrol.md`, zombie capture).

use std::time::Duration;

use crate::domain::city::{City, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, SessionId};
use crate::testing::world::{Scenario, Town, agent};

const MINUTE: Duration = Duration::from_secs(60);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor(change: impl FnOnce(&mut City)) -> (Town, ChildId, SessionId) {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = scenario.with(change).start().await;
    let id = agent("mayor");
    let session = town.session(&id);
    (town, id, session)
}

fn driven(city: &mut City) {
    city.agents[0].harness = city.harnesses.keys().next().cloned();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_died_inside_its_wrapper_is_replaced_and_its_words_are_kept() {
    let (town, id, session) = mayor(driven).await;
    town.pass(MINUTE * 2).await;
    town.parts.sessions.print(&session, "out of tokens");
    town.parts.sessions.hollow(&session);
    town.pass(PATROL * 3).await;
    assert_eq!(town.starts(&session), 2);
    let crashed = town.events(EventType::AgentCrashed).await;
    assert_eq!(
        (crashed.len(), crashed[0].cause.as_str()),
        (1, "agent_dead")
    );
    let tail = crashed[0].data["tail"].as_str().unwrap();
    assert!(tail.contains("out of tokens"), "{tail}");
    assert_eq!(town.view(&id).await.unwrap().restarts, 1, "a death");
    town.pass(PATROL * 5).await;
    assert_eq!(town.starts(&session), 2, "once");
}

/// A wrapper that restarts its agent has none for a moment.
#[tokio::test(start_paused = true)]
async fn single_patrol_without_the_agent_is_no_proof_of_its_death() {
    let (town, _, session) = mayor(driven).await;
    town.pass(MINUTE * 2).await;
    town.parts.sessions.hollow(&session);
    town.pass(PATROL).await;
    town.parts.sessions.fill(&session);
    town.pass(PATROL * 3).await;
    assert_eq!(town.starts(&session), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_has_its_time_and_an_attached_person_the_terminal() {
    let slow = |city: &mut City| {
        driven(city);
        city.session.startup_timeout = MINUTE * 10;
    };
    let (town, _, session) = mayor(slow).await;
    town.parts.sessions.hollow(&session);
    town.pass(MINUTE * 9).await;
    assert_eq!(town.starts(&session), 1);
    town.parts.sessions.set_attached(&session, true);
    town.pass(MINUTE * 9).await;
    assert_eq!(town.starts(&session), 1);
    town.parts.sessions.set_attached(&session, false);
    town.pass(MINUTE * 2).await;
    assert_eq!(town.starts(&session), 2);
}
