//! Hooks of standing agents and of members of pools, what `done` makes of them, and notes of their handoffs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{PATROL, ask, ask_as};
use crate::control::handlers::status;
use crate::control::protocol::{ControlError, ErrorKind};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::city::{Pool, RestartType, Rights};
use crate::domain::event::EventType;
use crate::domain::ids::{RelicId, SessionId};
use crate::domain::relic::RelicStatus;
use crate::testing::world::{Scenario, TestCity, agent};

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// The check of the pool.
const CHECK: &str = "count";

pub(super) fn pool(min: u32) -> Scenario {
    let scenario = Scenario::new()
        .agent("worker", RestartType::Permanent)
        .agent("mayor", RestartType::Permanent);
    scenario.with(|city| {
        city.agents[0].rights = Rights::Read;
        city.agents[0].pool = Some(Pool {
            min,
            max: 3,
            check: (min == 0).then(|| CHECK.to_owned()),
            check_interval: SECOND * 5,
            drain_timeout: SECOND * 3600,
        });
    })
}

/// Returns a process in the session of this agent.
pub(super) fn caller(city: &TestCity, name: &str) -> Caller {
    let session = SessionId::new(format!("city-{name}")).unwrap();
    let pid = 5000 + u32::from(name.as_bytes()[name.len() - 1]);
    city.parts.sessions.place(pid, &session);
    Caller::stand_in(pid, CallerRole::Agent(session))
}

pub(super) async fn own(
    city: &TestCity,
    name: &str,
    op: &str,
    args: Value,
) -> Result<Value, ControlError> {
    ask_as(city, caller(city, name), op, args).await
}

/// Returns the id of the relic on the hook of an agent, after it asked for one.
pub(super) async fn hooked(city: &TestCity, name: &str) -> String {
    let hook = own(city, name, "hook", json!({})).await.unwrap();
    hook["relic"]["id"].as_str().unwrap().to_owned()
}

pub(super) async fn assigned(city: &TestCity, title: &str, to: &str) -> RelicId {
    let relic = city.relic(title).await;
    city.pass(SECOND).await;
    let args = json!({ "relic": relic, "assignee": to });
    ask(city, "relic.edit", args).await.unwrap();
    relic
}

#[tokio::test(start_paused = true)]
async fn hooks_of_agents_and_members_are_shown_by_status_and_the_list_of_agents() {
    let city = pool(2).start().await;
    let shared = assigned(&city, "shared", "worker").await;
    let plan = assigned(&city, "plan", "mayor").await;
    hooked(&city, "worker-2").await;
    hooked(&city, "mayor").await;
    let listed = ask(&city, "agent.list", json!({})).await.unwrap();
    let published = Published::default();
    let status = status::status(&published, &city.world, Duration::ZERO).await;
    let status: Value = serde_json::from_str(&status.unwrap()).unwrap();
    for agents in [&listed, &status["agents"]] {
        let rows = agents.as_array().unwrap().iter();
        let rows: Vec<_> = rows
            .map(|it| (it["name"].clone(), it["hook"].clone()))
            .collect();
        let expected = [
            (json!("mayor"), json!(plan)),
            (json!("worker-1"), Value::Null),
            (json!("worker-2"), json!(shared)),
        ];
        assert_eq!(rows, expected);
    }
    own(&city, "worker-2", "done", json!({})).await.unwrap();
    let listed = ask(&city, "agent.list", json!({})).await.unwrap();
    assert_eq!(listed[2]["hook"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn agent_gets_the_oldest_ready_relic_assigned_to_it_or_its_pool() {
    let city = pool(2).start().await;
    let none = own(&city, "worker-1", "hook", json!({})).await.unwrap_err();
    assert_eq!(none.kind, ErrorKind::NotFound);
    let hint = none.hint.unwrap();
    assert!(hint.contains("--assignee worker`"), "any member: {hint}");
    city.relic("of none").await;
    let shared = assigned(&city, "shared", "worker").await;
    let other = assigned(&city, "of the other", "worker-2").await;
    let late = assigned(&city, "late", "worker-1").await;
    let urgent = json!({ "relic": late, "priority": 4 });
    ask(&city, "relic.edit", urgent).await.unwrap();
    assert_eq!(
        hooked(&city, "worker-1").await,
        shared.as_str(),
        "the oldest"
    );
    assert_eq!(
        hooked(&city, "worker-1").await,
        shared.as_str(),
        "until it is done"
    );
    assert_eq!(
        city.relic_now(&shared).await.assignee.as_deref(),
        Some("worker-1")
    );
    assert_eq!(hooked(&city, "worker-2").await, other.as_str());
    let rally = own(&city, "worker-1", "rally", json!({})).await.unwrap();
    assert_eq!(
        (&rally["relic"]["id"], &rally["pool"]),
        (&json!(shared), &json!("worker"))
    );
    let done = own(&city, "worker-1", "done", json!({ "reason": "sent" }))
        .await
        .unwrap();
    assert_eq!(
        (&done["relic"], &done["status"]),
        (&json!(shared), &json!("closed"))
    );
    let closed = city.events(EventType::RelicClosed).await.pop().unwrap();
    assert_eq!(
        (&closed.data["by"], &closed.data["reason"]),
        (&json!("worker-1"), &json!("sent"))
    );
    let again = own(&city, "worker-1", "done", json!({})).await.unwrap_err();
    assert_eq!(
        again.kind,
        ErrorKind::Conflict,
        "it closes nothing that it has not taken"
    );
    assert_eq!(city.status(&late).await, RelicStatus::Open);
    let rally = own(&city, "worker-1", "rally", json!({})).await.unwrap();
    assert!(rally["next"].as_str().unwrap().contains(late.as_str()));
    assert_eq!(hooked(&city, "worker-1").await, late.as_str());
}

#[tokio::test(start_paused = true)]
async fn relic_that_waits_for_another_is_not_given() {
    let city = pool(1).start().await;
    let first = city.relic("first").await;
    let waits = assigned(&city, "waits", "mayor").await;
    let dep = json!({ "relic": waits, "on": first });
    ask(&city, "relic.dep.add", dep).await.unwrap();
    assert!(own(&city, "mayor", "hook", json!({})).await.is_err());
    let close = json!({ "relic": first, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    assert_eq!(hooked(&city, "mayor").await, waits.as_str());
}

#[tokio::test(start_paused = true)]
async fn hook_of_an_agent_survives_its_session_and_the_supervisor() {
    let city = pool(1).start().await;
    let relic = assigned(&city, "shared", "worker").await;
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
    city.parts
        .sessions
        .crash(&city.session(&agent("worker-1")), 9);
    city.pass(PATROL).await;
    let clock = city.world.clock.clone();
    let city = pool(1).start_on(city.crash().await, clock).await;
    city.pass(PATROL).await;
    assigned(&city, "another", "worker-1").await;
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
}

/// A member that leaves finishes its relic; what it leaves unfinished goes back to its pool.
#[tokio::test(start_paused = true)]
async fn relic_of_a_member_that_is_gone_goes_to_the_next_member() {
    let scenario = || pool(0);
    let city = scenario().start().await;
    city.parts.runner.set_output(CHECK, "2");
    city.pass(SECOND * 6).await;
    let (kept, shared) = (
        assigned(&city, "of two", "worker-2").await,
        assigned(&city, "shared", "worker").await,
    );
    let close = json!({ "relic": kept, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    assert_eq!(hooked(&city, "worker-2").await, shared.as_str());
    assert!(
        own(&city, "worker-1", "hook", json!({})).await.is_err(),
        "it is taken"
    );
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 11).await;
    assert!(city.view(&agent("worker-2")).await.unwrap().draining);
    assigned(&city, "more", "worker-2").await;
    assert_eq!(
        hooked(&city, "worker-2").await,
        shared.as_str(),
        "its own work goes on"
    );
    city.parts
        .sessions
        .exit(&city.session(&agent("worker-2")), 0);
    city.pass(PATROL).await;
    assert!(city.view(&agent("worker-2")).await.is_none());
    city.pass(PATROL).await;
    assert_eq!(
        city.relic_now(&shared).await.assignee.as_deref(),
        Some("worker"),
        "no member has to ask for it"
    );
    assert_eq!(hooked(&city, "worker-1").await, shared.as_str());
    assert_eq!(
        city.relic_now(&shared).await.assignee.as_deref(),
        Some("worker-1")
    );
}

#[tokio::test(start_paused = true)]
async fn member_that_leaves_closes_its_relic_with_done_and_takes_no_other() {
    let city = pool(0).start().await;
    city.parts.runner.set_output(CHECK, "1");
    city.pass(SECOND * 6).await;
    let relic = assigned(&city, "shared", "worker").await;
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
    city.parts.runner.set_output(CHECK, "0");
    city.pass(SECOND * 11).await;
    assert!(city.view(&agent("worker-1")).await.unwrap().draining);
    let done = own(&city, "worker-1", "done", json!({})).await.unwrap();
    let expected =
        json!({ "name": "worker-1", "state": "draining", "relic": relic, "status": "closed" });
    assert_eq!(done, expected);
    city.pass(SECOND * 10).await;
    assert!(city.view(&agent("worker-1")).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn agent_that_is_stuck_or_puts_its_relic_off_gives_it_back() {
    let city = pool(1).start().await;
    for (status, becomes) in [
        ("escalated", RelicStatus::Blocked),
        ("deferred", RelicStatus::Deferred),
    ] {
        let relic = assigned(&city, status, "worker").await;
        assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
        let mut args = json!({ "status": status, "reason": "no key" });
        if becomes == RelicStatus::Deferred {
            args["until"] = json!("2026-02-01T00:00:00Z");
        }
        own(&city, "worker-1", "done", args).await.unwrap();
        let now = city.relic_now(&relic).await;
        assert_eq!(
            (now.status, now.assignee.as_deref()),
            (becomes, Some("worker"))
        );
        let until =
            (becomes == RelicStatus::Deferred).then(|| "2026-02-01T00:00:00Z".parse().unwrap());
        assert_eq!(now.until, until);
        assert!(own(&city, "worker-1", "hook", json!({})).await.is_err());
    }
    city.settle().await;
    let calls = city.escalations().await;
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].labels[0], "about:worker-1:gt-1");
    let blocked = json!({ "relic": "gt-1" });
    ask(&city, "relic.reopen", blocked).await.unwrap();
    assert_eq!(hooked(&city, "worker-1").await, "gt-1");
    for wrong in [
        json!({ "no_change": true }),
        json!({ "cleanup_status": "clean" }),
    ] {
        let refused = own(&city, "worker-1", "done", wrong).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::BadRequest);
    }
    assert_eq!(hooked(&city, "worker-1").await, "gt-1");
}

/// Agents close no relic that another agent or a raider is hooked to.
#[tokio::test(start_paused = true)]
async fn other_agent_ends_or_takes_no_relic_on_the_hook_of_an_agent_and_a_person_does() {
    let city = pool(1).start().await;
    let relic = assigned(&city, "shared", "worker").await;
    assert_eq!(hooked(&city, "worker-1").await, relic.as_str());
    for (op, args) in [
        ("relic.close", json!({ "relic": relic, "yes": true })),
        ("relic.cancel", json!({ "relic": relic, "yes": true })),
        ("relic.edit", json!({ "relic": relic, "assignee": "mayor" })),
        ("relic.edit", json!({ "relic": relic, "title": "other" })),
    ] {
        let refused = own(&city, "mayor", op, args).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{op}: {refused}");
        assert!(refused.message.contains("worker-1"), "{op}: {refused}");
    }
    let refused = city.charge(&relic).await.unwrap_err();
    assert!(refused.message.contains("hook of worker-1"), "{refused}");
    let args = json!({ "relic": relic, "assignee": "mayor" });
    ask(&city, "relic.edit", args).await.unwrap();
    assert!(
        own(&city, "worker-1", "hook", json!({})).await.is_err(),
        "it is off the hook"
    );
    assert_eq!(
        own(&city, "worker-1", "done", json!({}))
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Conflict
    );
    assert_eq!(hooked(&city, "mayor").await, relic.as_str());
    let close = json!({ "relic": relic, "yes": true });
    ask(&city, "relic.close", close).await.unwrap();
    assert!(own(&city, "mayor", "hook", json!({})).await.is_err());
}

/// Issue 17, 3: `handoff -m` of a standing agent keeps its note.
#[tokio::test(start_paused = true)]
async fn note_of_a_handoff_is_given_to_the_next_session_at_rally() {
    let city = pool(1).start().await;
    let relic = assigned(&city, "a", "mayor").await;
    assert_eq!(hooked(&city, "mayor").await, relic.as_str());
    let session = city.session(&agent("mayor"));
    let note = async |city: &TestCity| {
        let rally = own(city, "mayor", "rally", json!({})).await.unwrap();
        (rally["note"].clone(), rally["note_at"].is_string())
    };
    assert_eq!(note(&city).await, (Value::Null, false));
    let mut starts = 1;
    for (args, expected) in [
        (
            json!({ "message": "look at the parser" }),
            json!("look at the parser"),
        ),
        (
            json!({ "message": "it is done", "resume": true }),
            json!("it is done"),
        ),
        (json!({}), Value::Null),
        (json!({ "message": "the last" }), json!("the last")),
    ] {
        own(&city, "mayor", "handoff", args).await.unwrap();
        starts += 1;
        city.pass(SECOND * 30).await;
        assert_eq!(city.starts(&session), starts);
        assert_eq!(note(&city).await, (expected.clone(), expected.is_string()));
    }
    city.parts.sessions.crash(&session, 9);
    city.pass(PATROL).await;
    let clock = city.world.clock.clone();
    let city = pool(1).start_on(city.crash().await, clock).await;
    assert_eq!(
        note(&city).await.0,
        "the last",
        "a death and a restart keep it"
    );
    assert_eq!(hooked(&city, "mayor").await, relic.as_str());
    let long = json!({ "message": "x".repeat(16 * 1024 + 1) });
    let refused = own(&city, "mayor", "handoff", long).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::BadRequest);
}
