//! The release of an account after its limit: the children that get a turn, and the state until all had theirs.

use std::sync::Arc;
use std::time::Duration;

use super::accounts::{
    MINUTE, PATROL, child, city, converse, harness, limit, limit_notices, looks, show,
};
use crate::actors::accounts;
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::domain::account::{AccountReport, ReportEffect, Why};
use crate::domain::asker::Asker;
use crate::domain::event::EventType;
use crate::testing::world::Scenario;

/// A kept session is told to go on, and no child starts before its turn, although the limit ended while no supervisor
/// ran.
#[tokio::test(start_paused = true)]
async fn park_that_ended_while_no_supervisor_ran_gives_everybody_a_turn() {
    let city = city().await;
    let (kept, one, two) = (
        city.worker("kept").await,
        city.worker("one").await,
        city.worker("two").await,
    );
    show(&city, &kept.session, &limit(&city, MINUTE * 20));
    city.pass(PATROL).await;
    for gone in [&one, &two] {
        city.parts.sessions.print(&gone.session, "at your limit");
        city.parts.sessions.exit(&gone.session, 1);
    }
    city.pass(PATROL).await;
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    tokio::time::sleep(MINUTE * 30).await;
    let city = Scenario::new().with(looks).start_on(parts, clock).await;
    city.pass(MINUTE * 5).await;
    let resumed = city.events(EventType::AccountResumed).await;
    assert_eq!(resumed.len(), 1);
    let children = resumed[0].data["children"].as_array().unwrap();
    assert_eq!(children.len(), 3, "{children:?}");
    assert_eq!(limit_notices(&city, &kept.session), 1);
    assert_eq!(
        (city.starts(&one.session), city.starts(&two.session)),
        (2, 2)
    );
}

/// A session that cannot be observed at its turn has not ended: it is told when it can.
#[tokio::test(start_paused = true)]
async fn session_that_cannot_be_seen_at_its_turn_is_told_afterwards() {
    let city = city().await;
    let charged = city.worker("one").await;
    let session = charged.session.clone();
    show(&city, &session, &limit(&city, MINUTE * 20));
    city.pass(PATROL).await;
    city.pass(MINUTE * 19).await;
    city.parts
        .sessions
        .hide(&session, Some("too many open files"));
    city.pass(MINUTE * 3).await;
    assert_eq!(city.events(EventType::AccountResumed).await.len(), 1);
    assert_eq!(limit_notices(&city, &session), 0);
    city.parts.sessions.hide(&session, None);
    city.pass(PATROL).await;
    assert_eq!(limit_notices(&city, &session), 1);
}

/// While the first child tries whether a guessed time was right, no new work begins.
#[tokio::test(start_paused = true)]
async fn no_relic_is_charged_while_the_first_child_tests_a_guessed_limit() {
    let city = city().await;
    let charged = city.worker("one").await;
    show(&city, &charged.session, "at your limit\n> ");
    city.pass(PATROL).await;
    let relic = city.relic("two").await;
    while city.events(EventType::AccountResumed).await.is_empty() {
        assert!(city.charge(&relic).await.is_err());
        city.pass(Duration::from_secs(5)).await;
    }
    assert!(city.charge(&relic).await.is_err(), "it tries alone");
    show(&city, &charged.session, "> ");
    city.pass(MINUTE * 10).await;
    assert!(city.charge(&relic).await.is_ok());
}

/// A raider that is charged under the name of one that went before its turn has no turn to wait for.
#[tokio::test(start_paused = true)]
async fn raider_does_not_inherit_the_turn_of_the_one_before_it() {
    let city = city().await;
    let (first, second) = (city.worker("one").await, city.worker("two").await);
    for charged in [&first, &second] {
        show(&city, &charged.session, &limit(&city, MINUTE * 20));
    }
    city.pass(PATROL).await;
    assert!(accounts::unpark(
        &city.world,
        &harness(&city),
        Asker::person()
    ));
    city.settle().await;
    let accounts = &city.world.directory.accounts;
    let turn = |of: &Charged| accounts.turn(&city.world.city, &harness(&city), &child(of));
    let last = [&first, &second].into_iter().find(|of| turn(of).is_some());
    let last = last.expect("one waits for the other");
    city.nuke(&last.raider, true).await.unwrap();
    let relic = city.relic("three").await;
    let next = city
        .charge_to(&relic, Some(last.raider.name.clone()))
        .await
        .unwrap();
    assert_eq!(next.raider, last.raider);
    assert_eq!(turn(&next), None);
}

/// A completion, declared in any way, lifts the park that its session caused.
#[tokio::test(start_paused = true)]
async fn completion_without_hd_ends_the_park_too() {
    let city = city().await;
    let charged = city.worker("one").await;
    let trouble = AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: false,
    };
    accounts::report_trouble(&city.world, &child(&charged), &harness(&city), trouble);
    assert!(accounts::refuse_held(&city.world, &harness(&city), &child(&charged)).is_err());
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert_eq!(city.events(EventType::AccountResumed).await.len(), 1);
}

/// A session that ended a park and ends at once with the same text is a death with a back-off, not a start at each
/// patrol.
#[tokio::test(start_paused = true)]
async fn end_with_a_limit_just_after_it_was_over_is_a_death() {
    let city = city().await;
    let charged = city.worker("one").await;
    let (id, of) = (child(&charged), harness(&city));
    converse(&city, &id).await;
    let trouble = || AccountReport {
        why: Why::RateLimited,
        text: "at your limit".to_owned(),
        until: None,
        fresh: true,
    };
    accounts::report_trouble(&city.world, &id, &of, trouble());
    accounts::went_on(&city.world, &id, &of);
    city.pass(PATROL).await;
    assert_eq!(
        accounts::report_trouble(&city.world, &id, &of, trouble()),
        ReportEffect::Hasty
    );
    city.parts.sessions.print(&charged.session, "at your limit");
    city.parts.sessions.exit(&charged.session, 1);
    city.settle().await;
    assert_ne!(city.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
}
