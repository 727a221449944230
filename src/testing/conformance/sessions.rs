//! The conformance suite for providers of sessions. Each function is a test; the macro `sessions_conformance!` makes a
//! module of them for a provider.

mod terminal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::ports::sessions::{
    Input, Membership, SessionError, SessionEvent, SessionHandle, SessionSpec, Sessions,
    StartError, Started, Stopped,
};
use crate::testing::{PATIENCE, eventually};

pub use self::terminal::{
    a_text_reaches_the_program, logs_go_when_their_session_ended_long_ago,
    processor_time_is_counted_while_it_runs,
    session_whose_name_begins_with_that_of_another_is_left_alone,
    the_interrupt_key_reaches_the_program, the_log_outlives_the_session_and_its_record,
    the_screen_can_be_looked_at,
};

/// A program that every provider under test can run in its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Prints the text and runs until it is ended.
    Prints(String),
    /// Exits with the code.
    Exits(i32),
    /// Dies of the signal.
    DiesOf(i32),
    /// Prints its environment, one `KEY=value` per line, and exits.
    PrintsEnvironment,
    /// Prints `got <line>` for each line it is sent.
    Echoes,
    /// Prints `ready`, ignores TERM and runs until it is killed.
    IgnoresTerm,
    /// Prints `ready`, then `interrupted` when the interrupt key is pressed.
    NotesInterrupts,
    /// Has an interpreter run the script `the-agent`, ends that when it is sent a line, prints `hollow`, and runs on.
    Wraps,
}

/// A provider under test, and its world.
pub trait Bench {
    /// Returns the provider.
    fn sessions(&self) -> Arc<dyn Sessions>;
    /// Returns a provider in a new daemon, after the first one died.
    fn successor(&self) -> Arc<dyn Sessions>;
    /// Returns the command by which this provider runs the program.
    fn argv(&self, program: &Program) -> Vec<String>;
    /// Returns an existing directory.
    fn cwd(&self) -> PathBuf;
}

/// Makes one test per function of the suite. The expression makes a [`Bench`].
#[macro_export]
macro_rules! sessions_conformance {
    ($bench:expr) => {
        $crate::sessions_conformance!(
            $bench,
            an_exit_code_is_recorded_and_announced_once,
            a_deadly_signal_is_recorded,
            failed_start_gives_its_reason_and_leaves_nothing,
            a_failed_start_keeps_the_record_of_the_session_before,
            a_running_session_is_not_started_twice,
            the_environment_is_exactly_the_given_one,
            values_of_the_start_come_back_from_list_and_facts,
            facts_kept_with_a_session_can_be_changed,
            a_stop_within_the_grace_is_graceful,
            a_stop_that_is_ignored_kills,
            zero_grace_kills_at_once,
            a_handle_never_acts_on_a_successor,
            the_screen_can_be_looked_at,
            logs_go_when_their_session_ended_long_ago,
            processor_time_is_counted_while_it_runs,
            the_log_outlives_the_session_and_its_record,
            a_text_reaches_the_program,
            the_interrupt_key_reaches_the_program,
            an_agent_is_known_by_its_name,
            a_living_session_is_not_forgotten,
            new_daemon_adopts_running_sessions,
            session_that_was_never_started_is_unknown_to_every_operation,
            session_whose_name_begins_with_that_of_another_is_left_alone
        );
    };
    ($bench:expr, $($name:ident),+) => {
        $(
            #[test]
            fn $name() {
                $crate::testing::conformance::sessions::$name(&$bench);
            }
        )+
    };
}

/// Returns a session's id.
///
/// # Panics
/// The text is no valid id.
#[must_use]
pub fn id(text: &str) -> SessionId {
    SessionId::new(text).expect("a valid session id")
}

/// Returns a plain spec of this program under this id.
#[must_use]
pub fn spec(bench: &dyn Bench, name: &str, program: &Program) -> SessionSpec {
    SessionSpec {
        id: id(name),
        generation: Generation(1),
        incarnation: Incarnation(0),
        argv: bench.argv(program),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        cwd: bench.cwd(),
        output_limit: 1024 * 1024,
        meta: BTreeMap::new(),
    }
}

/// Listens to a provider.
pub fn hear(sessions: &dyn Sessions) -> Receiver<SessionEvent> {
    let (sender, receiver) = channel();
    let sender = std::sync::Mutex::new(sender);
    sessions.listen(Box::new(move |event| {
        // A test that has ended receives nothing more.
        let _over = sender.lock().map(|sender| sender.send(event));
    }));
    receiver
}

fn start(sessions: &dyn Sessions, spec: &SessionSpec) -> Started {
    sessions.start(spec).expect("it starts")
}

fn facts(sessions: &dyn Sessions, id: &SessionId) -> SessionFacts {
    let facts = sessions.facts(id).expect("it can be looked at");
    facts.expect("there is a trace of it")
}

fn ended(sessions: &dyn Sessions, id: &SessionId) -> SessionExit {
    eventually("the end of the session", || {
        match facts(sessions, id).state {
            RunState::Exited(exit) => Some(exit),
            _ => None,
        }
    })
}

/// Waits until the screen contains the text.
pub fn await_screen(sessions: &dyn Sessions, handle: &SessionHandle, text: &str) -> String {
    let mut last = String::new();
    eventually(&format!("{text:?} on the screen"), || {
        last = sessions.peek(handle).expect("it can be peeked at");
        last.contains(text).then(|| last.clone())
    })
}

fn finish(sessions: &dyn Sessions, handle: &SessionHandle) {
    sessions
        .stop(handle, Duration::ZERO)
        .expect("it can be ended");
}

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

/// A death by a signal is told from an exit code.
pub fn a_deadly_signal_is_recorded(bench: &dyn Bench) {
    let sessions = bench.sessions();
    start(&*sessions, &spec(bench, "s", &Program::DiesOf(9)));
    let exit = ended(&*sessions, &id("s"));
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
}

/// A missing directory or program gives a typed error, and no session.
pub fn failed_start_gives_its_reason_and_leaves_nothing(bench: &dyn Bench) {
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
        assert!(program.is_empty() || sessions.finds(program, "/bin") == Ok(false));
        let error = sessions.start(&bad).expect_err("there is no program");
        assert!(
            matches!(&error, StartError::NoProgram { program: named, .. } if named == program),
            "{error}"
        );
    }
    assert_eq!(sessions.finds(&good.argv[0], &good.env["PATH"]), Ok(true));
    // A path that the system refuses to search proves nothing about the program.
    let unseen = sessions.finds(&format!("/is-not-seen{}", "/x".repeat(5000)), "/bin");
    assert!(unseen.is_err());
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    assert_eq!(sessions.list(), Ok(vec![]));
    finish(&*sessions, &start(&*sessions, &good).handle);
}

/// No program ran, so the record of the session before stays true.
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

/// No variable is inherited; only the session's mark is added.
/// Weakness W24 of an earlier system: a session was addressed by the beginning of its name, so that the end of one
/// could end another, and values of the environment were not quoted.
pub fn the_environment_is_exactly_the_given_one(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let mut spec = spec(bench, "s", &Program::PrintsEnvironment);
    spec.env.insert("EMPTY".to_owned(), String::new());
    spec.env.insert("ODD".to_owned(), "a=b c\"$X'".to_owned());
    start(&*sessions, &spec);
    ended(&*sessions, &spec.id);
    let log = sessions.logs(&spec.id, 100_000).expect("there is a log");
    let log = String::from_utf8(log).expect("it is text");
    let seen: BTreeMap<_, _> = log
        .lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(key, _)| *key != "HD_SESSION_TOKEN")
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(seen, spec.env);
}

/// Generation, incarnation and kept facts come back from `list` and `facts`.
pub fn values_of_the_start_come_back_from_list_and_facts(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let mut one = spec(bench, "one", &Program::Prints(String::new()));
    (one.generation, one.incarnation) = (Generation(4), Incarnation(2));
    one.meta.insert("relic".to_owned(), "gt-1".to_owned());
    let before = jiff::Timestamp::now();
    let first = start(&*sessions, &one);
    let second = start(&*sessions, &spec(bench, "two", &Program::Exits(0)));
    ended(&*sessions, &id("two"));
    let mut list = sessions.list().expect("it can be listed");
    list.sort_by_key(|facts| facts.id.clone());
    let [one, two] = list.as_slice() else {
        panic!("not two sessions: {list:?}");
    };
    assert_eq!(one.state, RunState::Running);
    assert_eq!(
        (one.generation, one.incarnation),
        (Generation(4), Incarnation(2))
    );
    assert_eq!(first.generation, Generation(4));
    assert_eq!(one.agent.as_ref(), Some(&first.agent));
    assert_eq!(
        (one.holder.clone(), one.attached),
        (first.holder.clone(), false)
    );
    assert!(one.started_at >= before && one.started_at <= jiff::Timestamp::now());
    assert_eq!(two.token, second.handle.token);
    assert!(matches!(two.state, RunState::Exited(_)));
    assert_eq!(sessions.facts(&one.id), Ok(Some(one.clone())));
    let kept = sessions.get_meta(&id("one"), "relic");
    assert_eq!(kept, Ok(Some("gt-1".to_owned())));
    finish(&*sessions, &first.handle);
}

/// Kept facts change while the session runs, and end with it.
pub fn facts_kept_with_a_session_can_be_changed(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let spec = spec(bench, "s", &Program::Prints(String::new()));
    let first = start(&*sessions, &spec);
    assert_eq!(sessions.get_meta(&spec.id, "k"), Ok(None));
    for value in ["a", "b\n\"ü\""] {
        sessions.set_meta(&first.handle, "k", value).expect("kept");
        assert_eq!(sessions.get_meta(&spec.id, "k"), Ok(Some(value.to_owned())));
    }
    finish(&*sessions, &first.handle);
    let second = start(&*sessions, &spec);
    assert_eq!(
        sessions.get_meta(&spec.id, "k"),
        Ok(None),
        "another session's"
    );
    finish(&*sessions, &second.handle);
}

/// TERM ends most programs.
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

/// KILL ends a program that ignores TERM.
pub fn a_stop_that_is_ignored_kills(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::IgnoresTerm));
    await_screen(&*sessions, &first.handle, "ready");
    let grace = Duration::from_millis(100);
    assert_eq!(sessions.stop(&first.handle, grace), Ok(Stopped::Killed));
    assert_eq!(ended(&*sessions, &id("s")).signal, Some(9));
}

/// A zero grace sends no TERM at all.
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

/// A name alone gives no power over the session that has it now.
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
    assert_eq!(sessions.attach(&old), Err(gone.clone()));
    assert_eq!(sessions.set_meta(&old, "k", "v"), Err(gone));
    assert_eq!(facts(&*sessions, &spec.id).state, RunState::Running);
    finish(&*sessions, &new);
}

/// An agent is found by its name, also below the started program; after the end nothing is reported.
pub fn an_agent_is_known_by_its_name(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let first = start(&*sessions, &spec(bench, "s", &Program::Wraps));
    let lives = |named: &[&str]| {
        let names = named.iter().map(|&name| name.to_owned()).collect();
        let asked = [(id("t"), Vec::new()), (id("s"), names)];
        let lives = sessions.agents_live(&asked);
        assert_eq!((lives.len(), lives[0]), (2, None), "the first is not there");
        lives[1]
    };
    // The interpreter takes a moment to become the agent.
    eventually("the agent", || lives(&["the-agent"])?.then_some(()));
    assert_eq!(lives(&["other", "the-agent"]), Some(true), "any of them");
    assert_eq!(lives(&["other"]), Some(false));
    assert_eq!(lives(&[]), Some(true), "what was started");
    let line = Input::Submit("end it".to_owned());
    sessions.send(&first.handle, &line).expect("it is typed");
    await_screen(&*sessions, &first.handle, "hollow");
    assert_eq!(lives(&["the-agent"]), Some(false), "a shell is left");
    assert_eq!(lives(&[]), Some(true), "what was started");
    finish(&*sessions, &first.handle);
    assert_eq!(lives(&["the-agent"]), None, "it has ended");
}

/// A living session is not forgotten; a missing one is forgotten already.
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

/// Sessions outlive the daemon; the next one finds them, acts on them and is told of their end.
pub fn new_daemon_adopts_running_sessions(bench: &dyn Bench) {
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
    assert_eq!(
        sessions.membership(first.agent.pid).session(),
        Some(id("s"))
    );
    finish(&*sessions, &first.handle);
    let event = events.recv_timeout(PATIENCE).expect("the end is announced");
    assert!(matches!(event, SessionEvent::Exited(handle, _) if handle == first.handle));
    assert!(events.try_recv().is_err(), "announced twice");
}

/// Questions about an unknown session are answered, not failed.
pub fn session_that_was_never_started_is_unknown_to_every_operation(bench: &dyn Bench) {
    let sessions = bench.sessions();
    let gone = SessionError::Gone(id("s"));
    assert_eq!(sessions.facts(&id("s")), Ok(None));
    assert_eq!(sessions.adopt(&id("s")), Err(gone.clone()));
    assert_eq!(sessions.get_meta(&id("s"), "k"), Ok(None));
    assert_eq!(sessions.logs(&id("s"), 10), Ok(vec![]));
    assert_eq!(sessions.membership(std::process::id()), Membership::Unowned);
    let handle = SessionHandle {
        id: id("s"),
        token: "t".to_owned(),
    };
    assert_eq!(sessions.peek(&handle), Err(gone.clone()));
    assert_eq!(sessions.attach(&handle), Err(gone));
}
