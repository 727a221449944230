//! What every provider of sessions must do. Each function is one test; the macro
//! `sessions_conformance!` makes a module of them for one provider.

pub mod lives;
pub mod talks;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::domain::facts::{RunState, SessionExit, SessionFacts};
use crate::domain::ids::{Generation, Incarnation, SessionId};
use crate::ports::sessions::{SessionEvent, SessionHandle, SessionSpec, Sessions, Started};
use crate::testing::eventually;

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
    /// Prints its terminal's size as `<rows> <cols>`, now and at each change.
    NotesSize,
}

/// A provider under test, and the world it needs.
pub trait Bench {
    /// The provider.
    fn sessions(&self) -> Arc<dyn Sessions>;
    /// A provider in a new daemon after the first one died.
    fn successor(&self) -> Arc<dyn Sessions>;
    /// How this provider runs the program.
    fn argv(&self, program: &Program) -> Vec<String>;
    /// A directory that is there.
    fn cwd(&self) -> PathBuf;
}

/// Makes one test per function of the suite. The expression makes a [`Bench`].
#[macro_export]
macro_rules! sessions_conformance {
    ($bench:expr) => {
        $crate::sessions_conformance!(
            $bench, lives,
            an_exit_code_is_recorded_and_announced_once,
            a_deadly_signal_is_recorded,
            what_cannot_start_says_why_and_leaves_nothing,
            a_failed_start_keeps_the_record_of_the_session_before,
            a_running_session_is_not_started_twice,
            a_stop_within_the_grace_is_graceful,
            a_stop_that_is_ignored_kills,
            zero_grace_kills_at_once,
            a_handle_never_acts_on_a_successor,
            a_living_session_is_not_forgotten,
            a_new_daemon_takes_over_what_runs,
            what_was_never_started_is_unknown_to_all
        );
        $crate::sessions_conformance!(
            $bench, talks,
            the_environment_is_exactly_the_given_one,
            what_the_starter_gave_is_given_back,
            facts_kept_with_a_session_can_be_changed,
            the_screen_can_be_looked_at,
            the_log_outlives_the_session_and_its_record,
            a_text_reaches_the_program,
            the_first_input_is_typed,
            the_interrupt_key_reaches_the_program,
            the_size_can_be_changed
        );
    };
    ($bench:expr, $part:ident, $($name:ident),+) => {
        $(
            #[test]
            fn $name() {
                $crate::testing::conformance::sessions::$part::$name(&$bench);
            }
        )+
    };
}

/// A session's id.
///
/// # Panics
/// The text is none.
#[must_use]
pub fn id(text: &str) -> SessionId {
    SessionId::new(text).expect("a valid session id")
}

/// A plain way to start this program under this id.
#[must_use]
pub fn spec(bench: &dyn Bench, name: &str, program: &Program) -> SessionSpec {
    SessionSpec {
        id: id(name),
        generation: Generation(1),
        incarnation: Incarnation(0),
        argv: bench.argv(program),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
        cwd: bench.cwd(),
        first_input: None,
        output_limit: 1024 * 1024,
        meta: BTreeMap::new(),
    }
}

/// Listens to a provider.
pub fn hear(sessions: &dyn Sessions) -> Receiver<SessionEvent> {
    let (sender, receiver) = channel();
    let sender = std::sync::Mutex::new(sender);
    sessions.listen(Box::new(move |event| {
        // A test that is over hears nothing more.
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
