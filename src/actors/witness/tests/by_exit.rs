//! Programs that cannot report an outcome (`done_on_exit`).

use std::time::Duration;

use crate::domain::event::EventType;
use crate::domain::facts::SessionExit;
use crate::domain::question::Pattern;
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, Town};

const PATROL: Duration = Duration::from_secs(31);

async fn town() -> Town {
    let scenario = Scenario::new().with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.done_on_exit = true;
            harness.looks.auth = Pattern::new("AuthenticationError").into_iter().collect();
        }
    });
    scenario.start().await
}

#[tokio::test(start_paused = true)]
async fn end_with_commits_is_done() {
    let town = town().await;
    let charged = town.worker("a").await;
    town.parts.sessions.exit(&charged.session, 0);
    town.settle().await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(town.parts.repo.landings(), 1);
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    assert_eq!(town.starts(&charged.session), 1);
}

/// Neither a person's Ctrl-C nor a stop ends the work, although the program ends normally on them.
#[tokio::test(start_paused = true)]
async fn end_that_was_not_its_own_is_not_the_end_of_the_work() {
    for by_person in [true, false] {
        let town = town().await;
        let charged = town.worker("a").await;
        let exit = SessionExit {
            code: Some(0),
            by_person,
            stopped: !by_person,
            signal: None,
            at: town.world.clock.now(),
        };
        town.parts.sessions.end(&charged.session, exit);
        town.pass(PATROL).await;
        assert_eq!(
            town.status(&charged.relic).await,
            RelicStatus::Hooked,
            "{by_person}"
        );
        assert_eq!(town.parts.repo.landings(), 0);
        assert_eq!(town.starts(&charged.session), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn end_without_commits_is_stuck_with_the_last_output() {
    let town = town().await;
    let charged = town.worker("a").await;
    let none = |facts: &mut crate::domain::facts::GitFacts| facts.ahead = 0;
    town.parts.repo.change(&charged.raider.name, none);
    town.parts
        .sessions
        .print(&charged.session, "I do not see what to change.");
    town.parts.sessions.exit(&charged.session, 0);
    town.settle().await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Blocked);
    let told = town.escalations().await;
    let stuck = told.iter().find(|told| told.title == "the agent is stuck");
    let said = stuck.is_some_and(|told| told.body.contains("I do not see what to change."));
    assert!(said, "{told:?}");
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}

/// There are commits: the next session is told why they cannot be taken, and how they can be.
#[tokio::test(start_paused = true)]
async fn end_on_another_branch_is_told_to_the_next_session() {
    let town = town().await;
    let charged = town.worker("a").await;
    let renamed = |facts: &mut crate::domain::facts::GitFacts| facts.branch = Some("wip".into());
    town.parts.repo.change(&charged.raider.name, renamed);
    town.parts.sessions.exit(&charged.session, 0);
    town.settle().await;
    assert_eq!(town.starts(&charged.session), 2);
    let prompt = town.parts.tasks.prompts().pop().unwrap();
    assert!(prompt.contains("the sandbox is on wip"), "{prompt}");
    assert!(!prompt.contains("no commit of its own"), "{prompt}");
}

#[tokio::test(start_paused = true)]
async fn end_with_an_error_code_is_a_death() {
    let town = town().await;
    let charged = town.worker("a").await;
    town.parts.sessions.exit(&charged.session, 1);
    town.pass(PATROL).await;
    assert_eq!(town.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(town.starts(&charged.session), 2);
}

/// aider exits with code 0 after a refused login, too.
#[tokio::test(start_paused = true)]
async fn end_after_a_refused_login_is_told_and_declares_nothing() {
    let town = town().await;
    let charged = town.worker("a").await;
    town.parts
        .sessions
        .print(&charged.session, "litellm.AuthenticationError: no key");
    town.parts.sessions.exit(&charged.session, 0);
    town.settle().await;
    assert_eq!(town.events(EventType::AccountParked).await.len(), 1);
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
    assert!(town.events(EventType::RaiderDone).await.is_empty());
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Hooked);
}

/// The next supervisor judges a session that ended while none ran.
#[tokio::test(start_paused = true)]
async fn end_that_was_not_seen_is_done_all_the_same() {
    let town = town().await;
    let charged = town.worker("a").await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    let scenario = Scenario::new().with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.done_on_exit = true;
        }
    });
    let town = scenario.start_on(parts, clock).await;
    town.pass(PATROL).await;
    assert_eq!(town.status(&charged.relic).await, RelicStatus::Closed);
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}
