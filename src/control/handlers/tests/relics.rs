//! `relic.edit`, `dep`, `ready` and `reopen`, the rights on the work of others, and the callers in events.

use serde_json::{Value, json};

use super::{PATROL, ask, ask_as};
use crate::control::protocol::{ControlError, ErrorKind, Op};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::city::{RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::{RelicId, SessionId};
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, TestCity};

const PID: u32 = 4242;

fn mayor() -> Caller {
    Caller::stand_in(
        PID,
        CallerRole::Agent(SessionId::new("city-mayor").unwrap()),
    )
}

fn errand() -> Caller {
    Caller::stand_in(PID, CallerRole::OwnCommand(Rights::Work))
}

async fn with_mayor() -> TestCity {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let scenario = scenario.with(|city| city.agents[0].rights = Rights::Work);
    scenario.start().await
}

async fn ids(city: &TestCity, op: &str) -> Vec<String> {
    let list = ask(city, op, json!({})).await.unwrap();
    let ids = list.as_array().unwrap().iter();
    ids.map(|relic| relic["id"].as_str().unwrap().to_owned())
        .collect()
}

fn kind(result: Result<Value, ControlError>) -> ErrorKind {
    result.unwrap_err().kind
}

#[tokio::test(start_paused = true)]
async fn edit_changes_what_it_is_given_and_journals_that() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    let edit = json!({
        "relic": relic, "title": "b", "body": "c", "priority": 4, "label": ["x", "y"], "assignee": "alice",
    });
    let told = ask(&city, "relic.edit", edit.clone()).await.unwrap();
    assert_eq!((&told["title"], &told["body"]), (&json!("b"), &json!("c")));
    assert_eq!(told["labels"], json!(["x", "y"]));
    assert_eq!(
        (&told["priority"], &told["assignee"]),
        (&json!(4), &json!("alice"))
    );
    let event = city.events(EventType::RelicUpdated).await.pop().unwrap();
    let changed = json!(["title", "body", "priority", "labels", "assignee"]);
    assert_eq!(event.data["changed"], changed);
    assert_eq!(
        event.data["asker"],
        json!({ "kind": "person", "name": "operator" })
    );
    // The same again is no change.
    ask(&city, "relic.edit", edit).await.unwrap();
    assert_eq!(city.events(EventType::RelicUpdated).await.len(), 1);
    let back = json!({ "relic": relic, "unlabel": ["x"], "assignee": "" });
    let told = ask(&city, "relic.edit", back).await.unwrap();
    assert_eq!(
        (&told["labels"], &told["assignee"]),
        (&json!(["y"]), &Value::Null)
    );
    let nothing = ask(&city, "relic.edit", json!({ "relic": relic })).await;
    assert_eq!(kind(nothing), ErrorKind::BadRequest);
    let unknown = ask(
        &city,
        "relic.edit",
        json!({ "relic": "gt-99", "title": "x" }),
    )
    .await;
    assert_eq!(kind(unknown), ErrorKind::NotFound);
}

#[tokio::test(start_paused = true)]
async fn a_parent_is_changed_and_no_relic_is_a_step_of_itself() {
    let city = Scenario::new().start().await;
    let (a, b) = (city.relic("a").await, city.relic("b").await);
    let under = |relic: &RelicId, parent: &str| json!({ "relic": relic, "parent": parent });
    ask(&city, "relic.edit", under(&b, a.as_str()))
        .await
        .unwrap();
    let shown = ask(&city, "relic.show", json!({ "relic": a }))
        .await
        .unwrap();
    assert_eq!(shown["children"], json!([b]));
    let cycle = ask(&city, "relic.edit", under(&a, b.as_str()))
        .await
        .unwrap_err();
    assert_eq!(cycle.kind, ErrorKind::Conflict);
    assert!(
        cycle
            .message
            .contains(&format!("{a} \u{2192} {b} \u{2192} {a}")),
        "{cycle}"
    );
    let told = ask(&city, "relic.edit", under(&b, "")).await.unwrap();
    assert_eq!(told["parent"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn dependencies_decide_what_is_ready() {
    let city = Scenario::new().start().await;
    let (a, b) = (city.relic("a").await, city.relic("b").await);
    let dep = |relic: &RelicId, on: &RelicId| json!({ "relic": relic, "on": on });
    for _ in 0..2 {
        ask(&city, "relic.dep.add", dep(&a, &b)).await.unwrap();
    }
    assert_eq!(city.events(EventType::RelicUpdated).await.len(), 1, "once");
    assert_eq!(ids(&city, "relic.ready").await, [b.to_string()]);
    let told = ask(&city, "relic.dep.list", json!({ "relic": a }))
        .await
        .unwrap();
    assert_eq!(told["ready"], false);
    assert_eq!(told["deps"][0]["id"], json!(b));
    let told = ask(&city, "relic.dep.list", json!({ "relic": b }))
        .await
        .unwrap();
    assert_eq!(
        (&told["ready"], &told["dependents"][0]["id"]),
        (&json!(true), &json!(a))
    );
    let cycle = ask(&city, "relic.dep.add", dep(&b, &a)).await.unwrap_err();
    assert_eq!(cycle.kind, ErrorKind::Conflict);
    assert!(
        cycle
            .message
            .contains(&format!("{b} \u{2192} {a} \u{2192} {b}")),
        "{cycle}"
    );
    let own = ask(&city, "relic.dep.add", dep(&b, &b)).await;
    assert_eq!(kind(own), ErrorKind::Conflict);
    let missing: RelicId = RelicId::new("gt-99").unwrap();
    for args in [dep(&a, &missing), dep(&missing, &a)] {
        for op in ["relic.dep.add", "relic.dep.remove"] {
            assert_eq!(
                kind(ask(&city, op, args.clone()).await),
                ErrorKind::NotFound,
                "{op} {args}"
            );
        }
    }
    ask(&city, "relic.dep.remove", dep(&a, &b)).await.unwrap();
    let again = ask(&city, "relic.dep.remove", dep(&a, &b)).await;
    assert_eq!(kind(again), ErrorKind::NotFound);
    let urgent = json!({ "relic": b, "priority": 3 });
    ask(&city, "relic.edit", urgent).await.unwrap();
    assert_eq!(
        ids(&city, "relic.ready").await,
        [b.to_string(), a.to_string()]
    );
}

/// A rig that charges automatically looks at once: an assigned relic waits for its assignee, a dependency for its end.
#[tokio::test(start_paused = true)]
async fn auto_charge_respects_edits_and_dependencies_at_once() {
    let city = Scenario::new().rig(|rig| rig.raiders.max = 1).start().await;
    let (a, b, c) = (
        city.relic("a").await,
        city.relic("b").await,
        city.relic("c").await,
    );
    let mine = json!({ "relic": a, "assignee": "alice" });
    ask(&city, "relic.edit", mine).await.unwrap();
    ask(&city, "relic.dep.add", json!({ "relic": b, "on": a }))
        .await
        .unwrap();
    city.reload(|city| city.rigs[0].raiders.auto_charge = true)
        .await;
    city.settle().await;
    city.pass(PATROL).await;
    let statuses = [
        city.status(&a).await,
        city.status(&b).await,
        city.status(&c).await,
    ];
    assert_eq!(
        statuses,
        [RelicStatus::Open, RelicStatus::Open, RelicStatus::Hooked]
    );
    let cancel = json!({ "relic": c, "yes": true });
    ask(&city, "relic.cancel", cancel).await.unwrap();
    ask(&city, "relic.edit", json!({ "relic": a, "assignee": "" }))
        .await
        .unwrap();
    city.settle().await;
    city.pass(PATROL).await;
    assert_eq!(city.status(&a).await, RelicStatus::Hooked);
    assert_eq!(
        city.status(&c).await,
        RelicStatus::Closed,
        "it is not charged again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reopened_relic_has_the_note_for_its_next_raider() {
    let city = Scenario::new().start().await;
    let relic = city.relic("a").await;
    ask(&city, "relic.close", json!({ "relic": relic }))
        .await
        .unwrap();
    let reopen = json!({ "relic": relic, "note": "the parser changed" });
    let told = ask(&city, "relic.reopen", reopen).await.unwrap();
    assert_eq!(told["status"], "open");
    assert!(
        told["context"]
            .as_str()
            .unwrap()
            .contains("the parser changed"),
        "{told}"
    );
    let event = city.events(EventType::RelicUpdated).await.pop().unwrap();
    assert_eq!(event.data["note"], "the parser changed");
    // An open relic takes no note, and says so.
    let more = json!({ "relic": relic, "note": "and the lexer" });
    let refused = ask(&city, "relic.reopen", more).await;
    assert_eq!(kind(refused), ErrorKind::Conflict);
    for note in [json!(null), json!(" ")] {
        let again = json!({ "relic": relic, "note": note });
        let told = ask(&city, "relic.reopen", again).await.unwrap();
        assert_eq!(told["status"], "open");
    }
}

/// A person or agent keeps what it is assigned to, so that no raider is charged with it; a raider that is gone does not.
#[tokio::test(start_paused = true)]
async fn a_reopened_relic_keeps_an_assignee_that_is_no_raider() {
    let city = Scenario::new().start().await;
    for (assignee, kept) in [
        ("alice", json!("alice")),
        ("horde/raiders/Ash", json!(null)),
    ] {
        let relic = city.relic("a").await;
        let edit = json!({ "relic": relic, "assignee": assignee });
        ask(&city, "relic.edit", edit).await.unwrap();
        let this = json!({ "relic": relic });
        ask(&city, "relic.close", this.clone()).await.unwrap();
        let told = ask(&city, "relic.reopen", this).await.unwrap();
        assert_eq!(
            (&told["status"], &told["assignee"]),
            (&json!("open"), &kept)
        );
        let event = city.events(EventType::RelicUpdated).await.pop().unwrap();
        assert_eq!(event.data["raider"], Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn agents_and_errands_take_no_work_from_others() {
    let city = with_mayor().await;
    let charged = city.worker("a").await;
    let relic = &charged.relic;
    let other = city.relic("other").await;
    let dep = json!({ "relic": relic, "on": other });
    let acts = [
        ("relic.edit", json!({ "relic": relic, "title": "x" })),
        ("relic.edit", json!({ "relic": relic, "body": "x" })),
        ("relic.edit", json!({ "relic": relic, "parent": other })),
        ("relic.edit", json!({ "relic": relic, "parent": "" })),
        ("relic.dep.add", dep.clone()),
        ("relic.dep.remove", dep),
        ("relic.close", json!({ "relic": relic, "yes": true })),
        ("relic.cancel", json!({ "relic": relic, "yes": true })),
        ("relic.edit", json!({ "relic": relic, "assignee": "mayor" })),
        ("relic.reopen", json!({ "relic": relic })),
    ];
    for caller in [mayor(), errand()] {
        for (op, args) in &acts {
            let refused = ask_as(&city, caller.clone(), op, args.clone())
                .await
                .unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{op}: {refused}");
            assert!(refused.message.contains("Toast"), "{op}: {refused}");
        }
    }
    city.pass(PATROL).await;
    assert!(city.runs(&charged.session));
    let now = city.relic_now(relic).await;
    assert_eq!(
        (now.status, now.title.as_str(), now.parent),
        (RelicStatus::Hooked, "a", None)
    );
    assert!(now.deps.is_empty());
    // How urgent it is, and its labels, say nothing about what is to be done.
    let urgent = json!({ "relic": relic, "priority": 3, "label": ["x"] });
    ask_as(&city, mayor(), "relic.edit", urgent).await.unwrap();
    // A person may rewrite it, but may not assign it either: that is a conflict.
    let text = json!({ "relic": relic, "title": "better said" });
    ask(&city, "relic.edit", text).await.unwrap();
    let assigned = ask(
        &city,
        "relic.edit",
        json!({ "relic": relic, "assignee": "bob" }),
    )
    .await;
    assert_eq!(kind(assigned), ErrorKind::Conflict);
    // What no raider is at may be cancelled.
    let free = city.relic("b").await;
    let cancel = json!({ "relic": free, "yes": true });
    let told = ask_as(&city, mayor(), "relic.cancel", cancel)
        .await
        .unwrap();
    assert_eq!(told["status"], "closed");
}

#[tokio::test(start_paused = true)]
async fn every_relic_event_names_the_kind_of_its_caller() {
    let city = with_mayor().await;
    city.parts.runner.name(PID + 1, "automation/horde/lint");
    let lint = Caller {
        pid: Some(PID + 1),
        ..errand()
    };
    let person = Caller::stand_in(None, CallerRole::Operator);
    let callers = [
        (mayor(), json!({ "kind": "agent", "name": "mayor" })),
        (
            lint,
            json!({ "kind": "automation", "name": "automation/horde/lint" }),
        ),
        (person, json!({ "kind": "person", "name": "operator" })),
    ];
    for (who, asker) in callers {
        let act = |op: &'static str, args: Value| ask_as(&city, who.clone(), op, args);
        let made = act("relic.create", json!({ "title": "a" })).await.unwrap();
        let id = made["id"].clone();
        let other = act("relic.create", json!({ "title": "b" })).await.unwrap();
        act("relic.edit", json!({ "relic": id, "priority": 2 }))
            .await
            .unwrap();
        let on = json!({ "relic": id, "on": other["id"] });
        act("relic.dep.add", on.clone()).await.unwrap();
        act("relic.dep.remove", on).await.unwrap();
        act("relic.close", json!({ "relic": id })).await.unwrap();
        act("relic.reopen", json!({ "relic": id })).await.unwrap();
        act("relic.cancel", json!({ "relic": id, "yes": true }))
            .await
            .unwrap();
        let source = json!({ "system": "beads", "id": format!("{id}") });
        let item = json!({ "source": source, "title": "c", "status": "open" });
        act("relic.import", json!({ "rig": "horde", "relics": [item] }))
            .await
            .unwrap();
        let mut seen = 0;
        for kind in [
            EventType::RelicCreated,
            EventType::RelicUpdated,
            EventType::RelicClosed,
        ] {
            let events = city.events(kind).await;
            let own = events.iter().filter(|event| event.data["asker"] == asker);
            seen += own.count();
            assert!(
                events.iter().all(|event| event.data["asker"].is_object()),
                "{events:?}"
            );
        }
        assert_eq!(seen, 9, "{asker}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_tasks_are_edited_and_cancelled() {
    let city = Scenario::new().start().await;
    let relic = super::submitted(&city).await;
    let mr = city.mr(&relic).await.unwrap().id;
    let edit = ask(&city, "relic.edit", json!({ "relic": mr, "title": "x" })).await;
    assert_eq!(kind(edit), ErrorKind::Conflict);
    let cancel = ask(&city, "relic.cancel", json!({ "relic": mr, "yes": true })).await;
    assert_eq!(kind(cancel), ErrorKind::Conflict);
}

/// Its counters of attempts begin again with a reopening.
#[tokio::test(start_paused = true)]
async fn blocked_relic_waits_until_a_person_has_looked() {
    let city = with_mayor().await;
    let stuck = city.relic("stuck").await;
    let id = stuck.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.status = RelicStatus::Blocked;
        txn.put_relic(&relic)
    })
    .await;
    let reopen = json!({ "relic": stuck });
    for caller in [mayor(), errand()] {
        let refused = ask_as(&city, caller, "relic.reopen", reopen.clone()).await;
        assert_eq!(kind(refused), ErrorKind::Forbidden);
    }
    ask(&city, "relic.reopen", reopen).await.unwrap();
}

/// Weakness W5 of an earlier system: a command set any status, past every check.
#[tokio::test(start_paused = true)]
async fn no_edit_sets_a_status_past_the_checks_of_its_verb() {
    let (city, charged) = Scenario::at_work().await;
    for status in ["open", "closed", "blocked", "deferred"] {
        let edit = json!({ "relic": charged.relic, "title": "a", "status": status });
        let parsed = Op::parse(
            "relic.edit".parse().unwrap(),
            edit.as_object().unwrap().clone(),
        );
        assert_eq!(parsed.unwrap_err().kind, ErrorKind::BadRequest, "{status}");
    }
    // Work at hand is neither reopened nor charged again.
    let again = json!({ "relic": charged.relic, "note": "again" });
    let twice = json!({ "relic": charged.relic, "rig": "horde" });
    for (op, args) in [("relic.reopen", again), ("charge", twice)] {
        assert_eq!(
            kind(ask(&city, op, args).await),
            ErrorKind::Conflict,
            "{op}"
        );
    }
    assert_eq!(city.status(&charged.relic).await, RelicStatus::Hooked);
    assert!(city.runs(&charged.session));
}
