//! Automations on the paused clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

mod bounded;
mod chains;
mod disturbed;
mod rituals;

use crate::actors::ask;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::StopMode;
use crate::actors::records::automations;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::asker::Asker;
use crate::domain::automation::{Action, Automation, Run};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::gates::Gate;
use crate::domain::gates::cron::{CatchUp, Schedule};
use crate::domain::gates::event::Pattern;
use crate::testing::world::{Scenario, TestCity};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Named and running as it is called.
fn automation(name: &str, gate: Gate) -> Automation {
    Automation {
        id: name.parse().unwrap(),
        description: String::new(),
        action: Action::Exec(name.to_owned()),
        gate,
        timeout: secs(60),
        retries: 0,
        enabled: true,
        dir: "/city".into(),
    }
}

fn cooldown(seconds: u64) -> Gate {
    let interval = secs(seconds);
    Gate::Cooldown { interval }
}

fn cron(text: &str, catch_up: CatchUp) -> Gate {
    let schedule = Schedule::parse(text, TimeZone::UTC).unwrap();
    Gate::Cron { schedule, catch_up }
}

fn event(on: &str) -> Gate {
    let on = Pattern::parse(on).unwrap();
    Gate::Event { on }
}

fn condition(interval: u64) -> Gate {
    Gate::Condition {
        check: "check".into(),
        interval: secs(interval),
        every: secs(30),
    }
}

fn city(automations: &[Automation]) -> Scenario {
    let automations = automations.to_vec();
    Scenario::new().with(|city| city.automations = automations)
}

async fn start(automations: &[Automation]) -> TestCity {
    city(automations).start().await
}

/// Kills the daemon, lets time pass, and starts it again.
async fn restart(test_city: TestCity, automations: &[Automation], away: Duration) -> TestCity {
    let clock = Arc::clone(&test_city.world.clock);
    let parts = test_city.crash().await;
    // Nothing ever happens here but time.
    let _always_over = tokio::time::timeout(away, std::future::pending::<()>()).await;
    city(automations).start_on(parts, clock).await
}

fn count(test_city: &TestCity, line: &str) -> usize {
    test_city.parts.runner.started(line).len()
}

async fn by_hand(test_city: &TestCity, name: &str) -> Result<(Run, u64), Refusal> {
    let id = name.parse().unwrap();
    let message = |reply| DispatcherMsg::Run(id, Asker::person(), reply);
    ask::ask(test_city.world.directory.dispatcher(), message, secs(3600)).await?
}

/// A relic is made, as `hd relic create` does.
async fn made(test_city: &TestCity, relic: &str) -> String {
    let event = NewEvent::new(EventType::RelicCreated, relic, Cause::Operator);
    test_city
        .store(move |txn| txn.record(&event).map(drop))
        .await;
    relic.to_owned()
}

async fn causes(test_city: &TestCity, kind: EventType) -> Vec<String> {
    let events = test_city.events(kind).await;
    events.into_iter().map(|event| event.cause).collect()
}

/// `contract.md`, 2.2: a cooldown that never ran is due now, and counts from the start of a run.
#[tokio::test(start_paused = true)]
async fn a_cooldown_counts_from_the_start_of_the_last_run() {
    let slow = automation("slow", cooldown(600));
    let test_city = city(&[slow]);
    let test_city = test_city.start().await;
    test_city.parts.runner.let_go("slow", secs(50), 0);
    assert_eq!(count(&test_city, "slow"), 1);
    test_city.pass(secs(598)).await;
    assert_eq!(count(&test_city, "slow"), 1);
    test_city.pass(secs(3)).await;
    assert_eq!(count(&test_city, "slow"), 2);
    test_city.pass(secs(598)).await;
    assert_eq!(count(&test_city, "slow"), 2);
    test_city.pass(secs(3)).await;
    assert_eq!(count(&test_city, "slow"), 3);
}

/// `health-patrol.md`, invariants: tracking records are made before the run, so that the cooldown
/// gate does not fire again while it goes on; one run of an automation at a time.
#[tokio::test(start_paused = true)]
async fn a_cooldown_does_not_fire_again_while_its_run_goes_on() {
    let mut eager = automation("eager", cooldown(10));
    eager.timeout = secs(3600);
    let test_city = start(&[eager]).await;
    test_city.parts.runner.let_go("eager", secs(60), 0);
    test_city.pass(secs(11)).await;
    assert_eq!(count(&test_city, "eager"), 2);
    test_city.pass(secs(50)).await;
    assert_eq!(count(&test_city, "eager"), 2, "it runs");
    test_city.pass(secs(15)).await;
    assert_eq!(count(&test_city, "eager"), 3, "due when it ended");
}

/// `health-patrol.md`, known limitations: here completion is tracked. A run that the end of the
/// supervisor interrupted is told of once, and its record keeps the cooldown from firing again.
#[tokio::test(start_paused = true)]
async fn a_run_that_a_crash_interrupted_is_reported_once_and_not_repeated() {
    let mut long = automation("long", cooldown(600));
    long.timeout = secs(500);
    let all = [long];
    let scenario = city(&all);
    let test_city = scenario.start().await;
    test_city.pass(secs(601)).await;
    test_city.parts.runner.let_go("long", secs(400), 0);
    test_city.pass(secs(600)).await;
    assert_eq!(count(&test_city, "long"), 3);
    let test_city = restart(test_city, &all, secs(5)).await;
    let failed = test_city.events(EventType::AutomationFailed).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        (failed[0].subject.as_str(), failed[0].cause.as_str()),
        ("long", "crash")
    );
    let record = test_city.world.city.automations_dir().join("long.run");
    assert!(test_city.parts.runner.leftovers().contains(&record));
    let test_city = restart(test_city, &all, secs(5)).await;
    test_city.pass(secs(100)).await;
    assert_eq!(
        causes(&test_city, EventType::AutomationFailed).await,
        ["crash"]
    );
    assert_eq!(count(&test_city, "long"), 3);
    test_city.pass(secs(500)).await;
    assert_eq!(count(&test_city, "long"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_at_its_slots_and_passes_over_one_that_comes_too_early() {
    let mut five = automation("five", cron("*/5 * * * *", CatchUp::None));
    five.timeout = secs(3600);
    let test_city = start(&[five]).await;
    test_city.pass(secs(298)).await;
    assert_eq!(count(&test_city, "five"), 0);
    test_city.pass(secs(3)).await;
    assert_eq!(count(&test_city, "five"), 1);
    test_city.parts.runner.let_go("five", secs(400), 0);
    test_city.pass(secs(300)).await;
    assert_eq!(count(&test_city, "five"), 2);
    test_city.pass(secs(300)).await;
    assert_eq!(count(&test_city, "five"), 2);
    let skipped = causes(&test_city, EventType::AutomationSkipped).await;
    assert_eq!(skipped, ["still_running"]);
    test_city.pass(secs(300)).await;
    assert_eq!(count(&test_city, "five"), 3);
}

/// `contract.md`, 2.2: `catch_up`.
#[tokio::test(start_paused = true)]
async fn slots_that_were_missed_are_over_or_made_up_for_once() {
    let all = [
        automation("none", cron("0 * * * *", CatchUp::None)),
        automation("last", cron("0 * * * *", CatchUp::Last)),
    ];
    let test_city = start(&all).await;
    test_city.pass(secs(3601)).await;
    assert_eq!(
        (count(&test_city, "none"), count(&test_city, "last")),
        (1, 1)
    );
    let test_city = restart(test_city, &all, secs(3 * 3600 + 60)).await;
    assert_eq!(
        (count(&test_city, "none"), count(&test_city, "last")),
        (1, 2)
    );
    let skipped = test_city.events(EventType::AutomationSkipped).await;
    assert_eq!(skipped.len(), 1);
    assert_eq!(
        (skipped[0].subject.as_str(), skipped[0].cause.as_str()),
        ("none", "missed")
    );
    test_city.pass(secs(3600)).await;
    assert_eq!(
        (count(&test_city, "none"), count(&test_city, "last")),
        (2, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_asked_until_it_holds_and_then_fires_once_per_interval() {
    let all = [automation("act", condition(300))];
    let scenario = city(&all);
    let test_city = scenario.start().await;
    // The check of the start found it true.
    assert_eq!(
        (count(&test_city, "check"), count(&test_city, "act")),
        (1, 1)
    );
    test_city.parts.runner.let_go("check", Duration::ZERO, 1);
    test_city.pass(secs(298)).await;
    assert_eq!(count(&test_city, "check"), 1, "not even asked");
    test_city.pass(secs(95)).await;
    assert_eq!(count(&test_city, "act"), 1);
    assert_eq!(count(&test_city, "check"), 5);
    test_city.parts.runner.let_go("check", Duration::ZERO, 0);
    test_city.pass(secs(30)).await;
    assert_eq!(count(&test_city, "act"), 2);
    test_city.pass(secs(290)).await;
    assert_eq!(count(&test_city, "act"), 2);
    test_city.pass(secs(15)).await;
    assert_eq!(count(&test_city, "act"), 3);
    assert_eq!(test_city.parts.runner.started("check")[0].limit, secs(10));
    assert_eq!(test_city.events(EventType::AutomationFailed).await, []);
}

/// `contract.md`, 2.2: the cursor starts at discovery; one run per event, in order.
#[tokio::test(start_paused = true)]
async fn each_event_fires_once_in_order_from_discovery_on() {
    let test_city = start(&[]).await;
    made(&test_city, "before").await;
    let all = [automation("tell", event("relic.created"))];
    let test_city = restart(test_city, &all, secs(1)).await;
    test_city.parts.runner.let_go("tell", secs(20), 0);
    let mut expected = Vec::new();
    for title in ["one", "two", "three"] {
        expected.push(made(&test_city, title).await);
    }
    test_city.pass(secs(15)).await;
    assert_eq!(count(&test_city, "tell"), 1, "one at a time");
    // An interrupted run is not repeated: its event was settled when it began.
    let test_city = restart(test_city, &all, secs(1)).await;
    test_city.pass(secs(60)).await;
    let runs = test_city.parts.runner.started("tell");
    let told = runs.iter().map(|command| {
        let event: serde_json::Value =
            serde_json::from_str(command.stdin.as_deref().unwrap()).unwrap();
        assert_eq!(event["type"], "relic.created");
        event["subject"].as_str().unwrap().to_owned()
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(
        causes(&test_city, EventType::AutomationFailed).await,
        ["crash"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_automation_never_fires_on_its_own_events() {
    let all = [
        automation("echo", event("automation.*")),
        automation("hand", Gate::Manual),
    ];
    let test_city = start(&all).await;
    by_hand(&test_city, "echo").await.unwrap();
    test_city.pass(secs(10)).await;
    assert_eq!(count(&test_city, "echo"), 1);
    by_hand(&test_city, "hand").await.unwrap();
    test_city.pass(secs(10)).await;
    assert_eq!(
        count(&test_city, "echo"),
        3,
        "fired and completed of the other"
    );
}

#[tokio::test(start_paused = true)]
async fn of_more_than_a_thousand_events_the_oldest_are_passed_over() {
    let test_city = start(&[automation("tell", event("relic.updated"))]).await;
    test_city.parts.runner.let_go("tell", secs(30), 0);
    test_city
        .store(|txn| {
            for n in 0..1100 {
                let event =
                    NewEvent::new(EventType::RelicUpdated, format!("gt-{n}"), Cause::Patrol);
                txn.record(&event)?;
            }
            Ok(())
        })
        .await;
    test_city.settle().await;
    let skipped = test_city.events(EventType::AutomationSkipped).await;
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].cause, "queue_full");
    assert_eq!(skipped[0].data["events"], 100);
    let first = test_city
        .parts
        .runner
        .started("tell")
        .remove(0)
        .stdin
        .unwrap();
    assert!(first.contains("\"gt-100\""), "{first}");
}

#[tokio::test(start_paused = true)]
async fn a_manual_gate_opens_by_hand_only_and_for_one_run_at_a_time() {
    let mut off = automation("off", cooldown(1));
    off.enabled = false;
    let test_city = start(&[automation("hand", Gate::Manual), off]).await;
    test_city.parts.runner.let_go("hand", secs(30), 0);
    test_city.pass(secs(3600)).await;
    assert_eq!(
        (count(&test_city, "hand"), count(&test_city, "off")),
        (0, 0)
    );
    let (run, _) = by_hand(&test_city, "hand").await.unwrap();
    assert_eq!(run.cause, Cause::Operator);
    let refused = by_hand(&test_city, "hand").await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    by_hand(&test_city, "off").await.unwrap();
    let unknown = by_hand(&test_city, "nobody").await.unwrap_err();
    assert_eq!(unknown.kind, RefusalKind::NotFound);
    test_city.pass(secs(31)).await;
    assert_eq!(count(&test_city, "hand"), 1);
    assert_eq!(
        test_city.events(EventType::AutomationCompleted).await.len(),
        2
    );
}

/// `health-patrol.md`, known limitations: failed automations are tried again, and completion is
/// tracked.
#[tokio::test(start_paused = true)]
async fn failed_run_is_retried_and_its_end_is_recorded() {
    let mut bad = automation("bad", Gate::Manual);
    bad.retries = 2;
    let mut late = automation("late", Gate::Manual);
    late.retries = 1;
    let test_city = start(&[bad, late]).await;
    test_city.parts.runner.let_go("bad", secs(1), 3);
    test_city.parts.runner.let_go("late", secs(100), 0);
    for name in ["bad", "late"] {
        by_hand(&test_city, name).await.unwrap();
    }
    test_city.pass(secs(130)).await;
    assert_eq!(
        (count(&test_city, "bad"), count(&test_city, "late")),
        (3, 2)
    );
    let failed = test_city.events(EventType::AutomationFailed).await;
    let told = |n: usize| {
        let (event, data) = (&failed[n], &failed[n].data);
        (
            event.cause.clone(),
            data["attempts"].as_u64(),
            data["code"].as_i64(),
            data["tail"].clone(),
        )
    };
    assert_eq!(
        told(0),
        ("exit_code".into(), Some(3), Some(3), "said\n".into())
    );
    assert_eq!(told(1), ("timeout".into(), Some(2), None, "said\n".into()));
    let runs = test_city.store(|txn| txn.runs(None, 10)).await;
    assert_eq!(runs.len(), 2);
    assert!(
        runs.iter()
            .all(|run| run.ended.is_some() && run.tail == "said\n")
    );
}

/// `contract.md`, 2.2, and the seed's dispatch: one slow or failing automation, or its check,
/// delays no other.
#[tokio::test(start_paused = true)]
async fn a_slow_automation_delays_no_other() {
    let mut slow = automation("slow", Gate::Manual);
    slow.timeout = secs(7200);
    let all = [
        automation("act", condition(30)),
        slow,
        automation("quick", cooldown(10)),
    ];
    let test_city = start(&all).await;
    test_city.parts.runner.let_go("slow", secs(7200), 0);
    test_city.parts.runner.let_go("check", secs(9), 1);
    by_hand(&test_city, "slow").await.unwrap();
    let before = count(&test_city, "quick");
    test_city.pass(secs(101)).await;
    assert_eq!(count(&test_city, "quick") - before, 10);
    assert_eq!(
        test_city.parts.runner.started("quick")[0].env["HD_AUTOMATION"],
        "quick"
    );
}

#[tokio::test(start_paused = true)]
async fn disabled_automation_stays_disabled_and_skips_events_of_that_time() {
    let all = [
        automation("tell", event("relic.created")),
        automation("five", cron("*/5 * * * *", CatchUp::Last)),
    ];
    let test_city = start(&all).await;
    let switch = |on: bool| {
        let all = all.clone();
        move |txn: &mut dyn crate::ports::relics::Txn| {
            all.iter()
                .try_for_each(|one| automations::switch(txn, one, on, &Asker::person()))
        }
    };
    test_city.store(switch(false)).await;
    made(&test_city, "one").await;
    let test_city = restart(test_city, &all, secs(900)).await;
    made(&test_city, "two").await;
    test_city.pass(secs(400)).await;
    assert_eq!(
        (count(&test_city, "tell"), count(&test_city, "five")),
        (0, 0)
    );
    test_city.store(switch(true)).await;
    test_city
        .world
        .directory
        .tell_dispatcher(DispatcherMsg::Look);
    test_city.settle().await;
    assert_eq!(
        (count(&test_city, "tell"), count(&test_city, "five")),
        (0, 0)
    );
    made(&test_city, "three").await;
    test_city.pass(secs(300)).await;
    assert_eq!(
        (count(&test_city, "tell"), count(&test_city, "five")),
        (1, 1)
    );
}

/// A dispatcher that panicked finds the runs of its predecessor under way, and not interrupted.
#[tokio::test(start_paused = true)]
async fn restarted_dispatcher_leaves_running_commands_alone() {
    let test_city = start(&[automation("hand", Gate::Manual)]).await;
    test_city.parts.runner.let_go("hand", secs(30), 0);
    by_hand(&test_city, "hand").await.unwrap();
    assert_eq!(test_city.kill_actors::<DispatcherMsg>(), 1);
    test_city.pass(secs(5)).await;
    assert!(by_hand(&test_city, "hand").await.is_err());
    test_city.pass(secs(30)).await;
    assert_eq!(
        test_city.events(EventType::AutomationCompleted).await.len(),
        1
    );
    assert_eq!(test_city.events(EventType::AutomationFailed).await, []);
    by_hand(&test_city, "hand").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_ends_runs_and_records_that() {
    let mut long = automation("long", Gate::Manual);
    long.timeout = secs(3600);
    long.retries = 5;
    let test_city = start(&[long]).await;
    test_city.parts.runner.let_go("long", secs(1800), 0);
    by_hand(&test_city, "long").await.unwrap();
    let parts = test_city.parts.clone();
    test_city.stop(StopMode::Graceful).await;
    let runs = parts.store.run(|txn| txn.runs(None, 9)).await.unwrap();
    assert_eq!(runs[0].end, Some(Cause::Shutdown));
    assert_eq!(parts.runner.started("long").len(), 1);
}
