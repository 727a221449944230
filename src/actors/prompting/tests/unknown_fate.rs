//! A first prompt of unknown fate: a person is called, and it is not typed again.

use super::typed_once::{enters, in_line, pasted};
use super::*;
use crate::actors::records::escalations::acknowledge;
use crate::domain::asker::Asker;
use crate::testing::fake_sessions::Silence;

/// Returns the open escalation with this text.
async fn call(city: &TestCity, said: &str) -> Option<Relic> {
    let called = city.escalations().await;
    let mut open = called
        .into_iter()
        .filter(|call| call.status == RelicStatus::Open);
    open.find(|call| call.title == ProblemKind::PromptUntyped.text() && call.body.contains(said))
}

async fn owed(city: &TestCity, charged: &Charged) -> Option<String> {
    let sessions = &city.parts.sessions;
    sessions.get_meta(&charged.session, OWED).unwrap()
}

/// Pastes the prompt, and has a person submit it whose program has no hooks.
async fn submitted_by_a_person(city: &TestCity) -> Charged {
    let charged = pasted(city).await;
    let sessions = &city.parts.sessions;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&in_line(city, &charged)));
    city.pass(5 * SECOND).await;
    sessions.show(&charged.session, Some("> "));
    sessions.set_attached(&charged.session, false);
    charged
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_vanishes_beside_a_person_is_not_typed_again_before_they_answer() {
    let city = Scenario::new().with(pastes).start().await;
    let charged = submitted_by_a_person(&city).await;
    city.pass(300 * SECOND).await;
    assert_eq!((typed(&city, &charged), enters(&city, &charged)), (1, 0));
    let called = call(&city, "whether that person submitted it")
        .await
        .unwrap();
    assert_eq!(condition(&city, &charged).await, Some("unrecognised"));
    assert_ne!(owed(&city, &charged).await.as_deref(), Some(""));
    let id = called.id.clone();
    city.store(move |txn| acknowledge(txn, &id, &Asker::person()))
        .await;
    city.pass(60 * SECOND).await;
    assert_eq!(owed(&city, &charged).await.as_deref(), Some(""));
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(condition(&city, &charged).await, None);
    let called = city.relic_now(&called.id).await;
    assert_eq!(called.status, RelicStatus::Closed);
}

/// The fate of the prompt meanwhile is unknown.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_vanishes_while_no_supervisor_looks_is_not_typed_again() {
    let city = Scenario::new().with(pastes).start().await;
    let charged = pasted(&city).await;
    let line = in_line(&city, &charged);
    let sessions = &city.parts.sessions;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&line));
    city.pass(40 * SECOND).await;
    let city = restarted_after(city, pastes, |city| {
        let sessions = &city.sessions;
        sessions.set_attached(&charged.session, false);
        sessions.show(&charged.session, Some("> "));
    })
    .await;
    city.pass(120 * SECOND).await;
    assert_eq!((typed(&city, &charged), enters(&city, &charged)), (1, 0));
    assert!(
        call(&city, "whether that person submitted it")
            .await
            .is_some()
    );
}

/// The program reports that it works, on a text that a person sent.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_a_dialog_swallowed_is_not_paid_by_the_words_of_a_person() {
    let city = Scenario::new().with(pastes).start().await;
    let charged = pasted(&city).await;
    let sessions = &city.parts.sessions;
    let handle = handle(&city, &charged).await;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(5 * SECOND).await;
    assert!(conditions::report(&city.world, &handle, &Report::Begins));
    city.pass(5 * SECOND).await;
    assert_ne!(owed(&city, &charged).await.as_deref(), Some(""));
    sessions.set_attached(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!((typed(&city, &charged), enters(&city, &charged)), (2, 1));
    assert_eq!(owed(&city, &charged).await.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn pastes_of_the_supervisor_before_count() {
    let (city, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.hides_pastes(&charged.session);
    let mut city = city;
    for _ in 0..5 {
        city.parts.sessions.show(&charged.session, Some("> "));
        city.pass(10 * SECOND).await;
        city = restarted(city, knows_its_input).await;
    }
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 3);
    assert!(call(&city, "3 times").await.is_some());
}

/// A holder that answers slowly.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_was_taken_without_an_answer_is_typed_once() {
    for city in [pastes as fn(&mut City), stdin] {
        let (city, charged) = started(city, LOGIN).await;
        let sessions = &city.parts.sessions;
        sessions.silence(&charged.session, Some(Silence::TakesAll));
        sessions.show(&charged.session, Some("> "));
        city.pass(120 * SECOND).await;
        assert_eq!(typed(&city, &charged), 1);
    }
}

/// A tmux command that was killed at its timeout, or a holder of an older version.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_may_have_been_taken_calls_a_person_and_is_not_typed_again() {
    for is_old in [false, true] {
        let (city, charged) = started(stdin, LOGIN).await;
        let sessions = &city.parts.sessions;
        if is_old {
            sessions.is_old(&charged.session);
        }
        let silence = match is_old {
            true => Silence::TakesAll,
            false => Silence::TakesAPart,
        };
        sessions.silence(&charged.session, Some(silence));
        sessions.show(&charged.session, Some("> "));
        city.pass(60 * SECOND).await;
        sessions.silence(&charged.session, None);
        let city = restarted(city, stdin).await;
        city.pass(120 * SECOND).await;
        assert_eq!(typed(&city, &charged), 1, "{is_old}");
        assert!(!is_ended(&city, &charged), "{is_old}");
        assert!(call(&city, "is unknown").await.is_some(), "{is_old}");
    }
}

/// A tmux server that does not answer leaves this unknown.
#[tokio::test(start_paused = true)]
async fn person_is_called_where_it_is_not_known_whether_one_is_attached() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.guess_attached(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert!(call(&city, "does not report").await.is_some());
    sessions.guess_attached(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

#[tokio::test(start_paused = true)]
async fn first_prompt_outlives_connections_that_a_holder_drops() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.hang_up(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert!(call(&city, "cannot be read").await.is_some());
    sessions.hang_up(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

/// The task of the old session learns of its end late.
#[tokio::test(start_paused = true)]
async fn end_of_a_session_closes_no_call_about_the_next_one() {
    let rarely = |city: &mut City| {
        knows_its_input(city);
        city.daemon.patrol_interval = 600 * SECOND;
    };
    let (city, charged) = started(rarely, "What is new").await;
    let sessions = &city.parts.sessions;
    city.pass(60 * SECOND).await;
    assert!(call(&city, "").await.is_some());
    sessions.exit(&charged.session, 1);
    city.pass(900 * SECOND).await;
    assert!(call(&city, "").await.is_some());
}

/// A full disk, for ever.
#[tokio::test(start_paused = true)]
async fn task_of_a_first_prompt_ends_with_its_session_although_nothing_can_be_written() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    let handle = handle(&city, &charged).await;
    sessions.refuse_meta(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    let task = || {
        city.world
            .claims
            .claim(ClaimKey::Prompt(handle.token.clone()))
    };
    assert!(task().is_none(), "it goes on");
    let id = ChildId::Raider(charged.raider.clone());
    city.rest(&id).await.unwrap();
    city.pass(60 * SECOND).await;
    assert!(task().is_some());
}
