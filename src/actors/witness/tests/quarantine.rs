//! A raider whose sessions die too often: its relic is blocked and a person is called, until a person acts or the work
//! is done; the displayed time is kept.

use std::time::Duration;

use super::zombies::{exhaust, fragile};
use super::{GROWN, PATROL};
use crate::actors::mail::Charged;
use crate::actors::mail::ChildState;
use crate::actors::records::escalations;
use crate::domain::cause::Cause;
use crate::domain::city::RestartType;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::problem::ProblemKind;
use crate::domain::relic::{Relic, RelicStatus};
use crate::testing::world::{Town, agent};

const HOUR: Duration = Duration::from_secs(3600);

/// Starts with a quarantined raider whose sandbox is clean, in a rig that charges every open relic.
async fn crashed() -> (Town, Charged) {
    let scenario = fragile().rig(|rig| rig.raiders.auto_charge = true);
    let town = scenario.start().await;
    let relic = town.relic("port the parser").await;
    let charged = town.charge(&relic).await.unwrap();
    while town.state(&child(&charged)).await != Some(ChildState::Quarantined) {
        town.parts.sessions.print(&charged.session, "API Error 500");
        town.parts.sessions.crash(&charged.session, 9);
        town.pass(Duration::from_secs(5)).await;
    }
    town.settle().await;
    (town, charged)
}

fn child(charged: &Charged) -> ChildId {
    ChildId::Raider(charged.raider.clone())
}

/// Returns the open escalations about the quarantine.
async fn calls(town: &Town) -> Vec<Relic> {
    let mut open = town.escalations().await;
    open.retain(|call| {
        call.status == RelicStatus::Open && call.title == ProblemKind::Quarantined.text()
    });
    open
}

async fn status(town: &Town, charged: &Charged) -> RelicStatus {
    town.relic_now(&charged.relic).await.status
}

#[tokio::test(start_paused = true)]
async fn quarantine_blocks_the_relic_and_calls_a_person_with_the_last_output() {
    let (town, charged) = crashed().await;
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    let calls = calls(&town).await;
    assert_eq!(calls.len(), 1);
    let view = town.view(&child(&charged)).await.unwrap();
    let died_of = "signal 9: API Error 500";
    assert_eq!(view.died_of.as_deref(), Some(died_of));
    let told = town.events(EventType::AgentQuarantined).await;
    assert_eq!(told[0].data["last"], died_of);
    let until = view.quarantined_until.unwrap();
    let shown = until.strftime("%FT%TZ").to_string();
    for part in [
        died_of,
        "port the parser",
        "| API Error 500",
        "2 sessions of horde/raiders/Toast died within 5s, the last with signal 9",
        "hd raider unquarantine horde/raiders/Toast",
        shown.as_str(),
    ] {
        assert!(calls[0].body.contains(part), "{part} in {}", calls[0].body);
    }
    let told = town.events(EventType::RelicUpdated).await;
    let told = told.iter().find(|event| event.data["status"] == "blocked");
    let told = told.expect("the relic's story says it");
    assert_eq!(told.cause, Cause::TooManyDeaths.as_str());
    assert_eq!(told.data["until"].as_str(), Some(&*until.to_string()));
}

/// Neither `spawn_grace` nor `auto_charge` shortens the time that `status` shows.
#[tokio::test(start_paused = true)]
async fn sandbox_is_not_removed_and_relic_not_charged_before_the_quarantine_ends() {
    let (town, charged) = crashed().await;
    let starts = town.starts(&charged.session);
    town.pass(GROWN * 3).await;
    town.pass_hours(HOUR - GROWN * 3 - PATROL).await;
    assert_eq!(town.parts.repo.names(), ["Toast"]);
    assert_eq!(town.starts(&charged.session), starts);
    assert_eq!(town.parts.repo.count("make_sandbox"), 1);
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    assert_eq!(calls(&town).await.len(), 1, "once");
    assert_eq!(town.events(EventType::AgentQuarantined).await.len(), 1);
}

/// The user pays for each session: not six an hour.
#[tokio::test(start_paused = true)]
async fn quarantined_raider_is_tried_once_per_window_and_its_relic_stays_blocked() {
    let (town, charged) = crashed().await;
    let starts = town.starts(&charged.session);
    for tries in 1..4 {
        town.pass_hours(HOUR).await;
        assert_eq!(town.starts(&charged.session), starts + tries);
        assert!(town.runs(&charged.session), "at the time that was shown");
        assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
        town.parts.sessions.crash(&charged.session, 9);
        town.settle().await;
        assert_eq!(
            town.state(&child(&charged)).await,
            Some(ChildState::Quarantined)
        );
        assert_eq!(calls(&town).await.len(), 1, "the same call");
    }
}

#[tokio::test(start_paused = true)]
async fn unquarantine_closes_the_escalation_and_the_next_quarantine_opens_another() {
    let (town, charged) = crashed().await;
    let first = calls(&town).await.remove(0).id;
    town.wake(&child(&charged)).await.unwrap();
    town.settle().await;
    assert!(town.runs(&charged.session));
    assert_eq!(status(&town, &charged).await, RelicStatus::Hooked);
    assert!(calls(&town).await.is_empty());
    exhaust(&town, &charged).await;
    town.settle().await;
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    let second = calls(&town).await;
    assert_eq!(second.len(), 1);
    assert_ne!(second[0].id, first);
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_after_the_quarantine_lands_and_settles_the_call() {
    let (town, charged) = crashed().await;
    town.pass_hours(HOUR).await;
    assert!(town.runs(&charged.session));
    town.parts.repo.commit(&charged.raider.name);
    town.completed(&charged.raider).await.unwrap();
    town.pass(PATROL).await;
    assert_eq!(status(&town, &charged).await, RelicStatus::Closed);
    assert!(calls(&town).await.is_empty());
}

async fn restarted(town: Town) -> Town {
    let clock = std::sync::Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    let scenario = fragile().rig(|rig| {
        rig.raiders.auto_charge = true;
        rig.raiders.respawn_reduced = true;
    });
    let scenario = scenario.with(|city| {
        for harness in city.harnesses.values_mut() {
            harness.reduced = vec!["reduced".into()];
        }
    });
    scenario.start_on(parts, clock).await
}

/// Deaths are counted in memory; the escalation and the time that `status` announced are stored.
#[tokio::test(start_paused = true)]
async fn a_restart_of_the_supervisor_keeps_the_promised_time_and_leaves_one_try_on_trial() {
    let (town, charged) = crashed().await;
    let promised = town.view(&child(&charged)).await.unwrap();
    let promised = promised.quarantined_until.unwrap();
    town.pass(HOUR / 3).await;
    let starts = town.starts(&charged.session);
    let town = restarted(town).await;
    let view = town.view(&child(&charged)).await.unwrap();
    assert_eq!(view.state, ChildState::Quarantined);
    let shown = view.quarantined_until.unwrap();
    assert!(shown.duration_since(promised).unsigned_abs() < Duration::from_secs(1));
    assert_eq!(view.died_of.as_deref(), Some("signal 9: API Error 500"));
    assert_eq!(town.starts(&charged.session), starts);
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    assert_eq!(calls(&town).await.len(), 1);
    // Another restart does not change that.
    let town = restarted(town).await;
    let left = promised
        .duration_since(town.world.clock.now())
        .unsigned_abs();
    town.pass(left - Duration::from_secs(1)).await;
    assert_eq!(town.starts(&charged.session), starts);
    town.pass(Duration::from_secs(2)).await;
    assert_eq!(town.starts(&charged.session), starts + 1, "its one try");
    let argv = town.parts.sessions.starts().last().unwrap().argv.clone();
    assert!(argv.contains(&"reduced".to_owned()), "{argv:?}");
    // The session is adopted, and still on trial.
    let town = restarted(town).await;
    assert!(town.runs(&charged.session));
    town.parts.sessions.crash(&charged.session, 9);
    town.pass(PATROL).await;
    let view = town.view(&child(&charged)).await.unwrap();
    assert_eq!(view.state, ChildState::Quarantined);
    assert_eq!(town.starts(&charged.session), starts + 1);
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    assert_eq!(calls(&town).await.len(), 1);
}

/// The quarantine ended while no supervisor ran: one try follows, with reduced permissions.
#[tokio::test(start_paused = true)]
async fn a_quarantine_that_ended_while_no_supervisor_ran_is_followed_by_one_try() {
    let (town, charged) = crashed().await;
    let starts = town.starts(&charged.session);
    let id = charged.relic.clone();
    let passed = town.world.clock.now();
    town.store(move |txn| {
        let mut held = crate::actors::records::quarantine::held(txn)?;
        held[0].until = passed;
        let text = serde_json::json!(held).to_string();
        txn.set("raiders.quarantined", Some(&text))
    })
    .await;
    let town = restarted(town).await;
    assert_eq!(town.starts(&charged.session), starts + 1);
    let argv = town.parts.sessions.starts().last().unwrap().argv.clone();
    assert!(argv.contains(&"reduced".to_owned()), "{argv:?}");
    town.parts.sessions.crash(&charged.session, 9);
    town.pass(PATROL).await;
    assert_eq!(
        town.state(&child(&charged)).await,
        Some(ChildState::Quarantined)
    );
    assert_eq!(town.starts(&charged.session), starts + 1);
    let relic = town.store(move |txn| txn.relic(&id)).await;
    assert_eq!(relic.status, RelicStatus::Blocked);
}

#[tokio::test(start_paused = true)]
async fn a_person_ends_a_quarantine_for_the_next_supervisor_too() {
    let (town, charged) = crashed().await;
    town.wake(&child(&charged)).await.unwrap();
    town.settle().await;
    assert!(
        town.store(crate::actors::records::quarantine::held)
            .await
            .is_empty()
    );
    let town = restarted(town).await;
    town.parts.sessions.crash(&charged.session, 9);
    town.pass(PATROL).await;
    assert!(town.runs(&charged.session), "its deaths are forgotten");
    assert_eq!(status(&town, &charged).await, RelicStatus::Hooked);
}

/// The store refused the write: the patrol sees that the relic is not blocked.
#[tokio::test(start_paused = true)]
async fn a_relic_that_could_not_be_blocked_is_blocked_by_the_patrol() {
    let (town, charged) = crashed().await;
    let id = charged.relic.clone();
    town.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Hooked;
        txn.put_relic(&relic)?;
        // No person was called either.
        escalations::close_where(txn, |_| true)
    })
    .await;
    assert!(calls(&town).await.is_empty());
    town.pass(PATROL).await;
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    let called = calls(&town).await;
    assert_eq!(called.len(), 1);
    assert!(
        called[0].body.contains("signal 9: API Error 500."),
        "{called:?}"
    );
}

/// The slot is free, but the cause of the deaths may persist: no raider starts unasked.
#[tokio::test(start_paused = true)]
async fn a_nuke_leaves_the_relic_blocked_until_a_person_charges_it() {
    let (town, charged) = crashed().await;
    town.nuke(&charged.raider, false).await.unwrap();
    town.pass(GROWN).await;
    assert!(town.parts.repo.names().is_empty());
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    assert_eq!(calls(&town).await.len(), 1);
    town.charge(&charged.relic).await.unwrap();
    town.settle().await;
    assert_eq!(status(&town, &charged).await, RelicStatus::Hooked);
    assert!(calls(&town).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn raider_tried_in_vain_for_keep_dirty_is_removed_and_its_relic_stays_blocked() {
    let scenario = fragile().rig(|rig| rig.witness.keep_dirty = 2 * HOUR);
    let town = scenario.start().await;
    let charged = town.charged("a").await;
    exhaust(&town, &charged).await;
    for _ in 0..3 {
        town.pass_hours(HOUR).await;
        town.parts.sessions.crash(&charged.session, 9);
        town.settle().await;
    }
    assert!(
        town.parts.repo.names().is_empty(),
        "at the end of a quarantine"
    );
    assert_eq!(status(&town, &charged).await, RelicStatus::Blocked);
    assert_eq!(calls(&town).await.len(), 1);
    town.pass_hours(HOUR).await;
    assert_eq!(town.starts(&charged.session), 4);
}

#[tokio::test(start_paused = true)]
async fn quarantined_agent_escalates_without_a_relic() {
    let town = fragile()
        .agent("mayor", RestartType::Permanent)
        .start()
        .await;
    let id = agent("mayor");
    let session = town.session(&id);
    while town.state(&id).await != Some(ChildState::Quarantined) {
        town.parts.sessions.crash(&session, 9);
        town.pass(Duration::from_secs(5)).await;
    }
    town.pass(PATROL).await;
    assert!(calls(&town).await.is_empty());
}
