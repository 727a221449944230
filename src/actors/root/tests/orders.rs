//! End, rest, wake, want and cycle, in every state of a child.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::agent_spec;
use crate::actors::mail::{ChildRef, ChildState};
use crate::actors::records::operator_orders;
use crate::actors::refusal::RefusalKind;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::ids::{AgentName, ChildId, Incarnation};
use crate::ports::sessions::{Sessions, StartError};
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (TestCity, ChildId) {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    (city.start().await, agent("mayor"))
}

/// Ends a child as a nuke does: it is answered, and nothing of the child is left.
async fn ends(city: &TestCity, id: &ChildId) {
    city.end(id).await.unwrap();
    assert!(!city.runs(&city.session(id)));
    assert!(city.view(id).await.is_none(), "forgotten");
}

/// A failed start leaves a stopped agent stopped, in a supervisor that never started it, too.
#[tokio::test(start_paused = true)]
async fn stopped_agent_whose_start_failed_is_not_started_by_an_edit() {
    for is_new in [false, true] {
        let (mut city, id) = mayor().await;
        let session = city.session(&id);
        city.rest(&id).await.unwrap();
        if is_new {
            city.store(|txn| {
                operator_orders::update(txn, &|said| {
                    said.resting.insert(AgentName::new("mayor").unwrap());
                })
            })
            .await;
            let clock = city.world.clock.clone();
            let parts = city.crash().await;
            let again = Scenario::new().agent("mayor", RestartType::Permanent);
            city = again.start_on(parts, clock).await;
        }
        let no_memory = StartError::Provider("no memory".into());
        city.parts.sessions.refuse_start(&session, no_memory);
        city.wake(&id).await.unwrap_err();
        city.parts.sessions.accept_starts();
        city.reload(|city| city.agents[0].shutdown_timeout = SECOND * 77)
            .await;
        city.pass(PATROL * 2).await;
        assert!(!city.runs(&session), "{is_new}");
    }
}

#[tokio::test(start_paused = true)]
async fn end_while_opening_ends_the_session_that_is_being_opened() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    let (world, child) = (city.world.clone(), id.clone());
    let other = session.clone();
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_start(&session);
    ended.await.unwrap().unwrap();
    assert!(!city.runs(&session));
    assert!(city.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn end_in_back_off_and_in_quarantine_is_answered_and_final_until_the_next_look() {
    for deaths in [2, 6] {
        let (city, id) = mayor().await;
        for _ in 0..deaths - 1 {
            city.parts.sessions.crash(&city.session(&id), 9);
            city.pass(SECOND * 9).await;
        }
        city.parts.sessions.crash(&city.session(&id), 9);
        city.settle().await;
        let state = city.state(&id).await.unwrap();
        assert!(matches!(
            state,
            ChildState::Backoff | ChildState::Quarantined
        ));
        ends(&city, &id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn end_while_cycling_wins() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.hold_stop(&session);
    ask::cycle(&city.world, id.clone(), Cause::Handoff)
        .await
        .unwrap();
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let (world, child) = (city.world.clone(), id.clone());
    let other = session.clone();
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert_eq!(city.starts(&session), 1);
    assert!(city.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn rest_is_sticky_and_wake_undoes_it() {
    let (city, id) = mayor().await;
    city.rest(&id).await.unwrap();
    assert!(!city.runs(&city.session(&id)));
    city.pass(PATROL * 10).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(city.starts(&city.session(&id)), 1);
    city.wake(&id).await.unwrap();
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

/// A daemon that could not observe the agent's session never gave it a record.
#[tokio::test(start_paused = true)]
async fn an_agent_that_was_never_taken_up_can_rest_and_wake() {
    let (city, id) = mayor().await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.blind(Some("night"));
    let again = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = again.start_on(parts, clock).await;
    city.rest(&id).await.unwrap_err();
    city.parts.sessions.blind(None);
    city.rest(&id).await.unwrap();
    assert!(!city.runs(&city.session(&id)), "it rests");
    city.pass(PATROL * 2).await;
    assert!(!city.runs(&city.session(&id)));
    city.wake(&id).await.unwrap();
    city.settle().await;
    assert!(city.runs(&city.session(&id)));
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

#[tokio::test(start_paused = true)]
async fn a_wake_while_it_goes_to_rest_is_not_lost() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.hold_stop(&session);
    let (root, child) = (city.world.directory.root(), id.clone());
    let resting = tokio::spawn(async move {
        let rest = |reply| RootMail::Rest {
            id: child,
            by: None,
            reply,
        };
        ask::ask(root, rest, SECOND * 100).await
    });
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let woken = city.wake(&id).await;
    city.parts.sessions.release_stop(&session);
    assert!(resting.await.unwrap().is_ok(), "answered");
    city.pass(SECOND * 5).await;
    let state = city.state(&id).await;
    match woken {
        Ok(()) => assert_eq!(state, Some(ChildState::Running)),
        Err(_) => assert_eq!(state, Some(ChildState::Stopped)),
    }
}

#[tokio::test(start_paused = true)]
async fn start_of_a_child_that_goes_to_rest_is_answered_with_that() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.hold_stop(&session);
    let (reply, _answer) = ractor::concurrency::oneshot();
    let reply = reply.into();
    city.send_to_root(RootMail::Rest {
        id,
        by: None,
        reply,
    })
    .unwrap();
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let spec = agent_spec(&city.world.city, &city.world.city.agents[0]);
    let wanted = ask::want(&city.world, spec, Cause::Operator).await;
    wanted.unwrap_err();
    city.parts.sessions.release_stop(&session);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_refused_leaves_a_child_that_is_found_again() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    city.parts.sessions.hide(&charged.session, Some("deaf"));
    city.end(&id).await.unwrap_err();
    city.parts.sessions.hide(&charged.session, None);
    city.pass(PATROL).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.starts(&charged.session), 1, "adopted, not doubled");
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    assert!(city.runs(&charged.session), "it is tended again");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_not_confirmed_while_the_session_cannot_be_seen() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    // Its actor is gone, and its successor cannot observe the session.
    city.parts.sessions.hide(&charged.session, Some("fog"));
    city.kill_actors::<ChildMsg>();
    city.end(&id).await.unwrap_err();
    city.parts.sessions.hide(&charged.session, None);
    assert!(city.runs(&charged.session));
}

#[tokio::test(start_paused = true)]
async fn an_end_is_not_confirmed_by_an_actor_that_was_killed() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.hold_stop(&session);
    let (world, child, other) = (city.world.clone(), id.clone(), session.clone());
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    city.kill_actors::<ChildMsg>();
    city.until("a second stop", || {
        ended.is_finished() || city.parts.sessions.stops().len() > 1
    })
    .await;
    assert!(!ended.is_finished(), "the session runs on");
    city.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert!(!city.runs(&session));
}

#[tokio::test(start_paused = true)]
async fn rest_does_not_turn_an_end_into_a_rest() {
    let (city, id) = mayor().await;
    let session = city.session(&id);
    city.parts.sessions.hold_stop(&session);
    let (world, child, other) = (city.world.clone(), id.clone(), session.clone());
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let (reply, answer) = ractor::concurrency::oneshot();
    let rest = RootMail::Rest {
        by: None,
        id: id.clone(),
        reply: reply.into(),
    };
    city.send_to_root(rest).unwrap();
    city.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert!(answer.await.unwrap().is_ok());
    assert!(city.view(&id).await.is_none());
}

/// `witness-patrol.md`, TOCTOU guard: a decision about one incarnation or session is not applied to the next of its
/// name, whether or not the root has it.
#[tokio::test(start_paused = true)]
async fn order_for_one_incarnation_or_session_leaves_its_successor_alone() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let (raider, id) = (&charged.raider, ChildId::Raider(charged.raider.clone()));
    let now = city.hook(raider).await.unwrap().incarnation;
    let facts = city
        .parts
        .sessions
        .facts(&charged.session)
        .unwrap()
        .unwrap();
    let meant = [
        ChildRef::raider(raider, Incarnation(now.0 + 1)),
        ChildRef::raider(raider, now).only("of an earlier session".into()),
    ];
    let refused = async |city: &TestCity| {
        for meant in meant.clone() {
            let refused = ask::end(&city.world, meant, Cause::Done).await.unwrap_err();
            assert_eq!(refused.kind, RefusalKind::Conflict, "{refused}");
            assert!(city.runs(&charged.session));
        }
    };
    refused(&city).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    // The order is for a child that the root does not have yet.
    let (clock, parts) = (city.world.clock.clone(), city.crash().await);
    let city = Scenario::new().begin_on(parts, clock).await;
    refused(&city).await;
    let meant = ChildRef::raider(raider, now).only(facts.token);
    ask::end(&city.world, meant, Cause::Done).await.unwrap();
    assert!(!city.runs(&charged.session));
}
