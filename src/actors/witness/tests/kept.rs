//! Kept sandboxes without a worker: the time of their removal, and the costs that they never cause (`product.md`,
//! "none lingers").

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::zombies::{exhaust, fragile};
use super::{GROWN, PATROL, close, unhook};
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::mail::WitnessMsg;
use crate::actors::sagas::repair;
use crate::domain::event::EventType;
use crate::domain::facts::GitFacts;
use crate::domain::ids::ChildId;
use crate::domain::relic::RelicStatus;
use crate::ports::repo::RepoError;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, Town, rig};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

/// Configures a quarantine of a day, and `keep_dirty`.
fn kept_for(keep_dirty: Duration) -> Scenario {
    let scenario = fragile().with(|city| city.daemon.restart.window = 24 * HOUR);
    scenario.rig(|rig| rig.witness.keep_dirty = keep_dirty)
}

/// The length of a quarantine of [`trying`].
const WINDOW: Duration = Duration::from_secs(20 * 60);

/// Configures a quarantine after the second death, which ends three times an hour.
fn trying() -> Scenario {
    fragile().with(|city| city.daemon.restart.window = WINDOW)
}

/// A person released it at the last moment: it works, and is no zombie.
#[tokio::test(start_paused = true)]
async fn a_session_that_came_back_is_not_ended_when_its_time_is_up() {
    let town = kept_for(10 * MINUTE).start().await;
    let charged = town.worker("a").await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&town, &charged).await;
    town.pass(10 * MINUTE - PATROL).await;
    let starts = town.starts(&charged.session);
    let (root, id) = (town.root.clone(), ChildId::Raider(charged.raider.clone()));
    let due = AtomicUsize::new(0);
    let repo = Arc::clone(&town.parts.repo);
    let before = repo.count("measure");
    // At the time of the measurement.
    town.parts.repo.interlude("measure", move || {
        if repo.count("measure") > before && due.fetch_add(1, Ordering::Relaxed) == 0 {
            let wake = crate::actors::mail::RootMail::Wake {
                id: id.clone(),
                cause: crate::domain::cause::Cause::Operator,
                reply: ractor::concurrency::oneshot().0.into(),
            };
            root.cast(wake.into()).unwrap();
        }
    });
    town.pass(PATROL * 4).await;
    assert!(town.runs(&charged.session));
    assert_eq!(town.starts(&charged.session), starts + 1, "once");
    assert_eq!(town.parts.repo.names(), ["Toast"]);
}

/// The time counts from the present problem, not from the first of its life.
#[tokio::test(start_paused = true)]
async fn a_raider_that_recovered_has_its_full_time_again() {
    let town = trying().rig(|rig| rig.witness.keep_dirty = WINDOW * 3 / 2);
    let town = town.start().await;
    let charged = town.worker("a").await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&town, &charged).await;
    town.pass(GROWN).await;
    assert_eq!(town.events(EventType::RaiderZombie).await.len(), 1);
    let id = ChildId::Raider(charged.raider.clone());
    town.wake(&id).await.unwrap();
    town.pass(2 * WINDOW).await;
    exhaust(&town, &charged).await;
    town.pass(WINDOW).await;
    assert_eq!(town.parts.repo.names(), ["Toast"], "tried again");
    exhaust(&town, &charged).await;
    town.pass(WINDOW).await;
    assert!(town.parts.repo.names().is_empty());
    assert!(!town.parts.repo.salvages().is_empty());
}

/// A failed removal starts no session: the death count stays.
#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_does_not_end_a_quarantine() {
    let town = kept_for(10 * MINUTE).start().await;
    let charged = town.worker("a").await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let full = RepoError::Failed("no space left on device".into());
    town.parts.repo.break_op("salvage", full);
    exhaust(&town, &charged).await;
    let starts = town.starts(&charged.session);
    town.pass_hours(HOUR).await;
    assert_eq!(town.starts(&charged.session), starts);
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(town.state(&id).await, Some(ChildState::Quarantined));
    assert_eq!(town.parts.repo.names(), ["Toast"]);
}

/// A repair of the sandbox that caused its deaths ends the quarantine, and is answered at once.
#[tokio::test(start_paused = true)]
async fn a_repair_lets_a_quarantined_raider_go() {
    let town = kept_for(HOUR).start().await;
    let charged = town.worker("a").await;
    exhaust(&town, &charged).await;
    let repair = repair::run(&town.world, charged.raider.clone());
    let repaired = tokio::time::timeout(MINUTE, repair).await;
    repaired.expect("an answer").unwrap();
    town.settle().await;
    assert!(town.runs(&charged.session));
}

/// A resting raider has no session that could come back.
#[tokio::test(start_paused = true)]
async fn a_stopped_raider_whose_relic_was_closed_frees_its_slot() {
    let town = Scenario::new().start().await;
    let charged = town.charged("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    town.rest(&id).await.unwrap();
    town.pass(GROWN).await;
    close(&town, &charged).await;
    town.pass(PATROL * 2).await;
    assert!(town.parts.repo.names().is_empty());
}

/// The session had ended by itself, and its tree became dirty afterwards: it does not linger for ever.
#[tokio::test(start_paused = true)]
async fn a_tree_that_stays_dirty_after_done_is_salvaged_in_the_end() {
    let town = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let town = town.start().await;
    let charged = town.worker("a").await;
    let (repo, name) = (Arc::clone(&town.parts.repo), charged.raider.name.clone());
    town.parts.repo.interlude("push_branch", move || {
        repo.dirty(&name, "late.txt");
    });
    town.completed(&charged.raider).await.unwrap();
    town.pass_hours(HOUR - 2 * PATROL).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert_eq!(town.escalations().await.len(), 1);
    town.pass(4 * PATROL).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(town.parts.repo.salvages().len(), 1);
    assert_eq!(
        town.status(&charged.relic).await,
        RelicStatus::Open,
        "for a fresh raider"
    );
    let pushed = town.parts.repo.remote(&charged.branch);
    let again = town.charge(&charged.relic).await.unwrap();
    let base = town.hook(&again.raider).await.unwrap().base;
    assert_eq!(Some(base), pushed, "it begins with what was finished");
}

/// Unrelated events cause no new measurement; one wisp tracks it.
#[tokio::test(start_paused = true)]
async fn kept_sandbox_costs_one_measurement_per_patrol_and_one_wisp() {
    let town = kept_for(24 * HOUR);
    let town = town.with(|city| city.daemon.patrol_interval = 10 * MINUTE);
    let town = town.start().await;
    let (lone, held) = (town.worker("a").await, town.worker("b").await);
    for charged in [&lone, &held] {
        town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    }
    unhook(&town, &lone).await;
    exhaust(&town, &held).await;
    town.pass(40 * MINUTE).await;
    let looked = measured(&town);
    for _ in 0..10 {
        town.world.directory.tell_witness(&rig(), WitnessMsg::Look);
        town.settle().await;
    }
    assert_eq!(measured(&town), looked, "events");
    town.pass(100 * MINUTE).await;
    let patrols = 10 * 2;
    assert!(
        measured(&town) - looked <= patrols * 2,
        "no more than two each"
    );
    assert_eq!(town.events(EventType::WispCreated).await.len(), 2);
    assert_eq!(
        town.events(EventType::RaiderSalvaged).await.len(),
        2,
        "once"
    );
}

fn measured(town: &Town) -> usize {
    town.parts.repo.count("measure")
}

/// The commits are salvaged at each quarantine; those that were salvaged before are nothing new.
#[tokio::test(start_paused = true)]
async fn quarantine_after_quarantine_saves_the_same_commits_once() {
    let town = kept_for(24 * HOUR).start().await;
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for _ in 0..3 {
        exhaust(&town, &charged).await;
        town.pass(GROWN).await;
        town.wake(&id).await.unwrap();
        town.pass_hours(HOUR).await;
        assert!(town.runs(&charged.session));
    }
    assert_eq!(town.parts.repo.salvages().len(), 3, "asked each time");
    assert_eq!(town.store(|txn| txn.salvages()).await.len(), 1);
    assert_eq!(town.events(EventType::RaiderSalvaged).await.len(), 1);
}

/// A raider that is released each time and dies at once has not recovered.
#[tokio::test(start_paused = true)]
async fn a_raider_that_dies_whenever_it_is_let_go_is_salvaged_in_the_end() {
    let town = trying().rig(|rig| rig.witness.keep_dirty = 3 * WINDOW);
    let town = town.start().await;
    let relic = town.relic("a").await;
    let charged = town.charge(&relic).await.unwrap();
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&town, &charged).await;
    for _ in 0..50 {
        let refused = StartError::Provider("no memory".into());
        town.parts.sessions.refuse_start(&charged.session, refused);
    }
    town.pass(3 * WINDOW).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    let quarantined = town.events(EventType::AgentQuarantined).await;
    assert!(quarantined.len() > 1, "it was let go in between");
    town.pass(WINDOW).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(town.parts.repo.salvages().len(), 1);
    let relic = town.relic_now(&charged.relic).await;
    assert_eq!(
        (relic.status, relic.charge_failures),
        (RelicStatus::Blocked, 0)
    );
}

/// A question costs network commands for each remote.
#[tokio::test(start_paused = true)]
async fn the_remotes_are_asked_once_an_hour_about_commits_that_are_kept() {
    let town = kept_for(24 * HOUR).start().await;
    let charged = town.worker("a").await;
    exhaust(&town, &charged).await;
    town.pass(GROWN + 10 * PATROL).await;
    let asked = || town.parts.repo.count("on_main");
    assert_eq!(asked(), 1);
    town.pass_hours(HOUR).await;
    assert_eq!(asked(), 2);
    // A person's order does not use an old answer.
    town.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(asked(), 3);
}

/// MERGED stays open as long as the sandbox.
#[tokio::test(start_paused = true)]
async fn landing_of_a_kept_sandbox_is_not_verified_at_every_look() {
    let town = Scenario::new().with(|city| city.daemon.patrol_interval = 10 * MINUTE);
    let town = town.start().await;
    let charged = town.worker("a").await;
    let stash = |facts: &mut GitFacts| facts.stashes.push("wip".into());
    town.parts.repo.change(&charged.raider.name, stash);
    town.completed(&charged.raider).await.unwrap();
    town.pass(MINUTE).await;
    let cost = || (town.parts.repo.count("landed"), measured(&town));
    let before = cost();
    assert!(before.0 > 0, "it has landed");
    for _ in 0..10 {
        town.world.directory.tell_witness(&rig(), WitnessMsg::Look);
        town.settle().await;
    }
    assert_eq!(cost(), before);
    town.pass(10 * MINUTE).await;
    assert_eq!(cost().0, before.0, "once is enough");
    let tidied = |facts: &mut GitFacts| facts.stashes.clear();
    town.parts.repo.change(&charged.raider.name, tidied);
    town.pass(10 * MINUTE).await;
    assert!(town.parts.repo.names().is_empty());
    assert!(town.parts.repo.remote_branches().is_empty(), "MERGED ends");
}

/// Lets time pass, while the raider dies whenever it has lived for three patrols.
async fn suffer(town: &Town, charged: &Charged, time: Duration) {
    let mut left = time;
    while left > 3 * PATROL {
        town.pass(3 * PATROL).await;
        left -= 3 * PATROL;
        if town.runs(&charged.session) {
            town.parts.sessions.crash(&charged.session, 9);
        }
    }
    town.pass(left).await;
}

/// A session between two deaths is no recovery either.
#[tokio::test(start_paused = true)]
async fn a_raider_that_lives_for_a_while_and_dies_each_time_is_salvaged_in_the_end() {
    let town = trying().rig(|rig| rig.witness.keep_dirty = 3 * WINDOW);
    let town = town.start().await;
    let charged = town.charged("a").await;
    town.parts.repo.dirty(&charged.raider.name, "wip.txt");
    suffer(&town, &charged, 3 * WINDOW).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    let quarantined = town.events(EventType::AgentQuarantined).await;
    assert!(quarantined.len() > 1, "it was let go in between");
    suffer(&town, &charged, 2 * WINDOW).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(town.parts.repo.salvages().len(), 1);
}

/// A failed question is no answer.
#[tokio::test(start_paused = true)]
async fn remotes_that_were_away_are_asked_again_at_the_next_patrol() {
    let town = kept_for(24 * HOUR).start().await;
    let charged = town.worker("a").await;
    let away = RepoError::Remote("away".into());
    town.parts.repo.break_op("on_main", away);
    exhaust(&town, &charged).await;
    let asked = || town.parts.repo.count("on_main");
    while asked() == 0 {
        town.pass(PATROL).await;
    }
    town.parts.repo.mend("on_main");
    let before = asked();
    town.pass(2 * PATROL).await;
    assert_eq!(asked(), before + 1);
}
