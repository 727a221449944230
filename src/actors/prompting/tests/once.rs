//! A first prompt is typed once, in all circumstances.

use super::*;
use crate::actors::prompting;

const DIALOG: &str = "Allow?\n❯ 1. Yes\n  2. No\nEnter to select · Esc to cancel";

/// Returns the number of Enter keys, without pastes.
pub(super) fn enters(town: &Town, charged: &Charged) -> usize {
    let sent = town.parts.sessions.sent(&charged.session);
    let enter = Input::Raw(b"\r".to_vec());
    sent.iter().filter(|input| **input == enter).count()
}

/// Charges a raider whose first prompt was pasted, and not submitted because a dialog opened before its Enter.
pub(super) async fn pasted(town: &Town) -> Charged {
    let charged = raider(town, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.reads_keys(&charged.session);
    sessions.show(&charged.session, Some("> "));
    let opens = async {
        while typed(town, &charged) == 0 {
            town.pass(Duration::from_millis(10)).await;
        }
        sessions.show(&charged.session, Some(DIALOG));
    };
    tokio::time::timeout(20 * SECOND, opens).await.unwrap();
    town.pass(10 * SECOND).await;
    assert_eq!((typed(town, &charged), enters(town, &charged)), (1, 0));
    charged
}

/// Returns the end of the prompt as it stands in an input line.
pub(super) fn in_line(town: &Town, charged: &Charged) -> String {
    let sent = town.parts.sessions.sent(&charged.session);
    let Some(Input::Paste(text)) = sent.into_iter().next() else {
        panic!("nothing was pasted");
    };
    format!("> {text}")
}

/// The actor of its child panics, and the next one adopts the session.
#[tokio::test(start_paused = true)]
async fn first_prompt_is_typed_once_although_its_child_comes_up_again() {
    let (town, charged) = started(pastes, LOGIN).await;
    let id = ChildId::Raider(charged.raider.clone());
    let view = town.view(&id).await.unwrap();
    let harness = view.spec.harness().unwrap().clone();
    let handle = view.session.unwrap().handle;
    town.pass(5 * SECOND).await;
    prompting::begin(&town.world, &view.spec, &harness, &handle);
    town.pass(5 * SECOND).await;
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(120 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
}

/// The terminal has taken a part of the prompt, and takes the rest when its program reads.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_its_program_has_not_read_yet_is_not_typed_again_after_a_restart() {
    let (town, charged) = started(stdin, LOGIN).await;
    town.parts.sessions.clog(&charged.session, true);
    town.parts.sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    let town = restarted(town, stdin).await;
    town.pass(60 * SECOND).await;
    town.parts.sessions.clog(&charged.session, false);
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    assert!(is_ended(&town, &charged));
}

/// The program's hooks report that a prompt was submitted.
#[tokio::test(start_paused = true)]
async fn first_prompt_that_a_person_submits_is_not_typed_again() {
    let town = Scenario::new().with(pastes).start().await;
    let charged = pasted(&town).await;
    let sessions = &town.parts.sessions;
    let handle = handle(&town, &charged).await;
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some(&in_line(&town, &charged)));
    town.pass(5 * SECOND).await;
    assert!(conditions::report(&town.world, &handle, &Report::Begins));
    sessions.show(&charged.session, Some("> "));
    sessions.set_attached(&charged.session, false);
    town.pass(60 * SECOND).await;
    assert_eq!((typed(&town, &charged), enters(&town, &charged)), (1, 0));
    let owed = sessions.get_meta(&charged.session, OWED).unwrap();
    assert_eq!(owed.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn first_prompt_that_stands_in_the_input_line_is_submitted_after_a_restart() {
    let town = Scenario::new().with(pastes).start().await;
    let charged = pasted(&town).await;
    let line = in_line(&town, &charged);
    let town = restarted(town, pastes).await;
    town.parts.sessions.show(&charged.session, Some(&line));
    town.pass(60 * SECOND).await;
    assert_eq!((typed(&town, &charged), enters(&town, &charged)), (1, 1));
}

/// A full disk: hours later the next supervisor would find the whole prompt pending, and type it into the work.
#[tokio::test(start_paused = true)]
async fn it_is_written_down_that_the_first_prompt_was_typed_once_that_can_be_written() {
    let (town, charged) = started(pastes, LOGIN).await;
    let sessions = &town.parts.sessions;
    sessions.refuse_meta(&charged.session, true);
    sessions.show(&charged.session, Some("> "));
    town.pass(60 * SECOND).await;
    assert_eq!(typed(&town, &charged), 1);
    sessions.refuse_meta(&charged.session, false);
    town.pass(60 * SECOND).await;
    let owed = sessions.get_meta(&charged.session, OWED).unwrap();
    assert_eq!(owed.as_deref(), Some(""));
    assert_eq!(typed(&town, &charged), 1);
}

/// An end of input would end a person's line, or answer a dialog.
#[tokio::test(start_paused = true)]
async fn end_of_input_waits_for_a_person_for_their_line_and_for_a_dialog() {
    let (town, charged) = started(stdin, LOGIN).await;
    let of = handle(&town, &charged).await;
    let end = END_OF_INPUT.to_string();
    let sessions = &town.parts.sessions;
    sessions.set_meta(&of, OWED, &end).unwrap();
    let town = restarted(town, stdin).await;
    let sessions = &town.parts.sessions;
    town.pass(40 * SECOND).await;
    assert!(!is_ended(&town, &charged), "at the login");
    sessions.set_attached(&charged.session, true);
    sessions.show(&charged.session, Some("reading"));
    town.pass(40 * SECOND).await;
    assert!(!is_ended(&town, &charged), "a person is attached");
    sessions.begin_line(&charged.session, Some(town.world.clock.now()));
    sessions.set_attached(&charged.session, false);
    town.pass(40 * SECOND).await;
    assert!(!is_ended(&town, &charged), "their line stands there");
    sessions.begin_line(&charged.session, None);
    town.pass(40 * SECOND).await;
    assert!(is_ended(&town, &charged));
    assert_eq!(typed(&town, &charged), 0);
}
