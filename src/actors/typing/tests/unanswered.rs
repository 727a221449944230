//! Texts and keys that the terminal does not confirm, and texts that may still stand in the input line.

use super::*;
use crate::actors::typing::end_input;
use crate::testing::fake_sessions::Silence;

#[tokio::test(start_paused = true)]
async fn text_that_was_taken_without_an_answer_is_submitted() {
    let seat = Seat::new().await;
    seat.sessions()
        .silence(&seat.handle.id, Some(Silence::TakesAll));
    seat.submit("Go on").await.unwrap();
    assert_eq!(seat.sent().len(), 1);
}

/// A repeated text would arrive twice.
#[tokio::test(start_paused = true)]
async fn refusal_of_a_text_that_was_taken_in_part_says_not_to_send_it_again() {
    for (waits, said) in [(true, "the rest is typed"), (false, "is unknown")] {
        let seat = Seat::new().await;
        seat.sessions().clog(&seat.handle.id, waits);
        seat.sessions()
            .silence(&seat.handle.id, Some(Silence::TakesAPart));
        let by = By::Person { force: false };
        let refused = seat.deliver("Go on", by).await;
        let refused = Refusal::from(refused.unwrap_err());
        assert!(refused.message.contains(said), "{refused}");
        let hint = refused.hint.unwrap();
        assert!(hint.contains("send it again"), "{hint}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_paste_that_was_taken_in_part_says_that_the_same_text_again_submits_it() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    seat.sessions()
        .silence(&seat.handle.id, Some(Silence::TakesAPart));
    let by = By::Person { force: false };
    let refused = seat.deliver("Go on", by).await;
    let refused = Refusal::from(refused.unwrap_err());
    assert!(refused.message.contains("not submitted"), "{refused}");
    assert!(refused.hint.unwrap().contains("to submit it"));
    assert_eq!(seat.sent().len(), 1, "no Enter");
}

/// The supervisor's retry would type it after the text that stands there.
#[tokio::test(start_paused = true)]
async fn repeated_text_of_a_person_overrides_the_doubt_about_an_earlier_text() {
    let seat = Seat::new().await;
    seat.sessions().reads_keys(&seat.handle.id);
    seat.enroll();
    let dialog = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";
    let opens = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        seat.show(dialog);
    };
    let (refused, ()) = tokio::join!(seat.submit("ok"), opens);
    refused.unwrap_err();
    seat.show("> ok");
    for _ in 0..3 {
        let refused = seat.submit("Go on").await;
        let refused = refused.unwrap_err();
        assert!(refused.message.contains("may still be"), "{refused}");
    }
    let by = By::Person { force: false };
    let again = || seat.deliver("Go on", by);
    again().await.unwrap_err();
    again().await.unwrap();
    assert_eq!(seat.sent().len(), 3);
}

/// An end of input may be a key that ends the program, an answer, or the end of a person's line.
#[tokio::test(start_paused = true)]
async fn end_of_input_is_typed_only_to_a_program_that_reads_lines_and_has_none_begun() {
    let seat = Seat::new().await;
    let end = |typed| end_input(&seat.city.world, &seat.harness, &seat.handle, typed);
    seat.show("Delete all of it? [y/N] ");
    let refused = end(Some("Do it")).await.unwrap_err();
    assert_eq!(refused.kind, RefusalKind::NeedsHuman);
    seat.begin_line();
    let echo = Some("Ask me: Delete all of it? [y/N]");
    assert!(
        end(echo)
            .await
            .unwrap_err()
            .message
            .contains("did not submit")
    );
    seat.end_line();
    seat.sessions().stuff(&seat.handle.id, true);
    assert!(end(echo).await.unwrap_err().message.contains("wait"));
    seat.sessions().stuff(&seat.handle.id, false);
    assert!(seat.sent().is_empty());
    end(echo).await.unwrap();
    assert_eq!(seat.sent(), [Input::EndOfInput]);
    seat.sessions().reads_keys(&seat.handle.id);
    seat.show("> ");
    end(None).await.unwrap();
    assert_eq!(seat.sent().len(), 1);
}

/// A program at work may show anything.
#[tokio::test(start_paused = true)]
async fn line_that_a_person_has_begun_is_seen_whatever_the_screen_shows() {
    let city = Scenario::new()
        .with(|city| {
            let harnesses = city.harnesses.values_mut();
            harnesses.for_each(|harness| {
                harness.patterns.input = Pattern::new("^> ").into_iter().collect();
            });
        })
        .start()
        .await;
    let seat = Seat::of(city).await;
    seat.show("compiling");
    let unknown = seat.may_type().await;
    assert!(matches!(unknown, Typing::Unrecognised(_)), "{unknown:?}");
    seat.begin_line();
    let begun = seat.may_type().await;
    assert!(matches!(begun, Typing::Begun(_)), "{begun:?}");
}

/// The session runs, by its facts.
#[tokio::test(start_paused = true)]
async fn session_whose_holder_drops_a_connection_is_unseen_and_not_gone() {
    let seat = Seat::new().await;
    seat.sessions().hang_up(&seat.handle.id, true);
    let unseen = seat.may_type().await;
    assert!(matches!(unseen, Typing::Unseen(_)), "{unseen:?}");
    seat.sessions().hang_up(&seat.handle.id, false);
    assert_eq!(seat.may_type().await, Typing::Free);
    seat.sessions().guess_attached(&seat.handle.id, true);
    let unseen = seat.may_type().await;
    assert!(matches!(unseen, Typing::Unseen(_)), "{unseen:?}");
}
