//! The facts that a removal is judged by: they cannot change any more, or a change is detected.

use crate::actors::mail::NukeTarget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::PATROL;
use super::zombies::{exhaust, fragile};
use crate::actors::mail::Charged;
use crate::actors::refusal::RefusalKind;
use crate::actors::sagas::nuke;
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::testing::world::{Scenario, TestCity};

/// Charges a raider without work.
async fn idle(city: &TestCity) -> Charged {
    let relic = city.relic("a").await;
    city.charge(&relic).await.unwrap()
}

/// Charges a raider without work whose session is not started again.
async fn at_rest(city: &TestCity) -> Charged {
    let charged = idle(city).await;
    exhaust(city, &charged).await;
    assert!(!city.runs(&charged.session));
    charged
}

fn measured(city: &TestCity) -> usize {
    city.parts.repo.count("measure")
}

#[tokio::test(start_paused = true)]
async fn removal_is_judged_by_facts_taken_after_its_session_has_ended() {
    let city = Scenario::new().start().await;
    let charged = idle(&city).await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    let once = AtomicBool::new(true);
    // The agent writes its last file as it is ended.
    city.parts.sessions.interlude("stop", move || {
        if once.swap(false, Ordering::Relaxed) {
            repo.dirty(&name, "last.txt");
            repo.ignore(&name, ".env");
        }
    });
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::WorkAtRisk, "{refused}");
    assert_eq!(refused.losses, ["uncommitted: last.txt"]);
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    assert_eq!(city.parts.repo.count("discard_sandbox"), 0);
    assert_eq!(city.sagas().await, 0);
    city.settle().await;
    assert!(city.runs(&charged.session), "its work goes on");
}

#[tokio::test(start_paused = true)]
async fn running_raider_is_measured_before_and_after_its_session_ends() {
    let city = Scenario::new().start().await;
    let charged = idle(&city).await;
    let before = measured(&city);
    city.nuke(&charged.raider, false).await.unwrap();
    // The third is taken by `discard_sandbox` itself.
    assert_eq!(measured(&city) - before, 2);
}

#[tokio::test(start_paused = true)]
async fn raider_at_rest_is_measured_once() {
    let city = fragile().start().await;
    let charged = at_rest(&city).await;
    city.parts.repo.ignore(&charged.raider.name, ".env");
    let before = measured(&city);
    city.nuke(&charged.raider, false).await.unwrap();
    assert_eq!(measured(&city) - before, 1);
    let nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked[0].data["ignored"], json!([".env"]));
}

#[tokio::test(start_paused = true)]
async fn file_written_between_judgement_and_removal_keeps_a_sandbox_at_rest() {
    let city = fragile().start().await;
    let charged = at_rest(&city).await;
    let (repo, name) = (Arc::clone(&city.parts.repo), charged.raider.name.clone());
    city.parts
        .repo
        .interlude("holds", move || repo.dirty(&name, "late.txt"));
    city.nuke(&charged.raider, false).await.unwrap_err();
    assert_eq!(city.parts.repo.names(), ["Toast"]);
    city.pass(PATROL).await;
    assert_eq!(city.parts.repo.names(), ["Toast"], "it is judged anew");
}

/// A session that ran meanwhile was in the sandbox.
#[tokio::test(start_paused = true)]
async fn judgement_from_before_another_session_is_not_used() {
    let city = fragile().start().await;
    let charged = at_rest(&city).await;
    let hook = city.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&hook, Cause::Operator);
    let judged = nuke::permitted(&city.world, target).await.unwrap();
    let (sessions, session) = (&city.parts.sessions, &charged.session);
    sessions.recreate(session, charged.incarnation);
    sessions.crash(session, 9);
    let (saga, _until_run) = nuke::begin(&city.world, &judged).await.unwrap();
    let before = measured(&city);
    nuke::run(&city.world, saga, Some(judged)).await.unwrap();
    assert_eq!(measured(&city) - before, 1);
}
