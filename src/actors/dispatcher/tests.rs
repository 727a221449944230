//! Automations on the paused clock.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

mod disturbed;

use crate::actors::ask;
use crate::actors::mail::DispatcherMsg;
use crate::actors::mail::StopMode;
use crate::actors::records::automations;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::automation::{Automation, Run};
use crate::domain::cause::Cause;
use crate::domain::event::{EventType, NewEvent};
use crate::domain::gates::Gate;
use crate::domain::gates::cron::{CatchUp, Schedule};
use crate::domain::gates::event::Pattern;
use crate::testing::world::{Scenario, Town};

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Named and running as it is called.
fn automation(name: &str, gate: Gate) -> Automation {
    Automation {
        id: name.parse().unwrap(),
        description: String::new(),
        exec: name.to_owned(),
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

async fn start(automations: &[Automation]) -> Town {
    city(automations).start().await
}

/// Kills the daemon, lets time pass, and starts it again.
async fn restart(town: Town, automations: &[Automation], away: Duration) -> Town {
    let clock = Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    // Nothing ever happens here but time.
    let _always_over = tokio::time::timeout(away, std::future::pending::<()>()).await;
    city(automations).start_on(parts, clock).await
}

fn count(town: &Town, line: &str) -> usize {
    town.parts.runner.started(line).len()
}

async fn by_hand(town: &Town, name: &str) -> Result<(Run, u64), Refusal> {
    let id = name.parse().unwrap();
    let message = |reply| DispatcherMsg::Run(id, reply);
    ask::ask(town.world.directory.dispatcher(), message, secs(3600)).await?
}

/// A relic is made, as `hd relic create` does.
async fn made(town: &Town, relic: &str) -> String {
    let event = NewEvent::new(EventType::RelicCreated, relic, Cause::Operator);
    town.store(move |txn| txn.record(&event).map(drop)).await;
    relic.to_owned()
}

async fn causes(town: &Town, kind: EventType) -> Vec<String> {
    let events = town.events(kind).await;
    events.into_iter().map(|event| event.cause).collect()
}

/// `contract.md`, 2.2: a cooldown that never ran is due now, and counts from the start of a run.
#[tokio::test(start_paused = true)]
async fn a_cooldown_counts_from_the_start_of_the_last_run() {
    let slow = automation("slow", cooldown(600));
    let town = city(&[slow]);
    let town = town.start().await;
    town.parts.runner.let_go("slow", secs(50), 0);
    assert_eq!(count(&town, "slow"), 1);
    town.pass(secs(598)).await;
    assert_eq!(count(&town, "slow"), 1);
    town.pass(secs(3)).await;
    assert_eq!(count(&town, "slow"), 2);
    town.pass(secs(598)).await;
    assert_eq!(count(&town, "slow"), 2);
    town.pass(secs(3)).await;
    assert_eq!(count(&town, "slow"), 3);
}

/// `health-patrol.md`, invariants: tracking records are made before the run, so that the cooldown
/// gate does not fire again while it goes on; one run of an automation at a time.
#[tokio::test(start_paused = true)]
async fn a_cooldown_does_not_fire_again_while_its_run_goes_on() {
    let mut eager = automation("eager", cooldown(10));
    eager.timeout = secs(3600);
    let town = start(&[eager]).await;
    town.parts.runner.let_go("eager", secs(60), 0);
    town.pass(secs(11)).await;
    assert_eq!(count(&town, "eager"), 2);
    town.pass(secs(50)).await;
    assert_eq!(count(&town, "eager"), 2, "it runs");
    town.pass(secs(15)).await;
    assert_eq!(count(&town, "eager"), 3, "due when it ended");
}

/// `health-patrol.md`, known limitations: here completion is tracked. A run that the end of the
/// supervisor interrupted is told of once, and its record keeps the cooldown from firing again.
#[tokio::test(start_paused = true)]
async fn a_run_that_a_crash_interrupted_is_reported_once_and_not_repeated() {
    let mut long = automation("long", cooldown(600));
    long.timeout = secs(500);
    let all = [long];
    let scenario = city(&all);
    let town = scenario.start().await;
    town.pass(secs(601)).await;
    town.parts.runner.let_go("long", secs(400), 0);
    town.pass(secs(600)).await;
    assert_eq!(count(&town, "long"), 3);
    let town = restart(town, &all, secs(5)).await;
    let failed = town.events(EventType::AutomationFailed).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(
        (failed[0].subject.as_str(), failed[0].cause.as_str()),
        ("long", "crash")
    );
    let record = town.world.city.automations_dir().join("long.run");
    assert!(town.parts.runner.leftovers().contains(&record));
    let town = restart(town, &all, secs(5)).await;
    town.pass(secs(100)).await;
    assert_eq!(causes(&town, EventType::AutomationFailed).await, ["crash"]);
    assert_eq!(count(&town, "long"), 3);
    town.pass(secs(500)).await;
    assert_eq!(count(&town, "long"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_schedule_runs_at_its_slots_and_passes_over_one_that_comes_too_early() {
    let mut five = automation("five", cron("*/5 * * * *", CatchUp::None));
    five.timeout = secs(3600);
    let town = start(&[five]).await;
    town.pass(secs(298)).await;
    assert_eq!(count(&town, "five"), 0);
    town.pass(secs(3)).await;
    assert_eq!(count(&town, "five"), 1);
    town.parts.runner.let_go("five", secs(400), 0);
    town.pass(secs(300)).await;
    assert_eq!(count(&town, "five"), 2);
    town.pass(secs(300)).await;
    assert_eq!(count(&town, "five"), 2);
    let skipped = causes(&town, EventType::AutomationSkipped).await;
    assert_eq!(skipped, ["still_running"]);
    town.pass(secs(300)).await;
    assert_eq!(count(&town, "five"), 3);
}

/// `contract.md`, 2.2: `catch_up`.
#[tokio::test(start_paused = true)]
async fn slots_that_were_missed_are_over_or_made_up_for_once() {
    let all = [
        automation("none", cron("0 * * * *", CatchUp::None)),
        automation("last", cron("0 * * * *", CatchUp::Last)),
    ];
    let town = start(&all).await;
    town.pass(secs(3601)).await;
    assert_eq!((count(&town, "none"), count(&town, "last")), (1, 1));
    let town = restart(town, &all, secs(3 * 3600 + 60)).await;
    assert_eq!((count(&town, "none"), count(&town, "last")), (1, 2));
    let skipped = town.events(EventType::AutomationSkipped).await;
    assert_eq!(skipped.len(), 1);
    assert_eq!(
        (skipped[0].subject.as_str(), skipped[0].cause.as_str()),
        ("none", "missed")
    );
    town.pass(secs(3600)).await;
    assert_eq!((count(&town, "none"), count(&town, "last")), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_asked_until_it_holds_and_then_fires_once_per_interval() {
    let all = [automation("act", condition(300))];
    let scenario = city(&all);
    let town = scenario.start().await;
    // The check of the start found it true.
    assert_eq!((count(&town, "check"), count(&town, "act")), (1, 1));
    town.parts.runner.let_go("check", Duration::ZERO, 1);
    town.pass(secs(298)).await;
    assert_eq!(count(&town, "check"), 1, "not even asked");
    town.pass(secs(95)).await;
    assert_eq!(count(&town, "act"), 1);
    assert_eq!(count(&town, "check"), 5);
    town.parts.runner.let_go("check", Duration::ZERO, 0);
    town.pass(secs(30)).await;
    assert_eq!(count(&town, "act"), 2);
    town.pass(secs(290)).await;
    assert_eq!(count(&town, "act"), 2);
    town.pass(secs(15)).await;
    assert_eq!(count(&town, "act"), 3);
    assert_eq!(town.parts.runner.started("check")[0].limit, secs(10));
    assert_eq!(town.events(EventType::AutomationFailed).await, []);
}

/// `contract.md`, 2.2: the cursor starts at discovery; one run per event, in order.
#[tokio::test(start_paused = true)]
async fn each_event_fires_once_in_order_from_discovery_on() {
    let town = start(&[]).await;
    made(&town, "before").await;
    let all = [automation("tell", event("relic.created"))];
    let town = restart(town, &all, secs(1)).await;
    town.parts.runner.let_go("tell", secs(20), 0);
    let mut expected = Vec::new();
    for title in ["one", "two", "three"] {
        expected.push(made(&town, title).await);
    }
    town.pass(secs(15)).await;
    assert_eq!(count(&town, "tell"), 1, "one at a time");
    // An interrupted run is not repeated: its event was settled when it began.
    let town = restart(town, &all, secs(1)).await;
    town.pass(secs(60)).await;
    let runs = town.parts.runner.started("tell");
    let told = runs.iter().map(|command| {
        let event: serde_json::Value =
            serde_json::from_str(command.stdin.as_deref().unwrap()).unwrap();
        assert_eq!(event["type"], "relic.created");
        event["subject"].as_str().unwrap().to_owned()
    });
    assert_eq!(told.collect::<Vec<_>>(), expected);
    assert_eq!(causes(&town, EventType::AutomationFailed).await, ["crash"]);
}

#[tokio::test(start_paused = true)]
async fn an_automation_never_fires_on_its_own_events() {
    let all = [
        automation("echo", event("automation.*")),
        automation("hand", Gate::Manual),
    ];
    let town = start(&all).await;
    by_hand(&town, "echo").await.unwrap();
    town.pass(secs(10)).await;
    assert_eq!(count(&town, "echo"), 1);
    by_hand(&town, "hand").await.unwrap();
    town.pass(secs(10)).await;
    assert_eq!(count(&town, "echo"), 3, "fired and completed of the other");
}

#[tokio::test(start_paused = true)]
async fn of_more_than_a_thousand_events_the_oldest_are_passed_over() {
    let town = start(&[automation("tell", event("relic.updated"))]).await;
    town.parts.runner.let_go("tell", secs(30), 0);
    town.store(|txn| {
        for n in 0..1100 {
            let event = NewEvent::new(EventType::RelicUpdated, format!("gt-{n}"), Cause::Patrol);
            txn.record(&event)?;
        }
        Ok(())
    })
    .await;
    town.settle().await;
    let skipped = town.events(EventType::AutomationSkipped).await;
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0].cause, "queue_full");
    assert_eq!(skipped[0].data["events"], 100);
    let first = town.parts.runner.started("tell").remove(0).stdin.unwrap();
    assert!(first.contains("\"gt-100\""), "{first}");
}

#[tokio::test(start_paused = true)]
async fn a_manual_gate_opens_by_hand_only_and_for_one_run_at_a_time() {
    let mut off = automation("off", cooldown(1));
    off.enabled = false;
    let town = start(&[automation("hand", Gate::Manual), off]).await;
    town.parts.runner.let_go("hand", secs(30), 0);
    town.pass(secs(3600)).await;
    assert_eq!((count(&town, "hand"), count(&town, "off")), (0, 0));
    let (run, _) = by_hand(&town, "hand").await.unwrap();
    assert_eq!(run.cause, Cause::Operator);
    let refused = by_hand(&town, "hand").await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::Conflict);
    by_hand(&town, "off").await.unwrap();
    let unknown = by_hand(&town, "nobody").await.unwrap_err();
    assert_eq!(unknown.kind, RefusalKind::NotFound);
    town.pass(secs(31)).await;
    assert_eq!(count(&town, "hand"), 1);
    assert_eq!(town.events(EventType::AutomationCompleted).await.len(), 2);
}

/// `health-patrol.md`, known limitations: failed automations are tried again, and completion is
/// tracked.
#[tokio::test(start_paused = true)]
async fn failed_run_is_retried_and_its_end_is_recorded() {
    let mut bad = automation("bad", Gate::Manual);
    bad.retries = 2;
    let mut late = automation("late", Gate::Manual);
    late.retries = 1;
    let town = start(&[bad, late]).await;
    town.parts.runner.let_go("bad", secs(1), 3);
    town.parts.runner.let_go("late", secs(100), 0);
    for name in ["bad", "late"] {
        by_hand(&town, name).await.unwrap();
    }
    town.pass(secs(130)).await;
    assert_eq!((count(&town, "bad"), count(&town, "late")), (3, 2));
    let failed = town.events(EventType::AutomationFailed).await;
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
    let runs = town.store(|txn| txn.runs(None, 10)).await;
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
    let town = start(&all).await;
    town.parts.runner.let_go("slow", secs(7200), 0);
    town.parts.runner.let_go("check", secs(9), 1);
    by_hand(&town, "slow").await.unwrap();
    let before = count(&town, "quick");
    town.pass(secs(101)).await;
    assert_eq!(count(&town, "quick") - before, 10);
    assert_eq!(
        town.parts.runner.started("quick")[0].env["HD_AUTOMATION"],
        "quick"
    );
}

#[tokio::test(start_paused = true)]
async fn disabled_automation_stays_disabled_and_skips_events_of_that_time() {
    let all = [
        automation("tell", event("relic.created")),
        automation("five", cron("*/5 * * * *", CatchUp::Last)),
    ];
    let town = start(&all).await;
    let switch = |on: bool| {
        let all = all.clone();
        move |txn: &mut dyn crate::ports::relics::Txn| {
            all.iter()
                .try_for_each(|one| automations::switch(txn, one, on))
        }
    };
    town.store(switch(false)).await;
    made(&town, "one").await;
    let town = restart(town, &all, secs(900)).await;
    made(&town, "two").await;
    town.pass(secs(400)).await;
    assert_eq!((count(&town, "tell"), count(&town, "five")), (0, 0));
    town.store(switch(true)).await;
    town.world.directory.tell_dispatcher(DispatcherMsg::Look);
    town.settle().await;
    assert_eq!((count(&town, "tell"), count(&town, "five")), (0, 0));
    made(&town, "three").await;
    town.pass(secs(300)).await;
    assert_eq!((count(&town, "tell"), count(&town, "five")), (1, 1));
}

/// A dispatcher that panicked finds the runs of its predecessor under way, and not interrupted.
#[tokio::test(start_paused = true)]
async fn restarted_dispatcher_leaves_running_commands_alone() {
    let town = start(&[automation("hand", Gate::Manual)]).await;
    town.parts.runner.let_go("hand", secs(30), 0);
    by_hand(&town, "hand").await.unwrap();
    assert_eq!(town.kill_actors::<DispatcherMsg>(), 1);
    town.pass(secs(5)).await;
    assert!(by_hand(&town, "hand").await.is_err());
    town.pass(secs(30)).await;
    assert_eq!(town.events(EventType::AutomationCompleted).await.len(), 1);
    assert_eq!(town.events(EventType::AutomationFailed).await, []);
    by_hand(&town, "hand").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_ends_runs_and_records_that() {
    let mut long = automation("long", Gate::Manual);
    long.timeout = secs(3600);
    long.retries = 5;
    let town = start(&[long]).await;
    town.parts.runner.let_go("long", secs(1800), 0);
    by_hand(&town, "long").await.unwrap();
    let parts = town.parts.clone();
    town.stop(StopMode::Graceful).await;
    let runs = parts.store.run(|txn| txn.runs(None, 9)).await.unwrap();
    assert_eq!(runs[0].end, Some(Cause::Shutdown));
    assert_eq!(parts.runner.started("long").len(), 1);
}
