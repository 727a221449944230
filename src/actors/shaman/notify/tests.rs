//! The events that are notified, how often, and the effect of a command that hangs.

use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::actors::claims::ClaimKey;
use crate::actors::mail::ShamanMsg;
use crate::actors::mail::StopMode;
use crate::domain::notify::Notice;
use crate::testing::world::{Scenario, TestCity};

const LINE: &str = "tell";

fn scenario() -> Scenario {
    Scenario::new().with(|city| city.notify.command = Some(LINE.into()))
}

/// Raises escalations with these names.
async fn raise(city: &TestCity, names: impl IntoIterator<Item = u64>, severity: &'static str) {
    let names: Vec<_> = names.into_iter().collect();
    city.store(move |txn| {
        for name in &names {
            let event = NewEvent::new(EventType::EscalationRaised, name, Cause::Stuck);
            txn.record(&event.with(json!({ "severity": severity })))?;
        }
        Ok(())
    })
    .await;
    city.settle().await;
}

/// Returns the notified subjects, in order.
fn notified(city: &TestCity) -> Vec<String> {
    let told = city.parts.runner.started(LINE);
    let subject = |command: &Command| {
        let event: Value = serde_json::from_str(command.stdin.as_deref().unwrap()).unwrap();
        assert!(event["seq"].is_u64() && event["type"].is_string());
        event["subject"].as_str().unwrap().to_owned()
    };
    told.iter().map(subject).collect()
}

#[tokio::test(start_paused = true)]
async fn the_command_gets_each_event_that_is_told_and_no_other() {
    let city = scenario().start().await;
    raise(&city, [1], "low").await;
    city.relic("no news").await;
    let other = NewEvent::new(EventType::AgentQuarantined, "mayor", Cause::TooManyDeaths);
    city.store(move |txn| txn.record(&other)).await;
    city.settle().await;
    assert_eq!(notified(&city), ["1", "mayor"]);
    let command = city.parts.runner.started(LINE).remove(0);
    assert_eq!(command.dir, city.world.city.root);
    assert_eq!(command.env["HD_CITY"], "/city");
    assert!(command.stdin.unwrap().ends_with("}\n"), "a line");
}

/// Events from before the configuration of `[notify]` are not notified.
#[tokio::test(start_paused = true)]
async fn telling_begins_when_it_is_configured() {
    let city = Scenario::new().start().await;
    raise(&city, [1], "low").await;
    city.reconfigure(|city| city.notify.command = Some(LINE.into()))
        .await;
    let reloaded = NewEvent::new(EventType::ConfigReloaded, "city", Cause::Config);
    city.store(move |txn| txn.record(&reloaded)).await;
    city.settle().await;
    assert!(notified(&city).is_empty());
    raise(&city, [2], "low").await;
    assert_eq!(notified(&city), ["2"]);
}

/// A command that hangs is ended, delays nothing else, and does not pile up.
#[tokio::test(start_paused = true)]
async fn a_command_that_hangs_delays_only_the_next_one() {
    let city = scenario().start().await;
    city.parts.runner.let_go(LINE, Duration::from_secs(3600), 0);
    raise(&city, 1..=2, "low").await;
    assert_eq!(notified(&city), ["1"], "one at a time");
    city.worker("work").await;
    city.world.nudge(crate::domain::message::SHAMAN);
    city.settle().await;
    city.pass(LIMIT).await;
    assert_eq!(notified(&city), ["1", "2"]);
    city.pass(3 * LIMIT).await;
    let failed = city.events(EventType::NotifyFailed).await;
    assert_eq!(failed.len(), 1, "it is said once");
    assert_eq!(failed[0].cause, "timeout");
    // One that succeeds, and then others that fail.
    for (code, said) in [(0, 1), (7, 2), (7, 2)] {
        city.parts.runner.let_go(LINE, Duration::ZERO, code);
        raise(&city, [3], "low").await;
        assert_eq!(city.events(EventType::NotifyFailed).await.len(), said);
    }
}

/// A command in an uninterruptible wait of the kernel, which neither its timeout nor KILL ends.
#[tokio::test(start_paused = true)]
async fn command_that_cannot_be_ended_stops_no_other_and_holds_its_thread_only() {
    let city = scenario().start().await;
    let hang = city.parts.runner.hang(LINE);
    raise(&city, 1..=2, "low").await;
    city.pass(LIMIT).await;
    assert_eq!(notified(&city), ["1"], "it may still end");
    city.pass(2 * LIMIT).await;
    assert_eq!(notified(&city), ["1", "2"], "it is given up");
    let failed = city.events(EventType::NotifyFailed).await;
    assert_eq!(failed[0].cause, "timeout");
    raise(&city, 3..=30, "critical").await;
    city.pass(100 * LIMIT).await;
    let lost = notified(&city).len();
    assert_eq!(lost, 16, "its budget is used up");
    drop(hang);
    city.pass(LIMIT).await;
    city.world.nudge(crate::domain::message::SHAMAN);
    city.settle().await;
    assert!(notified(&city).len() > lost, "places were given back");
}

#[tokio::test(start_paused = true)]
async fn of_too_many_the_oldest_are_left_out_and_that_is_said() {
    let city = scenario().start().await;
    city.parts.runner.let_go(LINE, Duration::from_secs(20), 0);
    raise(&city, [0], "low").await;
    raise(&city, 1..=40, "low").await;
    raise(&city, [41], "critical").await;
    raise(&city, 42..=80, "low").await;
    city.pass(Duration::from_secs(3600)).await;
    let told = notified(&city);
    assert!(
        told.contains(&"41".to_owned()),
        "the critical one is told: {told:?}"
    );
    assert_eq!(told[0], "0");
    assert_eq!(told.last().unwrap(), "80");
    assert!(
        told.len() <= crate::domain::notify::WAITING_MAX + 2,
        "{told:?}"
    );
    let skipped = city.events(EventType::NotifySkipped).await;
    let count = |event: &Event| event.data["events"].as_u64().unwrap();
    let left_out: u64 = skipped.iter().map(count).sum();
    assert_eq!(left_out + told.len() as u64, 81);
}

/// More events of one kind wait than are read at once, and later ones of another kind.
#[tokio::test(start_paused = true)]
async fn events_beyond_a_full_page_are_not_skipped() {
    let city = scenario().start().await;
    city.parts.runner.let_go(LINE, Duration::from_secs(20), 0);
    raise(&city, [0], "low").await;
    raise(&city, 1..=549, "low").await;
    raise(&city, [550], "critical").await;
    raise(&city, 551..=600, "low").await;
    city.store(|txn| {
        for name in 601..=700 {
            let cause = Cause::TooManyDeaths;
            txn.record(&NewEvent::new(EventType::AgentQuarantined, name, cause))?;
        }
        Ok(())
    })
    .await;
    city.pass(Duration::from_secs(2 * 3600)).await;
    let told = notified(&city);
    assert!(told.contains(&"550".to_owned()), "{told:?}");
    assert_eq!(told.last().unwrap(), "700");
    let skipped = city.events(EventType::NotifySkipped).await;
    let count = |event: &Event| event.data["events"].as_u64().unwrap();
    let left_out: u64 = skipped.iter().map(count).sum();
    assert_eq!(left_out + told.len() as u64, 701);
}

/// The attempt that its event caused failed.
#[tokio::test(start_paused = true)]
async fn failed_notification_is_retried_without_another_event() {
    let city = scenario().start().await;
    let failing = city.world.claims.claim(ClaimKey::Notify).unwrap();
    raise(&city, [1], "low").await;
    drop(failing);
    assert_eq!(notified(&city), Vec::<String>::new());
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(notified(&city), ["1"]);
}

/// A notified event is not repeated; a missed one is.
#[tokio::test(start_paused = true)]
async fn restart_loses_no_notification_and_repeats_at_most_the_current_one() {
    let city = scenario().start().await;
    raise(&city, 1..=3, "critical").await;
    assert_eq!(city.kill_actors::<ShamanMsg>(), 1);
    city.settle().await;
    assert_eq!(notified(&city), ["1", "2", "3"]);
    city.parts.runner.let_go(LINE, Duration::from_secs(20), 0);
    raise(&city, 4..=6, "critical").await;
    assert_eq!(notified(&city), ["1", "2", "3", "4"]);
    // Killed: the task of this daemon does not go on to the next event.
    city.world.stopping.store(true, Ordering::Relaxed);
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    let city = scenario().start_on(parts, clock).await;
    city.pass(Duration::from_secs(100)).await;
    assert_eq!(notified(&city).split_off(4), ["4", "5", "6"]);
    let leftovers = city.parts.runner.leftovers();
    assert!(leftovers.contains(&record(&city.world)));
}

/// A stop does not wait for it, and the next start tells it.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_command_and_it_is_told_afterwards() {
    let city = scenario().start().await;
    city.parts.runner.let_go(LINE, Duration::from_secs(20), 0);
    raise(&city, [1], "low").await;
    let clock = Arc::clone(&city.world.clock);
    let parts = city.parts.rewired();
    let begun = clock.mono();
    city.stop(StopMode::Graceful).await;
    assert!(clock.mono() - begun < Duration::from_secs(5));
    let city = scenario().start_on(parts, clock).await;
    city.settle().await;
    assert_eq!(notified(&city), ["1", "1"]);
}

/// Without room for its input or a free process the event is not notified.
#[tokio::test(start_paused = true)]
async fn event_is_notified_when_the_command_can_run_again() {
    let city = scenario().start().await;
    city.parts.runner.refuse(Some("no space left"));
    raise(&city, 1..=2, "critical").await;
    city.pass(Duration::from_secs(300)).await;
    assert!(notified(&city).is_empty());
    let failed = city.events(EventType::NotifyFailed).await;
    assert_eq!(failed.len(), 1, "it is said once");
    assert_eq!(failed[0].cause, "start_failed");
    city.parts.runner.refuse(None);
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(notified(&city), ["1", "2"]);
}

/// A waiting event is notified although another kind is notified from now on, which happened before, too.
#[tokio::test(start_paused = true)]
async fn waiting_event_is_notified_although_the_configured_kinds_change() {
    let quarantined = NewEvent::new(EventType::AgentQuarantined, "mayor", Cause::TooManyDeaths);
    let city = scenario()
        .with(|city| city.notify.on = vec![Notice::Escalation, Notice::NeedsInput])
        .start()
        .await;
    city.parts.runner.refuse(Some("no space left"));
    raise(&city, [1], "high").await;
    let before = quarantined.clone();
    city.store(move |txn| txn.record(&before)).await;
    city.reconfigure(|city| city.notify.on = vec![Notice::Quarantined, Notice::Escalation])
        .await;
    let reloaded = NewEvent::new(EventType::ConfigReloaded, "city", Cause::Config);
    city.store(move |txn| txn.record(&reloaded)).await;
    city.settle().await;
    city.store(move |txn| txn.record(&quarantined)).await;
    city.parts.runner.refuse(None);
    city.pass(Duration::from_secs(31)).await;
    assert_eq!(notified(&city), ["1", "mayor"]);
}
