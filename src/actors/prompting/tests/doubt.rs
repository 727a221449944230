//! A first prompt of unknown fate: a person is called, and it is not typed again.

use super::once::{enters, in_line, pasted};
use super::*;
use crate::actors::records::escalations::acknowledge;
use crate::domain::asker::Asker;
use crate::testing::fake_sessions::Silence;

/// Returns the open escalation with this text.
async fn call(town: &Town, said: &str) -> Option<Relic> {
    let called = town.escalations().await;
    let mut open = called
        .into_iter()
        .filter(|call| call.status == RelicStatus::Open);
    open.find(|call| call.title == ProblemKind::PromptUntyped.text() && call.body.contains(said))
}

async fn owed(town: &Town, charged: &Charged) -> Option<String> {
    let sessions = &town.parts.sessions;
    sessions.get_meta(&charged.session, OWED).unwrap()
}

/// Pastes the prompt, and has a person submit it whose program has no hooks.
async fn submitted_by_a_person(town: &Town) -> Charged {
    let charged = pasted(town).await;
    let sessions = &town.parts.sessions;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&in_line(town, &charged)));
    town.pass(5 * SECOND).await;
    sessions.show(&charged.session, Some("> "));
    sessions.set_attached(&charged.session, false);
    charged
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_vanishes_beside_a_person_is_not_typed_again_before_they_answer() {
    let town = Scenario::new().with(pastes).start().await;
    let charged = submitted_by_a_person(&town).await;
    town.pass(300 * SECOND).await;
    assert_eq!((typed(&town, &charged), enters(&town, &charged)), (1, 0));
    let called = call(&town, "whether that person submitted it")
        .await
        .unwrap();
    assert_eq!(condition(&town, &charged).await, Some("unrecognised"));
    assert_ne!(owed(&town, &charged).await.as_deref(), Some(""));
    let id = called.id.clone();
    town.store(move |txn| acknowledge(txn, &id, &Asker::person()))
        .await;
    town.pass(60 * SECOND).await;
    assert_eq!(owed(&town, &charged).await.as_deref(), Some(""));
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(condition(&town, &charged).await, None);
    let called = town.relic_now(&called.id).await;
    assert_eq!(called.status, RelicStatus::Closed);
}

/// The fate of the prompt meanwhile is unknown.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_vanishes_while_no_supervisor_looks_is_not_typed_again() {
    let town = Scenario::new().with(pastes).start().await;
    let charged = pasted(&town).await;
    let line = in_line(&town, &charged);
    let sessions = &town.parts.sessions;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&line));
    town.pass(40 * SECOND).await;
    let town = restarted_after(town, pastes, |town| {
        let sessions = &town.sessions;
        sessions.set_attached(&charged.session, false);
        sessions.show(&charged.session, Some("> "));
    })
    .await;
    town.pass(120 * SECOND).await;
    assert_eq!((typed(&town, &charged), enters(&town, &charged)), (1, 0));
    assert!(
        call(&town, "whether that person submitted it")
            .await
            .is_some()
    );
}

/// The program reports that it works, on a text that a person sent.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_a_dialog_swallowed_is_not_paid_by_the_words_of_a_person() {
    let town = Scenario::new().with(pastes).start().await;
    let charged = pasted(&town).await;
    let sessions = &town.parts.sessions;
    let handle = handle(&town, &charged).await;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(5 * SECOND).await;
    assert!(conditions::report(&town.world, &handle, &Report::Begins));
    town.pass(5 * SECOND).await;
    assert_ne!(owed(&town, &charged).await.as_deref(), Some(""));
    sessions.set_attached(&charged.session, false);
    town.pass(60 * SECOND).await;
    assert_eq!((typed(&town, &charged), enters(&town, &charged)), (2, 1));
    assert_eq!(owed(&town, &charged).await.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn pastes_of_the_supervisor_before_count() {
    let (town, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.hides_pastes(&charged.session);
    let mut town = town;
    for _ in 0..5 {
        town.parts.sessions.show(&charged.session, Some("> "));
        town.pass(10 * SECOND).await;
        town = restarted(town, knows_its_input).await;
    }
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 3);
    assert!(call(&town, "3 times").await.is_some());
}

/// A holder that answers slowly.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_was_taken_without_an_answer_is_typed_once() {
    for city in [pastes as fn(&mut City), stdin] {
        let (town, charged) = started(city, LOGIN).await;
        let sessions = &town.parts.sessions;
        sessions.silence(&charged.session, Some(Silence::TakesAll));
        sessions.show(&charged.session, Some("> "));
        town.pass(120 * SECOND).await;
        assert_eq!(typed(&town, &charged), 1);
    }
}

/// A tmux command that was killed at its timeout, or a holder of an older version.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_may_have_been_taken_calls_a_person_and_is_not_typed_again() {
    for is_old in [false, true] {
        let (town, charged) = started(stdin, LOGIN).await;
        let sessions = &town.parts.sessions;
        if is_old {
            sessions.is_old(&charged.session);
        }
        let silence = match is_old {
            true => Silence::TakesAll,
            false => Silence::TakesAPart,
        };
        sessions.silence(&charged.session, Some(silence));
        sessions.show(&charged.session, Some("> "));
        town.pass(60 * SECOND).await;
        sessions.silence(&charged.session, None);
        let town = restarted(town, stdin).await;
        town.pass(120 * SECOND).await;
        assert_eq!(typed(&town, &charged), 1, "{is_old}");
        assert!(!is_ended(&town, &charged), "{is_old}");
        assert!(call(&town, "is unknown").await.is_some(), "{is_old}");
    }
}

/// A tmux server that does not answer leaves this unknown.
#[tokio::test(start_paused = true)]
async fn person_is_called_where_it_is_not_known_whether_one_is_attached() {
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.guess_attached(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert!(call(&town, "does not report").await.is_some());
    sessions.guess_attached(&charged.session, false);
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

#[tokio::test(start_paused = true)]
async fn first_prompt_outlives_connections_that_a_holder_drops() {
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.hang_up(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert!(call(&town, "cannot be read").await.is_some());
    sessions.hang_up(&charged.session, false);
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

/// The task of the old session learns of its end late.
#[tokio::test(start_paused = true)]
async fn end_of_a_session_closes_no_call_about_the_next_one() {
    let rarely = |city: &mut City| {
        knows_its_input(city);
        city.daemon.patrol_interval = 600 * SECOND;
    };
    let (town, charged) = started(rarely, "What is new").await;
    let sessions = &town.parts.sessions;
    town.pass(60 * SECOND).await;
    assert!(call(&town, "").await.is_some());
    sessions.exit(&charged.session, 1);
    town.pass(900 * SECOND).await;
    assert!(call(&town, "").await.is_some());
}

/// A full disk, for ever.
#[tokio::test(start_paused = true)]
async fn task_of_a_first_prompt_ends_with_its_session_although_nothing_can_be_written() {
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    let handle = handle(&town, &charged).await;
    sessions.refuse_meta(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    let task = || {
        town.world
            .claims
            .claim(ClaimKey::Prompt(handle.token.clone()))
    };
    assert!(task().is_none(), "it goes on");
    let id = ChildId::Raider(charged.raider.clone());
    town.rest(&id).await.unwrap();
    town.pass(60 * SECOND).await;
    assert!(task().is_some());
}
