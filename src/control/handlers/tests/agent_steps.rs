//! Steps of relics on the hooks of standing agents, and relics that others would take from those hooks.

use serde_json::{Value, json};

use super::agent_hooks::{SECOND, assigned, caller, hooked, own, pool};
use super::totems::ritual;
use super::{PATROL, ask, ask_as};
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::city::{RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::RelicId;
use crate::domain::relic::RelicStatus;
use crate::domain::saga::FaultPoint;
use crate::testing::world::{Interruption, Scenario, TestCity, agent};

/// A pool of two workers and a mayor with the right to work; the ritual `work` has three steps in a row.
fn scenario() -> Scenario {
    pool(2).with(|city| {
        city.agents[0].rights = Rights::Work;
        city.agents[1].rights = Rights::Work;
        let ritual = ritual();
        city.rituals.insert(ritual.name.clone(), ritual);
    })
}

/// Returns a relic with a totem that is on the hook of `worker-1`.
async fn held(city: &TestCity) -> RelicId {
    let relic = assigned(city, "in steps", "worker").await;
    let args = json!({ "ritual": "work", "relic": relic });
    ask(city, "totem.start", args).await.unwrap();
    assert_eq!(hooked(city, "worker-1").await, relic.as_str());
    relic
}

fn first_step(relic: &RelicId) -> String {
    format!("{relic}.1")
}

async fn close(city: &TestCity, relic: &RelicId, step: usize) -> Result<Value, ControlError> {
    let args = json!({ "id": format!("{relic}.{step}"), "message": "halfway" });
    own(city, "worker-1", "step.done", args).await
}

/// Issue 17, 2: closing a step cycles the session where the ritual says so, also that of a standing agent.
#[tokio::test(start_paused = true)]
async fn step_in_a_fresh_session_cycles_the_session_of_an_agent() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    let session = city.session(&agent("worker-1"));
    let starts = || city.starts(&session);
    let before = starts();
    assert_eq!(close(&city, &relic, 1).await.unwrap()["handoff"], false);
    city.pass(SECOND).await;
    assert_eq!(starts(), before);
    let closed = close(&city, &relic, 2).await.unwrap();
    assert_eq!(closed["handoff"], true, "{closed}");
    city.pass(SECOND).await;
    assert_eq!(starts(), before + 1);
    let told = own(&city, "worker-1", "rally", json!({})).await.unwrap();
    let note = told["note"].as_str().unwrap();
    assert!(
        note.contains(&format!("{relic}.2")) && note.contains("halfway"),
        "{note}"
    );
    assert_eq!(told["totem"]["next"][0]["id"], format!("{relic}.3"));
    assert_eq!(close(&city, &relic, 2).await.unwrap()["handoff"], false);
    assert_eq!(close(&city, &relic, 3).await.unwrap()["handoff"], false);
    own(&city, "worker-1", "done", json!({})).await.unwrap();
    assert_eq!(city.status(&relic).await, RelicStatus::Closed);
}

/// The supervisor was killed between the end of a step and the fresh session: the session that is still there does not
/// close the next step, and the repeated call starts the fresh one.
#[tokio::test(start_paused = true)]
async fn fresh_session_that_did_not_begin_is_started_by_the_repeated_call() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    close(&city, &relic, 1).await.unwrap();
    city.pass(SECOND).await;
    let session = city.session(&agent("worker-1"));
    let starts = || city.starts(&session);
    let before = starts();
    city.parts.sessions.refuse_meta(&session, true);
    close(&city, &relic, 2).await.unwrap_err();
    city.parts.sessions.refuse_meta(&session, false);
    city.pass(SECOND).await;
    assert_eq!(starts(), before, "no fresh session");
    let refused = close(&city, &relic, 3).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict, "{refused}");
    let again = close(&city, &relic, 2).await.unwrap();
    assert_eq!(
        (&again["already"], &again["handoff"]),
        (&json!(true), &json!(true))
    );
    city.pass(SECOND).await;
    assert_eq!(starts(), before + 1);
    close(&city, &relic, 3).await.unwrap();
}

/// Returns the note that `hd rally` prints to `worker-1`.
async fn told(city: &TestCity) -> Value {
    let told = own(city, "worker-1", "rally", json!({})).await.unwrap();
    told["note"].clone()
}

/// The note of a step is for the session that begins the next one. A later handoff without a message leaves none.
#[tokio::test(start_paused = true)]
async fn handoff_without_a_message_drops_the_note_of_a_step_that_its_session_has_begun() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    let session = city.session(&agent("worker-1"));
    close(&city, &relic, 1).await.unwrap();
    close(&city, &relic, 2).await.unwrap();
    city.pass(SECOND).await;
    assert!(told(&city).await.as_str().unwrap().contains("halfway"));
    let before = city.starts(&session);
    own(&city, "worker-1", "handoff", json!({})).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(city.starts(&session), before + 1);
    assert_eq!(told(&city).await, Value::Null);
}

#[tokio::test(start_paused = true)]
async fn handoff_without_a_message_keeps_the_note_of_a_step_that_no_session_has_begun() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    let session = city.session(&agent("worker-1"));
    close(&city, &relic, 1).await.unwrap();
    city.parts.sessions.refuse_meta(&session, true);
    close(&city, &relic, 2).await.unwrap_err();
    city.parts.sessions.refuse_meta(&session, false);
    let before = city.starts(&session);
    own(&city, "worker-1", "handoff", json!({})).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(city.starts(&session), before + 1);
    let note = told(&city).await;
    assert!(note.as_str().unwrap().contains("halfway"), "{note}");
    close(&city, &relic, 3).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn agent_sees_the_steps_of_its_relic_and_completes_it_when_all_are_done() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    for op in ["hook", "rally"] {
        let told = own(&city, "worker-1", op, json!({})).await.unwrap();
        assert_eq!(told["totem"]["next"][0]["id"], first_step(&relic), "{op}");
        let text = told["totem"]["text"].as_str().unwrap();
        assert!(text.contains("do plan"), "{op}: {text}");
    }
    let refused = own(&city, "worker-1", "done", json!({})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
    assert!(refused.message.contains("3 steps"), "{refused}");
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
    for step in 1..=3 {
        close(&city, &relic, step).await.unwrap();
        city.pass(SECOND).await;
    }
    own(&city, "worker-1", "done", json!({})).await.unwrap();
    assert_eq!(city.status(&relic).await, RelicStatus::Closed);
    let stuck = held(&city).await;
    let escalated = json!({ "status": "escalated", "reason": "no key" });
    own(&city, "worker-1", "done", escalated).await.unwrap();
    assert_eq!(city.status(&stuck).await, RelicStatus::Blocked);
}

/// A step belongs to the work on the relic of its totem; the agent at work may plan its own work.
#[tokio::test(start_paused = true)]
async fn steps_of_a_relic_on_the_hook_of_an_agent_are_not_for_other_agents() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    let step = first_step(&relic);
    let other = |op: &str| match op {
        "relic.edit" => json!({ "relic": step, "title": "another" }),
        _ => json!({ "relic": step }),
    };
    let stranger = Caller::stand_in(None, CallerRole::OwnCommand(Rights::Work));
    for who in [caller(&city, "mayor"), stranger] {
        for op in ["relic.close", "relic.edit"] {
            let refused = ask_as(&city, who.clone(), op, other(op)).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{op}: {refused}");
            assert!(refused.message.contains("worker-1"), "{op}: {refused}");
        }
    }
    own(&city, "worker-1", "step.done", json!({ "id": step }))
        .await
        .unwrap();
    let refused = own(&city, "mayor", "relic.reopen", other("relic.reopen"))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused}");
    own(&city, "worker-1", "relic.reopen", other("relic.reopen"))
        .await
        .unwrap();
    own(&city, "worker-1", "relic.edit", other("relic.edit"))
        .await
        .unwrap();
    let body = json!({ "relic": relic, "body": "planned" });
    own(&city, "worker-1", "relic.edit", body).await.unwrap();
    let plain = assigned(&city, "plain", "worker-2").await;
    assert_eq!(hooked(&city, "worker-2").await, plain.as_str());
    let args = json!({ "ritual": "work", "relic": plain });
    own(&city, "worker-2", "totem.start", args).await.unwrap();
    let args = json!({ "relic": plain, "yes": true });
    let refused = own(&city, "worker-2", "relic.close", args).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
}

/// Status and assignee of a record are those of its source; those of work on a hook are not.
#[tokio::test(start_paused = true)]
async fn import_of_another_agent_takes_no_relic_off_the_hook_of_an_agent() {
    let city = scenario().start().await;
    let relic = assigned(&city, "shared", "worker").await;
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
    let before = city.relic_now(&relic).await;
    let record = |field: &str, value: &str| -> Value {
        let mut record = json!({
            "source": { "system": "relic", "id": relic }, "title": before.title, "status": "open",
        });
        record[field] = json!(value);
        json!({ "relics": [record] })
    };
    for (field, value) in [
        ("status", "closed"),
        ("status", "blocked"),
        ("assignee", "mayor"),
    ] {
        own(&city, "mayor", "relic.import", record(field, value))
            .await
            .unwrap();
        assert_eq!(city.relic_now(&relic).await, before, "{field}: {value}");
    }
    ask(&city, "relic.import", record("assignee", "mayor"))
        .await
        .unwrap();
    assert_eq!(hooked(&city, "mayor").await, relic.as_str());
}

#[tokio::test(start_paused = true)]
async fn relic_that_is_being_charged_is_not_given_to_an_agent() {
    let interruption = Interruption::at(FaultPoint::ChargeSandboxBefore);
    let city = scenario().fault(interruption.hook()).start().await;
    let relic = assigned(&city, "shared", "worker").await;
    city.charge(&relic).await.unwrap_err();
    assert_eq!(city.sagas().await, 1);
    let rally = own(&city, "worker-1", "rally", json!({})).await.unwrap();
    assert_eq!(rally["next"], Value::Null);
    let none = own(&city, "worker-1", "hook", json!({})).await.unwrap_err();
    assert_eq!(none.kind, ErrorKind::NotFound);
    interruption.end();
    city.pass(PATROL).await;
    assert_eq!(city.status(&relic).await, RelicStatus::Hooked);
}

#[tokio::test(start_paused = true)]
async fn charge_of_a_relic_that_an_agent_has_taken_meanwhile_is_undone() {
    let interruption = Interruption::at(FaultPoint::ChargeSandboxBefore);
    let city = scenario().fault(interruption.hook()).start().await;
    let relic = assigned(&city, "shared", "worker").await;
    city.charge(&relic).await.unwrap_err();
    let id = relic.clone();
    city.store(move |txn| {
        let mut relic = txn.relic(&id)?;
        relic.assignee = Some("worker-1".to_owned());
        txn.put_relic(&relic)?;
        let hook = json!({ "relic": id, "pool": "worker" }).to_string();
        txn.set("agent-hook/worker-1", Some(&hook))
    })
    .await;
    interruption.end();
    city.pass(PATROL).await;
    assert_eq!(city.sagas().await, 0);
    assert_eq!(city.status(&relic).await, RelicStatus::Open);
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
}

/// The mailbox of the actor `shaman` is not the agent's.
#[tokio::test(start_paused = true)]
async fn note_of_an_agent_with_the_name_of_an_actor_is_kept_for_its_next_session() {
    let scenario = Scenario::new().agent("shaman", RestartType::Permanent);
    let city = scenario.start().await;
    let args = json!({ "message": "look at the parser" });
    own(&city, "shaman", "handoff", args).await.unwrap();
    city.pass(PATROL * 2).await;
    let rally = own(&city, "shaman", "rally", json!({})).await.unwrap();
    assert_eq!(rally["note"], "look at the parser");
}

/// Steps of a closed relic are not worked on; reopened work goes on at the step where it was.
#[tokio::test(start_paused = true)]
async fn open_steps_are_closed_with_their_relic_and_opened_with_it() {
    let city = scenario().start().await;
    let relic = held(&city).await;
    let args = json!({ "id": first_step(&relic) });
    own(&city, "worker-1", "step.done", args).await.unwrap();
    city.pass(PATROL).await;
    let statuses = async || {
        let args = json!({ "relic": relic });
        let shown = ask(&city, "totem.show", args).await.unwrap();
        let steps = shown["steps"].as_array().unwrap().iter();
        let steps: Vec<_> = steps.map(|step| step["status"].clone()).collect();
        json!(steps)
    };
    for op in ["relic.close", "relic.cancel"] {
        let before = city.events(EventType::RelicClosed).await.len();
        let end = json!({ "relic": relic, "yes": true });
        ask(&city, op, end).await.unwrap();
        assert_eq!(statuses().await, json!(["closed", "closed", "closed"]));
        let closed = city.events(EventType::RelicClosed).await;
        let subjects = closed[before..].iter().map(|event| event.subject.clone());
        let expected = [
            relic.to_string(),
            format!("{relic}.2"),
            format!("{relic}.3"),
        ];
        assert_eq!(subjects.collect::<Vec<_>>(), expected, "{op}");
        ask(&city, "relic.reopen", json!({ "relic": relic }))
            .await
            .unwrap();
        assert_eq!(statuses().await, json!(["closed", "open", "open"]));
    }
}
