//! Tests that need real sessions: processes, signals, files, sockets. They run with a detached holder and with a holder
//! in a tmux pane.

/// Makes two tests of each function: with detached holders, and on tmux.
macro_rules! on_both {
    ($($name:ident),+) => {
        mod in_a_holder {
            $(
                #[test]
                fn $name() {
                    super::$name(&super::LocalBench::new(super::Provider::Holder));
                }
            )+
        }
        mod in_tmux {
            $(
                #[test]
                fn $name() {
                    if let Some(bench) = super::LocalBench::on_tmux() {
                        super::$name(&bench);
                    }
                }
            )+
        }
    };
}

mod attach;
mod endings;
mod forged;
mod programs;
mod robustness;
mod tmux;

use std::fs;
use std::path::Path;
use std::time::Duration;

use horde_supervisor::adapters::proc::{self, Pidfd};
use horde_supervisor::domain::facts::{ProcessId, RunState};
use horde_supervisor::domain::ids::SessionId;
use horde_supervisor::ports::sessions::{SessionSpec, Sessions, Started};
use horde_supervisor::testing::conformance::sessions::{Program, id, spec};
use horde_supervisor::testing::eventually;

use super::{LocalBench, Provider};

/// Returns the spec of a session `s` that runs this script.
fn script(bench: &LocalBench, script: &str) -> SessionSpec {
    let mut spec = spec(bench, "s", &Program::Prints(String::new()));
    spec.argv = vec!["sh".to_owned(), "-c".to_owned(), script.to_owned()];
    spec
}

/// Returns the processes that carry the mark of this session.
fn marked(started: &Started) -> Vec<ProcessId> {
    let all = proc::all().unwrap().into_iter();
    all.filter(|(pid, stat)| {
        stat.lives()
            && proc::environment_text(*pid, "HD_SESSION_TOKEN").as_ref()
                == Some(&started.handle.token)
    })
    .map(|(pid, stat)| ProcessId {
        pid,
        started: stat.started,
    })
    .collect()
}

fn kill(process: &ProcessId) {
    let pidfd = Pidfd::open(process).unwrap().expect("it lives");
    pidfd.signal(rustix::process::Signal::KILL).unwrap();
    assert!(pidfd.wait(Duration::from_secs(30)).unwrap());
}

fn state(sessions: &dyn Sessions, id: &SessionId) -> RunState {
    sessions.facts(id).unwrap().expect("a trace").state
}

fn await_lost(sessions: &dyn Sessions) -> String {
    eventually("the loss of the session", || {
        match state(sessions, &id("s")) {
            RunState::Lost { why } => Some(why),
            _ => None,
        }
    })
}

fn await_file(path: &Path) -> String {
    eventually(&format!("{}", path.display()), || {
        fs::read_to_string(path)
            .ok()
            .filter(|text| text.ends_with('\n'))
    })
}
