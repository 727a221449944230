//! Starting sessions through holders: a detached process with a terminal each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use horde_supervisor::adapters::sessions::LocalSessions;
use horde_supervisor::domain::ids::{Generation, Incarnation, SessionId};
use horde_supervisor::ports::sessions::{SessionSpec, Sessions};

use crate::{FEW, sample};

/// The number of starts at once: as many as the daemon allows by default.
const AT_ONCE: usize = 16;

/// Starts a session of `sh`, a hundred, a thousand.
pub fn start() {
    let dir = tempfile::tempdir().expect("a directory");
    let exe = PathBuf::from(env!("CARGO_BIN_EXE_horde-session"));
    let sessions = LocalSessions::new(dir.path().join("sessions"), exe, "").expect("a provider");
    for count in [1, 100, 1000] {
        let specs: Vec<_> = (0..count).map(|n| spec(dir.path(), n)).collect();
        let name = format!("sessions: start of {count}");
        sample(&name, FEW, || once(&sessions, &specs));
    }
}

/// Starts all of them, at most so many at once, and ends them outside the measured time.
fn once(sessions: &LocalSessions, specs: &[SessionSpec]) -> Duration {
    let begun = Instant::now();
    thread::scope(|scope| {
        for share in specs.chunks(specs.len().div_ceil(AT_ONCE)) {
            scope.spawn(move || {
                for spec in share {
                    sessions.start(spec).expect("it starts");
                }
            });
        }
    });
    let took = begun.elapsed();
    for spec in specs {
        let running = sessions.adopt(&spec.id).expect("it runs");
        let stopped = sessions.stop(&running.handle, Duration::ZERO);
        stopped.expect("it ends");
        sessions.forget(&spec.id).expect("it can be forgotten");
    }
    took
}

fn spec(dir: &Path, number: usize) -> SessionSpec {
    SessionSpec {
        id: SessionId::new(format!("numbers-{number}")).expect("a session's id"),
        generation: Generation(1),
        incarnation: Incarnation(0),
        argv: vec!["sh".to_owned()],
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: dir.to_owned(),
        output_limit: 1024 * 1024,
        meta: BTreeMap::new(),
    }
}
