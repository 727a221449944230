//! Pauses of automatic charging, and where ready relics go: by priority, then age, and by their labels.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask, story};
use crate::actors::mail::DoneRequest;
use crate::actors::records::auto_charge;
use crate::control::handlers::status;
use crate::control::protocol::ErrorKind;
use crate::control::snapshot::Published;
use crate::domain::auto_charge::Pause;
use crate::domain::event::EventType;
use crate::domain::ids::{HarnessName, RelicId};
use crate::domain::relic::{Completion, REWORK, RelicStatus};
use crate::testing::world::{Scenario, TestCity, completion, raider};

fn automatic(max: usize) -> Scenario {
    Scenario::new().rig(move |rig| {
        rig.raiders.auto_charge = true;
        rig.raiders.max = max;
    })
}

async fn answer(city: &TestCity, op: &str, args: Value) -> Value {
    ask(city, op, args).await.unwrap()
}

async fn rig_row(city: &TestCity) -> Value {
    let published = Published::default();
    let status = status::status(&published, &city.world, Duration::ZERO);
    let status: Value = serde_json::from_str(&status.await.unwrap()).unwrap();
    status["rigs"][0].clone()
}

/// Makes a relic as `hd relic create` does.
async fn created(city: &TestCity, fields: Value) -> RelicId {
    let made = answer(city, "relic.create", fields).await;
    made["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn paused_rig_charges_nothing_without_a_request_and_resumes_at_once() {
    let city = automatic(2).start().await;
    let told = answer(&city, "charge.pause", json!({ "rig": "horde" })).await;
    assert_eq!(
        (&told["paused"], &told["changed"]),
        (&json!(true), &json!(true))
    );
    let twice = answer(&city, "charge.pause", json!({ "rig": "horde" })).await;
    assert_eq!(twice["changed"], false);
    let (ready, rework) = (city.relic("ready").await, city.relic("rework").await);
    let mut row = city.relic_now(&rework).await;
    row.labels.push(REWORK.to_owned());
    city.store(move |txn| txn.put_relic(&row)).await;
    city.world.nudge("horde/witness");
    city.pass(PATROL).await;
    for relic in [&ready, &rework] {
        assert_eq!(city.status(relic).await, RelicStatus::Open, "{relic}");
    }
    // Explicit charges go on.
    let asked = created(&city, json!({ "title": "asked" })).await;
    answer(&city, "charge", json!({ "relic": asked, "rig": "horde" })).await;
    assert_eq!(city.status(&asked).await, RelicStatus::Hooked);
    answer(&city, "charge.resume", json!({ "rig": "horde" })).await;
    city.settle().await;
    assert_eq!(city.status(&ready).await, RelicStatus::Hooked, "at once");
    assert_eq!(city.events(EventType::ChargePaused).await.len(), 1);
    assert_eq!(city.events(EventType::ChargeResumed).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pause_outlives_the_supervisor_and_is_shown() {
    let city = automatic(2).start().await;
    answer(&city, "charge.pause", json!({})).await;
    let relic = created(&city, json!({ "title": "a" })).await;
    let clock = city.world.clock.clone();
    let city = automatic(2).start_on(city.crash().await, clock).await;
    city.pass(PATROL).await;
    assert_eq!(city.status(&relic).await, RelicStatus::Open);
    let paused = rig_row(&city).await["charge_paused"].clone();
    assert_eq!(
        (&paused["by"], &paused["city"]),
        (&json!("operator"), &json!(true))
    );
    let ready = answer(&city, "relic.ready", json!({})).await;
    assert_eq!(ready[0]["waits"], "automatic charging is paused");
    let why = answer(&city, "why", json!({ "name": relic })).await;
    let waits = why["waits"].as_str().unwrap();
    assert!(
        waits.contains("operator paused") && waits.contains("hd charge resume"),
        "{waits}"
    );
    let one = ask(&city, "charge.resume", json!({ "rig": "horde" })).await;
    assert_eq!(
        one.unwrap_err().kind,
        ErrorKind::Conflict,
        "the city is paused"
    );
    answer(&city, "charge.resume", json!({})).await;
    city.settle().await;
    assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
    assert_eq!(rig_row(&city).await["charge_paused"], Value::Null);
    let why = answer(&city, "why", json!({ "name": relic })).await;
    assert_eq!(why["waits"], Value::Null);
    let told = story(&city, city.world.city.name.as_str()).await;
    assert!(told.iter().any(|(kind, _)| kind == "charge.paused"));
}

/// The pause is checked again in the transaction that takes the slot.
#[tokio::test(start_paused = true)]
async fn pause_during_the_fetch_of_an_automatic_charge_stops_it() {
    let city = automatic(2).start().await;
    let store = city.world.store.clone();
    let runtime = tokio::runtime::Handle::current();
    city.parts.repo.interlude("fetch_target", move || {
        let pause = store.run(|txn| {
            let mut pauses = auto_charge::pauses(txn)?;
            let pause = Pause {
                since: txn.now(),
                by: "operator".to_owned(),
            };
            pauses.pause(None, pause);
            auto_charge::put_pauses(txn, &pauses)
        });
        runtime.block_on(pause).unwrap();
    });
    let relic = city.relic("a").await;
    city.world.nudge("horde/witness");
    city.pass(PATROL).await;
    assert_eq!(city.parts.repo.count("fetch_target"), 1);
    assert_eq!(city.status(&relic).await, RelicStatus::Open);
    assert_eq!(city.relic_now(&relic).await.charge_failures, 0);
    assert_eq!(city.sagas().await, 0);
}

#[tokio::test(start_paused = true)]
async fn run_in_a_paused_city_says_what_does_not_start() {
    let city = automatic(1).start().await;
    answer(&city, "charge.pause", json!({})).await;
    let told = answer(&city, "run", json!({ "task": ["one", "two"] })).await;
    let waits: Vec<_> = told["relics"].as_array().unwrap().iter().collect();
    let waits: Vec<_> = waits.iter().filter(|row| row["raider"].is_null()).collect();
    assert_eq!(
        waits.len(),
        1,
        "the first is charged, because it was asked for"
    );
    assert_eq!(
        (&waits[0]["auto_charge"], &waits[0]["charge_paused"]),
        (&json!(false), &json!(true))
    );
}

/// Issue: ready relics go to free slots by priority, then age.
#[tokio::test(start_paused = true)]
async fn most_urgent_then_oldest_relic_gets_the_free_slot() {
    let city = automatic(1).start().await;
    answer(&city, "charge.pause", json!({})).await;
    let mut expected = Vec::new();
    for (title, priority) in [("low", 0), ("older", 3), ("newer", 3), ("urgent", 4)] {
        expected.push(created(&city, json!({ "title": title, "priority": priority })).await);
        city.pass(Duration::from_secs(1)).await;
    }
    answer(&city, "charge.resume", json!({})).await;
    let mut order = Vec::new();
    for _ in 0..4 {
        city.settle().await;
        let hook = city.hook(&raider("Toast")).await.unwrap();
        order.push(hook.relic.clone());
        let cancel = json!({ "relic": hook.relic, "yes": true });
        answer(&city, "relic.cancel", cancel).await;
    }
    expected.reverse();
    expected.swap(1, 2);
    assert_eq!(order, expected);
}

/// Issue: label routing. The first label with a route decides; a harness that the charge names counts more.
#[tokio::test(start_paused = true)]
async fn label_of_a_relic_routes_it_to_a_harness() {
    let city = Scenario::new().with(|city| {
        let usual = city.rigs[0].raiders.harness.clone();
        let like = city.harnesses[&usual].clone();
        for name in ["painter", "writer"] {
            let name = HarnessName::new(name).unwrap();
            city.harnesses.insert(name, like.clone());
        }
        let route = |label: &str, to: &str| (label.to_owned(), vec![HarnessName::new(to).unwrap()]);
        let routes = [route("ui", "painter"), route("docs", "writer")];
        city.rigs[0].raiders.routes = routes.into_iter().collect();
        city.rigs[0].raiders.auto_charge = true;
    });
    let city = city.start().await;
    let usual = city.world.city.rigs[0].raiders.harness.to_string();
    let rows = [
        (json!(["urgent", "ui"]), "painter"),
        (json!(["docs", "ui"]), "writer"),
        (json!(["urgent"]), usual.as_str()),
    ];
    for (labels, harness) in rows {
        let relic = created(&city, json!({ "title": "a", "label": labels })).await;
        city.settle().await;
        let hook = city
            .store(move |txn| txn.hook_of_relic(&relic))
            .await
            .unwrap();
        assert_eq!(hook.harness.as_str(), harness);
        // The route is not kept with the relic.
        assert_eq!(city.relic_now(&hook.relic).await.harness, None);
    }
    answer(&city, "charge.pause", json!({})).await;
    let relic = created(&city, json!({ "title": "a", "label": ["ui"] })).await;
    let charge = json!({ "relic": relic, "rig": "horde", "harness": "writer" });
    answer(&city, "charge", charge).await;
    let hook = city
        .store(move |txn| txn.hook_of_relic(&relic))
        .await
        .unwrap();
    assert_eq!(hook.harness.as_str(), "writer");
}

/// Issue: `--after` holds for every task of a run, beside the dependencies that a task has of its own.
#[tokio::test(start_paused = true)]
async fn every_task_of_a_run_waits_for_the_relic_it_comes_after() {
    let city = automatic(4).start().await;
    answer(&city, "charge.pause", json!({})).await;
    let (first, other) = (city.relic("first").await, city.relic("other").await);
    let tasks = json!(["one", { "title": "two", "deps": [other] }]);
    let run = json!({ "task": tasks, "after": first });
    let told = answer(&city, "run", run).await;
    let ids: Vec<RelicId> = told["relics"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["relic"].as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(
        city.relic_now(&ids[0]).await.deps,
        std::slice::from_ref(&first)
    );
    assert_eq!(
        city.relic_now(&ids[1]).await.deps,
        [first.clone(), other.clone()]
    );
    answer(&city, "charge.resume", json!({})).await;
    city.settle().await;
    for id in &ids {
        assert_eq!(city.status(id).await, RelicStatus::Open, "it waits");
    }
    for id in [&first, &other] {
        answer(&city, "relic.cancel", json!({ "relic": id, "yes": true })).await;
    }
    city.settle().await;
    for id in &ids {
        assert_eq!(city.status(id).await, RelicStatus::Hooked);
    }
}

/// The harness was forgotten with the request, and `auto_charge` chose the rig's own.
#[tokio::test(start_paused = true)]
async fn task_of_a_run_that_waits_is_charged_with_the_harness_of_the_run() {
    let city = automatic(1).with(|city| {
        let like = city.harnesses.values().next().unwrap().clone();
        city.harnesses
            .insert(HarnessName::new("best").unwrap(), like);
    });
    let city = city.start().await;
    let first = city.charged("first").await;
    let run = json!({ "task": ["second"], "harness": "best" });
    let told = answer(&city, "run", run).await;
    let second: RelicId = told["relics"][0]["relic"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(city.status(&second).await, RelicStatus::Open);
    city.nuke(&first.raider, true).await.unwrap();
    // The free slot may be given to the first relic again before that is cancelled.
    let cancel = json!({ "relic": first.relic, "yes": true });
    if let Err(refused) = ask(&city, "relic.cancel", cancel.clone()).await {
        assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
        city.pass(PATROL).await;
        answer(&city, "relic.cancel", cancel).await;
    }
    city.pass(PATROL * 2).await;
    let hook = city
        .store(move |txn| txn.hook_of_relic(&second))
        .await
        .unwrap();
    assert_eq!(hook.harness.as_str(), "best");
}

/// The commands that `hd why`, `hd relic show` and the escalation name are given in their order.
#[tokio::test(start_paused = true)]
async fn blocked_relic_and_its_escalation_end_with_the_commands_that_work() {
    let city = Scenario::new().start().await;
    let charged = city.worker("a").await;
    let relic = charged.relic.as_str();
    let stuck = DoneRequest {
        exit: Completion::Escalated,
        reason: Some("no key".to_owned()),
        ..completion(&charged.raider)
    };
    city.done(stuck).await.unwrap();
    city.settle().await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Blocked);
    let expected = format!(
        "{relic} is blocked; `hd relic reopen {relic}` opens it again, and then `hd charge {relic} horde` gives it to \
         a raider; `hd relic close {relic}` abandons it"
    );
    let why = answer(&city, "why", json!({ "name": relic })).await;
    assert_eq!(why["waits"], expected);
    let shown = answer(&city, "relic.show", json!({ "relic": relic })).await;
    assert_eq!(shown["waits"], expected);
    let open = answer(&city, "escalations", json!({})).await;
    assert_eq!(open[0]["next"], expected);
    let escalation = json!({ "relic": open[0]["id"] });
    let shown = answer(&city, "relic.show", escalation.clone()).await;
    assert_eq!(shown["next"], expected);
    let why = answer(&city, "why", json!({ "name": open[0]["id"] })).await;
    assert_eq!(why["waits"], expected);
    answer(&city, "relic.reopen", json!({ "relic": relic })).await;
    answer(&city, "charge", json!({ "relic": relic, "rig": "horde" })).await;
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn report_in_words_is_closed_by_a_person() {
    let city = Scenario::new().start().await;
    let raised = answer(&city, "escalate", json!({ "problem": "no key" })).await;
    let open = answer(&city, "escalations", json!({})).await;
    let id = raised["id"].as_str().unwrap();
    let close = format!("`hd relic close {id}` closes it when it is resolved");
    assert_eq!(open[0]["next"], close);
}

#[tokio::test(start_paused = true)]
async fn charge_finds_the_rig_by_the_prefix_of_the_relic() {
    let city = Scenario::new().start().await;
    let relic = created(&city, json!({ "title": "a" })).await;
    let charged = answer(&city, "charge", json!({ "relic": relic })).await;
    assert_eq!(charged["raider"], "horde/raiders/Toast");
    let refused = ask(&city, "charge", json!({ "relic": "zz-1" })).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotFound);
    assert!(
        refused
            .message
            .starts_with("the rig of zz-1 cannot be told"),
        "{refused:?}"
    );
    assert_eq!(refused.hint.as_deref(), Some("prefixes: gt- (horde)"));
    let malformed = ask(&city, "charge", json!({ "relic": "?" })).await;
    assert_eq!(malformed.unwrap_err().message, "no such relic: ?");
}

/// A misspelt name made a slot of that name without a word.
#[tokio::test(start_paused = true)]
async fn charge_tells_a_slot_that_its_name_makes_new() {
    let city = Scenario::new().start().await;
    let name = city.world.city.rigs[0].raiders.names[1].clone();
    for (slot, is_new) in [("Tost", true), (name.as_str(), false)] {
        let relic = created(&city, json!({ "title": "a" })).await;
        let charge = json!({ "relic": relic, "name": slot });
        let charged = answer(&city, "charge", charge).await;
        assert_eq!(charged["new_slot"] == true, is_new, "{charged}");
        let nuked = json!({ "name": slot, "yes": true });
        answer(&city, "raider.nuke", nuked).await;
        let again = json!({ "relic": relic, "name": slot });
        let charged = answer(&city, "charge", again).await;
        assert_eq!(charged.get("new_slot"), None, "a raider had it before");
    }
}

/// A raider in quarantine: it tries again, or a fresh one gets the relic.
#[tokio::test(start_paused = true)]
async fn blocked_relic_of_a_quarantined_raider_is_told_with_both_ways_on() {
    for is_tried_again in [true, false] {
        let scenario = Scenario::new().with(|city| city.daemon.restart.max_restarts = 1);
        let city = scenario.start().await;
        let charged = city.worker("a").await;
        let (relic, raider) = (charged.relic.clone(), charged.raider.clone());
        while city.status(&relic).await != RelicStatus::Blocked {
            city.parts.sessions.crash(&charged.session, 9);
            city.pass(PATROL).await;
        }
        let why = answer(&city, "why", json!({ "name": relic })).await;
        let reopen = format!("`hd relic reopen {relic}` has {raider} try again");
        let nuke = format!("`hd raider nuke {raider} --salvage` saves the work");
        let text = why["waits"].as_str().unwrap();
        assert!(text.contains(&reopen) && text.contains(&nuke), "{text}");
        let charge = json!({ "relic": relic });
        let refused = ask(&city, "charge", charge.clone()).await.unwrap_err();
        let has = |part: &str| refused.message.contains(part);
        assert!(has(&format!("`hd relic reopen {relic}`")), "{refused:?}");
        let reopened = json!({ "relic": relic });
        if is_tried_again {
            answer(&city, "relic.reopen", reopened).await;
            city.settle().await;
            assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
            assert_eq!(city.parts.sessions.running().len(), 1);
            continue;
        }
        let nuke = json!({ "name": raider.to_string(), "salvage": true, "yes": true });
        answer(&city, "raider.nuke", nuke).await;
        answer(&city, "relic.reopen", reopened).await;
        answer(&city, "charge", charge).await;
        assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
    }
}
