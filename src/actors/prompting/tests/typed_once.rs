//! A first prompt is typed once, in all circumstances.

use super::*;
use crate::actors::prompting;

const DIALOG: &str = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";

/// Returns the number of Enter keys, without pastes.
pub(super) fn enters(city: &TestCity, charged: &Charged) -> usize {
    let sent = city.parts.sessions.sent(&charged.session);
    let enter = Input::Raw(b"\r".to_vec());
    sent.iter().filter(|input| **input == enter).count()
}

/// Charges a raider whose first prompt was pasted, and not submitted because a dialog opened before its Enter.
pub(super) async fn pasted(city: &TestCity) -> Charged {
    let charged = raider(city, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.show(&charged.session, Some("> "));
    let opens = async {
        while typed(city, &charged) == 0 {
            city.pass(Duration::from_millis(10)).await;
        }
        sessions.show(&charged.session, Some(DIALOG));
    };
    tokio::time::timeout(20 * SECOND, opens).await.unwrap();
    city.pass(10 * SECOND).await;
    assert_eq!((typed(city, &charged), enters(city, &charged)), (1, 0));
    charged
}

/// Returns the end of the prompt as it stands in an input line.
pub(super) fn in_line(city: &TestCity, charged: &Charged) -> String {
    let sent = city.parts.sessions.sent(&charged.session);
    let Some(Input::Paste(text)) = sent.into_iter().next() else {
        panic!("nothing was pasted");
    };
    format!("> {text}")
}

/// The actor of its child panics, and the next one adopts the session.
#[tokio::test(start_paused = true)]
async fn first_prompt_is_typed_once_although_its_child_comes_up_again() {
    let (city, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let view = city.view(&id).await.unwrap();
    let harness = view.spec.harness().unwrap().clone();
    let handle = view.session.unwrap().handle;
    city.pass(5 * SECOND).await;
    prompting::begin(&city.world, &view.spec, &harness, &handle);
    city.pass(5 * SECOND).await;
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(120 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
}

/// The terminal has taken a part of the prompt, and takes the rest when its program reads.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_program_has_not_read_yet_is_not_typed_again_after_a_restart() {
    let (city, charged) = started(stdin, LOGIN).await;
    city.parts.sessions.clog(&charged.session, true);
    city.parts.sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    let city = restarted(city, stdin).await;
    city.pass(60 * SECOND).await;
    city.parts.sessions.clog(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    assert!(is_ended(&city, &charged));
}

/// The program's hooks report that a prompt was submitted.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_a_person_submits_is_not_typed_again() {
    let city = Scenario::new().with(pastes).start().await;
    let charged = pasted(&city).await;
    let sessions = &city.parts.sessions;
    let handle = handle(&city, &charged).await;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&in_line(&city, &charged)));
    city.pass(5 * SECOND).await;
    assert!(conditions::report(&city.world, &handle, &Report::Begins));
    sessions.show(&charged.session, Some("> "));
    sessions.set_attached(&charged.session, false);
    city.pass(60 * SECOND).await;
    assert_eq!((typed(&city, &charged), enters(&city, &charged)), (1, 0));
    let owed = sessions.get_meta(&charged.session, OWED).unwrap();
    assert_eq!(owed.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_stands_in_the_input_line_is_submitted_after_a_restart() {
    let city = Scenario::new().with(pastes).start().await;
    let charged = pasted(&city).await;
    let line = in_line(&city, &charged);
    let city = restarted(city, pastes).await;
    city.parts.sessions.show(&charged.session, Some(&line));
    city.pass(60 * SECOND).await;
    assert_eq!((typed(&city, &charged), enters(&city, &charged)), (1, 1));
}

/// A full disk: hours later the next supervisor would find the whole prompt pending, and type it into the work.
#[tokio::test(start_paused = true)]
async fn it_is_written_down_that_the_first_prompt_was_typed_once_that_can_be_written() {
    let (city, charged) = started(pastes, LOGIN).await;
    let sessions = &city.parts.sessions;
    sessions.refuse_meta(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    city.pass(60 * SECOND).await;
    assert_eq!(typed(&city, &charged), 1);
    sessions.refuse_meta(&charged.session, false);
    city.pass(60 * SECOND).await;
    let owed = sessions.get_meta(&charged.session, OWED).unwrap();
    assert_eq!(owed.as_deref(), Some(""));
    assert_eq!(typed(&city, &charged), 1);
}

/// An end of input would end a person's line, or answer a dialog.
#[tokio::test(start_paused = true)]
async fn end_of_input_waits_for_a_person_for_their_line_and_for_a_dialog() {
    let (city, charged) = started(stdin, LOGIN).await;
    let of = handle(&city, &charged).await;
    let end = END_OF_INPUT.to_string();
    let sessions = &city.parts.sessions;
    sessions.set_meta(&of, OWED, &end).unwrap();
    let city = restarted(city, stdin).await;
    let sessions = &city.parts.sessions;
    city.pass(40 * SECOND).await;
    assert!(!is_ended(&city, &charged), "at the login");
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some("reading"));
    city.pass(40 * SECOND).await;
    assert!(!is_ended(&city, &charged), "a person is attached");
    sessions.begin_line(&charged.session, Some(city.world.clock.now()));
    sessions.set_attached(&charged.session, false);
    city.pass(40 * SECOND).await;
    assert!(!is_ended(&city, &charged), "their line stands there");
    sessions.begin_line(&charged.session, None);
    city.pass(40 * SECOND).await;
    assert!(is_ended(&city, &charged));
    assert_eq!(typed(&city, &charged), 0);
}
