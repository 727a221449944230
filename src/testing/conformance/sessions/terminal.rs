//! The conformance suite for terminals: screen, log, input, size.

use std::time::Duration;

use jiff::Timestamp;

use super::{Bench, Program, await_screen, facts, finish, id, spec, start};
use crate::domain::facts::RunState;
use crate::ports::sessions::{Input, SessionError, SessionHandle};
use crate::testing::eventually;

/// The screen shows the program's output, with its time.
pub fn the_screen_can_be_looked_at(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let program = Program::Prints("hello\nworld".to_owned());
    let first = start(&*sessions, &spec(bench, "s", &program));
    let screen = await_screen(&*sessions, &first.handle, "world");
    assert_eq!(screen, "hello\nworld");
    let facts = facts(&*sessions, &id("s"));
    assert!(facts.last_activity.is_some_and(|at| at >= facts.started_at));
    assert!(facts.last_output.is_some());
    finish(&*sessions, &first.handle);
}

/// A session's processor time can be read while it runs, and does not become less.
pub fn processor_time_is_counted_while_it_runs(bench: &dyn Bench) {
    let sessions = bench.sessions();
    assert_eq!(sessions.cpu(&id("s")), None);
    let first = start(&*sessions, &spec(bench, "s", &Program::Echoes));
    let before = sessions.cpu(&id("s")).expect("it runs");
    let input = Input::Submit("hello".to_owned());
    sessions.send(&first.handle, &input).expect("it is typed");
    await_screen(&*sessions, &first.handle, "got hello");
    let after = sessions.cpu(&id("s")).expect("it runs");
    assert!(after >= before, "{after:?} {before:?}");
    finish(&*sessions, &first.handle);
    assert_eq!(sessions.cpu(&id("s")), None);
}

/// The log exists after the end, continues with the next session, and is cut from the front.
pub fn the_log_outlives_the_session_and_its_record(bench: &dyn Bench) {
    let sessions = bench.sessions();
    for text in ["first", "second"] {
        let program = Program::Prints(text.to_owned());
        let started = start(&*sessions, &spec(bench, "s", &program));
        await_screen(&*sessions, &started.handle, text);
        finish(&*sessions, &started.handle);
    }
    sessions.forget(&id("s")).expect("it has ended");
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    let log = |bytes| {
        let log = sessions.logs(&id("s"), bytes).expect("there is a log");
        String::from_utf8(log).expect("it is text")
    };
    let all = log(100_000);
    let (one, two) = (all.find("first"), all.find("second"));
    assert!(one.is_some() && one < two, "{all:?}");
    assert_eq!(log(5), all[all.len() - 5..]);
}

/// A submitted text arrives as one line, also with special characters.
pub fn a_text_reaches_the_program(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::Echoes));
    for text in ["hello", "grüße; Enter C-c 'x'"] {
        let input = Input::Submit(text.to_owned());
        sessions.send(&first.handle, &input).expect("it is typed");
        await_screen(&*sessions, &first.handle, &format!("got {text}"));
    }
    let raw = Input::Raw(b"raw\r".to_vec());
    sessions.send(&first.handle, &raw).expect("it is typed");
    await_screen(&*sessions, &first.handle, "got raw");
    finish(&*sessions, &first.handle);
}

/// The interrupt key interrupts and does not end.
pub fn the_interrupt_key_reaches_the_program(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::NotesInterrupts));
    await_screen(&*sessions, &first.handle, "ready");
    sessions
        .interrupt(&first.handle)
        .expect("the key is pressed");
    await_screen(&*sessions, &first.handle, "interrupted");
    assert_eq!(facts(&*sessions, &id("s")).state, RunState::Running);
    finish(&*sessions, &first.handle);
}

/// Logs of a living session stay at any age; so do those of a session that ended later.
pub fn logs_go_when_their_session_ended_long_ago(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let prints = Program::Prints("hello".to_owned());
    let first = start(&*sessions, &spec(bench, "s", &prints));
    await_screen(&*sessions, &first.handle, "hello");
    let later = Timestamp::now() + Duration::from_secs(24 * 3600);
    let log = || sessions.logs(&id("s"), 100).expect("it can be read");
    assert_eq!(sessions.prune_logs(later), Ok(0));
    // Output on the screen may still be on its way to the log.
    eventually("what it printed is in the log", || {
        (!log().is_empty()).then_some(())
    });
    finish(&*sessions, &first.handle);
    let earlier = Timestamp::now() - Duration::from_secs(3600);
    assert_eq!(sessions.prune_logs(earlier), Ok(0));
    assert!(!log().is_empty(), "it has just ended");
    assert_eq!(sessions.prune_logs(later), Ok(1));
    assert_eq!((log(), sessions.prune_logs(later)), (vec![], Ok(0)));
    // The record, and with it the next generation, is not affected.
    assert!(sessions.facts(&id("s")).expect("it can be seen").is_some());
    let again = start(&*sessions, &spec(bench, "s", &prints));
    await_screen(&*sessions, &again.handle, "hello");
    finish(&*sessions, &again.handle);
    assert_eq!(sessions.forget(&id("s")), Ok(()));
    assert_eq!(sessions.prune_logs(later), Ok(1));
}

/// Weakness W24 of an earlier system: a session was addressed by the beginning of its name, so that the end of one
/// could end another, and values of the environment were not quoted.
pub fn session_whose_name_begins_with_that_of_another_is_left_alone(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let longer = start(&*sessions, &spec(bench, "demo-a", &Program::Echoes));
    let gone = SessionError::Gone(id("demo"));
    let absent = SessionHandle {
        id: id("demo"),
        token: longer.handle.token.clone(),
    };
    assert_eq!(sessions.facts(&id("demo")), Ok(None));
    assert_eq!(sessions.adopt(&id("demo")), Err(gone.clone()));
    assert_eq!(sessions.peek(&absent), Err(gone));
    let text = Input::Submit("for another".to_owned());
    assert!(sessions.send(&absent, &text).is_err());
    let _none = sessions.stop(&absent, Duration::ZERO);
    let shorter = start(&*sessions, &spec(bench, "demo", &Program::Echoes));
    finish(&*sessions, &shorter.handle);
    let text = Input::Submit("still here".to_owned());
    sessions.send(&longer.handle, &text).expect("it runs on");
    let screen = await_screen(&*sessions, &longer.handle, "got still here");
    assert!(!screen.contains("for another"), "{screen}");
    finish(&*sessions, &longer.handle);
}
