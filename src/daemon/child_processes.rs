//! Ends the daemon's own child processes: git, gates, set-up commands. Only sessions outlive the daemon, in the care of
//! their holders.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::runtime::Runtime;

use crate::adapters::proc::{self, Pidfd};
use crate::adapters::sessions::is_holder;

/// The time between TERM, at which git removes its locks, and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// The time that blocking work, and then its child processes, may hold up the end of the process.
const LAST_WORK: Duration = Duration::from_secs(5);
/// The pause between two looks for new child processes.
const TURN: Duration = Duration::from_millis(50);

/// Shuts the runtime down and ends the processes that its blocking work has started. Unfinished work was fenced or is
/// idempotent: the next start resumes it. Returns the processes that do not end.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in real time"
)]
pub(super) fn end(runtime: Runtime) -> Vec<u32> {
    adopt_orphans();
    let begun = Instant::now();
    let (done, waits) = mpsc::channel::<()>();
    let ending = thread::spawn(move || {
        while waits.recv_timeout(TURN) == Err(mpsc::RecvTimeoutError::Timeout) {
            signal(begun);
        }
    });
    signal(begun);
    runtime.shutdown_timeout(LAST_WORK);
    drop(done);
    // A panic there was logged, and the code below catches up.
    let _panicked = ending.join();
    let last = Instant::now() + LAST_WORK;
    while signal(begun) && Instant::now() < last {
        thread::sleep(TURN);
    }
    let left = proc::descendants_but(std::process::id(), is_holder).unwrap_or_default();
    left.into_iter().map(|process| process.pid).collect()
}

/// Kills the processes of blocking work at once, because the directories that they work in are not the city's any more.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in real time"
)]
pub(super) fn kill() {
    adopt_orphans();
    let last = Instant::now() + GRACE;
    while send(Signal::KILL) && Instant::now() < last {
        thread::sleep(TURN);
    }
}

/// Makes orphans of a child of ours our children.
fn adopt_orphans() {
    let own = rustix::process::getpid();
    if let Err(error) = rustix::process::set_child_subreaper(Some(own)) {
        tracing::warn!(%error, "the supervisor could not be made the subreaper of its processes; orphans of blocking work may outlive it");
    }
}

fn signal(begun: Instant) -> bool {
    send(match begun.elapsed() < GRACE {
        true => Signal::TERM,
        false => Signal::KILL,
    })
}

/// Signals every process below this one except for holders and their agents. Returns whether there was any.
fn send(signal: Signal) -> bool {
    let Ok(own) = proc::descendants_but(std::process::id(), is_holder) else {
        // The processes cannot be listed, so some may be left.
        return true;
    };
    for process in &own {
        // A process that is gone or cannot be reached needs no signal.
        if let Ok(Some(process)) = Pidfd::open(process) {
            let _gone = process.signal(signal);
        }
    }
    !own.is_empty()
}
