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
use crate::ports::repo::RepoError;
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
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.start().await;
    let (a, b) = (city.worker("a").await, city.worker("b").await);
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&b.session, 1);
    let again = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = again.start_on(parts, clock).await;
    assert_eq!((city.starts(&a.session), city.starts(&b.session)), (1, 2));
    assert_eq!(city.events(EventType::AgentAdopted).await.len(), 2);
    // The end of a session while no supervisor ran is a death like any other.
    for (id, deaths) in [(a.raider, 0), (b.raider, 1)] {
        let view = city.view(&ChildId::Raider(id)).await.unwrap();
        assert_eq!((view.state, view.restarts), (ChildState::Running, deaths));
    }
    // Events of adopted sessions arrive, too.
    city.parts.sessions.crash(&a.session, 9);
    city.settle().await;
    assert_eq!(city.starts(&a.session), 2);
}

/// The outcome of an adopted session is heard of at once, and its links are in order.
#[tokio::test(start_paused = true)]
async fn task_files_of_an_adopted_session_are_watched_and_its_links_are_put_back() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let dir = city
        .world
        .city
        .task_dir(&charged.raider, &charged.relic, charged.incarnation);
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    let before = parts.tasks.repairs(&dir);
    let city = Scenario::new().start_on(parts, clock).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.parts.tasks.is_watched(&dir));
    assert!(city.parts.tasks.repairs(&dir) > before);
}

/// `hd done` was run while the supervisor was away: a fresh session would disturb.
#[tokio::test(start_paused = true)]
async fn a_raider_whose_done_waits_in_the_outbox_is_not_started_again() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    // A large tree: everything else is done long before it is measured.
    let long = Duration::from_millis(300);
    parts.repo.interlude("measure", move || poll::pass(long));
    parts.tasks.leave(done_intent(&charged));
    let city = Scenario::new().start_on(parts, clock).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert_eq!(city.parts.tasks.intents(), 0);
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(relic.status, RelicStatus::Closed);
}

/// The agent did its work twice, and its end counted as a crash.
#[tokio::test(start_paused = true)]
async fn raider_whose_done_waits_in_the_outbox_of_a_held_rig_is_not_started_before_it_is_handled() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.parts.tasks.leave_unheard(done_intent(&charged));
    city.parts.sessions.exit(&charged.session, 0);
    let id = ChildId::Raider(charged.raider.clone());
    for _ in 0..4 {
        city.pass(PATROL).await;
        assert_eq!(city.state(&id).await, Some(ChildState::Finished));
    }
    // It is handled later than a start would be.
    let long = Duration::from_millis(300);
    city.parts
        .repo
        .interlude("measure", move || poll::pass(long));
    city.parts.repo.hold(None);
    let woken = city.wake(&id).await;
    assert_eq!(woken, Err("it was ended".to_owned()), "its work is over");
    city.pass(PATROL).await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
    assert_eq!(city.starts(&charged.session), 1);
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 0);
}

/// A completion that cannot be handled keeps a raider from its work for a moment only, and its deaths count.
#[tokio::test(start_paused = true)]
async fn raider_whose_done_in_the_outbox_cannot_be_handled_is_started_until_it_is_quarantined() {
    let (city, charged) = Scenario::at_work().await;
    for _ in 0..1000 {
        let broken = RepoError::Failed("the index is broken".into());
        city.parts.repo.fail("measure", broken);
    }
    city.parts.tasks.leave_unheard(done_intent(&charged));
    let id = ChildId::Raider(charged.raider.clone());
    for started in 1.. {
        city.until("its session", || city.starts(&charged.session) == started)
            .await;
        city.parts.sessions.exit(&charged.session, 0);
        city.pass(PATROL).await;
        if city.state(&id).await == Some(ChildState::Quarantined) {
            assert!(started > 1);
            break;
        }
    }
    assert_eq!(city.parts.tasks.intents(), 1);
}

/// Its session is told why, and the end of the one before was no crash.
#[tokio::test(start_paused = true)]
async fn raider_of_a_held_rig_whose_done_is_refused_gets_a_session_that_is_told_why() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.hold(Some("its repository is missing"));
    city.parts.repo.dirty(&charged.raider.name, "left.txt");
    city.parts.tasks.leave_unheard(done_intent(&charged));
    city.parts.sessions.exit(&charged.session, 0);
    city.pass(PATROL).await;
    assert_eq!(city.parts.tasks.intents(), 1, "it waits");
    city.parts.repo.hold(None);
    city.pass(PATROL * 2).await;
    assert_eq!(city.parts.tasks.intents(), 0);
    assert_eq!(city.starts(&charged.session), 2);
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 0);
    assert_eq!(city.events(EventType::RaiderDoneRefused).await.len(), 1);
    let prompt = city.parts.tasks.prompts().pop().unwrap();
    let sent = city.parts.sessions.sent(&charged.session);
    let told = format!("{prompt}{sent:?}");
    assert!(told.contains("left.txt"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_woken_during_a_look_is_no_orphan() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.start().await;
    let id = agent("mayor");
    let session = city.session(&id);
    city.rest(&id).await.unwrap();
    let stopped = city.parts.sessions.stops().len();
    city.parts.sessions.hold_lists(true);
    tokio::time::advance(PATROL).await;
    city.until("the look", || city.parts.sessions.lists_held() > 0)
        .await;
    city.wake(&id).await.unwrap();
    city.until("the session", || city.runs(&session)).await;
    city.parts.sessions.hold_lists(false);
    city.settle().await;
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.parts.sessions.stops().len(), stopped);
    assert_eq!(city.starts(&session), 2);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nothing_asks_for_is_ended_at_the_next_patrol() {
    let city = Scenario::new().start().await;
    let orphan = stray("gt-horde-Nobody");
    city.parts.sessions.start(&orphan).unwrap();
    city.parts.sessions.hold_stop(&orphan.id);
    city.run_looks(4).await;
    assert_eq!(city.parts.sessions.stops().len(), 1, "it is being ended");
    // The last look may be applied after the session has ended.
    city.parts.sessions.release_stop(&orphan.id);
    city.settle().await;
    assert!(!city.runs(&orphan.id));
    assert_eq!(city.events(EventType::AgentOrphanStopped).await.len(), 1);
}

/// Events of an agent are found under its name (`contract.md`, 2.6).
#[tokio::test(start_paused = true)]
async fn a_session_that_a_suspended_agent_left_behind_is_ended_under_its_name() {
    let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario().start().await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    let city = scenario().with(|city| city.suspended = true);
    let city = city.start_on(parts, clock).await;
    assert!(!city.runs(&city.session(&agent("mayor"))));
    let events = city.events(EventType::AgentSuspended).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].subject, "mayor");
}

/// An agent that is resumed while the session left by its suspension is being ended gets a fresh session, and has not
/// crashed.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_being_ended_is_not_adopted() {
    let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario().start().await;
    let (session, clock) = (city.session(&agent("mayor")), city.world.clock.clone());
    let parts = city.crash().await;
    parts.sessions.hold_stop(&session);
    let city = scenario().with(|city| city.suspended = true);
    let city = city.begin_on(parts, clock).await;
    let boot = city.boot();
    let then = async {
        city.until("the stop", || !city.parts.sessions.stops().is_empty())
            .await;
        city.reconfigure(|city| city.suspended = false).await;
        city.run_looks(2).await;
        city.parts.sessions.release_stop(&session);
    };
    tokio::join!(boot, then);
    city.settle().await;
    assert!(city.runs(&session));
    assert_eq!(city.starts(&session), 2, "a fresh one");
    assert!(city.events(EventType::AgentCrashed).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_session_of_an_earlier_incarnation_is_replaced() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.exit_unheard(&charged.session, 0);
    let mut old = stray(charged.session.as_str());
    old.incarnation = Incarnation(0);
    parts.sessions.start(&old).unwrap();
    let city = Scenario::new().start_on(parts, clock).await;
    assert!(city.runs(&charged.session));
    let last = city.parts.sessions.starts().pop().unwrap();
    assert_eq!(last.incarnation, charged.incarnation);
}

#[tokio::test(start_paused = true)]
async fn unobservable_session_is_never_acted_on() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.hide(&charged.session, Some("fog"));
    let orphan = stray("gt-horde-Nobody");
    parts.sessions.start(&orphan).unwrap();
    parts.sessions.hide(&orphan.id, Some("fog"));
    let city = Scenario::new().start_on(parts, clock).await;
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&charged.session), 1);
    assert!(city.parts.sessions.stops().is_empty());
    city.parts.sessions.blind(Some("all of it"));
    city.parts.sessions.hide(&charged.session, None);
    city.pass(PATROL * 3).await;
    assert!(city.parts.sessions.stops().is_empty());
    city.parts.sessions.blind(None);
    city.pass(PATROL).await;
    let id = ChildId::Raider(charged.raider);
    assert_eq!(city.state(&id).await, Some(ChildState::Running));
    assert_eq!(city.starts(&charged.session), 1);
}

/// `product.md`: the patrol is the safety net. It finds an exit without an event.
#[tokio::test(start_paused = true)]
async fn unannounced_exit_is_found_by_the_patrol() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    city.parts.sessions.exit_unheard(&charged.session, 1);
    city.pass(PATROL).await;
    assert_eq!(city.starts(&charged.session), 2);
    assert!(city.runs(&charged.session));
    city.parts.sessions.exit_unheard(&charged.session, 1);
    city.parts.sessions.forget(&charged.session).unwrap();
    city.pass(PATROL).await;
    assert!(
        city.runs(&charged.session),
        "its records and processes are gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_patrol_on_a_quiet_city_does_nothing() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.start().await;
    city.worker("a").await;
    let before = city.store(|txn| txn.last_seq()).await;
    city.pass(PATROL * 20).await;
    assert_eq!(city.store(|txn| txn.last_seq()).await, before);
    assert_eq!(city.parts.sessions.starts().len(), 2);
    assert!(city.parts.sessions.stops().is_empty());
}

/// A look takes longer than the patrol interval on this host.
#[tokio::test(start_paused = true)]
async fn a_look_that_outlasts_a_patrol_is_acted_on() {
    let city = Scenario::new().start().await;
    let clock = city.world.clock.clone();
    let parts = city.crash().await;
    parts.sessions.hold_lists(true);
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = scenario.begin_on(parts, clock).await;
    let (reply, mut ready) = ractor::concurrency::oneshot();
    city.send_to_root(RootMail::Boot(reply.into())).unwrap();
    let held = || city.parts.sessions.lists_held() > 0;
    city.until("the first look", held).await;
    tokio::time::advance(PATROL).await;
    let _patrolled = ask::views(&city.world).await.unwrap();
    // Other looks may have come before it.
    let booted = || {
        city.parts.sessions.release_list();
        ready.try_recv().is_ok()
    };
    city.until("the boot", booted).await;
    let session = city.session(&agent("mayor"));
    city.until("the agent", || city.runs(&session)).await;
    city.parts.sessions.hold_lists(false);
    city.settle().await;
    assert_eq!(city.starts(&session), 1);
}

/// While the first look waits for the store, the root handles messages: it may have to restart that very store.
#[tokio::test(start_paused = true)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test waits for real work, in real time"
)]
async fn the_root_is_not_deaf_while_it_boots() {
    let city = Scenario::new().start().await;
    let clock = city.world.clock.clone();
    let mut parts = city.crash().await;
    parts.store = StoreHandle::new();
    let city = Scenario::new().begin_on(parts, clock).await;
    let (reply, _ready) = ractor::concurrency::oneshot();
    city.send_to_root(RootMail::Boot(reply.into())).unwrap();
    let (reply, views) = ractor::concurrency::oneshot();
    city.send_to_root(RootMail::Views(reply.into())).unwrap();
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let mut views = views;
    while views.try_recv().is_err() {
        assert!(std::time::Instant::now() < deadline, "the root is deaf");
        tokio::task::yield_now().await;
    }
    city.root.kill();
}

#[tokio::test(start_paused = true)]
async fn every_infrastructure_actor_that_ends_is_replaced_and_work_goes_on() {
    let city = Scenario::new().start().await;
    for round in 0..3 {
        assert_eq!(city.kill_actors::<WitnessMsg>(), 1);
        assert_eq!(city.kill_actors::<ForgeMsg>(), 1);
        assert_eq!(city.kill_actors::<ShamanMsg>(), 1);
        assert_eq!(city.kill_actors::<DispatcherMsg>(), 1);
        city.pass(Duration::from_secs(1)).await;
        let charged = city.worker(&format!("work {round}")).await;
        city.completed(&charged.raider).await.unwrap();
        city.settle().await;
        let relic = city.relic_now(&charged.relic).await;
        assert_eq!(relic.status, RelicStatus::Closed, "round {round}");
    }
    assert_eq!(city.kill_actors::<ChildMsg>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_freed_behind_the_roots_back_is_forgotten() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let (name, incarnation) = (charged.raider.clone(), charged.incarnation);
    city.store(move |txn| txn.drop_hook(&name, incarnation))
        .await;
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    assert!(!city.runs(&charged.session), "no hook needs it");
    city.pass(PATROL).await;
    assert!(city.view(&id).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resting_agent_is_not_taken_for_one_that_is_wanted() {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let city = city.start().await;
    city.rest(&agent("mayor")).await.unwrap();
    city.end(&agent("mayor")).await.unwrap();
    city.pass(PATROL * 2).await;
    assert!(ask::views(&city.world).await.unwrap().is_empty());
    assert!(city.view(&ChildId::Raider(raider("Toast"))).await.is_none());
}

/// A session of unknown state must not be touched; a person is called once when that lasts, and the escalation is closed
/// when it can be observed.
#[tokio::test(start_paused = true)]
async fn session_that_stays_unobservable_is_escalated_once() {
    for restarts in 0..=2 {
        let scenario = || Scenario::new().agent("mayor", RestartType::Permanent);
        let mut city = scenario().start().await;
        let (session, clock) = (city.session(&agent("mayor")), city.world.clock.clone());
        city.parts.sessions.hide(&session, Some("fog"));
        if restarts > 0 {
            let parts = city.crash().await;
            city = scenario().start_on(parts, clock.clone()).await;
        }
        city.pass(PATROL * 18).await;
        assert!(city.escalations().await.is_empty(), "it may pass");
        city.pass_hours(PATROL * 100).await;
        let told = city.escalations().await;
        assert_eq!(told.len(), 1, "{restarts}: {told:?}");
        assert!(told[0].body.contains("fog"), "{told:?}");
        assert_eq!(city.events(EventType::EscalationRaised).await.len(), 1);
        city.parts.sessions.hide(&session, None);
        if restarts > 1 {
            // The new root does not know that it called.
            let parts = city.crash().await;
            city = scenario().start_on(parts, clock).await;
        }
        city.pass(PATROL * 2).await;
        assert_eq!(city.starts(&session), 1, "no second one is started");
        let told = city.relic_now(&told[0].id).await;
        assert_eq!(told.status, RelicStatus::Closed, "{restarts}");
    }
}
