//! The stop: two passes, in order, and no longer than needed.

use crate::actors::mail::RootMail;
use std::sync::Arc;
use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::{ChildRef, ChildState, How, StopMode};
use crate::actors::refusal::RefusalKind;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::AgentName;
use crate::testing::world::{Scenario, Town, agent};

const SECOND: Duration = Duration::from_secs(1);

async fn two() -> Town {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.agent("clerk", RestartType::Permanent);
    town.start().await
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_ends_every_session_and_restarts_none() {
    let town = two().await;
    let charged = town.worker("a").await;
    // `shutdown_timeout` applies live, to raiders as well.
    let grace = SECOND * 7;
    town.reload(|city| {
        city.daemon.shutdown_timeout = grace;
        let agents = city.agents.iter_mut();
        agents.for_each(|agent| agent.shutdown_timeout = grace);
    })
    .await;
    let (parts, started) = (town.parts.clone(), town.world.clock.mono());
    let clock = town.world.clock.clone();
    town.stop(StopMode::Graceful).await;
    assert!(parts.sessions.running().is_empty());
    assert_eq!(parts.sessions.starts().len(), 3);
    assert_eq!(parts.sessions.interrupts(&charged.session), 1);
    assert!(clock.mono() - started < SECOND, "nothing to wait for");
    let graces: Vec<_> = parts.sessions.stops().into_iter().map(|s| s.1).collect();
    assert_eq!(graces, [grace; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_skips_the_grace() {
    let town = two().await;
    let session = town.session(&agent("mayor"));
    town.parts.sessions.outlive_grace(&session);
    let stop = |mode| RootMail::Stop { mode, reply: None };
    town.send_to_root(stop(StopMode::Graceful)).unwrap();
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let parts = town.parts.clone();
    town.stop(StopMode::Now).await;
    assert!(parts.sessions.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn keeping_sessions_leaves_them_running_and_nothing_is_said_to_have_stopped() {
    let town = two().await;
    let charged = town.worker("a").await;
    let (parts, store) = (town.parts.clone(), town.parts.store.clone());
    town.stop(StopMode::KeepSessions).await;
    assert_eq!(parts.sessions.running().len(), 3);
    assert!(parts.sessions.stops().is_empty());
    assert!(parts.sessions.running().contains(&charged.session));
    let filter = crate::ports::relics::EventFilter {
        kind: Some(EventType::AgentStopped.as_str().into()),
        ..Default::default()
    };
    let stopped = store.run(move |txn| txn.events(&filter)).await.unwrap();
    assert!(stopped.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_kept_is_not_said_to_have_ended() {
    let town = two().await;
    let id = agent("mayor");
    let session = town.session(&id);
    town.rest(&id).await.unwrap();
    town.parts.sessions.hold_start(&session);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    let (world, other) = (town.world.clone(), session.clone());
    let ended =
        tokio::spawn(async move { ask::end(&world, ChildRef::any(id, other), Cause::Done).await });
    ask::views(&town.world).await.unwrap();
    let mode = StopMode::KeepSessions;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_start(&session);
    let parts = town.parts.clone();
    town.task.await.unwrap();
    assert!(parts.sessions.running().contains(&session));
    let refused = ended.await.unwrap().unwrap_err();
    assert!(refused.message.contains("keeps its sessions"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_back_off_or_quarantine() {
    for deaths in [2, 6] {
        let town = two().await;
        let id = agent("mayor");
        for _ in 0..deaths {
            town.parts.sessions.crash(&town.session(&id), 9);
            town.pass(SECOND * 9).await;
        }
        town.parts.sessions.crash(&town.session(&id), 9);
        town.settle().await;
        assert!(!town.runs(&town.session(&id)));
        let (clock, begun) = (town.world.clock.clone(), town.world.clock.mono());
        let parts = town.parts.clone();
        town.stop(StopMode::Graceful).await;
        assert!(clock.mono() - begun < SECOND);
        assert!(parts.sessions.running().is_empty());
    }
}

/// An agent that comes up during the stop releases no child that waited for it.
#[tokio::test(start_paused = true)]
async fn blocked_child_does_not_start_during_a_stop() {
    let town = Scenario::new()
        .agent("mayor", RestartType::Permanent)
        .agent("clerk", RestartType::Permanent)
        .agent("other", RestartType::Permanent);
    let mayor = || AgentName::new("mayor").unwrap();
    let town = town.with(|city| city.agents[1].depends_on = vec![mayor()]);
    let town = town.start().await;
    let (id, clerk) = (agent("mayor"), agent("clerk"));
    let (session, waiting) = (town.session(&id), town.session(&clerk));
    town.rest(&clerk).await.unwrap();
    town.rest(&id).await.unwrap();
    let before: Vec<_> = town.root.get_cell().get_children();
    town.parts.sessions.hold_start(&session);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    town.begin_wake(&clerk);
    assert_eq!(town.state(&clerk).await, Some(ChildState::Blocked));
    let mut actors = town.root.get_cell().get_children().into_iter();
    let is_new = |cell: &ractor::ActorCell| before.iter().all(|old| old.get_id() != cell.get_id());
    let actor = actors.find(is_new).unwrap().get_id();
    let view = town.view(&agent("other")).await.unwrap();
    let mode = StopMode::KeepSessions;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    // Its child had sent this before it was told of the stop.
    town.send_to_root(RootMail::Up {
        id,
        actor,
        session: view.session.unwrap(),
        how: How::Fresh,
    })
    .unwrap();
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_start(&session);
    let parts = town.parts.clone();
    town.task.await.unwrap();
    assert!(!parts.sessions.running().contains(&waiting));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_session_starts_ends_it() {
    let town = two().await;
    let id = agent("mayor");
    let session = town.session(&id);
    town.rest(&id).await.unwrap();
    town.parts.sessions.hold_start(&session);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_start(&session);
    let parts = town.parts.clone();
    town.task.await.unwrap();
    assert!(parts.sessions.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_session_without_an_actor_is_being_ended_goes_on_when_it_ended() {
    let town = two().await;
    let id = agent("mayor");
    let session = town.session(&id);
    // The second death waits for its restart, and its session runs on without an actor.
    town.parts.sessions.crash(&session, 9);
    town.settle().await;
    town.kill_actors::<ChildMsg>();
    town.settle().await;
    assert_eq!(town.state(&id).await, Some(ChildState::Backoff));
    assert!(town.runs(&session));
    town.parts.sessions.hold_stop(&session);
    let (world, other) = (town.world.clone(), session.clone());
    let ended =
        tokio::spawn(async move { ask::end(&world, ChildRef::any(id, other), Cause::Done).await });
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    let begun = town.world.clock.mono();
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&town.world).await.unwrap();
    town.parts.sessions.release_stop(&session);
    let clock = town.world.clock.clone();
    town.task.await.unwrap();
    assert!(clock.mono() - begun < SECOND, "{:?}", clock.mono() - begun);
    ended.await.unwrap().unwrap();
}

/// No session runs on unattended: neither one that could not be observed for a time, nor one that lost its child.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_sessions_that_no_child_has() {
    for mode in [StopMode::Graceful, StopMode::Now] {
        let town = two().await;
        let (unseen, session) = (agent("mayor"), town.session(&agent("mayor")));
        town.parts.sessions.hide(&session, Some("fog"));
        assert_eq!(town.kill_actors::<ChildMsg>(), 2);
        town.settle().await;
        assert_eq!(town.state(&unseen).await, Some(ChildState::Backoff));
        town.parts.sessions.hide(&session, None);
        assert!(town.runs(&session));
        let parts = town.parts.clone();
        town.stop(mode).await;
        assert!(parts.sessions.running().is_empty(), "{mode:?}");
    }
}

/// "Stopped" is reported only when no session is left.
#[tokio::test(start_paused = true)]
async fn stop_names_the_sessions_that_it_could_not_end() {
    let town = two().await;
    let (stubborn, unseen) = (town.session(&agent("mayor")), town.session(&agent("clerk")));
    town.parts.sessions.refuse_stop(&stubborn);
    town.parts.sessions.hide(&unseen, Some("fog"));
    let left = Arc::clone(&town.left);
    town.stop(StopMode::Now).await;
    let left = left.list();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].contains(unseen.as_str()) && left[0].contains("fog"));
    assert!(left[1].contains(stubborn.as_str()));
}

/// A session that cannot be observed does not delay the stop; the next start finds it.
#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_unobservable_sessions() {
    let town = two().await;
    let session = town.session(&agent("mayor"));
    town.parts.sessions.hide(&session, Some("fog"));
    town.kill_actors::<ChildMsg>();
    town.settle().await;
    let (clock, begun) = (town.world.clock.clone(), town.world.clock.mono());
    let parts = town.parts.clone();
    town.stop(StopMode::Graceful).await;
    assert!(clock.mono() - begun < SECOND);
    assert!(parts.sessions.running().contains(&session));
}

#[tokio::test(start_paused = true)]
async fn stop_that_takes_too_long_goes_on_without_hanging_sessions() {
    let town = two().await;
    let session = town.session(&agent("mayor"));
    town.parts.sessions.hold_stop(&session);
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    // Once for its child, once in the pass over remaining sessions.
    for _ in 0..2 {
        tokio::time::advance(SECOND * 16).await;
        ask::views(&town.world).await.unwrap();
    }
    town.task.await.unwrap();
    town.parts.sessions.release_stop(&session);
}

/// A session that does not end is no reason to leave others running.
#[tokio::test(start_paused = true)]
async fn a_stop_that_takes_too_long_ends_sessions_that_no_child_has() {
    let town = two().await;
    let (deaf, lone) = (town.session(&agent("mayor")), town.session(&agent("clerk")));
    town.parts.sessions.hide(&lone, Some("fog"));
    town.kill_actors::<ChildMsg>();
    town.pass(SECOND).await;
    town.parts.sessions.hide(&lone, None);
    town.parts.sessions.hold_stop(&deaf);
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    town.until("the stop", || !town.parts.sessions.stops().is_empty())
        .await;
    tokio::time::advance(SECOND * 16).await;
    let sessions = town.parts.sessions.clone();
    town.until("the other ends", || !sessions.running().contains(&lone))
        .await;
    tokio::time::advance(SECOND * 16).await;
    town.task.await.unwrap();
    sessions.release_stop(&deaf);
}

/// A second signal does not revoke that sessions are kept.
#[tokio::test(start_paused = true)]
async fn less_patience_ends_no_session_that_is_kept() {
    let town = two().await;
    let id = agent("mayor");
    let (starting, kept) = (town.session(&id), town.session(&agent("clerk")));
    town.rest(&id).await.unwrap();
    town.parts.sessions.hold_start(&starting);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    for mode in [StopMode::KeepSessions, StopMode::Now] {
        town.send_to_root(RootMail::Stop { mode, reply: None })
            .unwrap();
    }
    let parts = town.parts.clone();
    town.task.await.unwrap();
    parts.sessions.release_start(&starting);
    assert!(parts.sessions.running().contains(&kept));
    assert!(
        parts
            .sessions
            .stops()
            .iter()
            .all(|(handle, _)| handle.id != kept)
    );
}

/// The session would run unknown, because no start follows by itself.
#[tokio::test(start_paused = true)]
async fn a_start_that_comes_through_after_the_stop_is_ended() {
    let town = two().await;
    let id = agent("mayor");
    let session = town.session(&id);
    town.rest(&id).await.unwrap();
    town.parts.sessions.hold_start(&session);
    town.begin_wake(&id);
    town.until("the start", || town.world.starts.available_permits() < 16)
        .await;
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&town.world).await.unwrap();
    tokio::time::advance(SECOND * 16).await;
    town.task.await.unwrap();
    let before = town.parts.sessions.stops().len();
    town.parts.sessions.release_start(&session);
    let sessions = &town.parts.sessions;
    crate::testing::eventually("it is ended", || {
        (sessions.stops().len() > before && sessions.running().is_empty()).then_some(())
    });
}

#[tokio::test(start_paused = true)]
async fn charge_is_refused_while_stopping() {
    let town = two().await;
    let session = town.session(&agent("mayor"));
    town.parts.sessions.hold_stop(&session);
    let mode = StopMode::Graceful;
    town.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    let relic = town.relic("late").await;
    let refused = town.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    assert_eq!(
        town.sagas().await,
        0,
        "nor done after all by the next start"
    );
    town.parts.sessions.release_stop(&session);
    let parts = town.parts.clone();
    town.task.await.unwrap();
    assert!(parts.sessions.running().is_empty());
}
