//! Typed text, and reports of hooks.

mod unanswered;

use std::time::Duration;

use super::answering::Answered;
use super::{By, Typing, Undelivered, answer, deliver, may_type, submit};
use crate::actors::conditions;
use crate::actors::refusal::{Refusal, RefusalKind};
use crate::domain::city::RestartType;
use crate::domain::condition::Report;
use crate::domain::event::EventType;
use crate::domain::ids::{ChildId, HarnessName};
use crate::domain::question::Pattern;
use crate::domain::typed_line::HELD;
use crate::ports::sessions::{Input, SessionHandle};
use crate::testing::fake_sessions::FakeSessions;
use crate::testing::world::{Scenario, TestCity, agent};

const SECOND: Duration = Duration::from_secs(1);

/// A raider's session that text is typed into.
struct Seat {
    city: TestCity,
    child: ChildId,
    harness: HarnessName,
    handle: SessionHandle,
}

impl Seat {
    async fn new() -> Self {
        Self::of(Scenario::new().start().await).await
    }

    /// Creates one whose screen is read when it changes.
    async fn watched() -> Self {
        let city = Scenario::new().start().await;
        conditions::connect(&city.world);
        Self::of(city).await
    }

    async fn of(city: TestCity) -> Self {
        let charged = city.worker("a").await;
        let child = ChildId::Raider(charged.raider);
        let session = city.view(&child).await.unwrap().session;
        let harness = city.world.city.harnesses.keys().next().unwrap().clone();
        Self {
            handle: session.unwrap().handle,
            city,
            child,
            harness,
        }
    }

    fn sessions(&self) -> &FakeSessions {
        &self.city.parts.sessions
    }

    fn show(&self, screen: &str) {
        self.sessions().show(&self.handle.id, Some(screen));
    }

    /// Has a person type into the input line without submitting.
    fn begin_line(&self) {
        let now = self.city.world.clock.now();
        self.sessions().begin_line(&self.handle.id, Some(now));
    }

    fn end_line(&self) {
        self.sessions().begin_line(&self.handle.id, None);
    }

    fn sent(&self) -> Vec<Input> {
        self.sessions().sent(&self.handle.id)
    }

    fn enroll(&self) {
        let conditions = &self.city.world.directory.conditions;
        conditions.enroll(&self.child, &self.harness, &self.handle);
    }

    fn report(&self, report: &Report) -> bool {
        conditions::report(&self.city.world, &self.handle, report)
    }

    async fn may_type(&self) -> Typing {
        may_type(&self.city.world, &self.harness, &self.handle).await
    }

    async fn is_begun(&self) -> bool {
        matches!(self.may_type().await, Typing::Begun(_))
    }

    async fn submit(&self, text: &str) -> Result<(), Refusal> {
        let (world, harness) = (&self.city.world, Some(&self.harness));
        submit(world, &self.child, harness, &self.handle, text).await
    }

    async fn deliver(&self, text: &str, by: By) -> Result<(), Undelivered> {
        let (world, harness) = (&self.city.world, Some(&self.harness));
        deliver(world, &self.child, harness, &self.handle, text, by).await
    }

    async fn answer(&self, said: &str) -> Result<Answered, Refusal> {
        answer(&self.city.world, Some(&self.harness), &self.handle, said).await
    }
}

/// A program's hooks run before its dialog is drawn: gemini was typed over in that moment.
#[tokio::test(start_paused = true)]
async fn text_is_not_typed_while_hooks_report_a_question_that_is_not_shown_yet() {
    let seat = Seat::new().await;
    seat.enroll();
    let asks = Report::Asks {
        question: "Which colour?".to_owned(),
        choices: vec!["Red".to_owned(), "Blue".to_owned()],
    };
    assert!(seat.report(&asks));
    let typing = seat.may_type().await;
    assert!(
        matches!(&typing, Typing::Asks(dialog) if dialog.question == "Which colour?"),
        "{typing:?}"
    );
    let refused = seat.submit("Go on").await;
    assert_eq!(refused.unwrap_err().kind, RefusalKind::NeedsHuman);
    assert!(seat.sent().is_empty());
    assert!(seat.report(&Report::Begins));
    assert_eq!(seat.may_type().await, Typing::Free);
    seat.submit("Go on").await.unwrap();
    assert_eq!(seat.sent().len(), 1);
}

/// Two texts that are pasted before the first Enter would become one message.
#[tokio::test(start_paused = true)]
async fn two_texts_are_submitted_one_after_the_other() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    let (one, two) = tokio::join!(seat.submit("one"), seat.submit("two"));
    one.unwrap();
    two.unwrap();
    let sent = seat.sent();
    let enter = Input::Raw(b"\r".to_vec());
    let text = |text: &str| Input::Paste(text.to_owned());
    assert_eq!(sent, [text("one"), enter.clone(), text("two"), enter]);
}

/// A dialog that opens between a text and its Enter keeps the text in the input line: it is not pasted a second time.
#[tokio::test(start_paused = true)]
async fn text_that_a_dialog_kept_from_being_submitted_is_not_pasted_again() {
    const TEXT: &str = "Go on with the tests, and say so when all of them are green.";
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    seat.enroll();
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    let opens = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        seat.show(dialog);
    };
    let (refused, ()) = tokio::join!(seat.submit(TEXT), opens);
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("not submit"), "{refused:?}");
    let text = |text: &str| Input::Paste(text.to_owned());
    let enter = Input::Raw(b"\r".to_vec());
    assert_eq!(seat.sent(), [text(TEXT)]);
    seat.show(&format!("> {TEXT}"));
    seat.submit(TEXT).await.unwrap();
    let sent = seat.sent();
    assert_eq!(sent, [text(TEXT), enter.clone()]);
    // A program that discarded it gets it again.
    seat.show("> ");
    seat.submit(TEXT).await.unwrap();
    let sent = seat.sent();
    assert_eq!(sent[2..], [text(TEXT), enter]);
}

/// A program that reads lines takes any line as its answer: `z` would mean no at `[y/N]`.
#[tokio::test(start_paused = true)]
async fn answer_that_a_question_of_letters_does_not_have_is_refused() {
    let seat = Seat::new().await;
    seat.show("Delete all of it? [y/N] ");
    for said in ["z", "delete all of it?", "3"] {
        let refused = seat.answer(said).await.unwrap_err();
        assert_eq!(refused.kind, RefusalKind::BadRequest, "{said}");
        assert!(refused.message.contains("No"), "{refused}");
    }
    assert!(seat.sent().is_empty());
    // Another answer that the question names is valid, too.
    seat.show("Stage this hunk [y/n/q/?] ");
    let typed = async {
        while seat.sent().is_empty() {
            tokio::time::sleep(super::GLIMPSE).await;
        }
        seat.show("thanks");
    };
    let answered = async {
        let answered = seat.answer("q").await;
        assert_eq!(answered.unwrap().answer, "q");
    };
    tokio::join!(answered, typed);
}

/// Text typed into a hidden line must not be journalled.
#[tokio::test(start_paused = true)]
async fn secret_that_was_answered_is_not_told() {
    let seat = Seat::new().await;
    seat.show("Password for git: ");
    let answering = seat.answer("hunter2");
    let typed = async {
        while seat.sent().is_empty() {
            tokio::time::sleep(super::GLIMPSE).await;
        }
        seat.show("thanks");
    };
    let (answered, ()) = tokio::join!(answering, typed);
    let answered = answered.unwrap();
    assert_eq!(answered.question, "Password for git:");
    assert!(!answered.answer.contains("hunter2"), "{answered:?}");
}

/// The typed words may be the key of an account.
#[tokio::test(start_paused = true)]
async fn words_at_an_entry_of_a_menu_are_not_told() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    let menu = "Which key?\n❯ 1. The one of the environment\n  2. Type something.\n";
    seat.show(menu);
    let answering = seat.answer("sk-hunter2");
    let typed = async {
        let sent = |of: &dyn Fn(&str) -> bool| {
            let all = seat.sent();
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
                return seat.show("thanks");
            }
            if sent(&|_| true) {
                seat.show(chosen);
            }
        }
    };
    let typed = async { tokio::time::timeout(SECOND * 60, typed).await.unwrap_or(()) };
    let (answered, ()) = tokio::join!(answering, typed);
    let answered = answered.unwrap();
    assert!(!answered.answer.contains("hunter2"), "{answered:?}");
}

/// Both would become one message.
#[tokio::test(start_paused = true)]
async fn text_is_held_back_while_a_line_that_a_person_has_begun_stands_in_the_input() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    seat.show("> delete the");
    seat.begin_line();
    let typing = seat.may_type().await;
    assert!(
        matches!(&typing, Typing::Begun(screen) if screen.contains("delete the")),
        "{typing:?}"
    );
    let refused = seat.submit("Go on").await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NeedsHuman);
    assert!(refused.message.contains("delete the"), "{refused}");
    assert!(seat.sent().is_empty());
    seat.deliver("Go on", By::Person { force: true })
        .await
        .unwrap();
    assert_eq!(seat.sent().len(), 2);
    seat.end_line();
    assert_eq!(seat.may_type().await, Typing::Free);
}

/// A line that a person begins between a text and its Enter would be submitted with it.
#[tokio::test(start_paused = true)]
async fn text_behind_which_a_person_begins_to_type_is_not_submitted() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    let begins = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        seat.begin_line();
    };
    let (refused, ()) = tokio::join!(seat.submit("Go on"), begins);
    let refused = refused.unwrap_err();
    assert!(refused.message.contains("not submit"), "{refused}");
    let sent = seat.sent();
    assert_eq!(sent, [Input::Paste("Go on".to_owned())]);
}

/// "1" at a menu needs no Enter: it stands in no line afterwards.
#[tokio::test(start_paused = true)]
async fn key_that_a_person_answered_a_dialog_with_begins_no_line() {
    let seat = Seat::watched().await;
    seat.enroll();
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    seat.show(dialog);
    seat.city.pass(SECOND).await;
    seat.begin_line();
    seat.show("> ");
    seat.city.pass(SECOND).await;
    assert_eq!(seat.may_type().await, Typing::Free);
    seat.begin_line();
    assert!(seat.is_begun().await);
}

/// An abandoned line must not stop an unattended agent.
#[tokio::test(start_paused = true)]
async fn text_is_typed_behind_a_line_that_a_person_has_left_long_ago_and_this_is_told() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    seat.enroll();
    seat.show("> delete the");
    seat.begin_line();
    seat.city.pass(HELD - SECOND).await;
    assert!(seat.is_begun().await);
    seat.city.pass(SECOND).await;
    assert_eq!(seat.may_type().await, Typing::Free);
    seat.submit("Go on").await.unwrap();
    assert_eq!(seat.sent().len(), 2);
    seat.city.pass(SECOND).await;
    let events = seat.city.events(EventType::RaiderUnclear).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].data["text"]
            .as_str()
            .unwrap()
            .contains("behind a line")
    );
    assert_eq!(events[0].data["screen"], "> delete the");
    assert_eq!(events[0].cause.as_str(), "line_left");
}

/// `hd send` types to agents without a harness, too, whose screens no other code watches.
#[tokio::test(start_paused = true)]
async fn text_behind_a_line_that_was_left_is_told_of_an_agent_that_is_not_watched() {
    let city = Scenario::new()
        .agent("mayor", RestartType::Permanent)
        .start()
        .await;
    city.pass(SECOND).await;
    let (child, world) = (agent("mayor"), &city.world);
    let handle = city.view(&child).await.unwrap().session.unwrap().handle;
    let sessions = &city.parts.sessions;
    sessions.show(&handle.id, Some("> delete the"));
    sessions.begin_line(&handle.id, Some(world.clock.now()));
    city.pass(HELD).await;
    submit(world, &child, None, &handle, "Go on").await.unwrap();
    city.pass(SECOND).await;
    let events = city.events(EventType::RaiderUnclear).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0].cause.as_str(), "line_left");
}

/// tmux shows that a key was pressed, but not which: the key that submitted a prompt begins no line.
#[tokio::test(start_paused = true)]
async fn key_in_tmux_is_no_line_below_a_dialog_that_opens_after_it() {
    let seat = Seat::watched().await;
    seat.show("> ");
    seat.city.pass(SECOND).await;
    seat.sessions()
        .touch(&seat.handle.id, Some(seat.city.world.clock.now()));
    assert!(seat.is_begun().await);
    seat.show("Allow? [y/N] ");
    seat.city.pass(10 * SECOND).await;
    seat.sessions().touch(&seat.handle.id, None);
    seat.show("> ");
    seat.city.pass(SECOND).await;
    assert_eq!(seat.may_type().await, Typing::Free);
}

/// A line cannot be continued while a dialog covers it.
#[tokio::test(start_paused = true)]
async fn line_that_a_dialog_covered_is_held_from_the_end_of_the_dialog_on() {
    let seat = Seat::watched().await;
    seat.show("> delete the");
    seat.begin_line();
    seat.city.pass(SECOND).await;
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    seat.show(dialog);
    seat.city.pass(HELD).await;
    seat.end_line();
    seat.show("> delete the");
    seat.city.pass(HELD - 5 * SECOND).await;
    assert!(seat.is_begun().await);
    seat.city.pass(10 * SECOND).await;
    assert_eq!(seat.may_type().await, Typing::Free);
}

/// Most programs keep the line below the dialog. For its holder, Enter at the dialog ends it.
#[tokio::test(start_paused = true)]
async fn line_that_stood_there_when_a_dialog_opened_still_stands_when_it_is_answered() {
    for line_after in [true, false] {
        let seat = Seat::watched().await;
        seat.enroll();
        seat.begin_line();
        seat.city.pass(SECOND).await;
        let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
        seat.show(dialog);
        seat.city.pass(SECOND).await;
        if !line_after {
            seat.end_line();
        }
        seat.show("> delete the");
        seat.city.pass(SECOND).await;
        assert!(seat.is_begun().await);
        // Its hooks report that it was submitted.
        assert!(seat.report(&Report::Begins));
        assert_eq!(seat.may_type().await, Typing::Free, "{line_after}");
    }
}

/// The watch of the last supervisor is gone.
#[tokio::test(start_paused = true)]
async fn key_that_answered_a_dialog_before_a_restart_holds_nothing_back_for_ever() {
    let (city, charged) = Scenario::at_work().await;
    city.parts
        .sessions
        .begin_line(&charged.session, Some(city.world.clock.now()));
    let clock = std::sync::Arc::clone(&city.world.clock);
    let parts = city.crash().await;
    let city = Scenario::new().start_on(parts, clock).await;
    let view = city.view(&ChildId::Raider(charged.raider.clone())).await;
    let handle = view.unwrap().session.unwrap().handle;
    let harness = city.world.city.harnesses.keys().next().unwrap();
    assert!(matches!(
        may_type(&city.world, harness, &handle).await,
        Typing::Begun(_)
    ));
    city.pass(HELD).await;
    assert_eq!(may_type(&city.world, harness, &handle).await, Typing::Free);
}
