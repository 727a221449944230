//! Standing agents whose program died inside its wrapper (`health-patrol.md`, zombie capture).

use std::time::Duration;

use crate::domain::city::{City, RestartType};
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, SessionId};
use crate::testing::conformance::sessions::Program;
use crate::testing::fake_sessions;
use crate::testing::world::{Scenario, TestCity, agent};

const MINUTE: Duration = Duration::from_secs(60);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor(change: impl FnOnce(&mut City)) -> (TestCity, ChildId, SessionId) {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario.with(change).start().await;
    let id = agent("mayor");
    let session = city.session(&id);
    (city, id, session)
}

fn driven(city: &mut City) {
    city.agents[0].harness = city.harnesses.keys().next().cloned();
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_died_inside_its_wrapper_is_replaced_and_its_words_are_kept() {
    let (city, id, session) = mayor(driven).await;
    city.pass(MINUTE * 2).await;
    city.parts.sessions.print(&session, "out of tokens");
    city.parts.sessions.hollow(&session);
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&session), 2);
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(
        (crashed.len(), crashed[0].cause.as_str()),
        (1, "agent_dead")
    );
    let tail = crashed[0].data["tail"].as_str().unwrap();
    assert!(tail.contains("out of tokens"), "{tail}");
    assert_eq!(city.view(&id).await.unwrap().restarts, 1, "a death");
    city.pass(PATROL * 5).await;
    assert_eq!(city.starts(&session), 2, "once");
}

/// A plain `command` has no harness that names its program: its own `process_names` do. Without them, it lives as long as
/// its wrapper.
#[tokio::test(start_paused = true)]
async fn plain_command_without_any_of_its_process_names_is_replaced() {
    for (process_names, starts) in [(vec!["the-agent".to_owned()], 2), (Vec::new(), 1)] {
        let wrapped = |city: &mut City| {
            city.agents[0].command = fake_sessions::argv(&Program::Wraps);
            city.agents[0].process_names = process_names.clone();
        };
        let (city, _, session) = mayor(wrapped).await;
        city.pass(MINUTE * 3).await;
        assert_eq!(city.starts(&session), 1, "{process_names:?}");
        city.parts.sessions.hollow(&session);
        city.pass(PATROL * 3).await;
        assert_eq!(city.starts(&session), starts, "{process_names:?}");
    }
}

/// A wrapper that restarts its agent has none for a moment.
#[tokio::test(start_paused = true)]
async fn single_patrol_without_the_agent_is_no_proof_of_its_death() {
    let (city, _, session) = mayor(driven).await;
    city.pass(MINUTE * 2).await;
    city.parts.sessions.hollow(&session);
    city.pass(PATROL).await;
    city.parts.sessions.fill(&session);
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&session), 1);
}

#[tokio::test(start_paused = true)]
async fn a_start_has_its_time_and_an_attached_person_the_terminal() {
    let slow = |city: &mut City| {
        driven(city);
        city.session.startup_timeout = MINUTE * 10;
    };
    let (city, _, session) = mayor(slow).await;
    city.parts.sessions.hollow(&session);
    city.pass(MINUTE * 9).await;
    assert_eq!(city.starts(&session), 1);
    city.parts.sessions.set_attached(&session, true);
    city.pass(MINUTE * 9).await;
    assert_eq!(city.starts(&session), 1);
    city.parts.sessions.set_attached(&session, false);
    city.pass(MINUTE * 2).await;
    assert_eq!(city.starts(&session), 2);
}
