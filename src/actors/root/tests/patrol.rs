//! The rules of `health-patrol.md` about starts, unknown states, and the independence of patrols.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::recovery::stray;
use crate::actors::effects;
use crate::actors::mail::{ChildState, RootMail};
use crate::actors::root::RootMsg;
use crate::actors::store::StoreHandle;
use crate::domain::automation::{Action, Automation};
use crate::domain::child::{Event, Token};
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::gates::Gate;
use crate::domain::ground::Part;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::RelicStatus;
use crate::ports::sessions::{Sessions, StartError};
use crate::testing::hang::Hang;
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const PATROL: Duration = Duration::from_secs(31);

fn every_minute() -> Automation {
    Automation {
        id: "tick".parse().unwrap(),
        description: String::new(),
        action: Action::Exec("tick".to_owned()),
        gate: Gate::Cooldown {
            interval: SECOND * 60,
        },
        timeout: SECOND * 60,
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    }
}

fn agents(names: &[&str]) -> Scenario {
    let with = |city: Scenario, name: &&str| city.agent(name, RestartType::Permanent);
    names.iter().fold(Scenario::new(), with)
}

/// `start_concurrency`: no more starts at once, and first come, first served.
#[tokio::test(start_paused = true)]
async fn starts_are_bounded_and_served_in_the_order_they_were_asked_for() {
    let city = Scenario::new().with(|city| city.daemon.start_concurrency = 2);
    let city = city.start().await;
    let specs = ["a", "b", "c", "d", "e"].map(stray);
    let mut starting = Vec::new();
    for spec in &specs {
        city.parts.sessions.hold_start(&spec.id);
        let (world, spec) = (city.world.clone(), spec.clone());
        let start = async move { effects::start(&world, spec, SECOND * 60).await.is_ok() };
        starting.push(tokio::spawn(start));
        tokio::task::yield_now().await;
    }
    let order = |city: &TestCity| -> Vec<String> {
        let starts = city.parts.sessions.starts();
        starts.iter().map(|spec| spec.id.to_string()).collect()
    };
    for place in [2, 3, 4, 0] {
        city.parts.sessions.release_start(&specs[place].id);
    }
    city.until("all but one", || order(&city).len() == 4).await;
    assert_eq!(order(&city), ["a", "c", "d", "e"]);
    city.parts.sessions.release_start(&specs[1].id);
    for start in starting {
        assert!(start.await.unwrap());
    }
}

/// Parallel starts: each result goes to its own child, in whatever order they arrive.
#[tokio::test(start_paused = true)]
async fn the_order_in_which_parallel_starts_end_changes_nothing() {
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let city = agents(&["a", "b", "c"]).start().await;
        let all = city.parts.sessions.running();
        for name in ["a", "c"] {
            let error = StartError::Provider("no memory".into());
            city.parts
                .sessions
                .refuse_start(&city.session(&agent(name)), error);
        }
        for id in &all {
            city.parts.sessions.hold_start(id);
            city.parts.sessions.crash(id, 9);
        }
        city.until("all three are being started", || {
            city.world.starts.available_permits() == 13
        })
        .await;
        for name in order {
            city.parts
                .sessions
                .release_start(&city.session(&agent(name)));
        }
        city.pass(SECOND * 5).await;
        for (name, deaths) in [("a", 2), ("b", 1), ("c", 2)] {
            let view = city.view(&agent(name)).await.unwrap();
            assert_eq!((view.state, view.restarts), (ChildState::Running, deaths));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_is_no_death_and_a_failed_one_is() {
    let city = agents(&["mayor"]).start().await;
    let (id, session) = (agent("mayor"), city.session(&agent("mayor")));
    city.rest(&id).await.unwrap();
    city.parts.sessions.hold_start(&session);
    city.begin_wake(&id);
    city.until("the start", || city.world.starts.available_permits() < 16)
        .await;
    // One second before `startup_timeout`.
    tokio::time::advance(SECOND * 59).await;
    city.parts.sessions.release_start(&session);
    city.settle().await;
    let view = city.view(&id).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 0);
    let error = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&session, error);
    city.parts.sessions.crash(&session, 9);
    city.pass(SECOND * 5).await;
    assert_eq!(city.view(&id).await.unwrap().restarts, 2);
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(crashed[1].cause, "start_failed");
}

/// `health-patrol.md`, limitations: no activity tracking, no idle kill.
#[tokio::test(start_paused = true)]
async fn unknown_activity_is_no_reason_to_end_a_session() {
    let city = agents(&["mayor"]).with(|city| city.agents[0].idle_timeout = Some(SECOND * 60));
    let city = city.start().await;
    city.pass(SECOND * 3600).await;
    assert_eq!(city.parts.sessions.starts().len(), 1);
    let long_ago = Some("2020-01-01T00:00:00Z".parse().unwrap());
    let session = city.session(&agent("mayor"));
    city.parts.sessions.set_last_activity(&session, long_ago);
    city.pass(PATROL).await;
    assert_eq!(city.parts.sessions.starts().len(), 2, "it could have been");
}

/// Zombie capture: the last output of a dead agent is kept with its death.
/// Weakness W3 of an earlier system: the death of an agent was not noticed: a shell stayed in its place, and its exit
/// code was lost.
#[tokio::test(start_paused = true)]
async fn a_death_is_told_with_its_code_and_the_end_of_the_terminal() {
    let city = agents(&["mayor"]).start().await;
    let session = city.session(&agent("mayor"));
    city.parts.sessions.print(&session, "out of memory");
    city.parts.sessions.exit(&session, 137);
    city.settle().await;
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(crashed[0].data["code"], 137);
    let tail = crashed[0].data["tail"].as_str().unwrap();
    assert!(tail.contains("out of memory"), "{tail}");
}

/// A quarantined agent is skipped, and that is visible.
#[tokio::test(start_paused = true)]
async fn patrols_skip_a_quarantined_child_and_its_state_shows_it() {
    let city = agents(&["mayor"]).start().await;
    let id = agent("mayor");
    for _ in 0..6 {
        city.parts.sessions.crash(&city.session(&id), 9);
        city.pass(SECOND * 9).await;
    }
    let starts = city.starts(&city.session(&id));
    city.pass(PATROL * 20).await;
    assert_eq!(city.starts(&city.session(&id)), starts);
    let view = city.view(&id).await.unwrap();
    assert_eq!(view.state, ChildState::Quarantined);
    assert!(view.quarantined_until.is_some());
    assert_eq!(city.events(EventType::AgentQuarantined).await.len(), 1);
}

/// `health-patrol.md`, SDK self-sufficiency: patrols need no configured agent.
/// Weakness W21 of an earlier system: merging, cleanup and escalation were done by language models, and were as
/// correct as their prompts.
#[tokio::test(start_paused = true)]
async fn patrols_need_no_agent() {
    let city = Scenario::new().with(|city| city.automations.push(every_minute()));
    let city = city.rig(|rig| rig.raiders.idle_timeout = Some(SECOND * 600));
    let city = city.start().await;
    assert!(city.world.city.agents.is_empty());
    let charged = city.worker("a").await;
    city.parts.sessions.exit_unheard(&charged.session, 1);
    let orphan = stray("gt-horde-Nobody");
    city.parts.sessions.start(&orphan).unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.starts(&charged.session), 2, "restarted");
    assert_eq!(city.events(EventType::AgentCrashed).await.len(), 1);
    assert!(!city.runs(&orphan.id));
    let long_ago = Some("2020-01-01T00:00:00Z".parse().unwrap());
    city.parts
        .sessions
        .set_last_activity(&charged.session, long_ago);
    city.pass(PATROL).await;
    assert_eq!(city.events(EventType::AgentIdleKilled).await.len(), 1);
    assert_eq!(city.parts.runner.started("tick").len(), 2);
}

/// Weakness W21 of an earlier system: merging, cleanup and escalation were done by language models, and were as
/// correct as their prompts.
#[tokio::test(start_paused = true)]
async fn merge_cleanup_and_escalation_need_no_agent() {
    let city = Scenario::new().gate("test").start().await;
    assert!(city.world.city.agents.is_empty());
    let (finished, failing) = (city.worker("a").await, city.worker("b").await);
    city.completed(&finished.raider).await.unwrap();
    city.pass(PATROL).await;
    assert_eq!(city.status(&finished.relic).await, RelicStatus::Closed);
    assert_eq!(city.parts.repo.landings(), 1);
    let slot = failing.raider.name.to_string();
    assert_eq!(city.parts.repo.names(), [slot], "the other one is gone");
    for _ in 0..6 {
        city.parts.sessions.crash(&failing.session, 9);
        city.pass(SECOND * 9).await;
    }
    assert_eq!(city.events(EventType::AgentQuarantined).await.len(), 1);
    city.pass(PATROL * 4).await;
    let calls = city.escalations().await;
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0].title, ProblemKind::Quarantined.text());
    assert_eq!(city.status(&failing.relic).await, RelicStatus::Blocked);
}

/// `health-patrol.md`, invariant: the tracking record is there before the run.
#[tokio::test(start_paused = true)]
async fn an_automation_whose_run_cannot_be_recorded_does_not_run() {
    let full = Arc::new(AtomicBool::new(false));
    let tick = || Scenario::new().with(|city| city.automations.push(every_minute()));
    let city = Scenario::new().start().await;
    let clock = city.world.clock.clone();
    let mut parts = city.crash().await;
    parts.store = StoreHandle::full_while(&clock, &full);
    parts.runner.let_go("tick", SECOND * 20, 0);
    let city = tick().start_on(parts, clock).await;
    let ran = || city.parts.runner.started("tick").len();
    assert_eq!(ran(), 1);
    let open = city.store(|txn| Ok(txn.open_runs()?.len())).await;
    assert_eq!(open, 1, "while it runs, it is on record");
    city.pass(SECOND * 30).await;
    full.store(true, Ordering::SeqCst);
    city.pass(SECOND * 600).await;
    assert_eq!(ran(), 1);
    full.store(false, Ordering::SeqCst);
    city.pass(SECOND * 60).await;
    assert_eq!(ran(), 2);
}

/// A shorter interval does not wait for the end of the longer one.
#[tokio::test(start_paused = true)]
async fn a_new_patrol_interval_holds_at_once() {
    let city = agents(&["mayor"]);
    let city = city.with(|city| city.daemon.patrol_interval = SECOND * 3600);
    let city = city.start().await;
    let session = city.session(&agent("mayor"));
    city.reload(|city| city.daemon.patrol_interval = SECOND * 30)
        .await;
    city.parts.sessions.exit_unheard(&session, 1);
    city.pass(SECOND * 35).await;
    assert_eq!(city.starts(&session), 2);
}

/// `start_concurrency` starts that hang are over after their limit, and others have their turn.
#[tokio::test(start_paused = true)]
async fn starts_that_hang_keep_no_other_session_from_starting() {
    let city = Scenario::new().with(|city| city.daemon.start_concurrency = 2);
    let city = city.start().await;
    let begin = |name: &str| {
        let (world, spec) = (city.world.clone(), stray(name));
        tokio::spawn(async move { effects::start(&world, spec, SECOND * 60).await.is_ok() })
    };
    let ids = ["a", "b"].map(|name| stray(name).id);
    for id in &ids {
        city.parts.sessions.hold_start(id);
    }
    let hung = ["a", "b"].map(begin);
    city.until("both hang", || city.world.starts.available_permits() == 0)
        .await;
    let other = begin("c");
    tokio::time::advance(SECOND * 61).await;
    assert!(other.await.unwrap(), "it had its turn");
    for (id, late) in ids.iter().zip(hung) {
        assert!(!late.await.unwrap());
        city.parts.sessions.release_start(id);
    }
    assert_eq!(city.world.starts.available_permits(), 2);
}

/// A look whose listing hangs is given up. A later one works while those threads still hang.
#[tokio::test(start_paused = true)]
async fn root_look_that_hangs_is_reported_and_another_follows() {
    let city = agents(&["mayor"]).start().await;
    let hang = Hang::default();
    let (door, ill) = (hang.door(), Arc::new(AtomicBool::new(true)));
    let is_ill = Arc::clone(&ill);
    city.parts.sessions.interlude("list", move || {
        if is_ill.load(Ordering::Relaxed) {
            door.enter();
        }
    });
    let hangs = || {
        let troubles = city.world.directory.ground.troubles();
        troubles.iter().any(|trouble| trouble.part == Part::Look)
    };
    city.send_to_root(RootMail::Look).unwrap();
    city.until("it hangs", || hang.entered() == 1).await;
    assert!(!hangs());
    tokio::time::advance(SECOND * 301).await;
    city.until("it is reported", hangs).await;
    ill.store(false, Ordering::Relaxed);
    tokio::time::advance(SECOND * 301).await;
    city.until("the next one has ended", || !hangs()).await;
    let view = city.view(&agent("mayor")).await.unwrap();
    assert_eq!((view.state, view.restarts), (ChildState::Running, 0));
    hang.release();
}

/// `rules.md`, restart: every failed spawn is counted by the restart policy.
#[tokio::test(start_paused = true)]
async fn failed_spawns_of_a_child_end_in_quarantine() {
    let city = agents(&["mayor"])
        .with(|city| {
            city.daemon.restart.max_restarts = 2;
            city.daemon.restart.backoff.first = SECOND * 60;
            city.daemon.restart.backoff.initial = SECOND * 60;
            city.daemon.restart.backoff.max = SECOND * 60;
        })
        .start()
        .await;
    let id = agent("mayor");
    city.parts.sessions.crash(&city.session(&id), 9);
    city.settle().await;
    let waits = city.view(&id).await.unwrap();
    assert_eq!((waits.state, waits.restarts), (ChildState::Backoff, 1));
    // No start gets further than its turn.
    let starts = Arc::clone(&city.world.starts);
    let all = u32::try_from(starts.available_permits()).unwrap();
    let _busy = starts.acquire_many(all).await.unwrap();
    // The mark of a start is the root's own affair: one of these is it, and all others are void. Each event takes a mark.
    let fail = |marks| {
        for mark in 0..marks {
            let event = Event::Unspawned(Token(mark), "no memory".to_owned());
            let id = id.clone();
            let failed = RootMsg::Step { id, event };
            city.send_to_root(failed).unwrap();
        }
    };
    fail(64);
    city.settle().await;
    let crashed = city.events(EventType::AgentCrashed).await;
    assert_eq!(
        crashed.len(),
        1,
        "a start that is over cannot fail any more"
    );
    for (state, marks) in [(ChildState::Backoff, 256), (ChildState::Quarantined, 1024)] {
        city.pass(SECOND * 61).await;
        fail(marks);
        city.settle().await;
        assert_eq!(city.view(&id).await.unwrap().state, state);
    }
}
