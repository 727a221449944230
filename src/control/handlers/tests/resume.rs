//! Sessions that resume the conversation of the one before: all whose harness can resume it and whose transcript
//! exists, unless a handoff or a person wants a fresh one.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{PATROL, ask};
use crate::actors::conversation;
use crate::control::handlers::dispatch;
use crate::control::protocol::{ControlError, Op};
use crate::control::rights::CallerRole;
use crate::control::server::Caller;
use crate::control::snapshot::Published;
use crate::domain::agents::AgentPrompt;
use crate::domain::city::{City, RestartType};
use crate::domain::ids::{ChildId, SessionId};
use crate::domain::question::Pattern;
use crate::ports::sessions::Sessions;
use crate::ports::tasks::TaskFiles;
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);
const PID: u32 = 4242;

/// Lets every harness resume conversations, and drive the agent `mayor`.
fn resuming(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        harness.resume = vec!["--resume".into(), "{session_id}".into()];
        harness.patterns.limit = Pattern::new("at your limit").into_iter().collect();
    }
    let harness = city.harnesses.keys().next().cloned();
    for agent in &mut city.agents {
        agent.harness.clone_from(&harness);
        agent.prompt = Some(AgentPrompt {
            text: "Look after the city.".into(),
            file: "/city/mayor.md".into(),
        });
    }
}

fn scenario() -> Scenario {
    let scenario = Scenario::new().agent("mayor", RestartType::Permanent);
    scenario.with(resuming)
}

/// Reports this conversation for the session, and writes its transcript.
async fn converse(city: &TestCity, child: &ChildId, conversation: &str) {
    let transcript = city
        .parts
        .tasks
        .write_beside(Path::new("/transcripts"), conversation, "")
        .unwrap();
    let handle = city.view(child).await.unwrap().session.unwrap().handle;
    let sessions = &city.parts.sessions;
    let keep = |key, value: &str| sessions.set_meta(&handle, key, value).unwrap();
    keep(conversation::CONVERSATION, conversation);
    keep(conversation::TRANSCRIPT, &transcript.to_string_lossy());
}

/// Starts a city with a raider in the conversation `c-1`. Returns its child and its session, too.
async fn conversing() -> (TestCity, ChildId, SessionId) {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider);
    converse(&city, &id, "c-1").await;
    (city, id, charged.session)
}

/// Returns the conversation that the newest session of this id was started to resume.
fn resumed(city: &TestCity, session: &SessionId) -> Option<String> {
    let starts = city.parts.sessions.starts();
    let last = starts.iter().rfind(|start| start.id == *session).unwrap();
    let mut words = last.argv.iter().skip_while(|word| *word != "--resume");
    words.nth(1).cloned()
}

/// Sends `hd handoff` from inside the session.
async fn hand_off(city: &TestCity, session: &SessionId, args: serde_json::Value) {
    say_handoff(city, session, args).await.unwrap();
    city.settle().await;
}

async fn say_handoff(
    city: &TestCity,
    session: &SessionId,
    args: serde_json::Value,
) -> Result<serde_json::Value, ControlError> {
    city.parts.sessions.place(PID, session);
    let who = match city.session(&agent("mayor")) == *session {
        true => CallerRole::Agent(session.clone()),
        false => CallerRole::Raider(session.clone()),
    };
    let caller = Caller::stand_in(PID, who);
    let args = args.as_object().unwrap().clone();
    let op = Op::parse("handoff".parse().unwrap(), args).unwrap();
    dispatch(&Published::default(), &city.world, caller, op).await
}

#[tokio::test(start_paused = true)]
async fn conversation_goes_on_when_its_transcript_is_there_and_begins_afresh_when_it_is_gone() {
    let (city, id, session) = conversing().await;
    let session = &session;
    city.pass(SECOND * 60).await;
    city.parts.sessions.crash(session, 9);
    city.settle().await;
    assert_eq!(resumed(&city, session).as_deref(), Some("c-1"));
    // The session reports another transcript, which is deleted.
    converse(&city, &id, "c-2").await;
    let handle = city.view(&id).await.unwrap().session.unwrap().handle;
    let (sessions, gone) = (&city.parts.sessions, "/transcripts/gone");
    sessions
        .set_meta(&handle, conversation::TRANSCRIPT, gone)
        .unwrap();
    city.pass(SECOND * 60).await;
    city.parts.sessions.crash(session, 9);
    city.pass(SECOND * 5).await;
    assert_eq!(city.starts(session), 3);
    assert_eq!(resumed(&city, session), None);
    let prompts = city.parts.tasks.prompts();
    let prompt = prompts.last().unwrap();
    assert!(
        prompt.contains("Read") && prompt.contains("TASK.md"),
        "{prompt}"
    );
}

/// A conversation is not lost if the facts of the session before cannot be read for a moment.
#[tokio::test(start_paused = true)]
async fn conversation_goes_on_although_the_facts_of_a_session_could_not_be_read() {
    let (city, _, session) = conversing().await;
    let session = &session;
    city.pass(SECOND * 60).await;
    city.parts.sessions.hide_meta(session, true);
    city.parts.sessions.crash(session, 9);
    city.pass(PATROL * 2).await;
    assert_eq!(city.starts(session), 1, "nothing is concluded");
    city.parts.sessions.hide_meta(session, false);
    city.pass(PATROL * 2).await;
    assert_eq!(city.starts(session), 2);
    assert_eq!(resumed(&city, session).as_deref(), Some("c-1"));
}

#[tokio::test(start_paused = true)]
async fn resume_that_dies_at_once_is_followed_by_a_fresh_conversation_and_the_next_is_resumed() {
    let (city, id, session) = conversing().await;
    let session = &session;
    city.pass(SECOND * 60).await;
    city.parts.sessions.crash(session, 9);
    city.settle().await;
    assert_eq!(resumed(&city, session).as_deref(), Some("c-1"));
    city.pass(SECOND * 2).await;
    city.parts.sessions.exit(session, 1);
    city.pass(SECOND * 5).await;
    assert_eq!(resumed(&city, session), None, "once in vain is enough");
    converse(&city, &id, "c-2").await;
    city.pass(SECOND * 60).await;
    city.parts.sessions.crash(session, 9);
    city.pass(SECOND * 5).await;
    assert_eq!(resumed(&city, session).as_deref(), Some("c-2"));
}

/// A resumed session that meets the next limit at once was still able to resume: the limit, the supervisor or a person
/// ended it.
#[tokio::test(start_paused = true)]
async fn resumed_session_that_was_ended_at_once_keeps_its_conversation() {
    type End = fn(&TestCity, &SessionId);
    let limit: End = |city, session| {
        city.parts.sessions.print(session, "at your limit");
        city.parts.sessions.exit(session, 1);
    };
    let person: End = |city, session| city.parts.sessions.interrupted_by_person(session);
    for (name, end) in [("limit", limit), ("person", person)] {
        let city = scenario().start().await;
        let charged = city.worker("a").await;
        let (id, session) = (ChildId::Raider(charged.raider.clone()), &charged.session);
        converse(&city, &id, "c-1").await;
        city.pass(SECOND * 60).await;
        city.parts.sessions.crash(session, 9);
        city.settle().await;
        assert_eq!(resumed(&city, session).as_deref(), Some("c-1"));
        city.pass(SECOND * 2).await;
        end(&city, session);
        city.pass(SECOND * 3600).await;
        assert_eq!(city.starts(session), 3, "{name}");
        assert_eq!(resumed(&city, session).as_deref(), Some("c-1"), "{name}");
        // The supervisor ends it within seconds of its start.
        ask(&city, "agent.restart", json!({ "name": "Toast" }))
            .await
            .unwrap();
        city.pass(SECOND * 2).await;
        ask(&city, "agent.restart", json!({ "name": "Toast" }))
            .await
            .unwrap();
        city.pass(SECOND * 2).await;
        assert_eq!(city.starts(session), 5, "{name}");
        assert_eq!(resumed(&city, session).as_deref(), Some("c-1"), "{name}");
    }
}

/// A standing agent's next session continues its conversation, for every reason that ended the last one.
#[tokio::test(start_paused = true)]
async fn standing_agent_resumes_after_a_stop_a_restart_a_drift_and_a_new_supervisor() {
    let mut city = scenario().start().await;
    let (id, session) = (agent("mayor"), city.session(&agent("mayor")));
    converse(&city, &id, "c-1").await;
    let goes_on = async |city: &TestCity, starts: usize, why: &str| {
        city.pass(PATROL).await;
        assert_eq!(city.starts(&session), starts, "{why}");
        assert_eq!(resumed(city, &session).as_deref(), Some("c-1"), "{why}");
    };
    let name = json!({ "name": "mayor" });
    ask(&city, "agent.restart", name.clone()).await.unwrap();
    goes_on(&city, 2, "restart").await;
    ask(&city, "agent.stop", name.clone()).await.unwrap();
    ask(&city, "agent.start", name.clone()).await.unwrap();
    goes_on(&city, 3, "stop and start").await;
    let told = city.reload(|city| city.agents[0].fingerprint = "two".into());
    assert_eq!(told.await.len(), 1);
    goes_on(&city, 4, "drift").await;
    city.parts.sessions.crash(&session, 9);
    goes_on(&city, 5, "crash").await;
    // `hd stop`, `hd up`.
    let (clock, parts) = (city.world.clock.clone(), city.parts.rewired());
    let end = crate::actors::mail::StopMode::Graceful;
    city.stop(end).await;
    let again = scenario().with(|city| city.agents[0].fingerprint = "two".into());
    city = again.start_on(parts, clock).await;
    goes_on(&city, 6, "a new supervisor").await;
}

#[tokio::test(start_paused = true)]
async fn person_can_ask_for_a_fresh_conversation() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let raider = ChildId::Raider(charged.raider.clone());
    for (name, id) in [("mayor", agent("mayor")), ("Toast", raider)] {
        let session = city.session(&id);
        converse(&city, &id, "c-1").await;
        city.pass(SECOND * 60).await;
        let args = json!({ "name": name, "fresh": true });
        ask(&city, "agent.restart", args).await.unwrap();
        city.pass(PATROL).await;
        assert_eq!((city.starts(&session), resumed(&city, &session)), (2, None));
        // Only that one.
        converse(&city, &id, "c-2").await;
        ask(&city, "agent.restart", json!({ "name": name }))
            .await
            .unwrap();
        city.pass(PATROL).await;
        assert_eq!(resumed(&city, &session).as_deref(), Some("c-2"), "{name}");
    }
}

/// A handoff begins a fresh context, unless its note says otherwise.
#[tokio::test(start_paused = true)]
async fn handoff_begins_afresh_unless_it_says_that_the_conversation_goes_on() {
    let city = scenario().start().await;
    let charged = city.worker("a").await;
    let raider = ChildId::Raider(charged.raider.clone());
    for id in [agent("mayor"), raider] {
        let session = city.session(&id);
        converse(&city, &id, "c-1").await;
        city.pass(SECOND * 60).await;
        let note = match id {
            ChildId::Raider(_) => json!({ "message": "so far" }),
            _ => json!({}),
        };
        hand_off(&city, &session, note).await;
        assert_eq!((city.starts(&session), resumed(&city, &session)), (2, None));
        converse(&city, &id, "c-2").await;
        city.pass(SECOND * 60).await;
        hand_off(&city, &session, json!({ "resume": true })).await;
        assert_eq!(city.starts(&session), 3);
        assert_eq!(resumed(&city, &session).as_deref(), Some("c-2"), "{id}");
    }
    let prompts = city.parts.tasks.prompts();
    assert!(prompts.last().unwrap().contains("handed off to you"));
}
