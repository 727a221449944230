//! `totem.*` and `step.done`: their rights, refusals and repeated calls.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{PATROL, ask, ask_as};
use crate::actors::mail::Charged;
use crate::actors::records::{handoffs, totems};
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::city::{Pool, RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::{RelicId, SessionId};
use crate::domain::message::Body;
use crate::domain::ritual::{Ritual, RitualStep};
use crate::testing::world::{Scenario, TestCity};

const PID: u32 = 4242;

/// Three steps in a row; the third begins in a fresh session.
pub(super) fn ritual() -> Ritual {
    let step = |id: &str, needs: &[&str]| RitualStep {
        id: id.parse().unwrap(),
        title: format!("{id} {{{{relic}}}}"),
        body: format!("do {id}"),
        needs: needs.iter().map(|need| need.parse().unwrap()).collect(),
        fresh_session: id == "look",
    };
    Ritual {
        name: "work".parse().unwrap(),
        description: "work in steps".into(),
        file: None,
        vars: BTreeMap::from([("place".to_owned(), Some("here".to_owned()))]),
        steps: vec![
            step("plan", &[]),
            step("build", &["plan"]),
            step("look", &["build"]),
        ],
    }
}

fn scenario() -> Scenario {
    let ritual = ritual();
    Scenario::new().with(|city| {
        city.rituals.insert(ritual.name.clone(), ritual);
    })
}

async fn start(city: &TestCity, relic: &RelicId) -> Result<Value, ControlError> {
    ask(
        city,
        "totem.start",
        json!({ "ritual": "work", "relic": relic }),
    )
    .await
}

/// A raider at work on a relic with a totem.
async fn at_work() -> (TestCity, Charged, Caller) {
    let city = scenario().start().await;
    let relic = city.relic("a task").await;
    start(&city, &relic).await.unwrap();
    let charged = city.charge(&relic).await.unwrap();
    city.settle().await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    (city, charged, caller)
}

async fn done(city: &TestCity, caller: &Caller, id: Option<&str>) -> Result<Value, ControlError> {
    let args = id.map_or_else(|| json!({}), |id| json!({ "id": id }));
    ask_as(city, caller.clone(), "step.done", args).await
}

fn kind(result: Result<Value, ControlError>) -> ErrorKind {
    result.unwrap_err().kind
}

#[tokio::test(start_paused = true)]
async fn a_totem_is_started_once_on_an_open_task() {
    let city = scenario().start().await;
    let relic = city.relic("a task").await;
    let started = start(&city, &relic).await.unwrap();
    assert_eq!(started["present"], format!("{relic}.1"));
    assert_eq!(started["vars"], json!({ "place": "here" }));
    assert_eq!(started["steps"][1]["deps"], json!([format!("{relic}.1")]));
    assert_eq!(started["steps"][0]["title"], format!("plan {relic}"));
    assert_eq!(kind(start(&city, &relic).await), ErrorKind::Conflict);
    let step = RelicId::new(format!("{relic}.1")).unwrap();
    assert_eq!(kind(start(&city, &step).await), ErrorKind::Conflict);
    let other = city.relic("another").await;
    let close = json!({ "relic": other });
    ask(&city, "relic.close", close).await.unwrap();
    assert_eq!(kind(start(&city, &other).await), ErrorKind::Conflict);
    let missing = RelicId::new("gt-99").unwrap();
    assert_eq!(kind(start(&city, &missing).await), ErrorKind::NotFound);
    let shown = ask(&city, "totem.show", json!({ "relic": step })).await;
    assert_eq!(shown.unwrap()["relic"], relic.as_str());
    assert_eq!(city.events(EventType::TotemStarted).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn wrong_rituals_and_variables_are_refused_before_anything_is_made() {
    let city = scenario().start().await;
    let relic = city.relic("a task").await;
    for (ritual, var, expected) in [
        ("wrk", json!([]), ErrorKind::NotFound),
        ("work", json!(["plce=x"]), ErrorKind::BadRequest),
        ("work", json!(["place"]), ErrorKind::BadRequest),
        ("work", json!(["place=a", "place=b"]), ErrorKind::BadRequest),
    ] {
        let args = json!({ "ritual": ritual, "relic": relic, "var": var });
        let refused = ask(&city, "totem.start", args).await.unwrap_err();
        assert_eq!(refused.kind, expected, "{refused}");
        assert!(
            refused.hint.is_some() || refused.message.contains("place"),
            "{refused}"
        );
    }
    let shown = ask(&city, "totem.show", json!({ "relic": relic })).await;
    assert_eq!(kind(shown), ErrorKind::NotFound);
    let named = json!({ "ritual": "work", "relic": relic, "vars": { "place": "there" } });
    let started = ask(&city, "totem.start", named).await.unwrap();
    assert_eq!(started["vars"]["place"], "there");
}

/// Bodies may be long, and a totem has up to 64 steps.
#[tokio::test(start_paused = true)]
async fn ready_steps_come_without_their_bodies_but_for_the_present_one() {
    let mut both = ritual();
    both.steps[1].needs.clear();
    let scenario = Scenario::new().with(|city| {
        city.rituals.insert(both.name.clone(), both);
    });
    let city = scenario.start().await;
    let relic = city.relic("a task").await;
    start(&city, &relic).await.unwrap();
    let charged = city.charge(&relic).await.unwrap();
    city.settle().await;
    city.parts.sessions.place(PID, &charged.session);
    let caller = Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()));
    let rally = ask_as(&city, caller.clone(), "rally", json!({})).await;
    let next = rally.unwrap()["totem"]["next"].clone();
    let bodies = |next: &Value| [0, 1].map(|n| next[n]["body"].clone());
    assert_eq!(bodies(&next), [json!("do plan"), Value::Null], "{next}");
    assert_eq!(next[1]["title"], format!("build {relic}"));
    let told = done(&city, &caller, None).await.unwrap();
    assert_eq!(told["next"][0]["body"], "do build", "{told}");
    // The last step begins in a fresh session, which reads its own body.
    let told = done(&city, &caller, None).await.unwrap();
    assert_eq!(told["handoff"], true);
    assert_eq!(bodies(&told["next"])[0], Value::Null, "{told}");
    assert!(told["next"][0].get("body").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_raider_closes_the_ready_steps_of_its_own_totem_only() {
    let (city, charged, caller) = at_work().await;
    let relic = &charged.relic;
    let other = city.relic("another").await;
    start(&city, &other).await.unwrap();
    let step = |number: u32| format!("{relic}.{number}");
    let foreign = done(&city, &caller, Some(&format!("{other}.1"))).await;
    assert_eq!(kind(foreign), ErrorKind::NotFound);
    let early = done(&city, &caller, Some(&step(2))).await.unwrap_err();
    assert_eq!(early.kind, ErrorKind::Conflict);
    assert!(early.message.contains(&step(1)), "{early}");
    let first = done(&city, &caller, Some(&step(1))).await.unwrap();
    assert_eq!(first["next"][0]["id"], step(2));
    // The same call again changes nothing, and answers alike.
    let again = done(&city, &caller, Some(&step(1))).await.unwrap();
    assert_eq!(
        (&again["already"], &again["next"]),
        (&json!(true), &first["next"])
    );
    assert_eq!(city.events(EventType::TotemStepDone).await.len(), 1);
    // By its id in the ritual.
    let args = json!({ "id": "build", "message": "x".repeat(5000) });
    let long = ask_as(&city, caller.clone(), "step.done", args).await;
    assert_eq!(kind(long), ErrorKind::BadRequest);
}

/// The step, the events and the note are one transaction. If the supervisor dies before it has ended the session, the
/// agent repeats its call: the session is handed off then, and no further step is closed.
#[tokio::test(start_paused = true)]
async fn a_repeated_call_after_a_crash_hands_off_and_closes_no_further_step() {
    let (city, charged, caller) = at_work().await;
    let relic = charged.relic.clone();
    done(&city, &caller, None).await.unwrap();
    // As the supervisor leaves it when it dies after the commit.
    let (own, raider) = (relic.clone(), charged.raider.clone());
    city.store(move |txn| {
        let hook = txn.hook(&raider)?.unwrap();
        let totem = totems::read(txn, &own)?.unwrap();
        let build = totem.step("build").unwrap().clone();
        let asker = crate::domain::asker::Asker::agent(raider.to_string());
        totems::close_step(txn, &totem, &build, None, &asker)?;
        let note = crate::domain::message::Handoff {
            note: None,
            relic: Some(own.clone()),
            incarnation: None,
            totem_step: Some(format!("{own}.3")),
            resume: false,
        };
        handoffs::send(txn, &hook, note)
    })
    .await;
    let answer = done(&city, &caller, None).await.unwrap();
    let told = (&answer["handoff"], &answer["already"], &answer["step"]);
    let expected = (&json!(true), &json!(true), &json!(format!("{relic}.2")));
    assert_eq!(told, expected);
    city.settle().await;
    assert_eq!(city.events(EventType::TotemStepDone).await.len(), 2);
    let shown = ask(&city, "totem.show", json!({ "relic": relic }))
        .await
        .unwrap();
    assert_eq!(shown["present"], format!("{relic}.3"));
}

#[tokio::test(start_paused = true)]
async fn the_note_of_a_handoff_carries_the_step() {
    let (city, charged, caller) = at_work().await;
    done(&city, &caller, None).await.unwrap();
    let args = json!({ "message": "half way" });
    ask_as(&city, caller, "handoff", args).await.unwrap();
    let sent = city.events(EventType::MessageSent).await;
    let note = sent
        .iter()
        .find(|event| event.data["type"] == "HANDOFF")
        .unwrap();
    assert_eq!(note.data["totem_step"], format!("{}.2", charged.relic));
    city.settle().await;
    let handoff = city.events(EventType::RaiderHandoff).await.pop().unwrap();
    assert_eq!(handoff.data["totem_step"], format!("{}.2", charged.relic));
    let address = charged.raider.to_string();
    let unread = city.store(move |txn| txn.inbox(&address)).await;
    assert!(
        !unread.iter().any(|it| matches!(it.body, Body::Handoff(_))),
        "the next session read it"
    );
}

/// Completed work whose totem has open steps is refused; an end that a person must look at is not.
#[tokio::test(start_paused = true)]
async fn work_with_open_steps_is_not_complete() {
    let (city, charged, caller) = at_work().await;
    city.parts.repo.commit(&charged.raider.name);
    let complete = json!({ "status": "completed" });
    let refused = ask_as(&city, caller.clone(), "done", complete.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest, "{refused}");
    assert!(refused.message.contains("3 steps"), "{refused}");
    assert!(refused.hint.unwrap().contains("hd step done"));
    let stuck = json!({ "status": "escalated", "reason": "why" });
    ask_as(&city, caller, "done", stuck).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn steps_of_a_hooked_relic_are_not_for_other_agents() {
    let scenario = scenario().agent("mayor", RestartType::Permanent);
    let scenario = scenario.with(|city| city.agents[0].rights = Rights::Work);
    let city = scenario.start().await;
    let mayor = Caller::stand_in(
        PID,
        CallerRole::Agent(SessionId::new("city-mayor").unwrap()),
    );
    let relic = city.relic("a task").await;
    let args = json!({ "ritual": "work", "relic": relic });
    ask_as(&city, mayor.clone(), "totem.start", args)
        .await
        .unwrap();
    let hooked = city.worker("hooked").await.relic;
    let args = json!({ "ritual": "work", "relic": hooked });
    let refused = ask_as(&city, mayor.clone(), "totem.start", args).await;
    assert_eq!(kind(refused), ErrorKind::Forbidden);
    start(&city, &hooked).await.unwrap();
    let step = json!({ "relic": format!("{hooked}.1") });
    for op in ["relic.close", "relic.reopen", "relic.edit"] {
        let mut args = step.clone();
        if op == "relic.edit" {
            args["title"] = json!("another");
        }
        let refused = ask_as(&city, mayor.clone(), op, args).await;
        assert!(
            op == "relic.reopen" || kind(refused) == ErrorKind::Forbidden,
            "{op}"
        );
    }
    ask(&city, "relic.close", step.clone()).await.unwrap();
    let refused = ask_as(&city, mayor, "relic.reopen", step).await;
    assert_eq!(kind(refused), ErrorKind::Forbidden);
}

/// A member of a pool closes the steps of relics that are assigned to it or to its pool, and of no others.
#[tokio::test(start_paused = true)]
async fn a_pool_member_closes_steps_of_the_work_of_its_pool() {
    let scenario = scenario().agent("worker", RestartType::Permanent);
    let scenario = scenario.with(|city| {
        city.agents[0].pool = Some(Pool {
            min: 1,
            max: 2,
            check: None,
            check_interval: PATROL,
            drain_timeout: PATROL,
        });
    });
    let city = scenario.start().await;
    let session = SessionId::new("city-worker-1").unwrap();
    city.parts.sessions.place(PID, &session);
    let member = Caller::stand_in(PID, CallerRole::Agent(session));
    let relic = city.relic("for the pool").await;
    start(&city, &relic).await.unwrap();
    let first = format!("{relic}.1");
    let refused = done(&city, &member, Some(&first)).await;
    assert_eq!(kind(refused), ErrorKind::Forbidden);
    let assign = json!({ "relic": relic, "assignee": "worker" });
    ask(&city, "relic.edit", assign).await.unwrap();
    assert_eq!(
        kind(done(&city, &member, None).await),
        ErrorKind::BadRequest
    );
    let closed = done(&city, &member, Some(&first)).await.unwrap();
    assert_eq!(closed["next"][0]["id"], format!("{relic}.2"));
    let by = city.events(EventType::TotemStepDone).await.pop().unwrap();
    assert_eq!(
        by.data["asker"],
        json!({ "kind": "agent", "name": "worker-1" })
    );
}

/// A person may let a step wait for other work; a relic that waited for its own step would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_step_waits_for_other_work_and_no_relic_waits_for_its_own_step() {
    let city = scenario().start().await;
    let relic = city.relic("a task").await;
    let other = city.relic("first").await;
    start(&city, &relic).await.unwrap();
    let step = format!("{relic}.1");
    let waits = json!({ "relic": step, "on": other });
    let waits = ask(&city, "relic.dep.add", waits).await.unwrap();
    assert_eq!(waits["deps"], json!([other]));
    let own = json!({ "relic": relic, "on": step });
    let refused = ask(&city, "relic.dep.add", own).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused:?}");
}

/// They had been counted as done.
#[tokio::test(start_paused = true)]
async fn steps_that_are_closed_with_their_relic_are_not_done() {
    let (city, charged, caller) = at_work().await;
    done(&city, &caller, None).await.unwrap();
    city.pass(PATROL).await;
    let close = json!({ "relic": charged.relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    let shown = ask(&city, "totem.show", json!({ "relic": charged.relic }));
    let shown = shown.await.unwrap();
    assert_eq!(
        (&shown["done"], &shown["finished"]),
        (&json!(1), &json!(false))
    );
    let steps = shown["steps"].as_array().unwrap();
    let steps: Vec<_> = steps
        .iter()
        .map(|step| (step["status"].as_str().unwrap(), &step["done"]))
        .collect();
    let (yes, no) = (json!(true), json!(false));
    assert_eq!(steps, [("closed", &yes), ("closed", &no), ("closed", &no)]);
}

/// Before, the step alone became open.
#[tokio::test(start_paused = true)]
async fn step_of_closed_work_is_reopened_with_that_alone() {
    let city = scenario().start().await;
    let relic = city.relic("a").await;
    start(&city, &relic).await.unwrap();
    let close = json!({ "relic": relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    let step = format!("{relic}.1");
    let reopen = |id: &str| ask(&city, "relic.reopen", json!({ "relic": id }));
    let refused = reopen(&step).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let message = format!("{step} is a step of {relic}, which is closed");
    assert_eq!(refused.message, message);
    reopen(relic.as_str()).await.unwrap();
    reopen(&step).await.unwrap();
}
