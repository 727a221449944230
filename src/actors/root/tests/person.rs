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
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for ended in 1..=20 {
        city.parts.sessions.interrupted_by_person(&charged.session);
        city.settle().await;
        assert_eq!(city.starts(&charged.session), 1 + ended, "at once");
    }
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    let events = city.events(EventType::AgentRestarted).await;
    assert_eq!(events.len(), 20);
    assert_eq!(events[0].cause, Cause::EndedByPerson.as_str());
    assert_eq!(events[0].data["code"], 130);
    let prompts = city.parts.tasks.prompts();
    assert!(prompts[1].contains("A person ended your last session"));
    assert!(!prompts[1].contains("fewer permissions"), "{}", prompts[1]);
}

/// A restart type that rests after every end rests after this one, too.
#[tokio::test(start_paused = true)]
async fn a_temporary_agent_that_a_person_ended_rests_and_did_not_crash() {
    let city = Scenario::new().agent("mayor", RestartType::Temporary);
    let city = city.start().await;
    let id = agent("mayor");
    city.parts
        .sessions
        .interrupted_by_person(&city.session(&id));
    city.pass(Duration::from_secs(60)).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Stopped));
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    let events = city.events(EventType::AgentStopped).await;
    assert_eq!(events[0].cause, Cause::EndedByPerson.as_str());
}
