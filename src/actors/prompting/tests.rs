//! First prompts and the screens that they meet.

mod doubt;
mod kept_back;
mod once;

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
use crate::testing::world::{Parts, Scenario, Town};

const SECOND: Duration = Duration::from_secs(1);
const LOGIN: &str = "Log in now? [(y)es, (n)o]";

fn pastes(city: &mut City) {
    for harness in city.harnesses.values_mut() {
        harness.prompt = PromptMode::Paste;
    }
}

/// Charges a raider whose program shows this screen from its start.
async fn raider(town: &Town, screen: &str) -> Charged {
    // Holders report changed screens.
    conditions::connect(&town.world);
    let relic = town.relic("a").await;
    town.parts.sessions.shows_at_start(screen);
    town.charge(&relic).await.unwrap()
}

/// Starts a city with this change, and such a raider.
async fn started(change: fn(&mut City), screen: &str) -> (Town, Charged) {
    let town = Scenario::new().with(change).start().await;
    let charged = raider(&town, screen).await;
    (town, charged)
}

/// The prompts that were typed.
fn typed(town: &Town, charged: &Charged) -> usize {
    let sent = town.parts.sessions.sent(&charged.session);
    let is_prompt = |input: &&Input| match input {
        Input::Submit(text) | Input::Paste(text) => text.contains("autonomous coding agent"),
        Input::Raw(_) | Input::EndOfInput => false,
    };
    sent.iter().filter(is_prompt).count()
}

/// Returns true when the end of input was typed, once.
fn is_ended(town: &Town, charged: &Charged) -> bool {
    let sent = town.parts.sessions.sent(&charged.session);
    let ends = sent.iter().filter(|input| **input == Input::EndOfInput);
    let ends = ends.count();
    assert!(ends <= 1, "{sent:?}");
    ends == 1
}

/// Returns the only call of a person, whose text has these words.
async fn one_call(town: &Town, words: &str) -> Relic {
    let mut called = town.escalations().await;
    assert_eq!(called.len(), 1, "{called:?}");
    assert!(called[0].body.contains(words), "{called:?}");
    called.remove(0)
}

async fn handle(town: &Town, charged: &Charged) -> SessionHandle {
    let view = town.view(&ChildId::Raider(charged.raider.clone())).await;
    view.unwrap().session.unwrap().handle
}

/// Restarts the supervisor of the same city.
async fn restarted(town: Town, change: fn(&mut City)) -> Town {
    restarted_after(town, change, |_| ()).await
}

/// Does the same, with `change` applied while no supervisor runs.
async fn restarted_after(
    town: Town,
    change: fn(&mut City),
    meanwhile: impl FnOnce(&Parts),
) -> Town {
    let clock = Arc::clone(&town.world.clock);
    let parts = town.parts.rewired();
    town.stop(StopMode::KeepSessions).await;
    meanwhile(&parts);
    let town = Scenario::new().with(change).start_on(parts, clock).await;
    conditions::connect(&town.world);
    town
}

/// Configures a harness whose input line is known.
fn knows_its_input(city: &mut City) {
    pastes(city);
    let input = || Pattern::new("^> ").into_iter().collect();
    let harnesses = city.harnesses.values_mut();
    harnesses.for_each(|harness| harness.looks.input = input());
}

async fn condition(town: &Town, charged: &Charged) -> Option<&'static str> {
    let id = ChildId::Raider(charged.raider.clone());
    let session = town.view(&id).await?.session?;
    let shown = town.world.directory.conditions.of(&session.handle)?;
    Some(shown.word())
}

#[tokio::test(start_paused = true)]
async fn first_prompt_waits_until_a_dialog_has_gone() {
    let (town, charged) = started(pastes, LOGIN).await;
    town.parts.sessions.reads_keys(&charged.session);
    town.pass(60 * SECOND).await;
    assert!(town.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&town, &charged).await, Some("needs_input"));
    assert_eq!(town.events(EventType::RaiderNeedsInput).await.len(), 1);
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(3 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(condition(&town, &charged).await, None);
    let sent = town.parts.sessions.sent(&charged.session);
    assert_eq!(sent.last(), Some(&Input::Raw(b"\r".to_vec())), "submitted");
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1, "once");
}

/// The rule for `"paste"` holds here: a program that reads lines asks, too.
#[tokio::test(start_paused = true)]
async fn first_prompt_on_standard_input_waits_until_a_dialog_has_gone_and_ends_the_input() {
    let (town, charged) = started(stdin, LOGIN).await;
    town.pass(60 * SECOND).await;
    assert!(town.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&town, &charged).await, Some("needs_input"));
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(3 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    let sent = town.parts.sessions.sent(&charged.session);
    assert_eq!(sent.last(), Some(&Input::EndOfInput), "end of input");
    assert_eq!(sent.len(), 2, "{sent:?}");
}

/// A person typed at the start, and went away.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_while_a_line_that_a_person_has_begun_stands_in_the_input() {
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.begin_line(&charged.session, Some(town.world.clock.now()));
    town.pass(SECOND).await;
    town.parts
        .sessions
        .show(&charged.session, Some("> fix the"));
    town.pass(5 * SECOND).await;
    let now = town.world.clock.now();
    sessions.begin_line(&charged.session, Some(now));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 0);
    assert_eq!(condition(&town, &charged).await, Some("unrecognised"));
    let called = town.escalations().await;
    assert!(called[0].body.contains("a person began"), "{called:?}");
    sessions.begin_line(&charged.session, None);
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(condition(&town, &charged).await, None);
}

/// A program that reads lines and shows nothing still gets it.
#[tokio::test(start_paused = true)]
async fn first_prompt_of_a_program_that_reads_lines_is_typed_although_it_shows_nothing() {
    let (town, charged) = started(pastes, "").await;
    town.pass(10 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

#[tokio::test(start_paused = true)]
async fn screen_that_nothing_is_known_of_calls_a_person_and_keeps_the_first_prompt() {
    let (town, charged) = started(knows_its_input, "What is new in version 3").await;
    town.parts.sessions.reads_keys(&charged.session);
    town.pass(20 * SECOND).await;
    assert_eq!(condition(&town, &charged).await, None, "it may be starting");
    town.pass(20 * SECOND).await;
    assert!(town.parts.sessions.sent(&charged.session).is_empty());
    assert_eq!(condition(&town, &charged).await, Some("unrecognised"));
    let told = town.events(EventType::RaiderUnclear).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].data["screen"], "What is new in version 3");
    let called = one_call(&town, "What is new in version 3").await;
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(3 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(condition(&town, &charged).await, None);
    assert_eq!(town.status(&called.id).await, RelicStatus::Closed);
}

/// No other code would type it.
#[tokio::test(start_paused = true)]
async fn first_prompt_is_typed_although_it_could_not_be_read_whether_it_is_owed() {
    let (town, charged) = started(pastes, LOGIN).await;
    town.parts.sessions.hide_meta(&charged.session, true);
    let town = restarted(town, pastes).await;
    town.pass(10 * SECOND).await;
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(10 * SECOND).await;
    assert_eq!(typed(&town, &charged), 0);
    town.parts.sessions.hide_meta(&charged.session, false);
    town.pass(10 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

/// A prompt typed then would be submitted with the line that a person has begun.
#[tokio::test(start_paused = true)]
async fn first_prompt_waits_until_no_person_is_attached() {
    let (town, charged) = started(pastes, LOGIN).await;
    town.parts.sessions.set_attached(&charged.session, true);
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(30 * SECOND).await;
    assert_eq!(typed(&town, &charged), 0);
    town.parts.sessions.set_attached(&charged.session, false);
    town.pass(31 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

fn stdin(city: &mut City) {
    let harnesses = city.harnesses.values_mut();
    harnesses.for_each(|harness| harness.prompt = PromptMode::Stdin);
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_terminal_does_not_take_calls_a_person_and_is_tried_again() {
    let (town, charged) = started(stdin, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.deafen(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(120 * SECOND).await;
    let called = one_call(&town, "takes nothing").await;
    sessions.deafen(&charged.session, false);
    town.pass(120 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(town.status(&called.id).await, RelicStatus::Closed);
}

/// Applies to every refusal: without a call the prompt would be missing unnoticed.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_is_refused_for_long_calls_a_person() {
    let (town, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let session = town.view(&id).await.unwrap().session.unwrap();
    let name = ClaimKey::Typing(session.handle.token);
    let other = town.world.claims.claim(name).unwrap();
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(300 * SECOND).await;
    assert_eq!(typed(&town, &charged), 0);
    one_call(&town, "another text").await;
    drop(other);
    town.pass(120 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(condition(&town, &charged).await, None);
}

/// A terminal takes no more than a part of a long prompt until its program reads.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_program_has_not_read_yet_is_not_typed_again() {
    let (town, charged) = started(stdin, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.clog(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(300 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(sessions.sent(&charged.session).len(), 1, "no end yet");
    assert_eq!(town.escalations().await.len(), 1);
    sessions.clog(&charged.session, false);
    town.pass(120 * SECOND).await;
    let sent = sessions.sent(&charged.session);
    assert_eq!(typed(&town, &charged), 1);
    assert_eq!(sent[1..], [Input::EndOfInput], "{sent:?}");
}

/// The program would wait for the end of input for ever.
#[tokio::test(start_paused = true)]
async fn end_of_input_that_could_not_be_typed_is_typed_alone_after_a_restart() {
    let (town, charged) = started(stdin, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.clog(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(30 * SECOND).await;
    sessions.deafen(&charged.session, true);
    sessions.clog(&charged.session, false);
    town.pass(120 * SECOND).await;
    assert_eq!(sessions.sent(&charged.session).len(), 1);
    let clock = Arc::clone(&town.world.clock);
    let parts = town.parts.rewired();
    town.stop(StopMode::KeepSessions).await;
    parts.sessions.deafen(&charged.session, false);
    let town = Scenario::new().with(stdin).start_on(parts, clock).await;
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    let sent = town.parts.sessions.sent(&charged.session);
    assert_eq!(sent[1..], [Input::EndOfInput], "{sent:?}");
}

/// People are told about the limit.
#[tokio::test(start_paused = true)]
async fn line_that_a_person_has_begun_is_no_question_while_a_condition_keeps_the_prompt_back() {
    let (town, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let session = town.view(&id).await.unwrap().session.unwrap();
    let sessions = &town.parts.sessions;
    let world = &town.world;
    sessions.show(&charged.session, Some("> fix the"));
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    let until = Some(world.clock.now() + 3600 * SECOND);
    let text = "usage limit reached".to_owned();
    let limited = Report::Limited { text, until };
    assert!(conditions::report(world, &session.handle, &limited));
    town.pass(120 * SECOND).await;
    assert_eq!(typed(&town, &charged), 0);
    assert_eq!(condition(&town, &charged).await, Some("rate_limited"));
    let called = town.escalations().await;
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
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("> fix the"));
    sessions.begin_line(&charged.session, Some(town.world.clock.now()));
    town.pass(60 * SECOND).await;
    let first = town.escalations().await;
    assert!(first[0].body.contains("a person began"), "{first:?}");
    sessions.deafen(&charged.session, true);
    sessions.begin_line(&charged.session, None);
    town.pass(120 * SECOND).await;
    let told = town.escalations().await;
    let second = told.iter().find(|call| call.body.contains("takes nothing"));
    let second = second.unwrap_or_else(|| panic!("{told:?}"));
    let first = town.relic_now(&first[0].id).await;
    assert_eq!(first.status, RelicStatus::Closed);
    sessions.deafen(&charged.session, false);
    town.pass(120 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    let second = town.relic_now(&second.id).await;
    assert_eq!(second.status, RelicStatus::Closed);
}
