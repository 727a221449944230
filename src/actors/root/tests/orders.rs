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
use crate::testing::world::{Scenario, Town, agent};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (Town, ChildId) {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    (town.start().await, agent("mayor"))
}

/// Ends a child as a nuke does: it is answered, and nothing of the child is left.
async fn ends(town: &Town, id: &ChildId) {
    town.end(id).await.unwrap();
    assert!(!town.runs(&town.session(id)));
    assert!(town.view(id).await.is_none(), "forgotten");
}

/// A failed start leaves a stopped agent stopped, in a supervisor that never started it, too.
#[tokio::test(start_paused = true)]
async fn stopped_agent_whose_start_failed_is_not_started_by_an_edit() {
    for is_new in [false, true] {
        let (mut town, id) = mayor().await;
        let session = town.session(&id);
        town.rest(&id).await.unwrap();
        if is_new {
            town.store(|txn| {
                operator_orders::update(txn, &|said| {
                    said.resting.insert(AgentName::new("mayor").unwrap());
                })
            })
            .await;
            let clock = town.world.clock.clone();
            let parts = town.crash().await;
            let again = Scenario::new().agent("mayor", RestartType::Permanent);
            town = again.start_on(parts, clock).await;
        }
        let no_memory = StartError::Provider("no memory".into());
        town.parts.sessions.refuse_start(&session, no_memory);
        town.wake(&id).await.unwrap_err();
        town.parts.sessions.accept_starts();
        town.reload(|city| city.agents[0].shutdown_timeout = SECOND * 77)
            .await;
        town.pass(PATROL * 2).await;
        assert!(!town.runs(&session), "{is_new}");
    }
}

#[tokio::test(start_paused = true)]
async fn end_while_opening_ends_the_session_that_is_being_opened() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.rest(&id).await.unwrap();
    town.parts.sessions.hold_start(&session);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    let (world, child) = (town.world.clone(), id.clone());
    let other = session.clone();
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_start(&session);
    ended.await.unwrap().unwrap();
    assert!(!town.runs(&session));
    assert!(town.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn end_in_back_off_and_in_quarantine_is_answered_and_final_until_the_next_look() {
    for deaths in [2, 6] {
        let (town, id) = mayor().await;
        for _ in 0..deaths - 1 {
            town.parts.sessions.crash(&town.session(&id), 9);
            town.pass(SECOND * 9).await;
        }
        town.parts.sessions.crash(&town.session(&id), 9);
        town.settle().await;
        let state = town.state(&id).await.unwrap();
        assert!(matches!(
            state,
            ChildState::Backoff | ChildState::Quarantined
        ));
        ends(&town, &id).await;
    }
}

#[tokio::test(start_paused = true)]
async fn end_while_cycling_wins() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.hold_stop(&session);
    ask::cycle(&town.world, id.clone(), Cause::Handoff)
        .await
        .unwrap();
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let (world, child) = (town.world.clone(), id.clone());
    let other = session.clone();
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert_eq!(town.starts(&session), 1);
    assert!(town.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn rest_is_sticky_and_wake_undoes_it() {
    let (town, id) = mayor().await;
    town.rest(&id).await.unwrap();
    assert!(!town.runs(&town.session(&id)));
    town.pass(PATROL * 10).await;
    assert_eq!(town.state(&id).await, Some(ChildState::Stopped));
    assert_eq!(town.starts(&town.session(&id)), 1);
    town.wake(&id).await.unwrap();
    town.settle().await;
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
}

/// A daemon that could not observe the agent's session never gave it a slot.
#[tokio::test(start_paused = true)]
async fn an_agent_that_was_never_taken_up_can_rest_and_wake() {
    let (town, id) = mayor().await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.blind(Some("night"));
    let again = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = again.start_on(parts, clock).await;
    town.rest(&id).await.unwrap_err();
    town.parts.sessions.blind(None);
    town.rest(&id).await.unwrap();
    assert!(!town.runs(&town.session(&id)), "it rests");
    town.pass(PATROL * 2).await;
    assert!(!town.runs(&town.session(&id)));
    town.wake(&id).await.unwrap();
    town.settle().await;
    assert!(town.runs(&town.session(&id)));
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
}

#[tokio::test(start_paused = true)]
async fn a_wake_while_it_goes_to_rest_is_not_lost() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.hold_stop(&session);
    let (root, child) = (town.world.directory.root(), id.clone());
    let resting = tokio::spawn(async move {
        let rest = |reply| RootMail::Rest { id: child, reply };
        ask::ask(root, rest, SECOND * 100).await
    });
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let woken = town.wake(&id).await;
    town.parts.sessions.release_stop(&session);
    assert!(resting.await.unwrap().is_ok(), "answered");
    town.pass(SECOND * 5).await;
    let state = town.state(&id).await;
    match woken {
        Ok(()) => assert_eq!(state, Some(ChildState::Running)),
        Err(_) => assert_eq!(state, Some(ChildState::Stopped)),
    }
}

#[tokio::test(start_paused = true)]
async fn start_of_a_child_that_goes_to_rest_is_answered_with_that() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.hold_stop(&session);
    let (reply, _answer) = ractor::concurrency::oneshot();
    let reply = reply.into();
    town.send_to_root(RootMail::Rest { id, reply }).unwrap();
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let spec = agent_spec(&town.world.city, &town.world.city.agents[0]);
    let wanted = ask::want(&town.world, spec, Cause::Operator).await;
    wanted.unwrap_err();
    town.parts.sessions.release_stop(&session);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_is_refused_leaves_a_child_that_is_found_again() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    town.parts.sessions.hide(&charged.session, Some("deaf"));
    town.end(&id).await.unwrap_err();
    town.parts.sessions.hide(&charged.session, None);
    town.pass(PATROL).await;
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    assert_eq!(town.starts(&charged.session), 1, "adopted, not doubled");
    town.parts.sessions.crash(&charged.session, 9);
    town.settle().await;
    assert!(town.runs(&charged.session), "it is tended again");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_not_confirmed_while_the_session_cannot_be_seen() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    // Its actor is gone, and its successor cannot observe the session.
    town.parts.sessions.hide(&charged.session, Some("fog"));
    town.kill_actors::<ChildMsg>();
    town.end(&id).await.unwrap_err();
    town.parts.sessions.hide(&charged.session, None);
    assert!(town.runs(&charged.session));
}

#[tokio::test(start_paused = true)]
async fn an_end_is_not_confirmed_by_an_actor_that_was_killed() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.hold_stop(&session);
    let (world, child, other) = (town.world.clone(), id.clone(), session.clone());
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    town.kill_actors::<ChildMsg>();
    town.until("a second stop", || {
        ended.is_finished() || town.parts.sessions.stops().len() > 1
    })
    .await;
    assert!(!ended.is_finished(), "the session runs on");
    town.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert!(!town.runs(&session));
}

#[tokio::test(start_paused = true)]
async fn rest_does_not_turn_an_end_into_a_rest() {
    let (town, id) = mayor().await;
    let session = town.session(&id);
    town.parts.sessions.hold_stop(&session);
    let (world, child, other) = (town.world.clone(), id.clone(), session.clone());
    let ended =
        tokio::spawn(
            async move { ask::end(&world, ChildRef::any(child, other), Cause::Done).await },
        );
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let (reply, answer) = ractor::concurrency::oneshot();
    let rest = RootMail::Rest {
        id: id.clone(),
        reply: reply.into(),
    };
    town.send_to_root(rest).unwrap();
    town.parts.sessions.release_stop(&session);
    ended.await.unwrap().unwrap();
    assert!(answer.await.unwrap().is_ok());
    assert!(town.view(&id).await.is_none());
}

/// `witness-patrol.md`, TOCTOU guard: a decision about one incarnation or session is not applied to the next of its
/// name, whether or not the root has it.
#[tokio::test(start_paused = true)]
async fn order_for_one_incarnation_or_session_leaves_its_successor_alone() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let (raider, id) = (&charged.raider, ChildId::Raider(charged.raider.clone()));
    let now = town.hook(raider).await.unwrap().incarnation;
    let facts = town
        .parts
        .sessions
        .facts(&charged.session)
        .unwrap()
        .unwrap();
    let meant = [
        ChildRef::raider(raider, Incarnation(now.0 + 1)),
        ChildRef::raider(raider, now).only("of an earlier session".into()),
    ];
    let refused = async |town: &Town| {
        for meant in meant.clone() {
            let refused = ask::end(&town.world, meant, Cause::Done).await.unwrap_err();
            assert_eq!(refused.kind, RefusalKind::Conflict, "{refused}");
            assert!(town.runs(&charged.session));
        }
    };
    refused(&town).await;
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    // The order is for a child that the root does not have yet.
    let (clock, parts) = (town.world.clock.clone(), town.crash().await);
    let town = Scenario::new().begin_on(parts, clock).await;
    refused(&town).await;
    let meant = ChildRef::raider(raider, now).only(facts.token);
    ask::end(&town.world, meant, Cause::Done).await.unwrap();
    assert!(!town.runs(&charged.session));
}
