//! Sessions that an attached person ends: no deaths.

use std::time::Duration;

use crate::actors::mail::ChildState;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::testing::world::{Scenario, agent};

#[tokio::test(start_paused = true)]
async fn a_session_that_a_person_ended_is_followed_by_another_and_counts_as_no_death() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for ended in 1..=20 {
        town.parts.sessions.interrupted_by_person(&charged.session);
        town.settle().await;
        assert_eq!(town.starts(&charged.session), 1 + ended, "at once");
    }
    let view = town.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    let told = town.events(EventType::AgentRestarted).await;
    assert_eq!(told.len(), 20);
    assert_eq!(told[0].cause, Cause::EndedByPerson.as_str());
    assert_eq!(told[0].data["code"], 130);
    let prompts = town.parts.tasks.prompts();
    assert!(prompts[1].contains("A person ended your last session"));
    assert!(!prompts[1].contains("fewer permissions"), "{}", prompts[1]);
}

/// A restart type that rests after every end rests after this one, too.
#[tokio::test(start_paused = true)]
async fn a_temporary_agent_that_a_person_ended_rests_and_did_not_crash() {
    let town = Scenario::new().agent("mayor", RestartType::Temporary);
    let town = town.start().await;
    let id = agent("mayor");
    town.parts
        .sessions
        .interrupted_by_person(&town.session(&id));
    town.pass(Duration::from_secs(60)).await;
    assert_eq!(town.state(&id).await, Some(ChildState::Stopped));
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    let told = town.events(EventType::AgentStopped).await;
    assert_eq!(told[0].cause, Cause::EndedByPerson.as_str());
}
