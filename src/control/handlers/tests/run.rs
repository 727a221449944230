//! `run` with several tasks, and the fields of new relics.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{PATROL, ask};
use crate::actors::claims::ClaimKey;
use crate::control::handlers::dispatch;
use crate::control::protocol::{ControlError, ErrorKind, Op, OpName};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::ids::{HarnessName, RelicId};
use crate::domain::relic::RelicStatus;
use crate::ports::relics::{RelicFilter, Txn};
use crate::ports::repo::RepoError;
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

/// The answer of a charge that was asked for while automatic charging makes the sandbox of the relic `gt-1`.
type Overtaken = Arc<Mutex<Option<JoinHandle<Result<Value, ControlError>>>>>;

/// Has a person ask for the charge of `gt-1` while automatic charging makes its sandbox; this happens then.
fn asks_meanwhile(city: &TestCity, happens: impl Fn() + Send + Sync + 'static) -> Overtaken {
    let runtime = tokio::runtime::Handle::current();
    let (world, told) = (city.world.clone(), Overtaken::default());
    let asked = Arc::clone(&told);
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
        pass(Duration::from_millis(300));
        happens();
    });
    told
}

async fn answer(told: &Overtaken) -> Result<Value, ControlError> {
    let task = told.lock().unwrap().take().expect("it was charged");
    task.await.unwrap()
}

/// The answer said that the relic waits for its own charge.
#[tokio::test(start_paused = true)]
async fn charge_that_automatic_charging_overtook_is_answered_with_its_raider() {
    let city = of(2, true).start().await;
    let told = asks_meanwhile(&city, || {});
    let relic = city.relic("a").await;
    assert_eq!(relic.as_str(), "gt-1");
    city.world.nudge("horde/witness");
    city.pass(PATROL).await;
    let charged = answer(&told).await.unwrap();
    assert_eq!(charged["raider"], "horde/raiders/Toast", "{charged}");
    assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
}

/// It was answered as charged: the failure had blocked the relic, as a raider does, or it had been closed.
#[tokio::test(start_paused = true)]
async fn automatic_charge_that_fails_is_not_answered_as_charged() {
    for is_closed in [false, true] {
        let city = of(2, true).start().await;
        let store = city.world.store.clone();
        let runtime = tokio::runtime::Handle::current();
        let told = asks_meanwhile(&city, move || {
            let close = |txn: &mut dyn Txn| {
                let mut relic = txn.relic(&"gt-1".parse().unwrap())?;
                relic.status = RelicStatus::Closed;
                txn.put_relic(&relic)
            };
            if is_closed {
                runtime.block_on(store.run(close)).unwrap();
            }
        });
        if !is_closed {
            let error = RepoError::Failed("no room".into());
            city.parts.repo.break_op("make_sandbox", error);
        }
        let relic = city.relic("a").await;
        let mut stored = city.relic_now(&relic).await;
        // One failure more blocks it.
        stored.charge_failures = 2;
        city.store(move |txn| txn.put_relic(&stored)).await;
        city.world.nudge("horde/witness");
        city.pass(PATROL).await;
        let refused = answer(&told).await.unwrap_err();
        let failed = "the automatic charge of gt-1 to horde/raiders/Toast failed";
        assert!(refused.message.contains(failed), "{refused:?}");
        let (status, why) = match is_closed {
            true => (RelicStatus::Closed, "changed while it was being charged"),
            false => (RelicStatus::Blocked, "no room"),
        };
        assert!(refused.message.contains(why), "{refused:?}");
        assert_eq!(city.status(&relic).await, status);
    }
}

/// A branch that cannot be fetched was fetched for each task, one after another, and all relics of the run were kept from automatic
/// charging until the last one.
#[tokio::test(start_paused = true)]
async fn branch_that_is_away_is_asked_for_once_in_a_run_and_holds_up_no_other_task() {
    let city = of(4, false).start().await;
    city.parts.repo.push_of_person("other");
    let away = RepoError::Remote("away".into());
    city.parts.repo.fail_for("find_branch", "topic", away);
    let (claims, seen) = (city.world.claims.clone(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&seen);
    city.parts.repo.interlude("find_branch", move || {
        let first = ClaimKey::Charge("gt-1".parse().unwrap());
        told.lock().unwrap().push(claims.is_claimed(&first));
    });
    let tasks = json!([
        { "title": "a", "branch": "topic" },
        { "title": "b", "branch": "other" },
        { "title": "c", "branch": "topic" },
        "d"
    ]);
    let rows = run(&city, tasks).await;
    let has_raider: Vec<_> = rows.iter().map(|row| row["raider"].is_string()).collect();
    assert_eq!(has_raider, [false, true, false, true], "{rows:?}");
    for row in [&rows[0], &rows[2]] {
        let note = row["note"].as_str().unwrap();
        assert!(note.contains("away"), "{note}");
    }
    // Both branches are looked for before the relics are made.
    assert_eq!(*seen.lock().unwrap(), [false, false, true, false]);
}

/// Each task waited for as long, one after another.
#[tokio::test(start_paused = true)]
async fn remote_that_hangs_is_waited_for_once_in_a_run() {
    let city = of(4, false).start().await;
    let hangs = RepoError::Timeout {
        what: "the fetch".into(),
        limit: Duration::from_secs(300),
    };
    city.parts.repo.break_op("find_branch", hangs.clone());
    city.parts.repo.break_op("fetch_target", hangs);
    let tasks =
        json!([{ "title": "a", "branch": "topic" }, { "title": "b", "branch": "other" }, "c"]);
    let rows = run(&city, tasks).await;
    assert!(rows.iter().all(|row| row["raider"].is_null()), "{rows:?}");
    // Once before the relics are made, and once by a charge.
    assert_eq!(city.parts.repo.count("find_branch"), 2);
    assert_eq!(city.parts.repo.count("fetch_target"), 0);
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

#[tokio::test(start_paused = true)]
async fn task_that_waits_for_another_names_it_in_the_answer() {
    let city = of(2, false).start().await;
    let first = city.relic("first").await;
    let rows = run(
        &city,
        json!([{ "title": "second", "deps": [first] }, "third"]),
    )
    .await;
    assert_eq!(rows[0]["deps"], json!([first]));
    assert_eq!(rows[1].get("deps"), None);
}
