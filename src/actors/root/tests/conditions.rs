//! Agents with a dialog on their screens (`domain/condition.rs`).

use crate::actors::mail::RootMail;
use std::time::Duration;

use crate::actors::conditions;
use crate::domain::city::{City, RestartType};
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, HarnessName, SessionId};
use crate::domain::question::Pattern;
use crate::domain::reload::Change;
use crate::ports::sessions::SessionHandle;
use crate::testing::world::{Scenario, TestCity, agent, asking};

const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (TestCity, ChildId, SessionId) {
    let city = Scenario::new().agent("mayor", RestartType::Permanent);
    let harness = |city: &mut City| {
        asking(city);
        let name = city.harnesses.keys().next().cloned();
        city.agents[0].harness = name.or_else(|| HarnessName::new("none").ok());
    };
    let city = city.with(harness).start().await;
    let id = agent("mayor");
    let session = city.session(&id);
    (city, id, session)
}

async fn question(city: &TestCity, id: &ChildId) -> Option<String> {
    let session = city.view(id).await?.session?;
    let shown = city.world.directory.conditions.of(&session.handle)?;
    Some(shown.text().to_owned())
}

fn edited(city: &mut City) {
    city.agents[0].fingerprint = "two".into();
}

/// `3. Drift` of the health patrol: an agent with an open dialog is not restarted before it is answered.
#[tokio::test(start_paused = true)]
async fn drift_waits_while_a_question_is_open() {
    let (city, id, session) = mayor().await;
    city.parts
        .sessions
        .show(&session, Some("Trust this folder?\n> yes"));
    city.pass(PATROL).await;
    assert_eq!(
        question(&city, &id).await.as_deref(),
        Some("Trust this folder?")
    );
    assert_eq!(city.reload(edited).await[0].action, Change::Deferred);
    city.pass(PATROL * 3).await;
    assert_eq!(city.starts(&session), 1);
    assert!(city.view(&id).await.unwrap().drifted, "shown");
    city.parts.sessions.show(&session, Some("> working"));
    city.pass(PATROL).await;
    assert_eq!(city.starts(&session), 2);
    assert_eq!(question(&city, &id).await, None);
    let events = city.events(EventType::RaiderNeedsInput).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0].subject[..], &events[0].cause[..]),
        ("mayor", "question")
    );
    assert_eq!(events[0].data["question"], "Trust this folder?");
}

/// The decision uses the present screen, not that of the last patrol.
#[tokio::test(start_paused = true)]
async fn unseen_question_is_found_before_its_session_is_replaced() {
    let (city, id, session) = mayor().await;
    city.pass(PATROL).await;
    city.parts.sessions.show(&session, Some("Sure?"));
    // No look has seen it yet.
    assert_eq!(city.reload(edited).await[0].action, Change::Restart);
    assert_eq!(city.starts(&session), 1);
    assert!(question(&city, &id).await.is_some());
}

/// An agent that asks is idle because it waits for a person.
#[tokio::test(start_paused = true)]
async fn session_with_an_open_question_is_not_idle() {
    let (city, _, session) = mayor().await;
    let second = Duration::from_secs(1);
    city.reload(|city| city.agents[0].idle_timeout = Some(second * 45))
        .await;
    city.parts.sessions.show(&session, Some("Sure?"));
    let now = city.world.clock.now();
    city.parts.sessions.set_last_activity(&session, Some(now));
    city.pass(PATROL * 10).await;
    assert_eq!(city.starts(&session), 1);
    // The answer is activity.
    city.parts.sessions.show(&session, Some("> "));
    let now = city.world.clock.now();
    city.parts.sessions.set_last_activity(&session, Some(now));
    city.pass(PATROL).await;
    assert_eq!(city.starts(&session), 1);
    city.pass(PATROL * 2).await;
    assert_eq!(city.starts(&session), 2);
}

/// An unreadable screen defers the restart of that session only.
#[tokio::test(start_paused = true)]
async fn a_screen_that_cannot_be_seen_defers_a_restart() {
    let (city, id, session) = mayor().await;
    city.parts.sessions.show(&session, None);
    city.reload(edited).await;
    city.pass(PATROL * 2).await;
    assert_eq!(city.starts(&session), 1);
    assert_eq!(question(&city, &id).await, None, "nothing is made up");
    city.parts.sessions.show(&session, Some(""));
    city.pass(PATROL).await;
    assert_eq!(city.starts(&session), 2);
}

/// Changed patterns apply at once, and do not report a known dialog again.
#[tokio::test(start_paused = true)]
async fn patterns_can_be_changed_while_it_runs() {
    let (city, id, session) = mayor().await;
    city.parts.sessions.show(&session, Some("a?\nb!"));
    let now = city.world.clock.now();
    city.parts.sessions.set_last_activity(&session, Some(now));
    city.pass(PATROL * 2).await;
    assert_eq!(question(&city, &id).await.as_deref(), Some("a?"));
    let look_for = |text: &str| {
        let patterns: Vec<_> = Pattern::new(text).into_iter().collect();
        move |city: &mut City| {
            let mut harnesses = city.harnesses.values_mut();
            harnesses
                .next()
                .unwrap()
                .patterns
                .asks
                .clone_from(&patterns);
        }
    };
    city.reload(look_for("a.")).await;
    city.pass(PATROL * 4).await;
    assert_eq!(city.events(EventType::RaiderNeedsInput).await.len(), 1);
    city.reload(look_for("b!")).await;
    assert_eq!(question(&city, &id).await.as_deref(), Some("b!"));
    city.reload(|city| {
        city.harnesses
            .values_mut()
            .next()
            .unwrap()
            .patterns
            .asks
            .clear()
    })
    .await;
    assert_eq!(question(&city, &id).await, None);
}

/// The dialog of an earlier session of the same name does not count.
#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_session() {
    let (city, id, session) = mayor().await;
    city.parts.sessions.show(&session, Some("Sure?"));
    city.pass(PATROL).await;
    let old = city.view(&id).await.unwrap().session.unwrap().handle;
    assert!(city.world.directory.conditions.of(&old).is_some());
    city.parts.sessions.crash(&session, 9);
    city.until("it was replaced", || city.starts(&session) == 2)
        .await;
    city.send_to_root(RootMail::Look).unwrap();
    city.pass(PATROL).await;
    assert_eq!(question(&city, &id).await, None);
    let gone = SessionHandle {
        id: session,
        token: old.token,
    };
    assert_eq!(city.world.directory.conditions.of(&gone), None);
}

/// Conditions are cleared within a second of their end, independent of the patrol.
#[tokio::test(start_paused = true)]
async fn question_a_limit_and_a_login_are_gone_within_a_second_of_their_end() {
    const SECOND: Duration = Duration::from_secs(1);
    let city = Scenario::new().with(asking).with(looks).start().await;
    // Holders tell of changed screens.
    conditions::connect(&city.world);
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let sessions = &city.parts.sessions;
    city.pass(PATROL).await;
    let limit = format!(
        "at your limit until {}",
        city.world.clock.now() + SECOND * 600
    );
    for (shown, word, after) in [
        ("Trust this folder?", "needs_input", "> "),
        (&limit, "rate_limited", "thinking"),
        ("please log in", "auth", "> "),
    ] {
        sessions.show(&charged.session, Some(shown));
        city.pass(SECOND).await;
        assert_eq!(known(&city, &id).await, Some(word));
        sessions.show(&charged.session, Some(after));
        city.pass(SECOND).await;
        assert_eq!(known(&city, &id).await, None, "{word}");
    }
}

/// A hook reported it, no output followed its end, and no hook reports the end.
#[tokio::test(start_paused = true)]
async fn reported_question_that_was_dismissed_is_gone_without_a_patrol() {
    const SECOND: Duration = Duration::from_secs(1);
    let city = Scenario::new().with(asking).with(looks).start().await;
    // Holders tell of changed screens.
    conditions::connect(&city.world);
    let charged = city.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let sessions = &city.parts.sessions;
    city.pass(PATROL).await;
    let handle = city.view(&id).await.unwrap().session.unwrap().handle;
    let asks = || Report::Asks {
        question: "Which colour?".into(),
        choices: Vec::new(),
    };
    assert!(conditions::report(&city.world, &handle, &asks()));
    sessions.show(&charged.session, Some("Which colour?"));
    city.pass(SECOND / 2).await;
    assert_eq!(known(&city, &id).await, Some("needs_input"));
    sessions.show(&charged.session, Some("> "));
    city.pass(SECOND).await;
    assert_eq!(known(&city, &id).await, None, "it was drawn, and has gone");
    // Closed before any look saw it.
    assert!(conditions::report(&city.world, &handle, &asks()));
    sessions.show(&charged.session, Some("> "));
    city.pass(SECOND).await;
    assert_eq!(
        known(&city, &id).await,
        Some("needs_input"),
        "not drawn yet"
    );
    city.pass(SECOND * 3).await;
    assert_eq!(known(&city, &id).await, None);
}

async fn known(city: &TestCity, id: &ChildId) -> Option<&'static str> {
    let session = city.view(id).await?.session?;
    let shown = city.world.directory.conditions.of(&session.handle)?;
    Some(shown.word())
}

/// Configures patterns for limits, logins, work and the input line of every harness.
fn looks(city: &mut City) {
    let pattern = |text: &str| Pattern::new(text).into_iter().collect();
    for harness in city.harnesses.values_mut() {
        harness.patterns.limit = pattern(r"at your limit(?: until (?P<until>\S+))?");
        harness.patterns.auth = pattern("please log in");
        harness.patterns.working = pattern("thinking");
        harness.patterns.input = pattern("^> $");
    }
}
