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
use crate::testing::world::{Scenario, TestCity, rig};

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
    let city = kept_for(10 * MINUTE).start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&city, &charged).await;
    city.pass(10 * MINUTE - PATROL).await;
    let starts = city.starts(&charged.session);
    let (root, id) = (city.root.clone(), ChildId::Raider(charged.raider.clone()));
    let due = AtomicUsize::new(0);
    let repo = Arc::clone(&city.parts.repo);
    let before = repo.count("measure");
    // At the time of the measurement.
    city.parts.repo.interlude("measure", move || {
        if repo.count("measure") > before && due.fetch_add(1, Ordering::Relaxed) == 0 {
            let wake = crate::actors::mail::RootMail::Wake {
                id: id.clone(),
                order: crate::domain::cause::Cause::Operator.into(),
                reply: ractor::concurrency::oneshot().0.into(),
            };
            root.cast(wake.into()).unwrap();
        }
    });
    city.pass(PATROL * 4).await;
    assert!(city.runs(&charged.session));
    assert_eq!(city.starts(&charged.session), starts + 1, "once");
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

/// The time counts from the present problem, not from the first of its life.
#[tokio::test(start_paused = true)]
async fn a_raider_that_recovered_has_its_full_time_again() {
    let city = trying().rig(|rig| rig.witness.keep_dirty = WINDOW * 3 / 2);
    let city = city.start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&city, &charged).await;
    city.pass(GROWN).await;
    assert_eq!(city.events(EventType::RaiderZombie).await.len(), 1);
    let id = ChildId::Raider(charged.raider.clone());
    city.wake(&id).await.unwrap();
    city.pass(2 * WINDOW).await;
    exhaust(&city, &charged).await;
    city.pass(WINDOW).await;
    assert_eq!(city.parts.repo.names(), ["Toast"], "tried again");
    exhaust(&city, &charged).await;
    city.pass(WINDOW).await;
    assert!(city.parts.repo.names().is_empty());
    assert!(!city.parts.repo.salvages().is_empty());
}

/// A failed removal starts no session: the death count stays.
#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_does_not_end_a_quarantine() {
    let city = kept_for(10 * MINUTE).start().await;
    let charged = city.worker("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let full = RepoError::Failed("no space left on device".into());
    city.parts.repo.break_op("salvage", full);
    exhaust(&city, &charged).await;
    let starts = city.starts(&charged.session);
    city.pass_hours(HOUR).await;
    assert_eq!(city.starts(&charged.session), starts);
    let id = ChildId::Raider(charged.raider.clone());
    assert_eq!(city.state(&id).await, Some(ChildState::Quarantined));
    assert_eq!(city.parts.repo.names(), ["Toast"]);
}

/// A repair of the sandbox that caused its deaths ends the quarantine, and is answered at once.
#[tokio::test(start_paused = true)]
async fn a_repair_lets_a_quarantined_raider_go() {
    let city = kept_for(HOUR).start().await;
    let charged = city.worker("a").await;
    exhaust(&city, &charged).await;
    let repair = repair::run(&city.world, charged.raider.clone());
    let repaired = tokio::time::timeout(MINUTE, repair).await;
    repaired.expect("an answer").unwrap();
    city.settle().await;
    assert!(city.runs(&charged.session));
}

/// A resting raider has no session that could come back.
#[tokio::test(start_paused = true)]
async fn a_stopped_raider_whose_relic_was_closed_frees_its_slot() {
    let city = Scenario::new().start().await;
    let charged = city.charged("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    city.rest(&id).await.unwrap();
    city.pass(GROWN).await;
    close(&city, &charged).await;
    city.pass(PATROL * 2).await;
    assert!(city.parts.repo.names().is_empty());
}

/// The session had ended by itself, and its tree became dirty afterwards: it does not linger for ever.
#[tokio::test(start_paused = true)]
async fn a_tree_that_stays_dirty_after_done_is_salvaged_in_the_end() {
    let city = Scenario::new().rig(|rig| rig.witness.keep_dirty = HOUR);
    let city = city.start().await;
    let charged = city.worker("a").await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    city.parts.repo.interlude("push_branch", move || {
        repo.dirty(&name, "late.txt");
    });
    city.completed(&charged.raider).await.unwrap();
    city.pass_hours(HOUR - 2 * PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.escalations().await.len(), 1);
    city.pass(4 * PATROL).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    assert_eq!(
        city.status(&charged.relic).await,
        RelicStatus::Open,
        "for a fresh raider"
    );
    let pushed = city.parts.repo.remote(&charged.branch);
    let again = city.charge(&charged.relic).await.unwrap();
    let base = city.hook(&again.raider).await.unwrap().base;
    assert_eq!(Some(base), pushed, "it begins with what was finished");
}

/// Unrelated events cause no new measurement; one wisp tracks it.
#[tokio::test(start_paused = true)]
async fn kept_sandbox_costs_one_measurement_per_patrol_and_one_wisp() {
    let city = kept_for(24 * HOUR);
    let city = city.with(|city| city.daemon.patrol_interval = 10 * MINUTE);
    let city = city.start().await;
    let (lone, held) = (city.worker("a").await, city.worker("b").await);
    for charged in [&lone, &held] {
        city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    }
    unhook(&city, &lone).await;
    exhaust(&city, &held).await;
    city.pass(40 * MINUTE).await;
    let looked = measured(&city);
    for _ in 0..10 {
        city.world.directory.tell_witness(&rig(), WitnessMsg::Look);
        city.settle().await;
    }
    assert_eq!(measured(&city), looked, "events");
    city.pass(100 * MINUTE).await;
    let patrols = 10 * 2;
    assert!(
        measured(&city) - looked <= patrols * 2,
        "no more than two each"
    );
    assert_eq!(city.events(EventType::WispCreated).await.len(), 2);
    assert_eq!(
        city.events(EventType::RaiderSalvaged).await.len(),
        2,
        "once"
    );
}

fn measured(city: &TestCity) -> usize {
    city.parts.repo.count("measure")
}

/// The commits are salvaged at each quarantine; those that were salvaged before are nothing new.
#[tokio::test(start_paused = true)]
async fn quarantine_after_quarantine_saves_the_same_commits_once() {
    let city = kept_for(24 * HOUR).start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    for _ in 0..3 {
        exhaust(&city, &charged).await;
        city.pass(GROWN).await;
        city.wake(&id).await.unwrap();
        city.pass_hours(HOUR).await;
        assert!(city.runs(&charged.session));
    }
    assert_eq!(city.parts.repo.salvages().len(), 3, "asked each time");
    assert_eq!(city.store(|txn| txn.salvages()).await.len(), 1);
    assert_eq!(city.events(EventType::RaiderSalvaged).await.len(), 1);
}

/// A raider that is released each time and dies at once has not recovered.
#[tokio::test(start_paused = true)]
async fn a_raider_that_dies_whenever_it_is_let_go_is_salvaged_in_the_end() {
    let city = trying().rig(|rig| rig.witness.keep_dirty = 3 * WINDOW);
    let city = city.start().await;
    let relic = city.relic("a").await;
    let charged = city.charge(&relic).await.unwrap();
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    exhaust(&city, &charged).await;
    for _ in 0..50 {
        let refused = StartError::Provider("no memory".into());
        city.parts.sessions.refuse_start(&charged.session, refused);
    }
    city.pass(3 * WINDOW).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    let quarantined = city.events(EventType::AgentQuarantined).await;
    assert!(quarantined.len() > 1, "it was let go in between");
    city.pass(WINDOW).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 1);
    let relic = city.relic_now(&charged.relic).await;
    assert_eq!(
        (relic.status, relic.charge_failures),
        (RelicStatus::Blocked, 0)
    );
}

/// A question costs network commands for each remote.
#[tokio::test(start_paused = true)]
async fn the_remotes_are_asked_once_an_hour_about_commits_that_are_kept() {
    let city = kept_for(24 * HOUR).start().await;
    let charged = city.worker("a").await;
    exhaust(&city, &charged).await;
    city.pass(GROWN + 10 * PATROL).await;
    let asked = || city.parts.repo.count("on_main");
    assert_eq!(asked(), 1);
    city.pass_hours(HOUR).await;
    assert_eq!(asked(), 2);
    // A person's order does not use an old answer.
    city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(asked(), 3);
}

/// MERGED stays open as long as the sandbox.
#[tokio::test(start_paused = true)]
async fn landing_of_a_kept_sandbox_is_not_verified_at_every_look() {
    let city = Scenario::new().with(|city| city.daemon.patrol_interval = 10 * MINUTE);
    let city = city.start().await;
    let charged = city.worker("a").await;
    let stash = |facts: &mut GitFacts| facts.stashes.push("wip".into());
    city.parts.repo.change(&charged.raider.name, stash);
    city.completed(&charged.raider).await.unwrap();
    city.pass(MINUTE).await;
    let cost = || (city.parts.repo.count("landed"), measured(&city));
    let before = cost();
    assert!(before.0 > 0, "it has landed");
    for _ in 0..10 {
        city.world.directory.tell_witness(&rig(), WitnessMsg::Look);
        city.settle().await;
    }
    assert_eq!(cost(), before);
    city.pass(10 * MINUTE).await;
    assert_eq!(cost().0, before.0, "once is enough");
    let tidied = |facts: &mut GitFacts| facts.stashes.clear();
    city.parts.repo.change(&charged.raider.name, tidied);
    city.pass(10 * MINUTE).await;
    assert!(city.parts.repo.names().is_empty());
    assert!(city.parts.repo.remote_branches().is_empty(), "MERGED ends");
}

/// Lets time pass, while the raider dies whenever it has lived for three patrols.
async fn suffer(city: &TestCity, charged: &Charged, time: Duration) {
    let mut left = time;
    while left > 3 * PATROL {
        city.pass(3 * PATROL).await;
        left -= 3 * PATROL;
        if city.runs(&charged.session) {
            city.parts.sessions.crash(&charged.session, 9);
        }
    }
    city.pass(left).await;
}

/// A session between two deaths is no recovery either.
#[tokio::test(start_paused = true)]
async fn a_raider_that_lives_for_a_while_and_dies_each_time_is_salvaged_in_the_end() {
    let city = trying().rig(|rig| rig.witness.keep_dirty = 3 * WINDOW);
    let city = city.start().await;
    let charged = city.charged("a").await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    suffer(&city, &charged, 3 * WINDOW).await;
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    let quarantined = city.events(EventType::AgentQuarantined).await;
    assert!(quarantined.len() > 1, "it was let go in between");
    suffer(&city, &charged, 2 * WINDOW).await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(city.parts.repo.salvages().len(), 1);
}

/// A failed question is no answer.
#[tokio::test(start_paused = true)]
async fn remotes_that_were_away_are_asked_again_at_the_next_patrol() {
    let city = kept_for(24 * HOUR).start().await;
    let charged = city.worker("a").await;
    let away = RepoError::Remote("away".into());
    city.parts.repo.break_op("on_main", away);
    exhaust(&city, &charged).await;
    let asked = || city.parts.repo.count("on_main");
    while asked() == 0 {
        city.pass(PATROL).await;
    }
    city.parts.repo.mend("on_main");
    let before = asked();
    city.pass(2 * PATROL).await;
    assert_eq!(asked(), before + 1);
}
