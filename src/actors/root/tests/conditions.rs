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
use crate::testing::world::{Scenario, Town, agent, asking};

const PATROL: Duration = Duration::from_secs(31);

async fn mayor() -> (Town, ChildId, SessionId) {
    let town = Scenario::new().agent("mayor", RestartType::Permanent);
    let harness = |city: &mut City| {
        asking(city);
        let name = city.harnesses.keys().next().cloned();
        city.agents[0].harness = name.or_else(|| HarnessName::new("none").ok());
    };
    let town = town.with(harness).start().await;
    let id = agent("mayor");
    let session = town.session(&id);
    (town, id, session)
}

async fn question(town: &Town, id: &ChildId) -> Option<String> {
    let session = town.view(id).await?.session?;
    let shown = town.world.directory.conditions.of(&session.handle)?;
    Some(shown.text().to_owned())
}

fn edited(city: &mut City) {
    city.agents[0].fingerprint = "two".into();
}

/// `3. Drift` of the health patrol: an agent with an open dialog is not restarted before it is answered.
#[tokio::test(start_paused = true)]
async fn drift_waits_while_a_question_is_open() {
    let (town, id, session) = mayor().await;
    town.parts
        .sessions
        .show(&session, Some("Trust this folder?\n> yes"));
    town.pass(PATROL).await;
    assert_eq!(
        question(&town, &id).await.as_deref(),
        Some("Trust this folder?")
    );
    assert_eq!(town.reload(edited).await[0].action, Change::Deferred);
    town.pass(PATROL * 3).await;
    assert_eq!(town.starts(&session), 1);
    assert!(town.view(&id).await.unwrap().drifted, "shown");
    town.parts.sessions.show(&session, Some("> working"));
    town.pass(PATROL).await;
    assert_eq!(town.starts(&session), 2);
    assert_eq!(question(&town, &id).await, None);
    let told = town.events(EventType::RaiderNeedsInput).await;
    assert_eq!(told.len(), 1);
    assert_eq!(
        (&told[0].subject[..], &told[0].cause[..]),
        ("mayor", "question")
    );
    assert_eq!(told[0].data["question"], "Trust this folder?");
}

/// The decision uses the present screen, not that of the last patrol.
#[tokio::test(start_paused = true)]
async fn unseen_question_is_found_before_its_session_is_replaced() {
    let (town, id, session) = mayor().await;
    town.pass(PATROL).await;
    town.parts.sessions.show(&session, Some("Sure?"));
    // No look has seen it yet.
    assert_eq!(town.reload(edited).await[0].action, Change::Restart);
    assert_eq!(town.starts(&session), 1);
    assert!(question(&town, &id).await.is_some());
}

/// An agent that asks is idle because it waits for a person.
#[tokio::test(start_paused = true)]
async fn session_with_an_open_question_is_not_idle() {
    let (town, _, session) = mayor().await;
    let second = Duration::from_secs(1);
    town.reload(|city| city.agents[0].idle_timeout = Some(second * 45))
        .await;
    town.parts.sessions.show(&session, Some("Sure?"));
    let now = town.world.clock.now();
    town.parts.sessions.set_last_activity(&session, Some(now));
    town.pass(PATROL * 10).await;
    assert_eq!(town.starts(&session), 1);
    // The answer is activity.
    town.parts.sessions.show(&session, Some("> "));
    let now = town.world.clock.now();
    town.parts.sessions.set_last_activity(&session, Some(now));
    town.pass(PATROL).await;
    assert_eq!(town.starts(&session), 1);
    town.pass(PATROL * 2).await;
    assert_eq!(town.starts(&session), 2);
}

/// An unreadable screen defers the restart of that session only.
#[tokio::test(start_paused = true)]
async fn a_screen_that_cannot_be_seen_defers_a_restart() {
    let (town, id, session) = mayor().await;
    town.parts.sessions.show(&session, None);
    town.reload(edited).await;
    town.pass(PATROL * 2).await;
    assert_eq!(town.starts(&session), 1);
    assert_eq!(question(&town, &id).await, None, "nothing is made up");
    town.parts.sessions.show(&session, Some(""));
    town.pass(PATROL).await;
    assert_eq!(town.starts(&session), 2);
}

/// Changed patterns apply at once, and do not report a known dialog again.
#[tokio::test(start_paused = true)]
async fn patterns_can_be_changed_while_it_runs() {
    let (town, id, session) = mayor().await;
    town.parts.sessions.show(&session, Some("a?\nb!"));
    let now = town.world.clock.now();
    town.parts.sessions.set_last_activity(&session, Some(now));
    town.pass(PATROL * 2).await;
    assert_eq!(question(&town, &id).await.as_deref(), Some("a?"));
    let look_for = |text: &str| {
        let patterns: Vec<_> = Pattern::new(text).into_iter().collect();
        move |city: &mut City| {
            let mut harnesses = city.harnesses.values_mut();
            harnesses.next().unwrap().looks.asks.clone_from(&patterns);
        }
    };
    town.reload(look_for("a.")).await;
    town.pass(PATROL * 4).await;
    assert_eq!(town.events(EventType::RaiderNeedsInput).await.len(), 1);
    town.reload(look_for("b!")).await;
    assert_eq!(question(&town, &id).await.as_deref(), Some("b!"));
    town.reload(|city| {
        city.harnesses
            .values_mut()
            .next()
            .unwrap()
            .looks
            .asks
            .clear()
    })
    .await;
    assert_eq!(question(&town, &id).await, None);
}

/// The dialog of an earlier session of the same name does not count.
#[tokio::test(start_paused = true)]
async fn a_question_ends_with_its_session() {
    let (town, id, session) = mayor().await;
    town.parts.sessions.show(&session, Some("Sure?"));
    town.pass(PATROL).await;
    let old = town.view(&id).await.unwrap().session.unwrap().handle;
    assert!(town.world.directory.conditions.of(&old).is_some());
    town.parts.sessions.crash(&session, 9);
    town.until("it was replaced", || town.starts(&session) == 2)
        .await;
    town.send_to_root(RootMail::Look).unwrap();
    town.pass(PATROL).await;
    assert_eq!(question(&town, &id).await, None);
    let gone = SessionHandle {
        id: session,
        token: old.token,
    };
    assert_eq!(town.world.directory.conditions.of(&gone), None);
}

/// Conditions are cleared within a second of their end, independent of the patrol.
#[tokio::test(start_paused = true)]
async fn question_a_limit_and_a_login_are_gone_within_a_second_of_their_end() {
    const SECOND: Duration = Duration::from_secs(1);
    let town = Scenario::new().with(asking).with(looks).start().await;
    // Holders tell of changed screens.
    conditions::connect(&town.world);
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let sessions = &town.parts.sessions;
    town.pass(PATROL).await;
    let limit = format!(
        "at your limit until {}",
        town.world.clock.now() + SECOND * 600
    );
    for (shown, word, after) in [
        ("Trust this folder?", "needs_input", "> "),
        (&limit, "rate_limited", "thinking"),
        ("please log in", "auth", "> "),
    ] {
        sessions.show(&charged.session, Some(shown));
        town.pass(SECOND).await;
        assert_eq!(known(&town, &id).await, Some(word));
        sessions.show(&charged.session, Some(after));
        town.pass(SECOND).await;
        assert_eq!(known(&town, &id).await, None, "{word}");
    }
}

/// A hook reported it, no output followed its end, and no hook reports the end.
#[tokio::test(start_paused = true)]
async fn reported_question_that_was_dismissed_is_gone_without_a_patrol() {
    const SECOND: Duration = Duration::from_secs(1);
    let town = Scenario::new().with(asking).with(looks).start().await;
    // Holders tell of changed screens.
    conditions::connect(&town.world);
    let charged = town.worker("a").await;
    let id = ChildId::Raider(charged.raider.clone());
    let sessions = &town.parts.sessions;
    town.pass(PATROL).await;
    let handle = town.view(&id).await.unwrap().session.unwrap().handle;
    let asks = || Report::Asks {
        question: "Which colour?".into(),
        choices: Vec::new(),
    };
    assert!(conditions::report(&town.world, &handle, &asks()));
    sessions.show(&charged.session, Some("Which colour?"));
    town.pass(SECOND / 2).await;
    assert_eq!(known(&town, &id).await, Some("needs_input"));
    sessions.show(&charged.session, Some("> "));
    town.pass(SECOND).await;
    assert_eq!(known(&town, &id).await, None, "it was drawn, and has gone");
    // Closed before any look saw it.
    assert!(conditions::report(&town.world, &handle, &asks()));
    sessions.show(&charged.session, Some("> "));
    town.pass(SECOND).await;
    assert_eq!(
        known(&town, &id).await,
        Some("needs_input"),
        "not drawn yet"
    );
    town.pass(SECOND * 3).await;
    assert_eq!(known(&town, &id).await, None);
}

async fn known(town: &Town, id: &ChildId) -> Option<&'static str> {
    let session = town.view(id).await?.session?;
    let shown = town.world.directory.conditions.of(&session.handle)?;
    Some(shown.word())
}

/// Configures patterns for limits, logins, work and the input line of every harness.
fn looks(city: &mut City) {
    let pattern = |text: &str| Pattern::new(text).into_iter().collect();
    for harness in city.harnesses.values_mut() {
        harness.looks.limit = pattern(r"at your limit(?: until (?P<until>\S+))?");
        harness.looks.auth = pattern("please log in");
        harness.looks.working = pattern("thinking");
        harness.looks.input = pattern("^> $");
    }
}
