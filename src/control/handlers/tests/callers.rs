//! Results of a request name its caller, and callers with the right to work end no work of others.

use serde_json::{Value, json};

use super::{PATROL, ask_as};
use crate::control::protocol::ErrorKind;
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::city::{RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::{RelicId, SessionId};
use crate::ports::relics::RelicFilter;
use crate::ports::repo::RepoError;
use crate::testing::world::{Scenario, TestCity};

const PID: u32 = 4242;

fn caller(who: CallerRole) -> Caller {
    Caller::stand_in(PID, who)
}

fn mayor() -> Caller {
    caller(CallerRole::Agent(SessionId::new("city-mayor").unwrap()))
}

async fn city(rights: Rights) -> TestCity {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    let scenario = scenario.with(|city| city.agents[0].rights = rights);
    scenario.start().await
}

fn close(relic: &impl serde::Serialize) -> Value {
    json!({ "relic": relic, "yes": true })
}

#[tokio::test(start_paused = true)]
async fn agent_with_work_rights_cannot_close_a_hooked_relic() {
    let city = city(Rights::Work).await;
    let charged = city.worker("a").await;
    for other in [mayor(), caller(CallerRole::OwnCommand(Rights::Work))] {
        let refused = ask_as(&city, other, "relic.close", close(&charged.relic)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden);
        assert!(refused.message.contains("Toast"), "{refused}");
    }
    city.pass(PATROL * 2).await;
    assert!(city.runs(&charged.session));
    let free = city.relic("b").await;
    let closed = ask_as(&city, mayor(), "relic.close", close(&free)).await;
    assert_eq!(closed.unwrap()["status"], "closed");
}

/// The work waits to land, and its sandbox is gone.
#[tokio::test(start_paused = true)]
async fn agent_does_not_take_the_work_of_others_out_of_the_queue() {
    let city = city(Rights::Work).await;
    let charged = city.worker("a").await;
    let broken = RepoError::Failed("no network".into());
    city.parts.repo.break_op("fetch_target", broken);
    city.completed(&charged.raider).await.unwrap();
    city.pass(PATROL).await;
    assert!(city.parts.repo.names().is_empty(), "it is the queue's");
    let refused = ask_as(&city, mayor(), "relic.close", close(&charged.relic)).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    assert!(!city.mr(&charged.relic).await.unwrap().is_final());
    let text = json!({ "relic": charged.relic, "body": "another task" });
    let refused = ask_as(&city, mayor(), "relic.edit", text).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
}

/// An import rewrites no relic that a raider is hooked to, unless a person asks for it; a refused batch is undone.
#[tokio::test(start_paused = true)]
async fn import_of_an_agent_does_not_rewrite_the_work_of_others() {
    let city = city(Rights::Work).await;
    let charged = city.worker("a").await;
    let before = city.relic_now(&charged.relic).await;
    let other = city.relic("other").await;
    let link = |id: &RelicId| json!({ "system": "relic", "id": id });
    let record = |source: Value| {
        json!({
            "source": source, "title": before.title, "body": before.body, "status": "open",
        })
    };
    let same = record(link(&charged.relic));
    let fresh = record(json!({ "system": "beads", "id": "bd-1" }));
    let batch = |one: &Value| json!({ "rig": "horde", "relics": [fresh, one] });
    let with = |field: &str, value: Value| {
        let mut record = same.clone();
        record[field] = value;
        record
    };
    let rewrites = [
        with("title", json!("x")),
        with("body", json!("x")),
        with("parent", link(&other)),
        with("deps", json!([link(&other)])),
    ];
    for who in [mayor(), caller(CallerRole::OwnCommand(Rights::Work))] {
        for rewrite in &rewrites {
            let refused = ask_as(&city, who.clone(), "relic.import", batch(rewrite)).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{rewrite}");
            assert!(refused.message.contains("Toast"), "{refused}");
        }
    }
    assert_eq!(city.relic_now(&charged.relic).await, before);
    let all = city.store(|txn| txn.relics(&RelicFilter::default())).await;
    assert_eq!(all.len(), 2, "the batch is undone");
    // What changes nothing is no rewriting.
    ask_as(&city, mayor(), "relic.import", batch(&same))
        .await
        .unwrap();
    let person = caller(CallerRole::Operator);
    ask_as(&city, person, "relic.import", batch(&rewrites[0]))
        .await
        .unwrap();
    assert_eq!(city.relic_now(&charged.relic).await.title, "x");
}

/// The maker of a relic, its earlier work and its target are taken from a record only where a person asks.
#[tokio::test(start_paused = true)]
async fn an_import_of_an_agent_does_not_speak_for_the_supervisor() {
    let city = city(Rights::Work).await;
    let import = |who: Caller, id: &str, branch: &str| {
        let rest = json!({
            "by": "operator", "raider": "horde/raiders/Toast", "context": "do as I say", "reworks": 3,
            "branch": branch, "target": "release", "charge_failures": 1,
        });
        let source = json!({ "system": "beads", "id": id });
        let item = json!({ "source": source, "title": id, "status": "open", "rest": rest });
        ask_as(&city, who, "relic.import", json!({ "relics": [item] }))
    };
    let relic = async |told: Value| {
        let id = RelicId::new(told[0]["relic"].as_str().unwrap()).unwrap();
        city.relic_now(&id).await
    };
    let errand = caller(CallerRole::OwnCommand(Rights::Work));
    city.parts.runner.name(PID, "automation/horde/lint");
    for (who, id, by) in [
        (mayor(), "bd-1", "mayor"),
        (errand, "bd-2", "automation/horde/lint"),
    ] {
        let made = relic(import(who, id, "raider/Toast/gt-1-1").await.unwrap()).await;
        assert_eq!(made.by.as_deref(), Some(by));
        assert_eq!(
            (made.raider, made.context, made.branch, made.target),
            (None, None, None, None)
        );
        assert_eq!((made.reworks, made.charge_failures), (0, 1));
    }
    let person = || caller(CallerRole::Operator);
    let made = import(person(), "bd-3", "raider/Toast/gt-1-1").await;
    let made = relic(made.unwrap()).await;
    assert_eq!(made.by.as_deref(), Some("operator"));
    assert_eq!(made.branch.as_deref(), Some("raider/Toast/gt-1-1"));
    assert_eq!(made.target.as_deref(), Some("release"));
    assert_eq!(made.reworks, 3);
    assert!(made.raider.is_some() && made.context.is_some());
    let refused = import(person(), "bd-4", "a..b").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
    assert!(refused.message.contains("bd-4: its branch"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_person_and_an_agent_that_may_do_everything_close_it() {
    for who in [caller(CallerRole::Operator), mayor()] {
        let city = city(Rights::All).await;
        let charged = city.worker("a").await;
        let closed = ask_as(&city, who, "relic.close", close(&charged.relic)).await;
        assert_eq!(closed.unwrap()["status"], "closed");
    }
}

#[tokio::test(start_paused = true)]
async fn events_and_relics_name_the_agent_automation_or_person_that_asked() {
    let city = city(Rights::Work).await;
    let nightly = caller(CallerRole::Operator);
    let theirs = Caller {
        pid: Some(PID + 1),
        ..caller(CallerRole::OwnCommand(Rights::Work))
    };
    let person = Caller {
        pid: None,
        ..caller(CallerRole::Operator)
    };
    city.parts.runner.name(PID, "automation/nightly");
    city.parts.runner.name(PID + 1, "automation/horde/lint");
    let callers = [
        (mayor(), "agent", "mayor"),
        (nightly, "automation", "automation/nightly"),
        (theirs, "automation", "automation/horde/lint"),
        (person, "operator", "operator"),
    ];
    for (who, cause, name) in callers {
        let create = json!({ "title": "a" });
        let relic = ask_as(&city, who.clone(), "relic.create", create)
            .await
            .unwrap();
        assert_eq!(relic["by"], name);
        let charge = json!({ "relic": relic["id"], "rig": "horde" });
        ask_as(&city, who, "charge", charge).await.unwrap();
        for kind in [EventType::RelicCreated, EventType::RaiderCharged] {
            let told = city.events(kind).await.pop().unwrap();
            assert_eq!(
                (told.cause.as_str(), &told.data["by"]),
                (cause, &json!(name)),
                "{kind:?}"
            );
        }
    }
}

/// The events of `run`, `reopen` and a nuke name the caller.
#[tokio::test(start_paused = true)]
async fn events_of_run_reopen_and_nuke_name_the_caller() {
    let city = city(Rights::All).await;
    let told = ask_as(&city, mayor(), "run", json!({ "task": ["a"] })).await;
    let relic = told.unwrap()["relics"][0]["relic"].clone();
    let nuke = json!({ "name": "Toast", "salvage": true, "yes": true });
    ask_as(&city, mayor(), "raider.nuke", nuke).await.unwrap();
    ask_as(&city, mayor(), "relic.close", close(&relic))
        .await
        .unwrap();
    let reopen = json!({ "relic": relic });
    ask_as(&city, mayor(), "relic.reopen", reopen)
        .await
        .unwrap();
    let kinds = [
        EventType::RaiderCharged,
        EventType::RaiderNuked,
        EventType::RelicClosed,
        EventType::RelicUpdated,
    ];
    for kind in kinds {
        let told = city.events(kind).await.pop().unwrap();
        assert_eq!(
            (told.cause.as_str(), &told.data["by"]),
            ("agent", &json!("mayor")),
            "{kind:?}"
        );
    }
}

/// So do the events of orders about children.
#[tokio::test(start_paused = true)]
async fn events_of_orders_about_children_name_the_caller() {
    let city = city(Rights::All).await;
    let charged = city.worker("a").await;
    let asker = json!({ "kind": "agent", "name": "mayor" });
    let told = async |kind: EventType| {
        let told = city.events(kind).await.pop().unwrap();
        (told.cause.clone(), told.data["asker"].clone())
    };
    let expected = ("agent".to_owned(), asker);
    let toast = json!({ "name": "Toast" });
    ask_as(&city, mayor(), "agent.restart", toast.clone())
        .await
        .unwrap();
    city.settle().await;
    assert_eq!(told(EventType::AgentRestarted).await, expected);
    for kind in [EventType::AgentStarted, EventType::RaiderRespawned] {
        assert_eq!(told(kind).await, expected, "{kind:?}");
    }
    for op in ["agent.stop", "agent.start"] {
        ask_as(&city, mayor(), op, toast.clone()).await.unwrap();
        city.settle().await;
    }
    for kind in [EventType::AgentStopped, EventType::AgentStarted] {
        assert_eq!(told(kind).await, expected, "{kind:?}");
    }
    for (op, kind, cause) in [
        ("raider.suspend", EventType::AgentSuspended, "suspended"),
        ("raider.resume", EventType::AgentResumed, "unsuspended"),
    ] {
        ask_as(&city, mayor(), op, toast.clone()).await.unwrap();
        city.settle().await;
        let (of, by) = told(kind).await;
        assert_eq!((of.as_str(), &by), (cause, &expected.1), "{op}");
    }
    let repair = json!({ "name": "Toast", "yes": true });
    ask_as(&city, mayor(), "raider.repair", repair)
        .await
        .unwrap();
    let repaired = told(EventType::RaiderRepaired).await;
    assert_eq!((repaired.0.as_str(), &repaired.1), ("repair", &expected.1));
    let cancel = json!({ "relic": charged.relic, "yes": true });
    ask_as(&city, mayor(), "relic.cancel", cancel)
        .await
        .unwrap();
    for kind in [
        EventType::AgentStopped,
        EventType::RaiderNuked,
        EventType::RelicClosed,
    ] {
        assert_eq!(told(kind).await, expected, "{kind:?}");
    }
    // The next order is a person's.
    let again = city.worker("b").await;
    let person = caller(CallerRole::Operator);
    let nuke = json!({ "name": again.raider, "salvage": true, "yes": true });
    ask_as(&city, person, "raider.nuke", nuke).await.unwrap();
    let stopped = told(EventType::AgentStopped).await;
    assert_eq!(stopped.0, "operator");
    assert_eq!(stopped.1["kind"], "person");
}
