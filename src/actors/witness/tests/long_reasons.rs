//! Reasons on file that are longer than the socket allows.

use crate::domain::event::EventType;
use crate::domain::handoff::NOTE_MAX;
use crate::domain::relic::RelicStatus;
use crate::testing::fake_tasks::{done_intent, sign};
use crate::testing::world::Scenario;

/// Checks a stored reason that was written in full on file.
fn assert_cut(reason: &str) {
    assert!(reason.len() <= NOTE_MAX && reason.len() > NOTE_MAX - 20);
    assert!(reason.starts_with("no kéy") && reason.ends_with("[... cut]"));
}

#[tokio::test(start_paused = true)]
async fn long_reason_of_an_outcome_file_is_cut() {
    let (city, charged) = Scenario::at_work().await;
    let reason = "no kéy ".repeat(NOTE_MAX / 4);
    let stuck = serde_json::json!({ "outcome": "stuck", "reason": reason });
    let dir = (city.world.city).task_dir(&charged.raider, &charged.relic, charged.incarnation);
    city.parts.tasks.write_outcome(&dir, &stuck.to_string());
    city.settle().await;
    let done = city.events(EventType::RaiderDone).await;
    assert_cut(done[0].data["reason"].as_str().unwrap());
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Blocked);
}

/// Versions of `hd` that knew no limit wrote it in full.
#[tokio::test(start_paused = true)]
async fn long_reason_of_an_intent_is_cut_and_the_intent_carried_out() {
    let (city, charged) = Scenario::at_work().await;
    let mut intent = done_intent(&charged);
    intent.args.insert("status".into(), "escalated".into());
    let reason = "no kéy ".repeat(NOTE_MAX / 4);
    intent.args.insert("reason".into(), reason.into());
    city.parts.tasks.leave(sign(&charged, intent));
    city.settle().await;
    assert!(city.parts.tasks.aside().is_empty());
    let done = city.events(EventType::RaiderDone).await;
    assert_cut(done[0].data["reason"].as_str().unwrap());
}
