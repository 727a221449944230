//! Deaths: restart, back-off, quarantine; and cycles, which are no deaths. Names that begin with `TestCrashTracker` are
//! those of an earlier system's tests of the same rules.

use crate::actors::mail::RootMail;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::ChildState;
use crate::actors::session::child::ChildMsg;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::facts::SessionExit;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::{SessionEvent, SessionHandle, StartError};
use crate::testing::world::{MOMENT, Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);

async fn mayor(restart: RestartType) -> (TestCity, ChildId) {
    let city = Scenario::new().agent("mayor", restart).start().await;
    (city, agent("mayor"))
}

async fn cycle(city: &TestCity, id: &ChildId) {
    ask::cycle(&city.world, id.clone(), Cause::Operator)
        .await
        .unwrap();
    city.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_raider_that_dies_is_restarted_on_its_sandbox_with_the_respawn_prompt() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    assert_eq!(city.starts(&charged.session), 2);
    assert!(city.runs(&charged.session));
    let starts = city.parts.sessions.starts();
    assert_eq!(starts[0].cwd, starts[1].cwd);
    assert_eq!(starts[1].generation.0, 2);
    let prompts = city.parts.tasks.prompts();
    assert!(
        prompts[1].contains("ended before it was finished"),
        "{}",
        prompts[1]
    );
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    assert_eq!(city.events(EventType::RaiderRespawned).await.len(), 1);
}

/// `TestCrashTrackerQuarantineAtLimit`, `TestCrashTrackerAutoClears`.
#[tokio::test(start_paused = true)]
async fn back_off_grows_as_configured_and_the_death_after_the_last_quarantines() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    let first_death = city.world.clock.mono();
    for (death, delay) in [0, 1, 2, 4, 8].into_iter().enumerate() {
        city.parts.sessions.crash(&session, 9);
        if delay > 0 {
            city.pass(SECOND * delay - MOMENT).await;
            assert_eq!(city.starts(&session), death + 1, "death {death}: too early");
            assert_eq!(city.state(&id).await, Some(ChildState::Backoff));
        }
        city.pass(MOMENT * 2).await;
        assert_eq!(city.starts(&session), death + 2, "death {death}: too late");
    }
    city.parts.sessions.crash(&session, 9);
    city.settle().await;
    let view = city.view(&id).await.unwrap();
    assert_eq!(view.state, ChildState::Quarantined);
    assert_eq!(view.restarts, 6);
    assert!(view.quarantined_until.is_some());
    assert_eq!(city.events(EventType::AgentQuarantined).await.len(), 1);
    let until = first_death + Duration::from_secs(3600);
    city.pass(until - city.world.clock.mono() - MOMENT * 2)
        .await;
    assert_eq!(city.starts(&session), 6, "released too early");
    city.pass(MOMENT * 4).await;
    assert_eq!(city.starts(&session), 7, "the window has passed");
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.events(EventType::AgentUnquarantined).await.len(), 1);
}

/// `TestCrashTrackerPartialWindowSlide`: one death leaves the window at a time, which allows one restart;
/// `TestCrashTrackerDifferentSessions`: every child has a window of its own.
#[tokio::test(start_paused = true)]
async fn deaths_leave_the_restart_window_separately() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.agent("clerk", RestartType::Permanent);
    let city = city.with(|city| city.daemon.restart.max_restarts = 2);
    let city = city.start().await;
    let (id, other) = (agent("mayor"), agent("clerk"));
    let crash = async |id: &ChildId| {
        city.parts.sessions.crash(&city.session(id), 9);
        city.pass(SECOND * 10).await;
    };
    for _ in 0..2 {
        crash(&id).await;
        city.pass(SECOND * 1000).await;
    }
    crash(&other).await;
    // The first of the three deaths leaves the window 3600 s after it, the second 1010 s later.
    crash(&id).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.pass(SECOND * 1600).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.view(&id).await.unwrap().restarts, 2);
    crash(&id).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.pass(SECOND * 1010).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.state(&other).await, Some(ChildState::Running));
}

/// `TestCrashTrackerClearHistory`.
#[tokio::test(start_paused = true)]
async fn an_operator_releases_a_quarantined_child_and_its_history() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    for _ in 0..6 {
        city.parts.sessions.crash(&session, 9);
        city.pass(SECOND * 9).await;
    }
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.wake(&id).await.unwrap();
    city.settle().await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    let starts = city.starts(&session);
    city.pass_hours(SECOND * 7200).await;
    assert_eq!(city.starts(&session), starts, "the old timer is void");
}

/// `TestCheckStability`: with `stable_after`, and only then.
#[tokio::test(start_paused = true)]
async fn a_session_healthy_for_long_enough_clears_its_history() {
    let stable = |city: &mut crate::domain::city::City| {
        city.daemon.restart.stable_after = Some(SECOND * 60);
    };
    let city = Scenario::new().with(stable);
    let city = city.agent("mayor", RestartType::Permanent).start().await;
    let session = city.session(&agent("mayor"));
    for _ in 0..20 {
        city.pass(SECOND * 61).await;
        city.parts.sessions.crash(&session, 9);
        city.settle().await;
        assert!(city.runs(&session));
    }
    let view = city.view(&agent("mayor")).await.unwrap();
    assert_eq!(view.restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn restart_types_mean_the_same_as_in_otp() {
    type End = fn(&TestCity, &ChildId);
    let exit0: End = |city, id| city.parts.sessions.exit(&city.session(id), 0);
    let exit1: End = |city, id| city.parts.sessions.exit(&city.session(id), 1);
    let signal: End = |city, id| city.parts.sessions.crash(&city.session(id), 15);
    let kill: End = |city, id| city.parts.sessions.crash(&city.session(id), 9);
    let lost: End = |city, id| city.parts.sessions.lose(&city.session(id), "gone");
    for (restart, end, again) in [
        (RestartType::Permanent, exit0, true),
        (RestartType::Permanent, lost, true),
        (RestartType::Transient, exit0, false),
        (RestartType::Transient, exit1, true),
        (RestartType::Transient, signal, false),
        (RestartType::Transient, kill, true),
        (RestartType::Transient, lost, true),
        (RestartType::Temporary, exit0, false),
        (RestartType::Temporary, signal, false),
    ] {
        let (city, id) = mayor(restart).await;
        end(&city, &id);
        city.pass(SECOND * 100).await;
        assert_eq!(city.runs(&city.session(&id)), again, "{restart:?}");
        let state = if again {
            ChildState::Running
        } else {
            ChildState::Stopped
        };
        assert_eq!(city.state(&id).await, Some(state), "{restart:?}");
        let crashed = city.events(EventType::AgentCrashed).await;
        let stopped = city.events(EventType::AgentStopped).await;
        assert_eq!(
            (crashed.len(), stopped.len()),
            if again { (1, 0) } else { (0, 1) }
        );
        let told = crashed.first().or(stopped.first()).unwrap();
        let cause = match (again, &told.data["code"]) {
            (true, _) => told.cause.as_str(),
            (false, code) if *code == 0 => "completed",
            (false, _) => "signal",
        };
        assert_eq!(told.cause, cause);
        assert!(told.data["generation"] == 1, "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_planned_cycles_are_no_deaths_and_the_eleventh_is_one() {
    let (city, id) = mayor(RestartType::Permanent).await;
    for _ in 0..10 {
        cycle(&city, &id).await;
    }
    assert_eq!(city.starts(&city.session(&id)), 11);
    assert_eq!(city.view(&id).await.unwrap().restarts, 0);
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
    cycle(&city, &id).await;
    assert_eq!(city.view(&id).await.unwrap().restarts, 1);
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(crashed.len(), 1);
    assert_eq!(
        crashed[0].cause, "operator",
        "it says what cycled too often"
    );
    cycle(&city, &id).await;
    city.pass(SECOND * 60).await;
    assert_eq!(
        city.state(&id).await,
        Some(ChildState::Running),
        "it backs off, not rests"
    );
    assert_eq!(city.view(&id).await.unwrap().restarts, 2);
    city.pass(SECOND * 600).await;
    cycle(&city, &id).await;
    assert_eq!(city.view(&id).await.unwrap().restarts, 2);
}

#[tokio::test(start_paused = true)]
async fn a_killed_child_actor_leaves_its_session_to_the_next_which_adopts_it() {
    let (city, id) = mayor(RestartType::Permanent).await;
    for _ in 0..3 {
        assert_eq!(city.kill_actors::<ChildMsg>(), 1);
        city.pass(SECOND * 5).await;
        assert_eq!(city.state(&id).await, Some(ChildState::Running));
    }
    assert_eq!(city.starts(&city.session(&id)), 1);
    assert_eq!(city.events(EventType::AgentAdopted).await.len(), 3);
    assert_eq!(city.parts.sessions.doubles(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_child_killed_while_its_session_starts_finds_that_session() {
    let city = Scenario::new()
        .agent("mayor", RestartType::Permanent)
        .start()
        .await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    city.kill_actors::<ChildMsg>();
    city.until("the successor", || {
        city.world.starts.available_permits() < 15
    })
    .await;
    city.parts.sessions.release_start(&session);
    city.settle().await;
    assert!(city.runs(&session));
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.view(&id).await.unwrap().restarts, 1, "the kill only");
}

#[tokio::test(start_paused = true)]
async fn late_events_of_an_ended_session_are_ignored() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let old = city.view(&id).await.unwrap().session.unwrap().handle;
    city.parts.sessions.crash(&old.id, 9);
    city.settle().await;
    let (code, signal, at) = (Some(0), None, city.world.clock.now());
    let exit = SessionExit {
        code,
        signal,
        at,
        by_person: false,
        stopped: false,
    };
    let foreign = SessionHandle {
        id: old.id.clone(),
        token: "nobody's".into(),
    };
    for event in [
        SessionEvent::Exited(old.clone(), exit),
        SessionEvent::Lost(old.clone(), "late".into()),
        SessionEvent::Lost(foreign, "strange".into()),
    ] {
        city.send_to_root(RootMail::Session(event)).unwrap();
    }
    city.pass(SECOND * 100).await;
    assert_eq!(city.starts(&old.id), 2);
    assert_eq!(city.view(&id).await.unwrap().restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_first_start_that_fails_is_answered_and_leaves_nothing() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let session = crate::testing::world::raider("Toast").session_id();
    let program = "script".into();
    let why = "no such file".into();
    let refused = StartError::NoProgram { program, why };
    city.parts.sessions.refuse_start(&session, refused);
    let error = city.charge(&relic).await.unwrap_err();
    assert!(error.message.contains("no such file"), "{error}");
    assert!(ask::views(&city.world).await.unwrap().is_empty());
    assert!(city.parts.repo.names().is_empty());
    city.charge(&relic).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hanging_start_is_a_death_and_its_late_session_is_ended() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&attempts);
    city.parts.sessions.interlude("start", move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    city.begin_wake(&id);
    let attempted = |attempt| attempts.load(Ordering::Relaxed) == attempt;
    city.until("the start", || attempted(1)).await;
    tokio::time::advance(SECOND * 61).await;
    city.until("the second attempt", || attempted(2)).await;
    city.parts.sessions.release_start(&session);
    city.pass(SECOND * 60).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert!(city.runs(&session));
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(crashed[0].cause, "start_failed");
}

/// An unknown run state is no death, and no session is started beside one that may run.
#[tokio::test(start_paused = true)]
async fn a_session_that_cannot_be_seen_is_no_death_and_is_adopted_when_it_can() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    city.parts.sessions.hide(&session, Some("fog"));
    assert_eq!(city.kill_actors::<ChildMsg>(), 1);
    // Between two attempts, which are 5 s apart.
    city.pass(SECOND * 602).await;
    assert_eq!(
        city.events(EventType::AgentCrashed).await.len(),
        1,
        "the actor's own"
    );
    assert!(city.events(EventType::AgentQuarantined).await.is_empty());
    assert_eq!(city.state(&id).await, Some(ChildState::Backoff));
    city.parts.sessions.hide(&session, None);
    city.pass(SECOND * 10).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.starts(&session), 1, "adopted");
    assert_eq!(city.view(&id).await.unwrap().restarts, 1);
}

/// C11: on a full disk no session can be restarted. That is no death, and is retried at a steady pace.
#[tokio::test(start_paused = true)]
async fn a_start_that_cannot_be_written_down_is_no_death_and_is_tried_until_it_can() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    for _ in 0..10 {
        let full = StartError::Unwritable("no space left".into());
        city.parts.sessions.refuse_start(&session, full);
    }
    city.parts.sessions.crash(&session, 9);
    city.pass(SECOND * 44).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Backoff));
    city.pass(SECOND * 10).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.view(&id).await.unwrap().restarts, 1);
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
}

/// The waiting caller learns why the child does not come up, and the child rests as before.
#[tokio::test(start_paused = true)]
async fn wake_of_an_unobservable_child_fails_with_the_reason() {
    let (city, id) = mayor(RestartType::Permanent).await;
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    city.parts.sessions.hide(&session, Some("fog"));
    let why = city.wake(&id).await.unwrap_err();
    assert!(why.contains("fog"), "{why}");
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Stopped));
}

/// C6: neither TERM nor KILL ends it. A person is called once, and all other children are still handled.
#[tokio::test(start_paused = true)]
async fn a_session_that_survives_a_kill_raises_one_alarm() {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario.agent("crew", RestartType::Permanent).start().await;
    let (id, session) = (agent("mayor"), city.session(&agent("mayor")));
    city.parts.sessions.refuse_stop(&session);
    for _ in 0..3 {
        city.rest(&id).await.unwrap_err();
        city.pass(SECOND * 40).await;
    }
    let alarms = city.events(EventType::AgentUnkillable).await;
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(alarms[0].subject, "mayor");
    assert_eq!(city.events(EventType::EscalationRaised).await.len(), 1);
    let other = city.session(&agent("crew"));
    city.parts.sessions.crash(&other, 9);
    city.pass(SECOND * 10).await;
    assert!(city.runs(&other));
}

/// A session that hung ended after all: its escalation is closed, and a new hang opens a new one.
#[tokio::test(start_paused = true)]
async fn escalation_of_an_unkillable_session_closes_with_its_end_and_can_open_again() {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario.start().await;
    let (id, session) = (agent("mayor"), city.session(&agent("mayor")));
    for alarms in 1..=2 {
        city.parts.sessions.refuse_stop(&session);
        city.rest(&id).await.unwrap_err();
        city.pass(SECOND * 40).await;
        let raised = city.events(EventType::AgentUnkillable).await;
        assert_eq!(raised.len(), alarms, "{raised:?}");
        let open = async || {
            let mut all = city.escalations().await;
            all.retain(|relic| relic.status != RelicStatus::Closed);
            all.len()
        };
        assert_eq!(open().await, 1);
        city.reword().await;
        city.parts.sessions.allow_stop(&session);
        city.rest(&id).await.unwrap();
        city.pass(SECOND * 40).await;
        assert_eq!(open().await, 0);
        city.wake(&id).await.unwrap();
        city.settle().await;
    }
}

/// The name of one rig is a prefix of another's: the alarm is about the raider that has work.
#[tokio::test(start_paused = true)]
async fn an_alarm_names_the_raider_whose_session_it_is() {
    let city = Scenario::new()
        .rig(|rig| rig.raiders.names = vec!["blue-Toast".parse().unwrap()])
        .with(|city| {
            let mut other = city.rigs[0].clone();
            other.name = "horde-blue".parse().unwrap();
            city.rigs.insert(0, other);
        });
    let city = city.start().await;
    let charged = city.worker("a").await;
    assert_eq!(charged.session.as_str(), "gt-horde-blue-Toast");
    city.parts.sessions.refuse_stop(&charged.session);
    let id = ChildId::Raider(charged.raider.clone());
    city.rest(&id).await.unwrap_err();
    city.pass(SECOND).await;
    let alarms = city.events(EventType::AgentUnkillable).await;
    assert_eq!(alarms.len(), 1, "{alarms:?}");
    assert_eq!(alarms[0].subject, charged.raider.to_string());
}
