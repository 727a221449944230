//! Starts, ends, and who may act on which session.

use std::time::Duration;

use super::{Bench, Program, await_screen, ended, facts, finish, hear, id, spec, start};
use crate::domain::facts::RunState;
use crate::ports::sessions::{
    Input, SessionError, SessionEvent, SessionHandle, StartError, Stopped,
};
use crate::testing::PATIENCE;

/// An exit code is recorded, listed, and announced exactly once.
pub fn an_exit_code_is_recorded_and_announced_once(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let events = hear(&*sessions);
    let began = jiff::Timestamp::now();
    let started = start(&*sessions, &spec(bench, "s", &Program::Exits(7)));
    let event = events.recv_timeout(PATIENCE).expect("the end is announced");
    let exit = ended(&*sessions, &id("s"));
    assert_eq!(event, SessionEvent::Exited(started.handle, exit.clone()));
    assert_eq!((exit.code, exit.signal), (Some(7), None));
    assert!(exit.at >= began && exit.at <= jiff::Timestamp::now());
    // A second announcement would come before that of a later session.
    let second = start(&*sessions, &spec(bench, "t", &Program::Exits(0)));
    let event = events.recv_timeout(PATIENCE).expect("the end is announced");
    assert!(matches!(event, SessionEvent::Exited(handle, _) if handle == second.handle));
    assert!(events.try_recv().is_err(), "announced twice");
}

/// A signal is told from an exit code.
pub fn a_deadly_signal_is_recorded(bench: &dyn Bench) {
    let sessions = bench.sessions();
    start(&*sessions, &spec(bench, "s", &Program::DiesOf(9)));
    let exit = ended(&*sessions, &id("s"));
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
}

/// No directory, no program: typed errors, and no session.
pub fn what_cannot_start_says_why_and_leaves_nothing(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let good = spec(bench, "s", &Program::Prints(String::new()));
    let mut bad = good.clone();
    bad.cwd = bench.cwd().join("is-not-there");
    assert_eq!(
        sessions.start(&bad),
        Err(StartError::NoCwd(bad.cwd.clone()))
    );
    for program in ["is-not-there", "/is-not-there/program", ""] {
        let mut bad = good.clone();
        bad.argv = vec![program.to_owned()];
        let error = sessions.start(&bad).expect_err("there is no program");
        assert!(
            matches!(&error, StartError::NoProgram { program: named, .. } if named == program),
            "{error}"
        );
    }
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    assert_eq!(sessions.list(), Ok(vec![]));
    finish(&*sessions, &start(&*sessions, &good).handle);
}

/// Nothing ran, so what is known of the session before stays true.
pub fn a_failed_start_keeps_the_record_of_the_session_before(bench: &dyn Bench) {
    let sessions = bench.sessions();
    start(&*sessions, &spec(bench, "s", &Program::Exits(3)));
    let before = ended(&*sessions, &id("s"));
    let mut bad = spec(bench, "s", &Program::Exits(0));
    bad.argv = vec!["is-not-there".to_owned()];
    sessions.start(&bad).expect_err("there is no program");
    assert_eq!(ended(&*sessions, &id("s")), before);
}

/// A second start of a running id is refused and changes nothing.
pub fn a_running_session_is_not_started_twice(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let spec = spec(bench, "s", &Program::Prints(String::new()));
    let first = start(&*sessions, &spec);
    assert_eq!(
        sessions.start(&spec),
        Err(StartError::Exists(spec.id.clone()))
    );
    let now = facts(&*sessions, &spec.id);
    assert_eq!(now.token, first.handle.token);
    assert_eq!(now.agent, Some(first.agent));
    finish(&*sessions, &first.handle);
}

/// TERM is enough for most.
pub fn a_stop_within_the_grace_is_graceful(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let events = hear(&*sessions);
    let first = start(
        &*sessions,
        &spec(bench, "s", &Program::Prints(String::new())),
    );
    assert_eq!(
        sessions.stop(&first.handle, PATIENCE),
        Ok(Stopped::Gracefully)
    );
    let exit = ended(&*sessions, &id("s"));
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
    assert_eq!(sessions.stop(&first.handle, PATIENCE), Ok(Stopped::Already));
    let event = events.recv_timeout(PATIENCE).expect("the end is announced");
    assert_eq!(event, SessionEvent::Exited(first.handle, exit));
}

/// KILL ends what TERM does not.
pub fn a_stop_that_is_ignored_kills(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::IgnoresTerm));
    await_screen(&*sessions, &first.handle, "ready");
    let grace = Duration::from_millis(100);
    assert_eq!(sessions.stop(&first.handle, grace), Ok(Stopped::Killed));
    assert_eq!(ended(&*sessions, &id("s")).signal, Some(9));
}

/// No TERM at all.
pub fn zero_grace_kills_at_once(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(
        &*sessions,
        &spec(bench, "s", &Program::Prints(String::new())),
    );
    assert_eq!(
        sessions.stop(&first.handle, Duration::ZERO),
        Ok(Stopped::Killed)
    );
    assert_eq!(ended(&*sessions, &id("s")).signal, Some(9));
}

/// The name alone gives no power over whoever has it now.
pub fn a_handle_never_acts_on_a_successor(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let spec = spec(bench, "s", &Program::Prints(String::new()));
    let old = start(&*sessions, &spec).handle;
    finish(&*sessions, &old);
    let gone = SessionError::Gone(spec.id.clone());
    assert_eq!(sessions.peek(&old), Err(gone.clone()), "it has ended");
    let new = start(&*sessions, &spec).handle;
    assert_ne!(old.token, new.token);
    let input = Input::Submit("x".to_owned());
    assert_eq!(sessions.stop(&old, Duration::ZERO), Err(gone.clone()));
    assert_eq!(sessions.send(&old, &input), Err(gone.clone()));
    assert_eq!(sessions.interrupt(&old), Err(gone.clone()));
    assert_eq!(sessions.peek(&old), Err(gone.clone()));
    assert_eq!(sessions.resize(&old, 30, 90), Err(gone.clone()));
    assert_eq!(sessions.attach(&old), Err(gone.clone()));
    assert_eq!(sessions.set_meta(&old, "k", "v"), Err(gone));
    assert_eq!(facts(&*sessions, &spec.id).state, RunState::Running);
    finish(&*sessions, &new);
}

/// What lives is not forgotten; what is not there is forgotten already.
pub fn a_living_session_is_not_forgotten(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(
        &*sessions,
        &spec(bench, "s", &Program::Prints(String::new())),
    );
    assert!(matches!(
        sessions.forget(&id("s")),
        Err(SessionError::Failed { .. })
    ));
    assert_eq!(facts(&*sessions, &id("s")).state, RunState::Running);
    finish(&*sessions, &first.handle);
    assert_eq!(sessions.forget(&id("s")), Ok(()));
    assert_eq!(sessions.forget(&id("s")), Ok(()));
    assert_eq!(sessions.list(), Ok(vec![]));
    assert_eq!(sessions.stop(&first.handle, PATIENCE), Ok(Stopped::Already));
}

/// Sessions outlive the daemon; the next one finds them, acts on them and hears of their end.
pub fn a_new_daemon_takes_over_what_runs(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::Echoes));
    start(&*sessions, &spec(bench, "t", &Program::Exits(5)));
    ended(&*sessions, &id("t"));
    drop(sessions);
    let sessions = bench.successor();
    let events = hear(&*sessions);
    assert_eq!(sessions.list().expect("it can be listed").len(), 2);
    let adopted = sessions.adopt(&id("s")).expect("it runs");
    assert_eq!(adopted, first);
    assert_eq!(sessions.adopt(&id("s")), Ok(first.clone()), "twice is once");
    assert_eq!(
        sessions.adopt(&id("t")),
        Err(SessionError::Gone(id("t"))),
        "it has ended"
    );
    let input = Input::Submit("still there".to_owned());
    sessions.send(&first.handle, &input).expect("it is typed");
    await_screen(&*sessions, &first.handle, "got still there");
    assert_eq!(sessions.session_of(first.agent.pid), Some(id("s")));
    finish(&*sessions, &first.handle);
    let event = events.recv_timeout(PATIENCE).expect("the end is announced");
    assert!(matches!(event, SessionEvent::Exited(handle, _) if handle == first.handle));
    assert!(events.try_recv().is_err(), "announced twice");
}

/// Questions about nothing are answered, not failed.
pub fn what_was_never_started_is_unknown_to_all(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let gone = SessionError::Gone(id("s"));
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    assert_eq!(sessions.adopt(&id("s")), Err(gone.clone()));
    assert_eq!(sessions.get_meta(&id("s"), "k"), Ok(None));
    assert_eq!(sessions.logs(&id("s"), 10), Ok(vec![]));
    assert_eq!(sessions.session_of(std::process::id()), None);
    let handle = SessionHandle {
        id: id("s"),
        token: "t".to_owned(),
    };
    assert_eq!(sessions.peek(&handle), Err(gone.clone()));
    assert_eq!(sessions.attach(&handle), Err(gone));
}
