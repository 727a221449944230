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
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);

async fn two() -> TestCity {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.agent("clerk", RestartType::Permanent);
    city.start().await
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_ends_every_session_and_restarts_none() {
    let city = two().await;
    let charged = city.worker("a").await;
    // `shutdown_timeout` applies live, to raiders as well.
    let grace = SECOND * 7;
    city.reload(|city| {
        city.daemon.shutdown_timeout = grace;
        let agents = city.agents.iter_mut();
        agents.for_each(|agent| agent.shutdown_timeout = grace);
    })
    .await;
    let (parts, started) = (city.parts.clone(), city.world.clock.mono());
    let clock = city.world.clock.clone();
    city.stop(StopMode::Graceful).await;
    assert!(parts.sessions.running().is_empty());
    assert_eq!(parts.sessions.starts().len(), 3);
    assert_eq!(parts.sessions.interrupts(&charged.session), 1);
    assert!(clock.mono() - started < SECOND, "nothing to wait for");
    let graces: Vec<_> = parts.sessions.stops().into_iter().map(|s| s.1).collect();
    assert_eq!(graces, [grace; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_skips_the_grace() {
    let city = two().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.outlive_grace(&session);
    let stop = |mode| RootMail::Stop { mode, reply: None };
    city.send_to_root(stop(StopMode::Graceful)).unwrap();
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let parts = city.parts.clone();
    city.stop(StopMode::Now).await;
    assert!(parts.sessions.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn keeping_sessions_leaves_them_running_and_nothing_is_said_to_have_stopped() {
    let city = two().await;
    let charged = city.worker("a").await;
    let (parts, store) = (city.parts.clone(), city.parts.store.clone());
    city.stop(StopMode::KeepSessions).await;
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
    let city = two().await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    let (world, other) = (city.world.clone(), session.clone());
    let ended =
        tokio::spawn(async move { ask::end(&world, ChildRef::any(id, other), Cause::Done).await });
    ask::views(&city.world).await.unwrap();
    let mode = StopMode::KeepSessions;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_start(&session);
    let parts = city.parts.clone();
    city.task.await.unwrap();
    assert!(parts.sessions.running().contains(&session));
    let refused = ended.await.unwrap().unwrap_err();
    assert!(refused.message.contains("keeps its sessions"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_back_off_or_quarantine() {
    for deaths in [2, 6] {
        let city = two().await;
        let id = agent("mayor");
        for _ in 0..deaths {
            city.parts.sessions.crash(&city.session(&id), 9);
            city.pass(SECOND * 9).await;
        }
        city.parts.sessions.crash(&city.session(&id), 9);
        city.settle().await;
        assert!(!city.runs(&city.session(&id)));
        let (clock, begun) = (city.world.clock.clone(), city.world.clock.mono());
        let parts = city.parts.clone();
        city.stop(StopMode::Graceful).await;
        assert!(clock.mono() - begun < SECOND);
        assert!(parts.sessions.running().is_empty());
    }
}

/// An agent that comes up during the stop releases no child that waited for it.
#[tokio::test(start_paused = true)]
async fn blocked_child_does_not_start_during_a_stop() {
    let city = Scenario::new()
        .agent("mayor", RestartType::Permanent)
        .agent("clerk", RestartType::Permanent)
        .agent("other", RestartType::Permanent);
    let mayor = || AgentName::new("mayor").unwrap();
    let city = city.with(|city| city.agents[1].depends_on = vec![mayor()]);
    let city = city.start().await;
    let (id, clerk) = (agent("mayor"), agent("clerk"));
    let (session, waiting) = (city.session(&id), city.session(&clerk));
    city.rest(&clerk).await.unwrap();
    city.rest(&id).await.unwrap();
    let before: Vec<_> = city.root.get_cell().get_children();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    city.begin_wake(&clerk);
    assert_eq!(city.state(&clerk).await, Some(ChildState::Blocked));
    let mut actors = city.root.get_cell().get_children().into_iter();
    let is_new = |cell: &ractor::ActorCell| before.iter().all(|old| old.get_id() != cell.get_id());
    let actor = actors.find(is_new).unwrap().get_id();
    let view = city.view(&agent("other")).await.unwrap();
    let mode = StopMode::KeepSessions;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    // Its child had sent this before it was told of the stop.
    city.send_to_root(RootMail::Up {
        id,
        actor,
        session: view.session.unwrap(),
        how: How::Fresh,
    })
    .unwrap();
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_start(&session);
    let parts = city.parts.clone();
    city.task.await.unwrap();
    assert!(!parts.sessions.running().contains(&waiting));
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_session_starts_ends_it() {
    let city = two().await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_start(&session);
    let parts = city.parts.clone();
    city.task.await.unwrap();
    assert!(parts.sessions.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stop_while_a_session_without_an_actor_is_being_ended_goes_on_when_it_ended() {
    let city = two().await;
    let id = agent("mayor");
    let session = city.session(&id);
    // The second death waits for its restart, and its session runs on without an actor.
    city.parts.sessions.crash(&session, 9);
    city.settle().await;
    city.kill_actors::<ChildMsg>();
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Backoff));
    assert!(city.runs(&session));
    city.parts.sessions.hold_stop(&session);
    let (world, other) = (city.world.clone(), session.clone());
    let ended =
        tokio::spawn(async move { ask::end(&world, ChildRef::any(id, other), Cause::Done).await });
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    let begun = city.world.clock.mono();
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&city.world).await.unwrap();
    city.parts.sessions.release_stop(&session);
    let clock = city.world.clock.clone();
    city.task.await.unwrap();
    assert!(clock.mono() - begun < SECOND, "{:?}", clock.mono() - begun);
    ended.await.unwrap().unwrap();
}

/// No session runs on unattended: neither one that could not be observed for a time, nor one that lost its child.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_sessions_that_no_child_has() {
    for mode in [StopMode::Graceful, StopMode::Now] {
        let city = two().await;
        let (unseen, session) = (agent("mayor"), city.session(&agent("mayor")));
        city.parts.sessions.hide(&session, Some("fog"));
        assert_eq!(city.kill_actors::<ChildMsg>(), 2);
        city.settle().await;
        assert_eq!(city.state(&unseen).await, Some(ChildState::Backoff));
        city.parts.sessions.hide(&session, None);
        assert!(city.runs(&session));
        let parts = city.parts.clone();
        city.stop(mode).await;
        assert!(parts.sessions.running().is_empty(), "{mode:?}");
    }
}

/// "Stopped" is reported only when no session is left.
#[tokio::test(start_paused = true)]
async fn stop_names_the_sessions_that_it_could_not_end() {
    let city = two().await;
    let (stubborn, unseen) = (city.session(&agent("mayor")), city.session(&agent("clerk")));
    city.parts.sessions.refuse_stop(&stubborn);
    city.parts.sessions.hide(&unseen, Some("fog"));
    let left = Arc::clone(&city.left);
    city.stop(StopMode::Now).await;
    let left = left.list();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left[0].contains(unseen.as_str()) && left[0].contains("fog"));
    assert!(left[1].contains(stubborn.as_str()));
}

/// A session that cannot be observed does not delay the stop; the next start finds it.
#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_unobservable_sessions() {
    let city = two().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.hide(&session, Some("fog"));
    city.kill_actors::<ChildMsg>();
    city.settle().await;
    let (clock, begun) = (city.world.clock.clone(), city.world.clock.mono());
    let parts = city.parts.clone();
    city.stop(StopMode::Graceful).await;
    assert!(clock.mono() - begun < SECOND);
    assert!(parts.sessions.running().contains(&session));
}

#[tokio::test(start_paused = true)]
async fn stop_that_takes_too_long_goes_on_without_hanging_sessions() {
    let city = two().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.hold_stop(&session);
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    // Once for its child, once in the pass over remaining sessions.
    for _ in 0..2 {
        tokio::time::advance(SECOND * 16).await;
        ask::views(&city.world).await.unwrap();
    }
    city.task.await.unwrap();
    city.parts.sessions.release_stop(&session);
}

/// A session that does not end is no reason to leave others running.
#[tokio::test(start_paused = true)]
async fn a_stop_that_takes_too_long_ends_sessions_that_no_child_has() {
    let city = two().await;
    let (deaf, lone) = (city.session(&agent("mayor")), city.session(&agent("clerk")));
    city.parts.sessions.hide(&lone, Some("fog"));
    city.kill_actors::<ChildMsg>();
    city.pass(SECOND).await;
    city.parts.sessions.hide(&lone, None);
    city.parts.sessions.hold_stop(&deaf);
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    city.until("the stop", || !city.parts.sessions.stops().is_empty())
        .await;
    tokio::time::advance(SECOND * 16).await;
    let sessions = city.parts.sessions.clone();
    city.until("the other ends", || !sessions.running().contains(&lone))
        .await;
    tokio::time::advance(SECOND * 16).await;
    city.task.await.unwrap();
    sessions.release_stop(&deaf);
}

/// A second signal does not revoke that sessions are kept.
#[tokio::test(start_paused = true)]
async fn less_patience_ends_no_session_that_is_kept() {
    let city = two().await;
    let id = agent("mayor");
    let (starting, kept) = (city.session(&id), city.session(&agent("clerk")));
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&starting);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    for mode in [StopMode::KeepSessions, StopMode::Now] {
        city.send_to_root(RootMail::Stop { mode, reply: None })
            .unwrap();
    }
    let parts = city.parts.clone();
    city.task.await.unwrap();
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
    let city = two().await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    ask::views(&city.world).await.unwrap();
    tokio::time::advance(SECOND * 16).await;
    city.task.await.unwrap();
    let before = city.parts.sessions.stops().len();
    city.parts.sessions.release_start(&session);
    let sessions = &city.parts.sessions;
    crate::testing::eventually("it is ended", || {
        (sessions.stops().len() > before && sessions.running().is_empty()).then_some(())
    });
}

#[tokio::test(start_paused = true)]
async fn charge_is_refused_while_stopping() {
    let city = two().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.hold_stop(&session);
    let mode = StopMode::Graceful;
    city.send_to_root(RootMail::Stop { mode, reply: None })
        .unwrap();
    let relic = city.relic("late").await;
    let refused = city.charge(&relic).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Unavailable);
    assert_eq!(
        city.sagas().await,
        0,
        "nor done after all by the next start"
    );
    city.parts.sessions.release_stop(&session);
    let parts = city.parts.clone();
    city.task.await.unwrap();
    assert!(parts.sessions.running().is_empty());
}
