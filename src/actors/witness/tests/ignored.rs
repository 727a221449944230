//! Ignored files go with a sandbox, and are named in its removal and in its rehearsal.

use crate::actors::mail::NukeTarget;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::zombies::{exhaust, fragile};
use super::{GROWN, PATROL};
use crate::actors::mail::Charged;
use crate::actors::sagas::nuke;
use crate::domain::answers::Rehearsed;
use crate::domain::cause::Cause;
use crate::domain::event::EventType;
use crate::domain::ignored::Ignored;
use crate::domain::saga::FaultPoint;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

/// Charges a raider without work that has an ignored file.
async fn secretive(city: &TestCity) -> Charged {
    let charged = city.charged("a").await;
    city.parts.repo.ignore(&charged.raider.name, ".env");
    charged
}

/// Returns the data of the only removal.
async fn removal_data(city: &TestCity) -> Value {
    let mut nuked = city.events(EventType::RaiderNuked).await;
    assert_eq!(nuked.len(), 1);
    nuked.remove(0).data
}

async fn rehearsed(city: &TestCity, charged: &Charged) -> Rehearsed {
    let hook = city.hook(&charged.raider).await.unwrap();
    let target = NukeTarget::of(&hook, Cause::Operator);
    nuke::rehearse(&city.world, &target, false).await.unwrap()
}

/// Returns a list of ignored files as answers have it.
fn listed(ignored: &Ignored) -> Value {
    serde_json::to_value(ignored).unwrap()
}

#[tokio::test(start_paused = true)]
async fn ignored_files_are_listed_before_and_after_a_clean_sandbox_is_removed() {
    let city = Scenario::new().start().await;
    let charged = secretive(&city).await;
    let would = rehearsed(&city, &charged).await;
    assert!(would.safe, "they hold up nothing");
    assert_eq!(listed(&would.ignored), json!({ "ignored": [".env"] }));
    let nuked = city.nuke(&charged.raider, false).await.unwrap();
    assert_eq!(listed(&nuked.ignored), json!({ "ignored": [".env"] }));
    let event = removal_data(&city).await;
    assert_eq!(event["ignored"], json!([".env"]));
    assert_eq!(event["incarnation"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_them_beside_the_work() {
    let city = Scenario::new().start().await;
    let charged = secretive(&city).await;
    city.parts.repo.dirty(&charged.raider.name, "notes.txt");
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    let losses = [
        "uncommitted: notes.txt",
        "ignored files, which salvage does not keep: .env",
    ];
    assert_eq!(refused.losses, losses);
    let would = rehearsed(&city, &charged).await;
    assert_eq!(would.losses, ["uncommitted: notes.txt"]);
    assert_eq!(listed(&would.ignored), json!({ "ignored": [".env"] }));
    city.nuke(&charged.raider, true).await.unwrap();
    assert_eq!(city.parts.repo.salvages()[0].ignored, [".env"]);
    assert_eq!(removal_data(&city).await["ignored"], json!([".env"]));
}

/// An unknown list is not an empty list.
#[tokio::test(start_paused = true)]
async fn unknown_list_of_ignored_files_is_not_an_empty_one() {
    let city = Scenario::new().start().await;
    let charged = secretive(&city).await;
    let broken = RepoError::Failed("the index is damaged".into());
    city.parts.repo.break_op("measure", broken);
    let would = rehearsed(&city, &charged).await;
    let unknown = json!({ "ignored": null, "ignored_unknown": "the index is damaged" });
    assert_eq!(listed(&would.ignored), unknown);
    let refused = city.nuke(&charged.raider, false).await.unwrap_err();
    assert!(refused.losses[1].contains("unknown"), "{refused:?}");
}

/// Removals by the witness itself name them, too.
#[tokio::test(start_paused = true)]
async fn the_witness_names_them_when_it_removes() {
    let scenario = fragile().rig(|rig| rig.witness.keep_dirty = GROWN);
    let city = scenario.start().await;
    let charged = secretive(&city).await;
    exhaust(&city, &charged).await;
    city.pass_hours(Duration::from_secs(3600)).await;
    assert!(city.parts.repo.names().is_empty());
    let event = removal_data(&city).await;
    assert_eq!(event["ignored"], json!([".env"]));
}

#[tokio::test(start_paused = true)]
async fn done_work_goes_with_them_named() {
    let city = Scenario::new().start().await;
    let charged = secretive(&city).await;
    city.parts.repo.commit(&charged.raider.name);
    city.completed(&charged.raider).await.unwrap();
    city.settle().await;
    assert!(city.parts.repo.names().is_empty());
    assert_eq!(removal_data(&city).await["ignored"], json!([".env"]));
}

/// After the removal they cannot be listed: the earlier list is journalled.
#[tokio::test(start_paused = true)]
async fn a_removal_that_was_interrupted_still_names_them() {
    let once = AtomicBool::new(true);
    let fault = move |point| {
        if point == FaultPoint::NukeReleaseBefore && once.swap(false, Ordering::SeqCst) {
            panic!("at {point:?}");
        }
    };
    let city = Scenario::new().fault(Arc::new(fault)).start().await;
    let charged = secretive(&city).await;
    city.nuke(&charged.raider, false).await.unwrap_err();
    assert!(city.parts.repo.names().is_empty());
    city.pass(PATROL).await;
    assert_eq!(removal_data(&city).await["ignored"], json!([".env"]));
}
