//! The four classes at work (`witness-patrol.md`, zombie detection algorithm).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{GROWN, PATROL, close, session_dead, unhook, zombies};
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::mail::WitnessMsg;
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::relic::{DoneIntent, RelicStatus};
use crate::domain::saga::SagaKind;
use crate::testing::records;
use crate::testing::world::{Scenario, TestCity, rig};

const HOUR: Duration = Duration::from_secs(3600);

/// Builds a scenario in which the second death is one too many.
pub(super) fn fragile() -> Scenario {
    Scenario::new().with(|city| city.daemon.restart.max_restarts = 1)
}

/// Lets the raider die until it is quarantined.
pub(super) async fn exhaust(city: &TestCity, charged: &Charged) {
    let id = ChildId::Raider(charged.raider.clone());
    while city.state(&id).await != Some(ChildState::Quarantined) {
        city.parts.sessions.crash(&charged.session, 9);
        city.pass(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn class_1_quarantined_and_clean_is_removed_after_keep_dirty_at_the_end_of_a_quarantine() {
    let scenario = fragile().rig(|rig| rig.witness.keep_dirty = HOUR / 2);
    let city = scenario.start().await;
    let charged = city.charged("a").await;
    exhaust(&city, &charged).await;
    city.pass(HOUR - PATROL * 2).await;
    assert_eq!(city.parts.repo.names(), ["Toast"], "a person has that time");
    assert_eq!(zombies(&city).await, session_dead(1));
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(zombies(&city).await, session_dead(1));
    assert_eq!(
        city.relic_now(&charged.relic).await.status,
        RelicStatus::Blocked
    );
    let nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked[0].cause, Cause::TooManyDeaths.as_str());
    assert!(
        city.view(&ChildId::Raider(charged.raider)).await.is_none(),
        "the root knows it no more"
    );
}

#[tokio::test(start_paused = true)]
async fn class_1_quarantined_with_work_is_told_once_and_goes_on_when_it_is_let_go() {
    let city = fragile().start().await;
    let charged = city.worker("a").await;
    exhaust(&city, &charged).await;
    city.pass(GROWN + PATROL * 10).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(zombies(&city).await, session_dead(1));
    assert_eq!(city.escalations().await.len(), 1);
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    city.wake(&id).await.unwrap();
    city.pass(GROWN).await;
    assert!(city.runs(&charged.session), "it is no zombie any more");
}

/// A death is no zombie: the root restarts it.
#[tokio::test(start_paused = true)]
async fn a_normal_death_is_respawned_and_no_zombie() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    city.pass(GROWN).await;
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(PATROL * 2).await;
    assert!(city.runs(&charged.session));
    assert!(zombies(&city).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn class_2_an_empty_shell_is_replaced_which_counts_as_a_death() {
    let (city, charged) = Scenario::at_work().await;
    city.parts
        .sessions
        .print(&charged.session, "segmentation fault");
    city.parts.sessions.hollow(&charged.session);
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&charged.session), 1, "it is young");
    city.pass(GROWN).await;
    assert_eq!(city.starts(&charged.session), 2);
    assert!(city.runs(&charged.session));
    assert_eq!(zombies(&city).await, [("agent_dead".to_owned(), 1)]);
    let died = city.events(EventType::AgentCrashed).await;
    assert_eq!(died.len(), 1);
    assert_eq!(died[0].cause, Cause::AgentDead.as_str());
    let tail = died[0].data["tail"].as_str().unwrap();
    assert!(
        tail.contains("segmentation fault"),
        "zombie capture: {tail}"
    );
    let view = city.view(&ChildId::Raider(charged.raider.clone())).await;
    assert_eq!(view.unwrap().restarts, 1, "it counts");
    assert_eq!(city.parts.repo.names(), ["Toast"], "the sandbox stays");
    city.pass(GROWN).await;
    assert_eq!(city.starts(&charged.session), 2, "the fresh one has one");
}

/// A program that restarts its agent may be observed without one: that is no shell.
#[tokio::test(start_paused = true)]
async fn class_2_needs_two_patrols_in_a_row() {
    let (city, charged) = Scenario::at_work().await;
    let sessions = &city.parts.sessions;
    city.pass(GROWN).await;
    for _ in 0..3 {
        sessions.hollow(&charged.session);
        city.pass(PATROL).await;
        // Another look a moment later adds nothing, and neither does a new witness's.
        city.world
            .directory
            .tell_witness(&rig(), WitnessMsg::Patrol);
        city.settle().await;
        city.kill_actors::<WitnessMsg>();
        city.settle().await;
        sessions.fill(&charged.session);
        city.pass(PATROL).await;
    }
    assert_eq!(city.starts(&charged.session), 1);
    assert!(zombies(&city).await.is_empty());
    sessions.hollow(&charged.session);
    city.pass(PATROL).await;
    city.kill_actors::<WitnessMsg>();
    city.pass(PATROL).await;
    assert_eq!(city.starts(&charged.session), 2, "the next patrol");
}

fn intent(city: &TestCity) -> DoneIntent {
    DoneIntent {
        at: city.world.clock.now(),
        ..records::completed(records::oid('a'))
    }
}

fn unhurried() -> Scenario {
    Scenario::new().with(|city| city.daemon.patrol_interval = HOUR)
}

/// Without a patrol in between: the witness has a timer.
#[tokio::test(start_paused = true)]
async fn class_3_is_seen_on_time_with_a_saga_and_without() {
    for with_saga in [true, false] {
        let city = unhurried().start().await;
        let charged = city.worker("a").await;
        city.parts.repo.dirty(&charged.raider.name, "wip.txt");
        let (raider, subject) = (charged.raider.clone(), charged.raider.to_string());
        let intent = intent(&city);
        city.store(move |txn| {
            let mut hook = txn.hook(&raider)?.unwrap();
            hook.done = Some(intent.clone());
            txn.put_hook(&hook)?;
            if with_saga {
                // Begun by another version: it cannot be continued.
                txn.open_saga(SagaKind::Done, &rig(), &subject, "intent", &().into())?;
            }
            Ok(())
        })
        .await;
        city.world.directory.tell_witness(&rig(), WitnessMsg::Look);
        city.pass(Duration::from_secs(59)).await;
        assert!(city.runs(&charged.session), "its minute is not over");
        city.pass(Duration::from_secs(3)).await;
        assert!(!city.runs(&charged.session), "saga: {with_saga}");
        let stuck = [("stuck_in_done".to_owned(), 1)];
        assert_eq!(zombies(&city).await, stuck, "saga: {with_saga}");
        assert_eq!(city.parts.repo.names(), ["Toast"]);
        city.pass_hours(HOUR * 3).await;
        assert_eq!(zombies(&city).await, stuck, "said once");
    }
}

#[tokio::test(start_paused = true)]
async fn class_4_ends_the_session_and_keeps_the_work() {
    let (city, charged) = Scenario::at_work().await;
    close(&city, &charged).await;
    city.pass(PATROL * 10).await;
    assert!(!city.runs(&charged.session));
    assert_eq!(city.parts.sessions.interrupts(&charged.session), 1);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(zombies(&city).await, [("bead_closed".to_owned(), 1)]);
    assert_eq!(city.escalations().await.len(), 1);
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Closed);
}

/// Closes its relic, and opens it again while its session is being ended for that.
#[tokio::test(start_paused = true)]
async fn class_4_is_over_when_the_relic_is_open_again() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let charged = city.charge(&relic).await.unwrap();
    let (store, id) = (city.world.store.clone(), relic.clone());
    city.parts.sessions.interlude("stop", move || {
        let id = id.clone();
        let reopened = store.run(move |txn| {
            let mut relic = txn.relic(&id)?;
            (relic.status, relic.closed) = (RelicStatus::Hooked, None);
            txn.put_relic(&relic)
        });
        // Calls of a port run on blocking threads.
        tokio::runtime::Handle::current()
            .block_on(reopened)
            .unwrap();
    });
    close(&city, &charged).await;
    city.pass(PATROL * 3).await;
    assert!(!city.parts.sessions.stops().is_empty(), "it was ended");
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert!(city.runs(&charged.session), "it goes on");
    assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
}

/// The next incarnation is another zombie.
#[tokio::test(start_paused = true)]
async fn each_is_noted_once_per_incarnation() {
    let city = Scenario::new().start().await;
    for _ in 0..2 {
        let charged = city.charged("a").await;
        unhook(&city, &charged).await;
        city.pass(GROWN * 2).await;
    }
    let said = zombies(&city).await;
    assert_eq!(said, [session_dead(1), session_dead(2)].concat());
}

/// A patrol asks for the processes of all raiders once.
/// Weakness W26 of an earlier system: each look at the store started several processes, and the branches of removed
/// raiders were left behind.
#[tokio::test(start_paused = true)]
async fn a_patrol_looks_at_the_processes_of_all_in_one() {
    let city = Scenario::new().start().await;
    for title in ["a", "b", "c"] {
        city.worker(title).await;
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    city.parts.sessions.interlude("agents_live", move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    city.pass(PATROL).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}
