//! The release of an account after its limit: the children that get a turn, and the state until all had theirs.

use std::sync::Arc;
use std::time::Duration;

use super::accounts::{
    MINUTE, PATROL, child, converse, harness, limit, limit_notices, looks, show, town,
};
use crate::actors::accounts;
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::domain::account::{ReportEffect, Trouble, Why};
use crate::domain::event::EventType;
use crate::testing::world::Scenario;

/// A kept session is told to go on, and no child starts before its turn, although the limit ended while no supervisor
/// ran.
#[tokio::test(start_paused = true)]
async fn park_that_ended_while_no_supervisor_ran_gives_everybody_a_turn() {
    let town = town().await;
    let (kept, one, two) = (
        town.worker("kept").await,
        town.worker("one").await,
        town.worker("two").await,
    );
    show(&town, &kept.session, &limit(&town, MINUTE * 20));
    town.pass(PATROL).await;
    for gone in [&one, &two] {
        town.parts.sessions.print(&gone.session, "at your limit");
        town.parts.sessions.exit(&gone.session, 1);
    }
    town.pass(PATROL).await;
    let clock = Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    tokio::time::sleep(MINUTE * 30).await;
    let town = Scenario::new().with(looks).start_on(parts, clock).await;
    town.pass(MINUTE * 5).await;
    let resumed = town.events(EventType::AccountResumed).await;
    assert_eq!(resumed.len(), 1);
    let children = resumed[0].data["children"].as_array().unwrap();
    assert_eq!(children.len(), 3, "{children:?}");
    assert_eq!(limit_notices(&town, &kept.session), 1);
    assert_eq!(
        (town.starts(&one.session), town.starts(&two.session)),
        (2, 2)
    );
}

/// A session that cannot be observed at its turn has not ended: it is told when it can.
#[tokio::test(start_paused = true)]
async fn session_that_cannot_be_seen_at_its_turn_is_told_afterwards() {
    let town = town().await;
    let charged = town.worker("one").await;
    let session = charged.session.clone();
    show(&town, &session, &limit(&town, MINUTE * 20));
    town.pass(PATROL).await;
    town.pass(MINUTE * 19).await;
    town.parts
        .sessions
        .hide(&session, Some("too many open files"));
    town.pass(MINUTE * 3).await;
    assert_eq!(town.events(EventType::AccountResumed).await.len(), 1);
    assert_eq!(limit_notices(&town, &session), 0);
    town.parts.sessions.hide(&session, None);
    town.pass(PATROL).await;
    assert_eq!(limit_notices(&town, &session), 1);
}

/// While the first child tries whether a guessed time was right, no new work begins.
#[tokio::test(start_paused = true)]
async fn no_relic_is_charged_while_the_first_child_tests_a_guessed_limit() {
    let town = town().await;
    let charged = town.worker("one").await;
    show(&town, &charged.session, "at your limit\n> ");
    town.pass(PATROL).await;
    let relic = town.relic("two").await;
    while town.events(EventType::AccountResumed).await.is_empty() {
        assert!(town.charge(&relic).await.is_err());
        town.pass(Duration::from_secs(5)).await;
    }
    assert!(town.charge(&relic).await.is_err(), "it tries alone");
    show(&town, &charged.session, "> ");
    town.pass(MINUTE * 10).await;
    assert!(town.charge(&relic).await.is_ok());
}

/// A raider that is charged under the name of one that went before its turn has no turn to wait for.
#[tokio::test(start_paused = true)]
async fn raider_does_not_inherit_the_turn_of_the_one_before_it() {
    let town = town().await;
    let (first, second) = (town.worker("one").await, town.worker("two").await);
    for charged in [&first, &second] {
        show(&town, &charged.session, &limit(&town, MINUTE * 20));
    }
    town.pass(PATROL).await;
    assert!(accounts::unpark(&town.world, &harness(&town)));
    town.settle().await;
    let accounts = &town.world.directory.accounts;
    let turn = |of: &Charged| accounts.turn(&town.world.city, &harness(&town), &child(of));
    let last = [&first, &second].into_iter().find(|of| turn(of).is_some());
    let last = last.expect("one waits for the other");
    town.nuke(&last.raider, true).await.unwrap();
    let relic = town.relic("three").await;
    let next = town
        .charge_to(&relic, Some(last.raider.name.clone()))
        .await
        .unwrap();
    assert_eq!(next.raider, last.raider);
    assert_eq!(turn(&next), None);
}

/// A completion, declared in any way, lifts the park that its session caused.
#[tokio::test(start_paused = true)]
async fn completion_without_hd_ends_the_park_too() {
    let town = town().await;
    let charged = town.worker("one").await;
    let trouble = Trouble {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: false,
    };
    accounts::report_trouble(&town.world, &child(&charged), &harness(&town), trouble);
    assert!(accounts::refuse_held(&town.world, &harness(&town), &child(&charged)).is_err());
    town.completed(&charged.raider).await.unwrap();
    town.settle().await;
    assert_eq!(town.events(EventType::AccountResumed).await.len(), 1);
}

/// A session that ended a park and ends at once with the same text is a death with a back-off, not a start at each
/// patrol.
#[tokio::test(start_paused = true)]
async fn end_with_a_limit_just_after_it_was_over_is_a_death() {
    let town = town().await;
    let charged = town.worker("one").await;
    let (id, of) = (child(&charged), harness(&town));
    converse(&town, &id).await;
    let trouble = || Trouble {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: true,
    };
    accounts::report_trouble(&town.world, &id, &of, trouble());
    accounts::went_on(&town.world, &id, &of);
    town.pass(PATROL).await;
    assert_eq!(
        accounts::report_trouble(&town.world, &id, &of, trouble()),
        ReportEffect::Hasty
    );
    town.parts.sessions.print(&charged.session, "at your limit");
    town.parts.sessions.exit(&charged.session, 1);
    town.settle().await;
    assert_ne!(town.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(town.events(EventType::AgentCrashed).await.len(), 1);
}
