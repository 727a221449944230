//! Text and what hooks report.

mod unanswered;

use std::time::Duration;

use super::{By, Typing, answer, deliver, may_type, submit};
use crate::actors::conditions;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::actors::sagas::charge::Charged;
use crate::domain::begun::HELD;
use crate::domain::city::RestartType;
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::ids::ChildId;
use crate::domain::question::Pattern;
use crate::ports::sessions::{Input, SessionHandle};
use crate::testing::world::{Scenario, Town, agent};

const SECOND: Duration = Duration::from_secs(1);

/// A raider, and its session.
async fn session(town: &Town) -> (Charged, SessionHandle) {
    let charged = town.worker("a").await;
    let view = town.view(&ChildId::Raider(charged.raider.clone())).await;
    (charged, view.unwrap().session.unwrap().handle)
}

/// A program's hooks run before its dialog is drawn: gemini was typed over in that moment.
#[tokio::test(start_paused = true)]
async fn text_is_not_typed_while_hooks_report_a_question_that_is_not_shown_yet() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    world
        .directory
        .conditions
        .enroll(&ChildId::Raider(charged.raider.clone()), harness, &handle);
    let asks = Report::Asks {
        question: "Which colour?".to_owned(),
        choices: vec!["Red".to_owned(), "Blue".to_owned()],
    };
    assert!(conditions::report(world, &handle, &asks));
    let typing = may_type(world, harness, &handle).await;
    assert!(
        matches!(&typing, Typing::Asks(dialog) if dialog.question == "Which colour?"),
        "{typing:?}"
    );
    let refused = submit(world, &child, Some(harness), &handle, "Go on").await;
    assert_eq!(refused.unwrap_err().kind, RefusalKind::NeedsHuman);
    assert!(town.parts.sessions.sent(&charged.session).is_empty());
    assert!(conditions::report(world, &handle, &Report::Begins));
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
    submit(world, &child, Some(harness), &handle, "Go on")
        .await
        .unwrap();
    assert_eq!(town.parts.sessions.sent(&charged.session).len(), 1);
}

/// Two texts that are pasted before the first Enter would be one message.
#[tokio::test(start_paused = true)]
async fn two_texts_are_submitted_one_after_the_other() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    town.parts.sessions.reads_keys(&charged.session);
    let (one, two) = tokio::join!(
        submit(world, &child, Some(harness), &handle, "one"),
        submit(world, &child, Some(harness), &handle, "two"),
    );
    one.unwrap();
    two.unwrap();
    let sent = town.parts.sessions.sent(&charged.session);
    let enter = Input::Raw(b"\r".to_vec());
    let text = |text: &str| Input::Paste(text.to_owned());
    assert_eq!(sent, [text("one"), enter.clone(), text("two"), enter]);
}

/// A dialog that opens between a text and its Enter keeps the text in the input line: it is not pasted a second time.
#[tokio::test(start_paused = true)]
async fn text_that_a_dialog_kept_from_being_submitted_is_not_pasted_again() {
    const TEXT: &str = "Go on with the tests, and say so when all of them are green.";
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    let world = &town.world;
    let child = ChildId::Raider(charged.raider.clone());
    let view = town.view(&child).await;
    let handle = view.and_then(|view| view.session).unwrap().handle;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    world.directory.conditions.enroll(&child, harness, &handle);
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    let opens = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        sessions.show(&charged.session, Some(dialog));
    };
    let (refused, ()) = tokio::join!(submit(world, &child, Some(harness), &handle, TEXT), opens);
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("not submitted"), "{refused:?}");
    let text = |text: &str| Input::Paste(text.to_owned());
    let enter = Input::Raw(b"\r".to_vec());
    assert_eq!(sessions.sent(&charged.session), [text(TEXT)]);
    sessions.show(&charged.session, Some(&format!("> {TEXT}")));
    submit(world, &child, Some(harness), &handle, TEXT)
        .await
        .unwrap();
    let sent = sessions.sent(&charged.session);
    assert_eq!(sent, [text(TEXT), enter.clone()]);
    // A program that has dropped it gets it again.
    sessions.show(&charged.session, Some("> "));
    submit(world, &child, Some(harness), &handle, TEXT)
        .await
        .unwrap();
    let sent = sessions.sent(&charged.session);
    assert_eq!(sent[2..], [text(TEXT), enter]);
}

/// A program that reads lines takes any line for its answer: `z` would be no at `[y/N]`.
#[tokio::test(start_paused = true)]
async fn answer_that_a_question_of_letters_does_not_have_is_refused() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("Delete all of it? [y/N] "));
    for said in ["z", "delete all of it?", "3"] {
        let refused = answer(world, Some(harness), &handle, said)
            .await
            .unwrap_err();
        assert_eq!(refused.kind, RefusalKind::BadRequest, "{said}");
        assert!(refused.message.contains("No"), "{refused}");
    }
    assert!(sessions.sent(&charged.session).is_empty());
    // An answer beside yes and no that the question names is one.
    sessions.show(&charged.session, Some("Stage this hunk [y/n/q/?] "));
    let typed = async {
        while sessions.sent(&charged.session).is_empty() {
            tokio::time::sleep(super::GLIMPSE).await;
        }
        sessions.show(&charged.session, Some("thanks"));
    };
    let answered = async {
        let answered = answer(world, Some(harness), &handle, "q").await;
        assert_eq!(answered.unwrap().answer, "q");
    };
    tokio::join!(answered, typed);
}

/// What was typed into a line that is not shown goes into no journal.
#[tokio::test(start_paused = true)]
async fn secret_that_was_answered_is_not_told() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("Password for git: "));
    let answering = answer(world, Some(harness), &handle, "hunter2");
    let typed = async {
        while sessions.sent(&charged.session).is_empty() {
            tokio::time::sleep(super::GLIMPSE).await;
        }
        sessions.show(&charged.session, Some("thanks"));
    };
    let (answered, ()) = tokio::join!(answering, typed);
    let answered = answered.unwrap();
    assert_eq!(answered.question, "Password for git:");
    assert!(!answered.answer.contains("hunter2"), "{answered:?}");
}

/// It may be the key of an account.
#[tokio::test(start_paused = true)]
async fn words_at_an_entry_of_a_menu_are_not_told() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    let menu = "Which key?\n❯ 1. The one of the environment\n  2. Type something.\n";
    sessions.show(&charged.session, Some(menu));
    let answering = answer(world, Some(harness), &handle, "sk-hunter2");
    let typed = async {
        let sent = |of: &dyn Fn(&str) -> bool| {
            let all = sessions.sent(&charged.session);
            all.iter().any(|input| match input {
                Input::Raw(bytes) => of(&String::from_utf8_lossy(bytes)),
                Input::Submit(sent) | Input::Paste(sent) => of(sent),
                Input::EndOfInput => false,
            })
        };
        let chosen = "Which key?\n  1. The one of the environment\n❯ 2. Type something.\n";
        loop {
            tokio::time::sleep(super::GLIMPSE).await;
            if sent(&|text| text.contains("hunter2")) {
                return sessions.show(&charged.session, Some("thanks"));
            }
            if sent(&|_| true) {
                sessions.show(&charged.session, Some(chosen));
            }
        }
    };
    let typed = async { tokio::time::timeout(SECOND * 60, typed).await.unwrap_or(()) };
    let (answered, ()) = tokio::join!(answering, typed);
    let answered = answered.unwrap();
    assert!(!answered.answer.contains("hunter2"), "{answered:?}");
}

/// Both would be one message.
#[tokio::test(start_paused = true)]
async fn text_is_held_back_while_a_line_that_a_person_has_begun_stands_in_the_input() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.show(&charged.session, Some("> delete the"));
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    let typing = may_type(world, harness, &handle).await;
    assert!(
        matches!(&typing, Typing::Begun(screen) if screen.contains("delete the")),
        "{typing:?}"
    );
    let refused = submit(world, &child, Some(harness), &handle, "Go on").await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NeedsHuman);
    assert!(refused.message.contains("delete the"), "{refused}");
    assert!(sessions.sent(&charged.session).is_empty());
    deliver(
        world,
        &child,
        Some(harness),
        &handle,
        "Go on",
        By::Person { force: true },
    )
    .await
    .unwrap();
    assert_eq!(sessions.sent(&charged.session).len(), 2);
    sessions.begin_line(&charged.session, None);
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
}

/// Who begins to type between a text and its Enter would have both submitted.
#[tokio::test(start_paused = true)]
async fn text_behind_which_a_person_begins_to_type_is_not_submitted() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    let begins = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        sessions.begin_line(&charged.session, Some(world.clock.now()));
    };
    let (refused, ()) = tokio::join!(
        submit(world, &child, Some(harness), &handle, "Go on"),
        begins
    );
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("not submitted"), "{refused}");
    let sent = sessions.sent(&charged.session);
    assert_eq!(sent, [Input::Paste("Go on".to_owned())]);
}

/// "1" at a menu takes no Enter: it stands in no line afterwards.
#[tokio::test(start_paused = true)]
async fn key_that_a_person_answered_a_dialog_with_begins_no_line() {
    let town = Scenario::new().start().await;
    conditions::connect(&town.world);
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    world.directory.conditions.enroll(&child, harness, &handle);
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    sessions.show(&charged.session, Some(dialog));
    town.pass(SECOND).await;
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    sessions.show(&charged.session, Some("> "));
    town.pass(SECOND).await;
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    assert!(matches!(
        may_type(world, harness, &handle).await,
        Typing::Begun(_)
    ));
}

/// Who begins a line and goes away must not stop an agent that nobody attends.
#[tokio::test(start_paused = true)]
async fn text_is_typed_behind_a_line_that_a_person_has_left_long_ago_and_this_is_told() {
    let town = Scenario::new().start().await;
    let (charged, handle) = session(&town).await;
    let child = ChildId::Raider(charged.raider.clone());
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    world.directory.conditions.enroll(&child, harness, &handle);
    sessions.show(&charged.session, Some("> delete the"));
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    town.pass(HELD - SECOND).await;
    assert!(matches!(
        may_type(world, harness, &handle).await,
        Typing::Begun(_)
    ));
    town.pass(SECOND).await;
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
    submit(world, &child, Some(harness), &handle, "Go on")
        .await
        .unwrap();
    assert_eq!(sessions.sent(&charged.session).len(), 2);
    town.pass(SECOND).await;
    let told = town.events(EventType::RaiderUnclear).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].data["text"]
            .as_str()
            .unwrap()
            .contains("behind a line")
    );
    assert_eq!(told[0].data["screen"], "> delete the");
    assert_eq!(told[0].cause.as_str(), "line_left");
}

/// `hd send` types to agents without a harness as well, whose screens nothing else watches.
#[tokio::test(start_paused = true)]
async fn text_behind_a_line_that_was_left_is_told_of_an_agent_that_is_not_watched() {
    let town = Scenario::new()
        .agent("mayor", RestartType::Permanent)
        .start()
        .await;
    town.pass(SECOND).await;
    let (child, world) = (agent("mayor"), &town.world);
    let handle = town.view(&child).await.unwrap().session.unwrap().handle;
    let sessions = &town.parts.sessions;
    sessions.show(&handle.id, Some("> delete the"));
    sessions.begin_line(&handle.id, Some(world.clock.now()));
    town.pass(HELD).await;
    submit(world, &child, None, &handle, "Go on").await.unwrap();
    town.pass(SECOND).await;
    let told = town.events(EventType::RaiderUnclear).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].cause.as_str(), "line_left");
}

/// In tmux any key is seen to be pressed, and not which one: the key that submitted a prompt begins no line.
#[tokio::test(start_paused = true)]
async fn key_in_tmux_is_no_line_below_a_dialog_that_opens_after_it() {
    let town = Scenario::new().start().await;
    conditions::connect(&town.world);
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("> "));
    town.pass(SECOND).await;
    sessions.touch(&charged.session, Some(world.clock.now()));
    assert!(matches!(
        may_type(world, harness, &handle).await,
        Typing::Begun(_)
    ));
    sessions.show(&charged.session, Some("Allow? [y/N] "));
    town.pass(10 * SECOND).await;
    sessions.touch(&charged.session, None);
    sessions.show(&charged.session, Some("> "));
    town.pass(SECOND).await;
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
}

/// A line cannot be gone on with while a dialog stands before it.
#[tokio::test(start_paused = true)]
async fn line_that_a_dialog_covered_is_held_from_the_end_of_the_dialog_on() {
    let town = Scenario::new().start().await;
    conditions::connect(&town.world);
    let (charged, handle) = session(&town).await;
    let world = &town.world;
    let harness = world.city.harnesses.keys().next().unwrap();
    let sessions = &town.parts.sessions;
    sessions.show(&charged.session, Some("> delete the"));
    sessions.begin_line(&charged.session, Some(world.clock.now()));
    town.pass(SECOND).await;
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    sessions.show(&charged.session, Some(dialog));
    town.pass(HELD).await;
    sessions.begin_line(&charged.session, None);
    sessions.show(&charged.session, Some("> delete the"));
    town.pass(HELD - 5 * SECOND).await;
    assert!(matches!(
        may_type(world, harness, &handle).await,
        Typing::Begun(_)
    ));
    town.pass(10 * SECOND).await;
    assert_eq!(may_type(world, harness, &handle).await, Typing::Free);
}

/// Most programs keep it below the dialog. Enter at the dialog ends it as far as its holder knows.
#[tokio::test(start_paused = true)]
async fn line_that_stood_there_when_a_dialog_opened_still_stands_when_it_is_answered() {
    for line_after in [true, false] {
        let town = Scenario::new().start().await;
        conditions::connect(&town.world);
        let (charged, handle) = session(&town).await;
        let world = &town.world;
        let harness = world.city.harnesses.keys().next().unwrap();
        let sessions = &town.parts.sessions;
        let child = ChildId::Raider(charged.raider.clone());
        world.directory.conditions.enroll(&child, harness, &handle);
        sessions.begin_line(&charged.session, Some(world.clock.now()));
        town.pass(SECOND).await;
        let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
        sessions.show(&charged.session, Some(dialog));
        town.pass(SECOND).await;
        if !line_after {
            sessions.begin_line(&charged.session, None);
        }
        sessions.show(&charged.session, Some("> delete the"));
        town.pass(SECOND).await;
        assert!(matches!(
            may_type(world, harness, &handle).await,
            Typing::Begun(_)
        ));
        // Its hooks tell that it was submitted.
        assert!(conditions::report(world, &handle, &Report::Begins));
        assert_eq!(
            may_type(world, harness, &handle).await,
            Typing::Free,
            "{line_after}"
        );
    }
}

/// The watch of the supervisor before is gone.
#[tokio::test(start_paused = true)]
async fn key_that_answered_a_dialog_before_a_restart_holds_nothing_back_for_ever() {
    let town = Scenario::new().start().await;
    let charged = town.worker("a").await;
    town.parts
        .sessions
        .begin_line(&charged.session, Some(town.world.clock.now()));
    let clock = std::sync::Arc::clone(&town.world.clock);
    let parts = town.crash().await;
    let town = Scenario::new().start_on(parts, clock).await;
    let view = town.view(&ChildId::Raider(charged.raider.clone())).await;
    let handle = view.unwrap().session.unwrap().handle;
    let harness = town.world.city.harnesses.keys().next().unwrap();
    assert!(matches!(
        may_type(&town.world, harness, &handle).await,
        Typing::Begun(_)
    ));
    town.pass(HELD).await;
    assert_eq!(may_type(&town.world, harness, &handle).await, Typing::Free);
}
