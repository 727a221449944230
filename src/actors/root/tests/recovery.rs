//! Observation of the world: after a crash of the daemon, at every patrol, after a crash of an actor.

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::ask;
use crate::actors::mail::ChildState;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::ForgeMsg;
use crate::actors::mail::ShamanMsg;
use crate::actors::mail::WitnessMsg;
use crate::actors::session::child::ChildMsg;
use crate::actors::store::StoreHandle;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, Generation, Incarnation, SessionId};
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::{SessionSpec, Sessions};
use crate::testing::fake_tasks::done_intent;
use crate::testing::poll;
use crate::testing::world::{Scenario, agent, raider};

const PATROL: Duration = Duration::from_secs(31);

pub(super) fn stray(id: &str) -> SessionSpec {
    SessionSpec {
        id: SessionId::new(id).unwrap(),
        generation: Generation(1),
        incarnation: Incarnation(1),
        argv: vec!["script".into()],
        env: Default::default(),
        cwd: "/city".into(),
        output_limit: 1,
        meta: Default::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn next_daemon_adopts_running_sessions_and_restarts_dead_ones() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.start().await;
    let (a, b) = (town.worker("a").await, town.worker("b").await);
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.exit_unheard(&b.session, 1);
    let again = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = again.start_on(parts, clock).await;
    assert_eq!((town.starts(&a.session), town.starts(&b.session)), (1, 2));
    assert_eq!(town.events(EventType::AgentAdopted).await.len(), 2);
    // The end of a session while no supervisor ran is a death like any other.
    for (id, deaths) in [(a.raider, 0), (b.raider, 1)] {
        let view = town.view(&ChildId::Raider(id)).await.unwrap();
        assert_eq!((view.state, view.restarts), (ChildState::Running, deaths));
    }
    // Events of adopted sessions arrive, too.
    town.parts.sessions.crash(&a.session, 9);
    town.settle().await;
    assert_eq!(town.starts(&a.session), 2);
}

/// `hd done` was run while the supervisor was away: a fresh session would disturb.
#[tokio::test(start_paused = true)]
async fn a_raider_whose_done_waits_in_the_outbox_is_not_started_again() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    // A large tree: everything else is done long before it is measured.
    let long = Duration::from_millis(300);
    parts.repo.interlude("measure", move || poll::pass(long));
    parts.tasks.leave(done_intent(&charged));
    let town = Scenario::new().start_on(parts, clock).await;
    assert_eq!(town.starts(&charged.session), 1);
    assert_eq!(town.parts.tasks.intents(), 0);
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_woken_during_a_look_is_no_orphan() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.start().await;
    let id = agent("mayor");
    let session = town.session(&id);
    town.rest(&id).await.unwrap();
    let stopped = town.parts.sessions.stops().len();
    town.parts.sessions.hold_lists(true);
    tokio::time::advance(PATROL).await;
    town.until("the look", || town.parts.sessions.lists_held() > 0)
        .await;
    town.wake(&id).await.unwrap();
    town.until("the session", || town.runs(&session)).await;
    town.parts.sessions.hold_lists(false);
    town.settle().await;
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    assert_eq!(town.parts.sessions.stops().len(), stopped);
    assert_eq!(town.starts(&session), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nothing_asks_for_is_ended_at_the_next_patrol() {
    let town = Scenario::new().start().await;
    let orphan = stray("gt-horde-Nobody");
    town.parts.sessions.start(&orphan).unwrap();
    town.parts.sessions.hold_stop(&orphan.id);
    town.run_looks(4).await;
    assert_eq!(town.parts.sessions.stops().len(), 1, "it is being ended");
    // The last look may be applied after the session has ended.
    town.parts.sessions.release_stop(&orphan.id);
    town.settle().await;
    assert!(!town.runs(&orphan.id));
    assert_eq!(town.events(EventType::AgentOrphanStopped).await.len(), 1);
}

/// Events of an agent are found under its name (`contract.md`, 2.6).
#[tokio::test(start_paused = true)]
async fn a_session_that_a_suspended_agent_left_behind_is_ended_under_its_name() {
    let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
    let town = scenario().start().await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    let town = scenario().with(|city| city.suspended = true);
    let town = town.start_on(parts, clock).await;
    assert!(!town.runs(&town.session(&agent("mayor"))));
    let told = town.events(EventType::AgentSuspended).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].subject, "mayor");
}

/// An agent that is resumed while the session left by its suspension is being ended gets a fresh session, and has not
/// crashed.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_ended_is_not_adopted() {
    let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
    let town = scenario().start().await;
    let (session, clock) = (town.session(&agent("mayor")), town.world.clock.clone());
    let parts = town.crash().await;
    parts.sessions.hold_stop(&session);
    let town = scenario().with(|city| city.suspended = true);
    let town = town.begin_on(parts, clock).await;
    let boot = town.boot();
    let then = async {
        town.until("the stop", || !town.parts.sessions.stops().is_empty())
            .await;
        town.reconfigure(|city| city.suspended = false).await;
        town.run_looks(2).await;
        town.parts.sessions.release_stop(&session);
    };
    tokio::join!(boot, then);
    town.settle().await;
    assert!(town.runs(&session));
    assert_eq!(town.starts(&session), 2, "a fresh one");
    assert!(town.events(EventType::AgentCrashed).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_of_an_earlier_incarnation_is_replaced() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    let mut old = stray(charged.session.as_str());
    old.incarnation = Incarnation(0);
    parts.sessions.start(&old).unwrap();
    let town = Scenario::new().start_on(parts, clock).await;
    assert!(town.runs(&charged.session));
    let last = town.parts.sessions.starts().pop().unwrap();
    assert_eq!(last.incarnation, charged.incarnation);
}

#[tokio::test(start_paused = true)]
async fn unobservable_session_is_never_acted_on() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.hide(&charged.session, Some("fog"));
    let orphan = stray("gt-horde-Nobody");
    parts.sessions.start(&orphan).unwrap();
    parts.sessions.hide(&orphan.id, Some("fog"));
    let town = Scenario::new().start_on(parts, clock).await;
    town.pass(PATROL * 3).await;
    assert_eq!(town.starts(&charged.session), 1);
    assert!(town.parts.sessions.stops().is_empty());
    town.parts.sessions.blind(Some("all of it"));
    town.parts.sessions.hide(&charged.session, None);
    town.pass(PATROL * 3).await;
    assert!(town.parts.sessions.stops().is_empty());
    town.parts.sessions.blind(None);
    town.pass(PATROL).await;
    let id = ChildId::Raider(charged.raider);
    assert_eq!(town.state(&id).await, Some(ChildState::Running));
    assert_eq!(town.starts(&charged.session), 1);
}

/// `product.md`: the patrol is the safety net. It finds an exit without an event.
#[tokio::test(start_paused = true)]
async fn unannounced_exit_is_found_by_the_patrol() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.parts.sessions.exit_unheard(&charged.session, 1);
    town.pass(PATROL).await;
    assert_eq!(town.starts(&charged.session), 2);
    assert!(town.runs(&charged.session));
    town.parts.sessions.exit_unheard(&charged.session, 1);
    town.parts.sessions.forget(&charged.session).unwrap();
    town.pass(PATROL).await;
    assert!(
        town.runs(&charged.session),
        "its records and processes are gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_patrol_on_a_quiet_town_does_nothing() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.start().await;
    town.worker("a").await;
    let before = town.store(|txn| txn.last_seq()).await;
    town.pass(PATROL * 20).await;
    assert_eq!(town.store(|txn| txn.last_seq()).await, before);
    assert_eq!(town.parts.sessions.starts().len(), 2);
    assert!(town.parts.sessions.stops().is_empty());
}

/// A look takes longer than the patrol interval on this host.
#[tokio::test(start_paused = true)]
async fn a_look_that_outlasts_a_patrol_is_acted_on() {
    let town = Scenario::new().start().await;
    let clock = town.world.clock.clone();
    let parts = town.crash().await;
    parts.sessions.hold_lists(true);
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = scenario.begin_on(parts, clock).await;
    let (reply, mut ready) = ractor::concurrency::oneshot();
    town.send_to_root(RootMail::Boot(reply.into())).unwrap();
    let held = || town.parts.sessions.lists_held() > 0;
    town.until("the first look", held).await;
    tokio::time::advance(PATROL).await;
    let _patrolled = ask::views(&town.world).await.unwrap();
    // Other looks may have come before it.
    let booted = || {
        town.parts.sessions.release_list();
        ready.try_recv().is_ok()
    };
    town.until("the boot", booted).await;
    let session = town.session(&agent("mayor"));
    town.until("the agent", || town.runs(&session)).await;
    town.parts.sessions.hold_lists(false);
    town.settle().await;
    assert_eq!(town.starts(&session), 1);
}

/// While the first look waits for the store, the root handles messages: it may have to restart that very store.
#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn the_root_is_not_deaf_while_it_boots() {
    let town = Scenario::new().start().await;
    let clock = town.world.clock.clone();
    let mut parts = town.crash().await;
    parts.store = StoreHandle::new();
    let town = Scenario::new().begin_on(parts, clock).await;
    let (reply, _ready) = ractor::concurrency::oneshot();
    town.send_to_root(RootMail::Boot(reply.into())).unwrap();
    let (reply, views) = ractor::concurrency::oneshot();
    town.send_to_root(RootMail::Views(reply.into())).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let mut views = views;
    while views.try_recv().is_err() {
        assert!(std::time::Instant::now() < deadline, "the root is deaf");
        tokio::task::yield_now().await;
    }
    town.root.kill();
}

#[tokio::test(start_paused = true)]
async fn every_infrastructure_actor_that_ends_is_replaced_and_work_goes_on() {
    let town = Scenario::new().start().await;
    for round in 0..3 {
        assert_eq!(town.kill_actors::<WitnessMsg>(), 1);
        assert_eq!(town.kill_actors::<ForgeMsg>(), 1);
        assert_eq!(town.kill_actors::<ShamanMsg>(), 1);
        assert_eq!(town.kill_actors::<DispatcherMsg>(), 1);
        town.pass(Duration::from_secs(1)).await;
        let charged = town.worker(&format!("work {round}")).await;
        town.completed(&charged.raider).await.unwrap();
        town.settle().await;
        let relic = town.relic_now(&charged.relic).await;
        assert_eq!(relic.status, RelicStatus::Closed, "round {round}");
    }
    assert_eq!(town.kill_actors::<ChildMsg>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_freed_behind_the_roots_back_is_forgotten() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let (name, incarnation) = (charged.raider.clone(), charged.incarnation);
    town.store(move |txn| txn.drop_hook(&name, incarnation))
        .await;
    town.parts.sessions.crash(&charged.session, 9);
    town.settle().await;
    assert!(!town.runs(&charged.session), "nobody wants it");
    town.pass(PATROL).await;
    assert!(town.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resting_agent_is_not_taken_for_one_that_is_wanted() {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let town = town.start().await;
    town.rest(&agent("mayor")).await.unwrap();
    town.end(&agent("mayor")).await.unwrap();
    town.pass(PATROL * 2).await;
    assert!(ask::views(&town.world).await.unwrap().is_empty());
    assert!(town.view(&ChildId::Raider(raider("Toast"))).await.is_none());
}

/// A session of unknown state must not be touched; a person is called once when that lasts, and the escalation is closed
/// when it can be observed.
#[tokio::test(start_paused = true)]
async fn session_that_stays_unobservable_is_escalated_once() {
    for restarts in 0..=2 {
        let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
        let mut town = scenario().start().await;
        let (session, clock) = (town.session(&agent("mayor")), town.world.clock.clone());
        town.parts.sessions.hide(&session, Some("fog"));
        if restarts > 0 {
            let parts = town.crash().await;
            town = scenario().start_on(parts, clock.clone()).await;
        }
        town.pass(PATROL * 18).await;
        assert!(town.escalations().await.is_empty(), "it may pass");
        town.pass_hours(PATROL * 100).await;
        let told = town.escalations().await;
        assert_eq!(told.len(), 1, "{restarts}: {told:?}");
        assert!(told[0].body.contains("fog"), "{told:?}");
        assert_eq!(town.events(EventType::EscalationRaised).await.len(), 1);
        town.parts.sessions.hide(&session, None);
        if restarts > 1 {
            // The new root does not know that it called.
            let parts = town.crash().await;
            town = scenario().start_on(parts, clock).await;
        }
        town.pass(PATROL * 2).await;
        assert_eq!(town.starts(&session), 1, "no second one is started");
        let told = town.relic_now(&told[0].id).await;
        assert_eq!(told.status, RelicStatus::Closed, "{restarts}");
    }
}
