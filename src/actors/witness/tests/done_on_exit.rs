//! Programs that cannot report an outcome (`done_on_exit`).

use std::time::Duration;

use crate::domain::event::EventType;
use crate::domain::facts::SessionExit;
use crate::domain::question::Pattern;
use crate::domain::relic::RelicStatus;
use crate::testing::fake_tasks::{done_intent, sign};
use crate::testing::world::{Scenario, TestCity};

const PATROL: Duration = Duration::from_secs(31);

async fn city() -> TestCity {
    let scenario = Scenario::new().with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.done_on_exit = true;
            harness.patterns.auth = Pattern::new("AuthenticationError").into_iter().collect();
        }
    });
    scenario.start().await
}

#[tokio::test(start_paused = true)]
async fn end_with_commits_is_done() {
    let city = city().await;
    let charged = city.worker("a").await;
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.landings(), 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    assert_eq!(city.starts(&charged.session), 1);
}

/// Its commits landed although it had declared that it was stuck, because that waited in the outbox.
#[tokio::test(start_paused = true)]
async fn declaration_that_waits_in_the_outbox_counts_more_than_the_exit() {
    let city = city().await;
    let charged = city.worker("a").await;
    let mut stuck = done_intent(&charged);
    stuck.args.insert("status".into(), "escalated".into());
    stuck.args.insert("reason".into(), "no key".into());
    city.parts.tasks.leave_unheard(sign(&charged, stuck));
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL).await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Blocked);
    assert_eq!(city.parts.repo.landings(), 0);
}

/// Neither a person's Ctrl-C nor a stop ends the work, although the program ends normally on them.
#[tokio::test(start_paused = true)]
async fn end_that_was_not_its_own_is_not_the_end_of_the_work() {
    for by_person in [true, false] {
        let city = city().await;
        let charged = city.worker("a").await;
        let exit = SessionExit {
            code: Some(0),
            by_person,
            stopped: !by_person,
            signal: None,
            at: city.world.clock.now(),
        };
        city.parts.sessions.end(&charged.session, exit);
        city.pass(PATROL).await;
        assert_eq!(
            city.status(&charged.relic).await,
            RelicStatus::Hooked,
            "{by_person}"
        );
        assert_eq!(city.parts.repo.landings(), 0);
        assert_eq!(city.starts(&charged.session), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn end_without_commits_is_stuck_with_the_last_output() {
    let city = city().await;
    let charged = city.worker("a").await;
    let none = |facts: &mut crate::domain::facts::GitFacts| facts.ahead = 0;
    city.parts.repo.change(&charged.raider.name, none);
    city.parts
        .sessions
        .print(&charged.session, "I do not see what to change.");
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Blocked);
    let told = city.escalations().await;
    let stuck = told.iter().find(|told| told.title == "the agent is stuck");
    let said = stuck.is_some_and(|told| told.body.contains("I do not see what to change."));
    assert!(said, "{told:?}");
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// There are commits: the next session is told why they cannot be taken, and how they can be.
#[tokio::test(start_paused = true)]
async fn end_on_another_branch_is_told_to_the_next_session() {
    let city = city().await;
    let charged = city.worker("a").await;
    let renamed = |facts: &mut crate::domain::facts::GitFacts| facts.branch = Some("wip".into());
    city.parts.repo.change(&charged.raider.name, renamed);
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.starts(&charged.session), 2);
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    assert!(prompt.contains("the sandbox is on wip"), "{prompt}");
    assert!(!prompt.contains("no commit of its own"), "{prompt}");
}

#[tokio::test(start_paused = true)]
async fn end_with_an_error_code_is_a_death() {
    let city = city().await;
    let charged = city.worker("a").await;
    city.parts.sessions.exit(&charged.session, 1);
    city.pass(PATROL).await;
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(city.starts(&charged.session), 2);
}

/// aider exits with code 0 after a refused login, too.
#[tokio::test(start_paused = true)]
async fn end_after_a_refused_login_is_told_and_declares_nothing() {
    let city = city().await;
    let charged = city.worker("a").await;
    city.parts
        .sessions
        .print(&charged.session, "litellm.AuthenticationError: no key");
    city.parts.sessions.exit(&charged.session, 0);
    city.settle().await;
    assert_eq!(city.events(EventType::AccountParked).await.len(), 1);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    assert!(city.events(EventType::RaiderDone).await.is_empty());
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
}

/// The next supervisor judges a session that ended while none ran.
#[tokio::test(start_paused = true)]
async fn end_that_was_not_seen_is_done_all_the_same() {
    let city = city().await;
    let charged = city.worker("a").await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    let scenario = Scenario::new().with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.done_on_exit = true;
        }
    });
    let city = scenario.start_on(parts, clock).await;
    city.pass(PATROL).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}
