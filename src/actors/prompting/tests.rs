//! First prompts and the screens that they meet.

mod kept_back;
mod panics;
mod typed_once;
mod unknown_fate;

use std::sync::Arc;
use std::time::Duration;

use super::OWED;
use crate::actors::claims::ClaimKey;
use crate::actors::conditions;
use crate::actors::mail::Charged;
use crate::actors::mail::StopMode;
use crate::domain::city::{City, PromptMode};
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::harness::END_OF_INPUT;
use crate::domain::ids::ChildId;
use crate::domain::problem::ProblemKind;
use crate::domain::question::Pattern;
use crate::domain::relic::{Relic, RelicStatus};
use crate::ports::sessions::{Input, SessionHandle, Sessions};
use crate::testing::world::{Parts, Scenario, TestCity};

const SECOND: Duration = Duration::from_secs(1);
const LOGIN: &str = "Log in now? [(y)es, (n)o]";

fn pastes(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        harness.prompt = PromptMode::Paste;
    }
}

/// Charges a raider whose program shows this screen from its start.
async fn raider(city: &TestCity, screen: &str) -> Charged {
    // Holders report changed screens.
    conditions::connect(&city.world);
    let relic = city.relic("a").await;
    city.parts.sessions.shows_at_start(screen);
    city.charge(&relic).await.unwrap()
}

/// Starts a city with this change, and such a raider.
async fn started(change: fn(&mut City), screen: &str) -> (TestCity, Charged) {
    let city = Scenario::new().with(change).start().await;
    let charged = raider(&city, screen).await;
    (city, charged)
}

/// The prompts that were typed.
fn typed(city: &TestCity, charged: &Charged) -> usize {
    let sent = city.parts.sessions.sent(&charged.session);
    let is_prompt = |input: &&Input| match input {
        Input::Submit(text) | Input::Paste(text) => text.contains("autonomous coding agent"),
        Input::Raw(_) | Input::EndOfInput => false,
    };
    sent.iter().filter(is_prompt).count()
}

/// Returns true when the end of input was typed, once.
fn is_ended(city: &TestCity, charged: &Charged) -> bool {
    let sent = city.parts.sessions.sent(&charged.session);
    let ends = sent.iter().filter(|input| **input == Input::EndOfInput);
    let ends = ends.count();
    assert!(ends <= 1, "{sent:?}");
    ends == 1
}

/// Returns the only call of a person, whose text has these words.
async fn one_call(city: &TestCity, words: &str) -> Relic {
    let mut called = city.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].body.contains(words), "{called:?}");
    called.remove(0)
}

async fn handle(city: &TestCity, charged: &Charged) -> SessionHandle {
    let view = city.view(&ChildId::Raider(charged.raider.clone())).await;
    view.unwrap().session.unwrap().handle
}

/// Restarts the supervisor of the same city.
async fn restarted(city: TestCity, change: fn(&mut City)) -> TestCity {
    restarted_after(city, change, |_| ()).await
}

/// As [`restarted`], but with `change` applied while no supervisor runs.
async fn restarted_after(
    city: TestCity,
    change: fn(&mut City),
    meanwhile: impl FnOnce(&Parts),
) -> TestCity {
    let clock = Arc::clone(&city.world.clock);
    let parts = city.parts.rewired();
    city.stop(StopMode::KeepSessions).await;
    meanwhile(&parts);
    let city = Scenario::new().with(change).start_on(parts, clock).await;
    conditions::connect(&city.world);
    city
}

/// Configures a harness whose input line is known.
fn knows_its_input(city: &mut City) {
    pastes(city);
    let input = || Pattern::new("^> ").into_iter().collect();
    let harnesses = city.harnesses.values_mut();
    harnesses.for_each(|harness| harness.patterns.input = input());
}

async fn condition(city: &TestCity, charged: &Charged) -> Option<&'static str> {
    let id = ChildId::Raider(charged.raider.clone());
    let session = city.view(&id).await?.session?;
    let shown = city.world.directory.conditions.of(&session.handle)?;
    Some(shown.word())
}

/// Weakness W25 of an earlier system: the session after a handoff began in the wrong directory, and prompts were
/// typed after a fixed time, whatever was on the screen.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_until_a_dialog_has_gone() {
    let (city, charged) = started(pastes, LOGIN).await;
    city.parts.sessions.reads_keys(&charged.session);
    city.pass(60 * SECOND).await;
    assert!(city.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&city, &charged).await, Some("needs_input"));
    assert_eq!(city.events(EventType::RaiderNeedsInput).await.len(), 1);
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(3 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(condition(&city, &charged).await, None);
    let sent = city.parts.sessions.sent(&charged.session);
    assert_eq!(sent.last(), Some(&Input::Raw(b"\r".to_vec())), "submitted");
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1, "once");
}

/// The rule for `"paste"` holds here: a program that reads lines asks, too.
#[tokio::test(start_paused = true)]
async fn first_prompt_on_standard_input_waits_until_a_dialog_has_gone_and_ends_the_input() {
    let (city, charged) = started(stdin, LOGIN).await;
    city.pass(60 * SECOND).await;
    assert!(city.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&city, &charged).await, Some("needs_input"));
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(3 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    let sent = city.parts.sessions.sent(&charged.session);
    assert_eq!(sent.last(), Some(&Input::EndOfInput), "end of input");
    assert_eq!(sent.len(), 2, "{sent:?}");
}

/// A person typed at the start, and went away.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_while_a_line_that_a_person_has_begun_stands_in_the_input() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.begin_line(&charged.session, Some(city.world.clock.now()));
    city.pass(SECOND).await;
    city.parts
        .sessions
        .show(&charged.session, Some("> fix the"));
    city.pass(5 * SECOND).await;
    let now = city.world.clock.now();
    sessions.begin_line(&charged.session, Some(now));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    assert_eq!(condition(&city, &charged).await, Some("unrecognised"));
    let called = city.escalations().await;
    assert!(called[0].body.contains("a person began"), "{called:?}");
    sessions.begin_line(&charged.session, None);
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(condition(&city, &charged).await, None);
}

/// A program that reads lines and shows nothing still gets it.
#[tokio::test(start_paused = true)]
async fn first_prompt_of_a_program_that_reads_lines_is_typed_although_it_shows_nothing() {
    let (city, charged) = started(pastes, "").await;
    city.pass(10 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

#[tokio::test(start_paused = true)]
async fn screen_that_nothing_is_known_of_calls_a_person_and_keeps_the_first_prompt() {
    let (city, charged) = started(knows_its_input, "What is new in version 3").await;
    city.parts.sessions.reads_keys(&charged.session);
    city.pass(20 * SECOND).await;
    assert_eq!(condition(&city, &charged).await, None, "it may be starting");
    city.pass(20 * SECOND).await;
    assert!(city.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&city, &charged).await, Some("unrecognised"));
    let events = city.events(EventType::RaiderUnclear).await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].data["screen"], "What is new in version 3");
    let called = one_call(&city, "What is new in version 3").await;
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(3 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(condition(&city, &charged).await, None);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

/// No other code would type it.
#[tokio::test(start_paused = true)]
async fn first_prompt_is_typed_although_it_could_not_be_read_whether_it_is_owed() {
    let (city, charged) = started(pastes, LOGIN).await;
    city.parts.sessions.hide_meta(&charged.session, true);
    let city = restarted(city, pastes).await;
    city.pass(10 * SECOND).await;
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(10 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    city.parts.sessions.hide_meta(&charged.session, false);
    city.pass(10 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

/// A prompt typed then would be submitted with the line that a person has begun.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_until_no_person_is_attached() {
    let (city, charged) = started(pastes, LOGIN).await;
    city.parts.sessions.set_attached(&charged.session, true);
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(30 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    city.parts.sessions.set_attached(&charged.session, false);
    city.pass(31 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

fn stdin(city: &mut City) {
    let harnesses = city.harnesses.values_mut();
    harnesses.for_each(|harness| harness.prompt = PromptMode::Stdin);
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_terminal_does_not_take_calls_a_person_and_is_tried_again() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.deafen(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(120 * SECOND).await;
    let called = one_call(&city, "takes nothing").await;
    sessions.deafen(&charged.session, false);
    city.pass(120 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(city.status(&called.id).await, RelicStatus::Closed);
}

/// Applies to every refusal: without a call the prompt would be missing unnoticed.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_is_refused_for_long_calls_a_person() {
    let (city, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let session = city.view(&id).await.unwrap().session.unwrap();
    let name = ClaimKey::Typing(session.handle.token);
    let other = city.world.claims.claim(name).unwrap();
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(300 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    one_call(&city, "another text").await;
    drop(other);
    city.pass(120 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(condition(&city, &charged).await, None);
}

/// A terminal takes no more than a part of a long prompt until its program reads.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_program_has_not_read_yet_is_not_typed_again() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.clog(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(300 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(sessions.sent(&charged.session).len(), 1, "no end yet");
    assert_eq!(city.escalations().await.len(), 1);
    sessions.clog(&charged.session, false);
    city.pass(120 * SECOND).await;
    let sent = sessions.sent(&charged.session);
    assert_eq!(typed(&city, &charged), 1);
    assert_eq!(sent[1..], [Input::EndOfInput], "{sent:?}");
}

/// The program would wait for the end of input for ever.
#[tokio::test(start_paused = true)]
async fn end_of_input_that_could_not_be_typed_is_typed_alone_after_a_restart() {
    let (city, charged) = started(stdin, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.clog(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(30 * SECOND).await;
    sessions.deafen(&charged.session, true);
    sessions.clog(&charged.session, false);
    city.pass(120 * SECOND).await;
    assert_eq!(sessions.sent(&charged.session).len(), 1);
    let clock = Arc::clone(&city.world.clock);
    let parts = city.parts.rewired();
    city.stop(StopMode::KeepSessions).await;
    parts.sessions.deafen(&charged.session, false);
    let city = Scenario::new().with(stdin).start_on(parts, clock).await;
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    let sent = city.parts.sessions.sent(&charged.session);
    assert_eq!(sent[1..], [Input::EndOfInput], "{sent:?}");
}

/// People are told about the limit.
#[tokio::test(start_paused = true)]
async fn line_that_a_person_has_begun_is_no_question_while_a_condition_keeps_the_prompt_back() {
    let (city, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let session = city.view(&id).await.unwrap().session.unwrap();
    let sessions = &city.parts.sessions;
    let world = &city.world;
    sessions.show(&charged.session, Some("> fix the"));
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    let until = Some(world.clock.now() + 3600 * SECOND);
    let text = "usage limit reached".to_owned();
    let limited = Report::Limited { text, until };
    assert!(conditions::report(world, &session.handle, &limited));
    city.pass(120 * SECOND).await;
    assert_eq!(typed(&city, &charged), 0);
    assert_eq!(condition(&city, &charged).await, Some("rate_limited"));
    let called = city.escalations().await;
    assert!(
        !called
            .iter()
            .any(|call| call.body.contains("a person began")),
        "{called:?}"
    );
}

/// The escalation about the first reason is closed then.
#[tokio::test(start_paused = true)]
async fn another_reason_that_keeps_the_first_prompt_back_is_told_as_well() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.show(&charged.session, Some("> fix the"));
    sessions.begin_line(&charged.session, Some(city.world.clock.now()));
    city.pass(60 * SECOND).await;
    let first = city.escalations().await;
    assert!(first[0].body.contains("a person began"), "{first:?}");
    sessions.deafen(&charged.session, true);
    sessions.begin_line(&charged.session, None);
    city.pass(120 * SECOND).await;
    let escalations = city.escalations().await;
    let second = escalations
        .iter()
        .find(|call| call.body.contains("takes nothing"));
    let second = second.unwrap_or_else(|| panic!("{escalations:?}"));
    let first = city.relic_now(&first[0].id).await;
    assert_eq!(first.status, RelicStatus::Closed);
    sessions.deafen(&charged.session, false);
    city.pass(120 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    let second = city.relic_now(&second.id).await;
    assert_eq!(second.status, RelicStatus::Closed);
}
