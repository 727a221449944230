//! `run` with several tasks, and the fields of new relics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask};
use crate::control::handlers::dispatch;
use crate::control::protocol::{ErrorKind, Op, OpName};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::ids::{HarnessName, RelicId};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::RelicFilter;
use crate::testing::poll::{pass, poll};
use crate::testing::world::{Scenario, TestCity, raider};

fn of(max: usize, auto_charge: bool) -> Scenario {
    Scenario::new().rig(move |rig| {
        rig.raiders.auto_charge = auto_charge;
        rig.raiders.max = max;
    })
}

/// Adds a harness that is like the usual one.
fn with_harness(scenario: Scenario, name: &str) -> Scenario {
    let name = HarnessName::new(name).unwrap();
    scenario.with(|city| {
        let like = city.harnesses.values().next().unwrap().clone();
        city.harnesses.insert(name, like);
    })
}

async fn run(city: &TestCity, tasks: Value) -> Vec<Value> {
    let told = ask(city, "run", json!({ "task": tasks })).await.unwrap();
    told["relics"].as_array().unwrap().clone()
}

fn id(row: &Value) -> RelicId {
    row["relic"].as_str().unwrap().parse().unwrap()
}

/// Issue: tasks of equal priority are charged in the order of the file, and the most urgent first. The fetches of all
/// charges began at once, and the fastest got the slot.
#[tokio::test(start_paused = true)]
async fn tasks_of_a_run_get_free_slots_by_priority_then_in_their_order() {
    for auto_charge in [false, true] {
        let city = of(2, auto_charge).start().await;
        let repo = Arc::downgrade(&city.parts.repo);
        // The first fetch is slower than the others, if they begin at all.
        city.parts.repo.interlude("fetch_target", move || {
            let Some(repo) = repo.upgrade() else { return };
            if repo.count("fetch_target") == 1 {
                poll(Duration::from_millis(300), || {
                    (repo.count("fetch_target") > 3).then_some(())
                });
            }
        });
        let tasks = json!(["one", "two", { "title": "urgent", "priority": 4 }, "three"]);
        let rows = run(&city, tasks).await;
        let has_raider: Vec<_> = rows.iter().map(|row| row["raider"].is_string()).collect();
        assert_eq!(has_raider, [true, false, true, false], "{rows:?}");
        let urgent = city.hook(&raider("Toast")).await.unwrap();
        assert_eq!(urgent.relic, id(&rows[2]), "it got the first slot");
    }
}

/// A full rig was fetched for once per task.
#[tokio::test(start_paused = true)]
async fn task_without_a_free_slot_is_not_fetched_for() {
    let city = of(1, false).start().await;
    let rows = run(&city, json!(["one", "two", "three"])).await;
    let note = rows[2]["note"].as_str().unwrap();
    assert!(note.contains("slot"), "{note}");
    assert_eq!(city.parts.repo.count("fetch_target"), 1);
}

/// The answer said that the relic waits for its own charge.
#[tokio::test(start_paused = true)]
async fn charge_that_automatic_charging_overtook_is_answered_with_its_raider() {
    let city = of(2, true).start().await;
    let runtime = tokio::runtime::Handle::current();
    let (world, told) = (city.world.clone(), Arc::new(Mutex::new(None)));
    let asked = Arc::clone(&told);
    // While automatic charging makes the sandbox, a person asks for the same relic.
    city.parts.repo.interlude("make_sandbox", move || {
        let world = world.clone();
        let charge = json!({ "relic": "gt-1", "rig": "horde" });
        let charge = Op::parse(OpName::Charge, charge.as_object().unwrap().clone()).unwrap();
        let task = runtime.spawn(async move {
            let caller = Caller::stand_in(None, CallerRole::Operator);
            dispatch(&Published::default(), &world, caller, charge).await
        });
        asked.lock().unwrap().get_or_insert(task);
        // The request finds the charge that goes on.
        pass(Duration::from_millis(100));
    });
    let relic = city.relic("a").await;
    assert_eq!(relic.as_str(), "gt-1");
    city.world.nudge("horde/witness");
    city.pass(PATROL).await;
    let task = told.lock().unwrap().take().expect("it was charged");
    let charged = task.await.unwrap().unwrap();
    assert_eq!(charged["raider"], "horde/raiders/Toast", "{charged}");
    assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn new_relic_has_the_assignee_and_the_harness_that_were_asked_for() {
    let city = with_harness(of(2, true), "best").start().await;
    let assigned = json!({ "title": "a", "assignee": " alice " });
    let told = ask(&city, "relic.create", assigned).await.unwrap();
    assert_eq!(told["assignee"], "alice");
    let note = told["note"].as_str().unwrap();
    assert!(note.contains("the name of a person"), "{note}");
    let alices: RelicId = told["id"].as_str().unwrap().parse().unwrap();
    let with = json!({ "title": "b", "harness": "best", "assignee": "" });
    let told = ask(&city, "relic.create", with).await.unwrap();
    assert_eq!(
        (&told["note"], &told["assignee"]),
        (&Value::Null, &Value::Null)
    );
    city.pass(PATROL).await;
    assert_eq!(city.status(&alices).await, RelicStatus::Open, "not charged");
    let hook = city.hook(&raider("Toast")).await.unwrap();
    assert_eq!(hook.harness.as_str(), "best");
    let unknown = json!({ "title": "c", "harness": "bets" });
    let refused = ask(&city, "relic.create", unknown).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    assert_eq!(refused.hint.as_deref(), Some("did you mean best?"));
}

#[tokio::test(start_paused = true)]
async fn task_of_a_run_may_name_its_assignee_and_its_harness() {
    let scenario = with_harness(with_harness(of(3, true), "best"), "other");
    let city = scenario.start().await;
    let tasks = json!([
        { "title": "a", "assignee": "alice" },
        { "title": "b", "harness": "best" },
        "c"
    ]);
    let asked = json!({ "task": tasks, "harness": "other" });
    let told = ask(&city, "run", asked).await.unwrap();
    let rows = told["relics"].as_array().unwrap();
    assert_eq!(rows[0]["assignee"], "alice");
    assert!(rows[0]["raider"].is_null() && rows[0]["auto_charge"] == false);
    let note = rows[0]["note"].as_str().unwrap();
    assert!(note.starts_with("it is assigned to alice ("), "{note}");
    city.pass(PATROL).await;
    assert_eq!(city.status(&id(&rows[0])).await, RelicStatus::Open);
    let mut harnesses = Vec::new();
    for row in &rows[1..] {
        let relic = id(row);
        let hook = city.store(move |txn| txn.hook_of_relic(&relic)).await;
        harnesses.push(hook.unwrap().harness.to_string());
    }
    assert_eq!(harnesses, ["best", "other"]);
    let unknown = json!({ "task": ["d", { "title": "e", "harness": "bets" }] });
    let refused = ask(&city, "run", unknown).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    let relics = city.store(|txn| txn.relics(&RelicFilter::default())).await;
    assert_eq!(relics.len(), 3, "nothing was made");
}
