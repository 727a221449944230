//! Reasons that hold a first prompt back: each calls a person once, and is over when the prompt was typed.

use super::*;

/// Alternating reasons hold it back like a lasting one.
#[tokio::test(start_paused = true)]
async fn reasons_that_take_turns_call_a_person_as_one_that_stays_does() {
    let (city, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    for _ in 0..10 {
        sessions.show(&charged.session, Some("What is new"));
        sessions.begin_line(&charged.session, None);
        city.pass(10 * SECOND).await;
        sessions.show(&charged.session, Some("> fix the"));
        sessions.begin_line(&charged.session, Some(city.world.clock.now()));
        city.pass(10 * SECOND).await;
    }
    assert_eq!(typed(&city, &charged), 0);
    assert_eq!(city.escalations().await.len(), 2, "each of them once");
}

/// A program that repeatedly discards a paste.
#[tokio::test(start_paused = true)]
async fn first_prompt_is_pasted_three_times_at_most_and_then_a_person_is_called() {
    let (city, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.hides_pastes(&charged.session);
    for _ in 0..20 {
        sessions.show(&charged.session, Some("> "));
        city.pass(10 * SECOND).await;
    }
    assert_eq!(typed(&city, &charged), 3);
    let called = city.escalations().await;
    let last = called.iter().find(|call| call.body.contains("3 times"));
    assert!(last.is_some(), "{called:?}");
}

#[tokio::test(start_paused = true)]
async fn call_for_a_first_prompt_is_closed_by_the_supervisor_that_types_it_after_a_restart() {
    let (city, charged) = started(knows_its_input, "What is new").await;
    city.parts.sessions.reads_keys(&charged.session);
    city.pass(60 * SECOND).await;
    let called = one_call(&city, "").await;
    let city = restarted(city, knows_its_input).await;
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

/// The program may have taken the prompt while no supervisor ran.
#[tokio::test(start_paused = true)]
async fn call_for_a_first_prompt_is_closed_when_a_supervisor_finds_none_owed() {
    let (city, charged) = started(knows_its_input, "What is new").await;
    city.parts.sessions.reads_keys(&charged.session);
    city.pass(60 * SECOND).await;
    let called = one_call(&city, "").await;
    let handle = handle(&city, &charged).await;
    city.parts.sessions.set_meta(&handle, OWED, "").unwrap();
    let city = restarted(city, knows_its_input).await;
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn screen_that_cannot_be_seen_calls_a_person() {
    let (city, charged) = started(pastes, LOGIN).await;
    city.parts.sessions.show(&charged.session, None);
    city.pass(60 * SECOND).await;
    one_call(&city, "cannot be read").await;
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_cannot_be_read_calls_a_person() {
    let (city, charged) = started(pastes, LOGIN).await;
    city.parts.sessions.hide_meta(&charged.session, true);
    let city = restarted(city, pastes).await;
    city.pass(60 * SECOND).await;
    let called = one_call(&city, "cannot read whether").await;
    city.parts.sessions.hide_meta(&charged.session, false);
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

#[tokio::test(start_paused = true)]
async fn end_of_input_that_cannot_be_typed_calls_a_person() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    let handle = handle(&city, &charged).await;
    sessions.deafen(&charged.session, true);
    let end = END_OF_INPUT.to_string();
    sessions.set_meta(&handle, OWED, &end).unwrap();
    let city = restarted(city, stdin).await;
    let sessions = &city.parts.sessions;
    sessions.show(&charged.session, Some("reading"));
    city.pass(120 * SECOND).await;
    one_call(&city, "end of the input").await;
    sessions.deafen(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert!(is_ended(&city, &charged));
}

/// Another writer's bytes wait in a full terminal: text typed after them may be lost, and their consumption does not
/// prove that the prompt was taken.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_while_its_terminal_holds_text_of_a_person() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.stuff(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(120 * SECOND).await;
    assert!(sessions.sent(&charged.session).is_empty());
    assert_eq!(city.escalations().await.len(), 1);
    sessions.stuff(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert!(is_ended(&city, &charged));
}

/// The attached person sees the screen.
#[tokio::test(start_paused = true)]
async fn unknown_screen_calls_no_person_while_one_is_attached_or_a_limit_holds() {
    let (city, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some("What is new"));
    city.pass(120 * SECOND).await;
    let untypeable = |called: Vec<Relic>| {
        called
            .iter()
            .any(|call| call.title == ProblemKind::PromptUntyped.text())
    };
    assert!(!untypeable(city.escalations().await));
    let handle = handle(&city, &charged).await;
    let until = Some(city.world.clock.now() + 3600 * SECOND);
    let text = "usage limit reached".to_owned();
    let limited = Report::Limited { text, until };
    assert!(conditions::report(&city.world, &handle, &limited));
    sessions.set_attached(&charged.session, false);
    city.pass(120 * SECOND).await;
    assert!(!untypeable(city.escalations().await));
    assert_eq!(condition(&city, &charged).await, Some("rate_limited"));
}

/// While the provider fails, an attached person cannot be detected.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_while_it_cannot_be_seen_whether_a_person_is_attached() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.set_attached(&charged.session, true);
    sessions.blind(Some("Too many open files"));
    sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    sessions.set_attached(&charged.session, false);
    sessions.blind(None);
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

/// A wrong hint misleads people.
#[tokio::test(start_paused = true)]
async fn escalation_of_a_first_prompt_names_the_remedy_for_its_reason() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.deafen(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(120 * SECOND).await;
    let called = one_call(&city, "").await;
    let body = &called.body;
    assert!(!body.contains("--keys"), "{body}");
    for broken in ["NAME", ":.", "..", " . "] {
        assert!(!body.contains(broken), "{broken}: {body}");
    }
}

/// The hint of a refusal is written for the command line.
#[tokio::test(start_paused = true)]
async fn call_for_a_refused_first_prompt_names_the_session() {
    let (city, charged) = started(knows_its_input, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.hides_pastes(&charged.session);
    for _ in 0..3 {
        sessions.show(&charged.session, Some("> "));
        city.pass(20 * SECOND).await;
    }
    let called = city.escalations().await;
    let is_refusal = |call: &Relic| call.body.contains("typed, but not submitted");
    assert!(called.iter().any(is_refusal), "{called:?}");
    for call in called {
        assert!(!call.body.contains("NAME"), "{}", call.body);
        assert!(!call.body.contains(":."), "{}", call.body);
        assert!(call.body.contains(&charged.raider.to_string()));
    }
}
