//! `restart_history`: counted deaths across restarts of the supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::actors::mail::{ChildState, StopMode};
use crate::actors::store::StoreHandle;
use crate::domain::city::{Group, RestartType, Strategy};
use crate::domain::event::EventType;
use crate::domain::ids::{AgentName, ChildId};
use crate::domain::restart::{DeathRecord, History};
use crate::ports::sessions::StartError;
use crate::testing::world::{Parts, Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3600);

fn memory() -> Scenario {
    Scenario::new().agent("mayor", RestartType::Permanent)
}

fn keeping(scenario: Scenario) -> Scenario {
    scenario.with(|city| city.daemon.restart.history = History::Persistent)
}

fn persistent() -> Scenario {
    keeping(memory())
}

/// Kills the supervisor as `kill -9` does; runs `meanwhile` while none runs.
async fn again(city: TestCity, next: Scenario, meanwhile: impl FnOnce(&Parts)) -> TestCity {
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    meanwhile(&parts);
    next.start_on(parts, clock).await
}

async fn quarantine(city: &TestCity, id: &ChildId) {
    for _ in 0..6 {
        city.parts.sessions.crash(&city.session(id), 9);
        city.pass(SECOND * 9).await;
    }
    assert_eq!(city.state(id).await, Some(ChildState::Quarantined));
}

async fn rows(city: &TestCity) -> Vec<DeathRecord> {
    city.store(|txn| txn.deaths()).await
}

/// `health-patrol.md`, invariant: crash tracking resets on controller restart.
#[tokio::test(start_paused = true)]
async fn crash_tracking_resets_when_the_supervisor_restarts() {
    let id = agent("mayor");
    let city = memory().start().await;
    quarantine(&city, &id).await;
    assert_eq!(rows(&city).await, []);
    let city = again(city, memory(), |_| {}).await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    // Rows from an earlier persistent history are not taken over either.
    let city = again(city, persistent(), |_| {}).await;
    quarantine(&city, &id).await;
    let city = again(city, memory(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(rows(&city).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_outlives_the_supervisor_and_ends_in_its_time() {
    let id = agent("mayor");
    let city = persistent().start().await;
    let first_death = city.world.clock.mono();
    quarantine(&city, &id).await;
    let until = city.view(&id).await.unwrap().quarantined_until.unwrap();
    let session = city.session(&id);
    let mut city = city;
    for _ in 0..3 {
        city = again(city, persistent(), |_| {}).await;
        let view = city.view(&id).await.unwrap();
        assert_eq!((view.state, view.restarts), (ChildState::Quarantined, 6));
        let moved = view
            .quarantined_until
            .unwrap()
            .duration_since(until)
            .unsigned_abs();
        assert!(moved <= SECOND, "{until} {view:?}");
        assert_eq!(city.starts(&session), 6);
        city.pass(SECOND * 60).await;
    }
    assert_eq!(city.events(EventType::AgentQuarantined).await.len(), 1);
    let left = first_death + WINDOW - city.world.clock.mono();
    city.pass(left - SECOND).await;
    assert_eq!(city.starts(&session), 6);
    city.pass(SECOND * 2).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

#[tokio::test(start_paused = true)]
async fn an_operators_release_outlives_the_supervisor_too() {
    let id = agent("mayor");
    let city = persistent().start().await;
    quarantine(&city, &id).await;
    let city = again(city, persistent(), |_| {}).await;
    city.wake(&id).await.unwrap();
    city.settle().await;
    let city = again(city, persistent(), |_| {}).await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    assert_eq!(city.events(EventType::AgentAdopted).await.len(), 1);
}

/// A child is quarantined after `max_restarts` restarts, however often the supervisor is killed.
#[tokio::test(start_paused = true)]
async fn no_child_respawns_without_limit_though_the_supervisor_is_killed_each_time() {
    for settles in [0, 1, 2] {
        let mut city = persistent().start().await;
        let charged = city.worker("a").await;
        let ids = [agent("mayor"), ChildId::Raider(charged.raider)];
        let sessions = ids.each_ref().map(|id| city.session(id));
        for _ in 0..12 {
            for session in &sessions {
                city.parts.sessions.crash(session, 9);
            }
            for _ in 0..settles {
                tokio::task::yield_now().await;
            }
            // Includes children that were restarted between the kill and the end.
            city = again(city, persistent(), |parts| {
                for session in &sessions {
                    parts.sessions.exit_unheard(session, 1);
                }
            })
            .await;
        }
        for (id, session) in ids.iter().zip(&sessions) {
            assert_eq!(city.state(id).await, Some(ChildState::Quarantined), "{id}");
            assert!(city.starts(session) <= 6, "{id}: {}", city.starts(session));
        }
    }
}

/// The row is open from the order to start: the supervisor may be killed after it counted the death, before there is another
/// session.
#[tokio::test(start_paused = true)]
async fn death_is_counted_once_whenever_the_supervisor_is_killed_after_it() {
    for settles in 0..24 {
        let city = persistent().start().await;
        let session = city.session(&agent("mayor"));
        city.parts.sessions.crash(&session, 9);
        for _ in 0..settles {
            tokio::task::yield_now().await;
        }
        let city = again(city, persistent(), |_| {}).await;
        let crashed = city.events(EventType::AgentCrashed).await.len();
        let view = city.view(&agent("mayor")).await.unwrap();
        assert_eq!((crashed, view.restarts), (1, 1), "{settles}");
    }
}

/// The death of an agent that waits for another one still counts.
#[tokio::test(start_paused = true)]
async fn death_without_a_supervisor_counts_though_the_child_cannot_start_yet() {
    let scenario = || {
        let city = persistent().agent("clerk", RestartType::Permanent);
        city.with(|city| city.agents[1].depends_on = vec![AgentName::new("mayor").unwrap()])
    };
    let (mayor, clerk) = (agent("mayor"), agent("clerk"));
    let city = scenario().start().await;
    quarantine(&city, &mayor).await;
    let session = city.session(&clerk);
    let city = again(city, scenario(), |parts| {
        parts.sessions.exit_unheard(&session, 1)
    })
    .await;
    assert_eq!(city.state(&clerk).await, Some(ChildState::Blocked));
    let city = again(city, scenario(), |_| {}).await;
    city.wake(&mayor).await.unwrap();
    city.settle().await;
    let view = city.view(&clerk).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 1));
}

/// Holds with a history in memory, too (`agent-lifecycle.md`, section 3).
#[tokio::test(start_paused = true)]
async fn a_raider_that_died_while_no_supervisor_ran_comes_back_with_fewer_permissions() {
    let city = Scenario::careful().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let city = again(city, Scenario::careful(), |parts| {
        parts.sessions.exit_unheard(&charged.session, 1);
    })
    .await;
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(crashed.len(), 1);
    assert_eq!(crashed[0].subject, charged.raider.to_string());
    assert_eq!(crashed[0].data["code"], 1);
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 1));
    assert!(city.is_careful());
    // Only that outlives the supervisor.
    let city = again(city, Scenario::careful(), |_| {}).await;
    assert_eq!(city.view(&id).await.unwrap().restarts, 0);
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    city.nuke(&charged.raider, true).await.unwrap();
    assert_eq!(rows(&city).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_after_a_crash_gives_no_permissions_back() {
    let city = Scenario::careful().start().await;
    let charged = city.worker("a").await;
    assert!(!city.is_careful());
    let refused = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&charged.session, refused);
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    city.parts.sessions.accept_starts();
    city.pass(SECOND * 61).await;
    assert!(city.runs(&charged.session) && city.is_careful());
}

/// Planned ends are no deaths (`rules.md`, stop and start).
#[tokio::test(start_paused = true)]
async fn a_graceful_stop_of_raiders_counts_nothing_in_memory() {
    let mut city = Scenario::careful().start().await;
    let charged = city.worker("a").await;
    for mode in [StopMode::Graceful, StopMode::Now, StopMode::KeepSessions] {
        let (clock, parts) = (city.world.clock.clone(), city.parts.clone());
        city.stop(mode).await;
        city = Scenario::careful().start_on(parts.rewired(), clock).await;
        assert!(
            city.runs(&charged.session) && !city.is_careful(),
            "{mode:?}"
        );
    }
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

/// Planned ends are no deaths, of raiders and agents (`rules.md`, stop and start).
#[tokio::test(start_paused = true)]
async fn a_graceful_stop_and_an_adoption_count_nothing() {
    let mut city = persistent().start().await;
    let charged = city.worker("a").await;
    let ids = [agent("mayor"), ChildId::Raider(charged.raider)];
    for mode in [StopMode::Graceful, StopMode::Now, StopMode::KeepSessions].repeat(3) {
        let (clock, parts) = (city.world.clock.clone(), city.parts.clone());
        city.stop(mode).await;
        city = persistent().start_on(parts.rewired(), clock).await;
        for id in &ids {
            let view = city.view(id).await.unwrap();
            assert_eq!(
                (view.state, view.restarts),
                (ChildState::Running, 0),
                "{mode:?}"
            );
        }
    }
}

/// A wrong clock must not quarantine a child for ever.
#[tokio::test(start_paused = true)]
async fn deaths_of_the_future_count_as_deaths_of_now() {
    let id = agent("mayor");
    let city = persistent().start().await;
    quarantine(&city, &id).await;
    city.store(|txn| {
        for mut row in txn.deaths()? {
            for at in &mut row.at {
                *at = at.checked_add(WINDOW * 24 * 365).unwrap();
            }
            txn.put_deaths(&row)?;
        }
        Ok(())
    })
    .await;
    let city = again(city, persistent(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.pass(WINDOW / 2).await;
    // The time does not restart at each start.
    let city = again(city, persistent(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.pass(WINDOW / 2 + SECOND).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

#[tokio::test(start_paused = true)]
async fn rows_are_bounded_and_go_with_their_child() {
    let (id, config) = (agent("mayor"), |city: &mut crate::domain::city::City| {
        city.daemon.restart.stable_after = Some(SECOND * 60);
    });
    let city = persistent().agent("clerk", RestartType::Permanent);
    let city = city.with(config).start().await;
    let charged = city.worker("a").await;
    for _ in 0..3 {
        quarantine(&city, &id).await;
        let rows = rows(&city).await;
        let mayor = rows.iter().find(|row| row.child == "mayor").unwrap();
        assert_eq!((rows.len(), mayor.at.len(), mayor.open), (3, 6, false));
        city.wake(&id).await.unwrap();
        city.settle().await;
    }
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    city.nuke(&charged.raider, true).await.unwrap();
    assert_eq!(rows(&city).await.len(), 2, "the raider is gone");
    // Healthy for long enough: only the last one counts.
    for _ in 0..3 {
        city.parts.sessions.crash(&city.session(&id), 9);
        city.pass(SECOND * 61).await;
    }
    assert_eq!(rows(&city).await[1].at.len(), 1);
    // A changed spec.
    let changed = SECOND * 77;
    city.reload(|city| city.agents[0].shutdown_timeout = changed)
        .await;
    assert_eq!(rows(&city).await[1].at.len(), 0);
    city.reload(|city| drop(city.agents.remove(1))).await;
    city.pass(SECOND).await;
    let rest: Vec<_> = rows(&city).await.into_iter().map(|row| row.child).collect();
    assert_eq!(rest, ["mayor"]);
    // Removed, and made from something else, while no supervisor ran.
    city.parts.sessions.crash(&city.session(&id), 9);
    city.settle().await;
    let other = persistent().with(|city| city.agents[0].fingerprint = "other".into());
    let city = again(city, other, |_| {}).await;
    assert_eq!(city.view(&id).await.unwrap().restarts, 0);
    let city = again(city, keeping(Scenario::new()), |_| {}).await;
    assert_eq!(rows(&city).await, []);
}

#[tokio::test(start_paused = true)]
async fn reload_switches_the_storage_of_death_histories() {
    let id = agent("mayor");
    let city = memory().start().await;
    quarantine(&city, &id).await;
    let switch = |to| move |city: &mut crate::domain::city::City| city.daemon.restart.history = to;
    city.reload(switch(History::Persistent)).await;
    let city = again(city, persistent(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.reload(switch(History::Memory)).await;
    assert_eq!(rows(&city).await, []);
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    let city = again(city, persistent(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
}

/// `rules.md`, store: sessions run on and restart.
#[tokio::test(start_paused = true)]
async fn while_the_store_cannot_write_deaths_are_counted_in_memory() {
    let (id, full) = (agent("mayor"), Arc::new(AtomicBool::new(false)));
    let city = Scenario::new().start().await;
    let clock = city.world.clock.clone();
    let mut parts = city.crash().await;
    parts.store = StoreHandle::full_while(&clock, &full);
    let city = persistent().start_on(parts, clock).await;
    full.store(true, Ordering::SeqCst);
    quarantine(&city, &id).await;
    assert_eq!(city.starts(&city.session(&id)), 6);
    full.store(false, Ordering::SeqCst);
    // The patrol makes up for it.
    city.pass(SECOND * 31).await;
    let city = again(city, persistent(), |_| {}).await;
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
}

/// The others are not meant to run without it.
#[tokio::test(start_paused = true)]
async fn the_group_of_a_child_in_quarantine_waits_with_it() {
    let scenario = || {
        let city = persistent().agent("clerk", RestartType::Permanent);
        city.with(|city| {
            city.groups.push(Group {
                name: "pair".into(),
                strategy: Strategy::OneForAll,
                members: ["mayor", "clerk"]
                    .map(|n| AgentName::new(n).unwrap())
                    .to_vec(),
            });
        })
    };
    let (mayor, clerk) = (agent("mayor"), agent("clerk"));
    let city = scenario().start().await;
    quarantine(&city, &mayor).await;
    assert!(city.parts.sessions.running().is_empty());
    let city = again(city, scenario(), |_| {}).await;
    city.pass(SECOND).await;
    assert!(city.parts.sessions.running().is_empty());
    city.pass(WINDOW).await;
    assert!(city.runs(&city.session(&mayor)) && city.runs(&city.session(&clerk)));
    assert_eq!(city.view(&clerk).await.unwrap().restarts, 0);
}
