//! `rally`: the note of the last handoff, the end of the last session, and the outcome file.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::agent_hooks::{SECOND, assigned, hooked, own, pool};
use super::{PATROL, ask, ask_as};
use crate::actors::mail::{Charged, StopMode};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::ports::sessions::StartError;
use crate::testing::world::{Scenario, TestCity, agent};

const PID: u32 = 4242;

/// Returns a process in the present session of a raider.
fn caller(city: &TestCity, charged: &Charged) -> Caller {
    city.parts.sessions.place(PID, &charged.session);
    Caller::stand_in(PID, CallerRole::Raider(charged.session.clone()))
}

pub(super) async fn rally(city: &TestCity, charged: &Charged) -> Value {
    let caller = caller(city, charged);
    ask_as(city, caller, "rally", json!({})).await.unwrap()
}

/// Hands off, and waits for the next session.
pub(super) async fn hand_off(city: &TestCity, charged: &Charged, args: Value) {
    let caller = caller(city, charged);
    ask_as(city, caller, "handoff", args).await.unwrap();
    city.pass(SECOND * 30).await;
}

pub(super) fn last_prompt(city: &TestCity) -> String {
    city.parts.tasks.prompts().pop().unwrap()
}

fn outcome_dir(city: &TestCity, charged: &Charged) -> PathBuf {
    let city = &city.world.city;
    city.task_dir(&charged.raider, &charged.relic, charged.incarnation)
}

/// Issue 17, 3: after a crash and after a handoff it says so.
#[tokio::test(start_paused = true)]
async fn rally_of_a_raider_tells_how_the_last_session_ended() {
    let (city, charged) = Scenario::at_work().await;
    let end = async || {
        let told = rally(&city, &charged).await;
        (told["last_end"].clone(), told["note"].clone())
    };
    assert_eq!(end().await, (Value::Null, Value::Null));
    hand_off(&city, &charged, json!({ "message": "half" })).await;
    assert_eq!(end().await, (json!("handoff"), json!("half")));
    assert!(last_prompt(&city).contains("handed off to you"));
    let at = rally(&city, &charged).await["note_at"].clone();
    city.parts.sessions.crash(&charged.session, 9);
    city.pass(SECOND * 60).await;
    // The note is older than the crash, and still the last one.
    assert_eq!(end().await, (json!("crash"), json!("half")));
    assert_eq!(rally(&city, &charged).await["note_at"], at);
    hand_off(&city, &charged, json!({})).await;
    assert_eq!(end().await, (json!("handoff"), Value::Null));
    let id = ChildId::Raider(charged.raider.clone());
    city.rest(&id).await.unwrap();
    city.wake(&id).await.unwrap();
    city.pass(SECOND).await;
    assert_eq!(end().await.0, "other");
}

/// The session of a start that failed is not the last one.
#[tokio::test(start_paused = true)]
async fn start_that_fails_does_not_hide_how_the_last_session_ended() {
    let (city, charged) = Scenario::at_work().await;
    let refused = StartError::Provider("no memory".into());
    city.parts.sessions.refuse_start(&charged.session, refused);
    city.parts.sessions.crash(&charged.session, 9);
    city.settle().await;
    city.parts.sessions.accept_starts();
    city.pass(SECOND * 61).await;
    assert_eq!(rally(&city, &charged).await["last_end"], "crash");
}

#[tokio::test(start_paused = true)]
async fn rally_of_an_agent_tells_how_the_last_session_ended() {
    let city = pool(1).start().await;
    let session = city.session(&agent("mayor"));
    let end = async || {
        let told = own(&city, "mayor", "rally", json!({})).await.unwrap();
        (told["last_end"].clone(), told["note"].clone())
    };
    assert_eq!(end().await, (Value::Null, Value::Null));
    for (args, note) in [
        (json!({ "message": "half" }), json!("half")),
        (json!({}), Value::Null),
        (json!({ "message": "more" }), json!("more")),
    ] {
        own(&city, "mayor", "handoff", args).await.unwrap();
        city.pass(SECOND * 30).await;
        assert_eq!(end().await, (json!("handoff"), note));
    }
    city.parts.sessions.crash(&session, 9);
    city.pass(SECOND * 30).await;
    assert_eq!(end().await, (json!("crash"), json!("more")));
}

/// The facts of a session cannot be read, or an earlier version of the supervisor started it.
#[tokio::test(start_paused = true)]
async fn end_of_the_last_session_is_unknown_where_no_fact_tells_it() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.sessions.hide_meta(&charged.session, true);
    assert_eq!(rally(&city, &charged).await["last_end"], "unknown");
}

/// Issue 17, 3: the outcome file's state.
#[tokio::test(start_paused = true)]
async fn rally_tells_what_the_outcome_file_says() {
    let (city, charged) = Scenario::at_work().await;
    let dir = outcome_dir(&city, &charged);
    let said = async |text: &str| {
        city.parts.tasks.write_outcome_unwatched(&dir, text);
        rally(&city, &charged).await["outcome"].clone()
    };
    let empty = said("").await;
    assert_eq!(
        (&empty["state"], &empty["void"], &empty["refused"]),
        (&json!("empty"), &json!(false), &Value::Null)
    );
    for (text, state, reason) in [
        (r#"{"outcome":"passed"}"#, "passed", Value::Null),
        (r#"{"outcome":"reviewing"}"#, "reviewing", Value::Null),
        (
            r#"{"outcome":"stuck","reason":"no key"}"#,
            "stuck",
            json!("no key"),
        ),
        (
            r#"{"outcome":"passed","no_change":true,"reason":"done before"}"#,
            "no_change",
            json!("done before"),
        ),
    ] {
        let told = said(text).await;
        assert_eq!((&told["state"], &told["reason"]), (&json!(state), &reason));
    }
    let unclear = said("passed").await;
    assert_eq!(unclear["state"], "unclear");
    assert!(
        unclear["reason"]
            .as_str()
            .unwrap()
            .contains("not an outcome")
    );
}

#[tokio::test(start_paused = true)]
async fn rally_tells_that_an_outcome_was_refused() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.repo.dirty(&charged.raider.name, "wip.txt");
    let dir = outcome_dir(&city, &charged);
    city.parts.tasks.stamp(&dir, city.world.clock.now());
    city.parts
        .tasks
        .write_outcome(&dir, r#"{"outcome":"passed"}"#);
    city.pass(PATROL).await;
    let told = rally(&city, &charged).await["outcome"].clone();
    assert_eq!(told["state"], "passed");
    let why = told["refused"].as_str().unwrap();
    assert!(!why.is_empty(), "{told}");
    // Another writing is another declaration, which nothing has looked at.
    city.parts
        .tasks
        .stamp(&dir, city.world.clock.now() + SECOND);
    let told = rally(&city, &charged).await["outcome"].clone();
    assert_eq!(told["refused"], Value::Null, "{told}");
}

/// The outcome file is moved aside when a person has rejected what it declared; until then it still says `passed`.
#[tokio::test(start_paused = true)]
async fn rally_tells_of_no_valid_outcome_after_a_rejection() {
    for (is_moved, state) in [(true, "empty"), (false, "passed")] {
        after_a_rejection(is_moved, state).await;
    }
}

async fn after_a_rejection(is_moved: bool, state: &str) {
    let scenario = Scenario::new().rig(|rig| {
        rig.forge.review_human = true;
        rig.witness.review_hold = SECOND * 3600;
    });
    let city = scenario.start().await;
    let charged = city.worker("a").await;
    city.parts.repo.commit(&charged.raider.name);
    let dir = outcome_dir(&city, &charged);
    city.parts.tasks.stamp(&dir, city.world.clock.now());
    city.parts
        .tasks
        .write_outcome(&dir, r#"{"outcome":"passed"}"#);
    city.pass(PATROL).await;
    let mr = city.mr(&charged.relic).await.unwrap();
    assert!(mr.awaits_person(), "{mr:?}");
    if !is_moved {
        city.parts.tasks.keep_outcomes();
    }
    let reject = json!({ "mr": mr.id, "note": "the flag must be --json", "yes": true });
    ask(&city, "mq.reject", reject).await.unwrap();
    let told = rally(&city, &charged).await;
    assert_eq!(told["outcome"]["state"], state);
    assert_eq!(told["outcome"]["void"], !is_moved);
    // The note of the rejection is told as before.
    let context = told["relic"]["context"].as_str().unwrap();
    assert!(context.contains("the flag must be --json"), "{context}");
}

/// An unreadable file is unknown, and a disk that hangs keeps the rest of the answer waiting for half a minute at most.
#[tokio::test(start_paused = true)]
async fn outcome_file_that_cannot_be_read_is_unknown() {
    let (city, charged) = Scenario::at_work().await;
    city.parts.tasks.hide(Some("stale file handle"));
    let told = rally(&city, &charged).await;
    assert_eq!(told["outcome"]["state"], "unknown");
    let why = told["outcome"]["reason"].as_str().unwrap();
    assert!(why.contains("stale file handle"), "{why}");
    assert_eq!(told["relic"]["id"], charged.relic.as_str());
    city.parts.tasks.hide(None);
}

/// Issue 17, 3: rules and the way to finish, for standing agents and members of pools with a hook.
#[tokio::test(start_paused = true)]
async fn rally_of_an_agent_with_a_hook_has_rules_and_the_way_to_finish() {
    let city = pool(1).start().await;
    for name in ["mayor", "worker-1"] {
        let told = own(&city, name, "rally", json!({})).await.unwrap();
        assert_eq!(
            (&told["rules"], &told["finish"]),
            (&Value::Null, &Value::Null)
        );
        let to = if name == "mayor" { "mayor" } else { "worker" };
        let relic = assigned(&city, "a", to).await;
        assert_eq!(hooked(&city, name).await, relic.as_str());
        let told = own(&city, name, "rally", json!({})).await.unwrap();
        let finish = told["finish"].as_str().unwrap();
        for part in [
            relic.as_str(),
            " done`",
            "--status escalated",
            "--status deferred",
        ] {
            assert!(finish.contains(part), "{name}, {part}: {finish}");
        }
        let rules = told["rules"].as_str().unwrap();
        for part in ["Do not push", "handoff -m", "relic close"] {
            assert!(rules.contains(part), "{name}, {part}: {rules}");
        }
    }
}

/// Issue 17, 3: a session that runs on over a restart of the supervisor gets the same answer.
#[tokio::test(start_paused = true)]
async fn rally_of_an_adopted_session_is_the_same_as_before() {
    let scenario = || pool(1);
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    hand_off(&city, &charged, json!({ "message": "half" })).await;
    own(&city, "mayor", "handoff", json!({ "message": "more" }))
        .await
        .unwrap();
    city.pass(SECOND * 30).await;
    let both = async |city: &TestCity| {
        let agents = own(city, "mayor", "rally", json!({})).await.unwrap();
        [rally(city, &charged).await, agents]
    };
    let before = both(&city).await;
    assert_eq!(before[0]["last_end"], "handoff");
    let starts = city.parts.sessions.starts().len();
    let clock = city.world.clock.clone();
    let city = scenario().start_on(city.crash().await, clock).await;
    assert_eq!(both(&city).await, before, "after a kill");
    let (clock, parts) = (city.world.clock.clone(), city.parts.clone());
    city.stop(StopMode::KeepSessions).await;
    let city = scenario().start_on(parts.rewired(), clock).await;
    assert_eq!(both(&city).await, before, "after a stop");
    assert_eq!(
        city.parts.sessions.starts().len(),
        starts,
        "no session began"
    );
    let adopted = city.events(EventType::AgentAdopted).await;
    let raider = charged.raider.to_string();
    assert_eq!(adopted.iter().filter(|it| it.subject == raider).count(), 2);
}
