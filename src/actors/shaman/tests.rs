//! Escalations from their being raised to their end, under the paused clock.

mod mail;
mod reworded;

use crate::actors::records::escalations::{self, Ends};
use crate::domain::message;
use crate::domain::message::Body;
use crate::domain::message::Escalation;
use crate::ports::relics::StoreError;
use crate::ports::relics::Txn;
use std::time::Duration;

use super::*;
use crate::actors::mail::StopMode;
use crate::actors::records::failures;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::event::{Event, NewEvent};
use crate::domain::message::Severity;
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::clock::Clock;
use crate::testing::records::call as about;
use crate::testing::world::{MOMENT, Parts, Scenario, TestCity, raider, rig};

const HOUR: Duration = Duration::from_secs(3600);

/// Hours pass in these cities: their patrols are rare.
fn seldom() -> Scenario {
    Scenario::new().with(|city| city.daemon.patrol_interval = HOUR)
}

async fn help(city: &TestCity, body: Escalation) {
    let send =
        move |txn: &mut dyn Txn| txn.send("someone", message::SHAMAN, Body::Help(body.clone()));
    city.store(send).await;
    city.world.nudge(message::SHAMAN);
    city.settle().await;
}

async fn raised(city: &TestCity) -> Vec<Event> {
    city.events(EventType::EscalationRaised).await
}

async fn severities(city: &TestCity) -> Vec<String> {
    let word = |event: Event| event.data["severity"].as_str().unwrap().to_owned();
    raised(city).await.into_iter().map(word).collect()
}

async fn only(city: &TestCity) -> Relic {
    let mut all = city.escalations().await;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn ack(city: &TestCity, relic: &Relic) {
    let id = relic.id.clone();
    city.store(move |txn| escalations::acknowledge(txn, &id, &Asker::person()))
        .await;
    city.world.nudge(message::SHAMAN);
    city.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_kept_with_the_first_and_calls_again_only_when_it_is_worse() {
    let city = Scenario::new().start().await;
    let said = |severity, evidence: &str| Escalation {
        evidence: evidence.into(),
        ..about("mayor", "no key", severity)
    };
    help(&city, said(Severity::Medium, "401")).await;
    help(&city, said(Severity::Low, "the key expired")).await;
    assert_eq!(raised(&city).await.len(), 1);
    help(&city, said(Severity::High, "the key expired")).await;
    assert_eq!(severities(&city).await, ["medium", "high"]);
    let kept = only(&city).await;
    assert_eq!(kept.priority, Severity::High as i64);
    assert!(kept.body.starts_with("401") && kept.body.contains("expired"));
    // Another cause, and the same cause of another subject.
    help(&city, about("mayor", "the disk is full", Severity::Low)).await;
    help(&city, about("crew", "no key", Severity::Low)).await;
    assert_eq!(city.escalations().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn repeated_escalation_in_new_words_does_not_notify_each_time() {
    let city = Scenario::new().start().await;
    let letters = ('a'..='z').map(String::from);
    for word in letters {
        help(&city, about("mayor", &format!("no {word}"), Severity::Low)).await;
    }
    let all = city.escalations().await;
    assert_eq!(all.len(), crate::domain::escalation::OPEN_MAX);
    assert!(all.last().unwrap().body.contains("no z"), "nothing is lost");
}

#[tokio::test(start_paused = true)]
async fn silence_raises_it_twice_one_severity_up_and_no_more() {
    let city = seldom().start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    city.pass(4 * HOUR - 2 * MOMENT).await;
    assert_eq!(severities(&city).await, ["low"]);
    city.pass(2 * MOMENT).await;
    assert_eq!(severities(&city).await, ["low", "medium"]);
    city.pass(40 * HOUR).await;
    assert_eq!(severities(&city).await, ["low", "medium", "high"]);
    let last = raised(&city).await.pop().unwrap();
    assert_eq!(
        (last.cause.as_str(), &last.data["again"]),
        ("unanswered", &2.into())
    );
    assert_eq!(only(&city).await.priority, Severity::High as i64);
}

#[tokio::test(start_paused = true)]
async fn acknowledged_or_closed_escalation_is_not_raised_again() {
    let city = seldom().start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    let escalation = only(&city).await;
    for _twice_is_once in 0..2 {
        ack(&city, &escalation).await;
    }
    assert_eq!(city.events(EventType::EscalationAcked).await.len(), 1);
    city.pass(40 * HOUR).await;
    assert_eq!(severities(&city).await, ["low"]);
    assert_eq!(
        only(&city).await.status,
        RelicStatus::Open,
        "it is not closed by that"
    );
    // More severe than what was acknowledged.
    help(&city, about("mayor", "no key", Severity::Medium)).await;
    city.pass(5 * HOUR).await;
    assert_eq!(severities(&city).await, ["low", "medium", "high"]);
    let mut closed = only(&city).await;
    closed.status = RelicStatus::Closed;
    city.store(move |txn| txn.put_relic(&closed)).await;
    city.pass(40 * HOUR).await;
    assert_eq!(raised(&city).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn only_open_escalations_are_acknowledged() {
    let city = Scenario::new().start().await;
    let task = city.relic("work").await;
    let refused = city
        .world
        .store
        .run(move |txn| escalations::acknowledge(txn, &task, &Asker::person()))
        .await;
    assert!(
        matches!(refused, Err(StoreError::Conflict(_))),
        "{refused:?}"
    );
}

/// The times are rows: neither a killed actor nor a killed daemon begins anew.
#[tokio::test(start_paused = true)]
async fn the_silence_goes_on_over_restarts() {
    let city = Scenario::new().start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    city.pass_hours(3 * HOUR).await;
    assert_eq!(city.kill_actors::<ShamanMsg>(), 1);
    city.pass_hours(HOUR / 2).await;
    let clock = Arc::clone(&city.world.clock);
    let city = restarted(city.crash().await, clock).await;
    city.pass(HOUR / 4).await;
    assert_eq!(severities(&city).await, ["low"]);
    city.pass(HOUR / 4).await;
    assert_eq!(severities(&city).await, ["low", "medium"]);
    // While it is away time passes, too.
    let clock = Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    tokio::time::advance(30 * HOUR).await;
    let city = restarted(parts, clock).await;
    assert_eq!(severities(&city).await, ["low", "medium", "high"]);
    city.stop(StopMode::Graceful).await;
}

async fn restarted(parts: Parts, clock: Arc<dyn Clock>) -> TestCity {
    Scenario::new().start_on(parts, clock).await
}

#[tokio::test(start_paused = true)]
async fn another_silence_in_the_configuration_counts_at_once() {
    let city = Scenario::new().start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    city.pass_hours(HOUR).await;
    city.reconfigure(|city| city.notify.reraise = Some(HOUR / 2))
        .await;
    let reloaded = NewEvent::new(EventType::ConfigReloaded, "city", Cause::Config);
    city.store(move |txn| txn.record(&reloaded)).await;
    city.settle().await;
    assert_eq!(severities(&city).await, ["low", "medium"]);
}

/// Raised while the clock was ahead by a year: it does not wait for that.
#[tokio::test(start_paused = true)]
async fn a_time_in_the_future_is_now() {
    let city = seldom().start().await;
    help(&city, about("mayor", "no key", Severity::Low)).await;
    let id = only(&city).await.id;
    city.store(move |txn| {
        let mut entry = escalations::open(txn)?.remove(0);
        assert_eq!(entry.relic.id, id);
        entry.standing.told += 9000 * HOUR;
        entry.write(txn)
    })
    .await;
    city.world.nudge(message::SHAMAN);
    city.pass(5 * HOUR).await;
    assert_eq!(severities(&city).await, ["low", "medium"]);
}

/// AccountReport with a sandbox is over when the sandbox is gone, however that came about.
#[tokio::test(start_paused = true)]
async fn nuke_closes_escalations_about_its_sandbox_and_no_others() {
    let (city, charged) = Scenario::at_work().await;
    let toast = charged.raider.to_string();
    let trouble = about(&toast, "its sandbox cannot be measured", Severity::High);
    escalations::call(&city.world, "horde/witness", Ends::WithSandbox, trouble)
        .await
        .unwrap();
    escalations::call(
        &city.world,
        "horde/witness",
        Ends::WithSandbox,
        about("horde/witness", "no room", Severity::High),
    )
    .await
    .unwrap();
    city.settle().await;
    assert_eq!(city.escalations().await.len(), 2);
    let label = format!("about:{toast}:{}", charged.relic);
    assert_eq!(
        city.escalations().await[0].labels,
        [label],
        "it is called about with its work"
    );
    city.nuke(&charged.raider, true).await.unwrap();
    city.settle().await;
    let mut all = city.escalations().await;
    all.retain(|escalation| escalation.status == RelicStatus::Open);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].title, "no room");
    let settled = city.events(EventType::EscalationAcked).await;
    assert_eq!(settled.len(), 1);
    assert_eq!(settled[0].cause, "vanished");
}

/// The work is blocked: whether its sandbox is there has nothing to do with it.
#[tokio::test(start_paused = true)]
async fn a_call_about_blocked_work_waits_until_a_person_takes_it_up() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let of = relic.clone();
    city.store(move |txn| {
        while txn.relic(&of)?.status == RelicStatus::Open {
            failures::count(txn, &of, &rig(), "no room")?;
        }
        Ok(())
    })
    .await;
    city.world.nudge(message::SHAMAN);
    city.pass_hours(HOUR).await;
    assert_eq!(only(&city).await.status, RelicStatus::Open);
    let of = relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&of)?;
        relic.status = RelicStatus::Open;
        txn.put_relic(&relic)?;
        txn.record(&NewEvent::new(
            EventType::RelicUpdated,
            &of,
            Cause::Operator,
        ))
    })
    .await;
    city.settle().await;
    assert_eq!(only(&city).await.status, RelicStatus::Closed);
}

/// Every look sees the same trouble; words that differ by a number are no other trouble.
#[tokio::test(start_paused = true)]
async fn known_escalation_is_not_notified_again() {
    let (city, charged) = Scenario::at_work().await;
    // More than is kept.
    let line = |n: u32| format!("{} is not saved\n", "abcdefgh".repeat((n % 90) as usize));
    let long: String = (1..90).map(line).collect();
    assert!(long.len() > 20_000);
    for attempt in 0..5 {
        let mut trouble = about(
            &charged.raider.to_string(),
            "it cannot go on",
            Severity::High,
        );
        trouble.evidence = format!("attempt {attempt} failed\n{long}");
        escalations::call(&city.world, "horde/witness", Ends::WithSandbox, trouble)
            .await
            .unwrap();
        city.settle().await;
    }
    assert_eq!(raised(&city).await.len(), 1);
    assert_eq!(city.events(EventType::MessageSent).await.len(), 1);
    assert_eq!(only(&city).await.status, RelicStatus::Open);
    assert_eq!(charged.raider, raider("Toast"));
}
