//! Texts and keys whose terminal does not answer, and texts that may still stand in the input line.

use super::*;
use crate::actors::typing::end_input;
use crate::testing::fake_sessions::Silence;

#[tokio::test(start_paused = true)]
async fn text_that_was_taken_without_an_answer_is_submitted() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.silence(&charged.session, Some(Silence::TakesAll));
    submit(world, &child, Some(harness), &handle, "Go on")
        .await
        .unwrap();
    assert_eq!(sessions.sent(&charged.session).len(), 1);
}

/// It would be there twice.
#[tokio::test(start_paused = true)]
async fn refusal_of_a_text_that_was_taken_in_part_says_not_to_send_it_again() {
    for (waits, said) in [(true, "the rest is typed"), (false, "is not known")] {
        let town = Scenario::new().start().await;
        let (charged, handle) = session(&town).await;
        let child = ChildId::Raider(charged.raider.clone());
        let world = &town.world;
        let harness = world.city.harnesses.keys().next().unwrap();
        let sessions = &town.parts.sessions;
        sessions.clog(&charged.session, waits);
        sessions.silence(&charged.session, Some(Silence::TakesAPart));
        let by = By::Person { force: false };
        let refused = deliver(world, &child, Some(harness), &handle, "Go on", by).await;
        let refused = Refusal::from(refused.unwrap_err());
        assert!(refused.message.contains(said), "{refused}");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("send it again"), "{hint}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_paste_that_was_taken_in_part_says_that_the_same_text_again_submits_it() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.silence(&charged.session, Some(Silence::TakesAPart));
    let by = By::Person { force: false };
    let refused = deliver(world, &child, Some(harness), &handle, "Go on", by).await;
    let refused = Refusal::from(refused.unwrap_err());
    assert!(refused.message.contains("not submitted"), "{refused}");
    assert!(refused.hint.unwrap().contains("submits it"));
    assert_eq!(sessions.sent(&charged.session).len(), 1, "no Enter");
}

/// They would type it behind the one that stands there, at their second try.
#[tokio::test(start_paused = true)]
async fn only_a_person_who_says_it_again_overrides_the_doubt_about_an_earlier_text() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    world.directory.conditions.enroll(&child, harness, &handle);
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    let opens = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        sessions.show(&charged.session, Some(dialog));
    };
    let (refused, ()) = tokio::join!(submit(world, &child, Some(harness), &handle, "ok"), opens);
    refused.unwrap_err();
    sessions.show(&charged.session, Some("> ok"));
    for _ in 0..3 {
        let refused = submit(world, &child, Some(harness), &handle, "Go on").await;
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("may still stand"), "{refused}");
    }
    let by = By::Person { force: false };
    let again = || deliver(world, &child, Some(harness), &handle, "Go on", by);
    again().await.unwrap_err();
    again().await.unwrap();
    assert_eq!(sessions.sent(&charged.session).len(), 3);
}

/// It would be a key that ends the program, an answer, or the end of their line.
#[tokio::test(start_paused = true)]
async fn end_of_input_is_typed_only_to_a_program_that_reads_lines_and_has_none_begun() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    let end = |typed| end_input(world, harness, &handle, typed);
    sessions.show(&charged.session, Some("Delete all of it? [y/N] "));
    let refused = end(Some("Do it")).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NeedsHuman);
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    let echo = Some("Ask me: Delete all of it? [y/N]");
    assert!(end(echo).await.unwrap_err().message.contains("begun"));
    sessions.begin_line(&charged.session, None);
    sessions.stuff(&charged.session, true);
    assert!(end(echo).await.unwrap_err().message.contains("wait"));
    sessions.stuff(&charged.session, false);
    assert!(sessions.sent(&charged.session).is_empty());
    end(echo).await.unwrap();
    assert_eq!(sessions.sent(&charged.session), [Input::EndOfInput]);
    sessions.reads_keys(&charged.session);
    sessions.show(&charged.session, Some("> "));
    end(None).await.unwrap();
    assert_eq!(sessions.sent(&charged.session).len(), 1);
}

/// A program at work shows anything.
#[tokio::test(start_paused = true)]
async fn line_that_a_person_has_begun_is_seen_whatever_the_screen_shows() {
    let town = Scenario::new()
        .with(|city| {
            let harnesses = city.harnesses.values_mut();
            harnesses.for_each(|harness| {
                harness.looks.input = Pattern::new("^> ").into_iter().collect();
            });
        })
        .start()
        .await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("compiling"));
    let unknown = may_type(world, harness, &handle).await;
    assert!(matches!(unknown, Typing::Unrecognised(_)), "{unknown:?}");
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    let begun = may_type(world, harness, &handle).await;
    assert!(matches!(begun, Typing::Begun(_)), "{begun:?}");
}

/// The session runs, as its facts say.
#[tokio::test(start_paused = true)]
async fn session_whose_holder_drops_a_connection_is_unseen_and_not_gone() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.hang_up(&charged.session, true);
    let unseen = may_type(world, harness, &handle).await;
    assert!(matches!(unseen, Typing::Unseen(_)), "{unseen:?}");
    sessions.hang_up(&charged.session, false);
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
    sessions.guess_attached(&charged.session, true);
    let unseen = may_type(world, harness, &handle).await;
    assert!(matches!(unseen, Typing::Unseen(_)), "{unseen:?}");
}
