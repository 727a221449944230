//! The holder process: `horde-session hold <directory>`, or `hold-pane <directory> <tmux>` inside
//! a tmux pane.
//!
//! A session has one such process with one thread, asleep while nothing happens. It owns the agent's terminal (or has
//! it from tmux). Apart from the end of the agent, only KILL ends it: the daemon may die, be upgraded and come back.
//!
//! ```text
//!   boot ──► Running ──agent ends────────────────────────────► ending ──► gone
//!              │                                                  ▲
//!              └─Stop(grace): TERM─► Stopping ──agent ends────────┤
//!                                       └─grace over: KILL────────┘
//! ```

mod agent;
mod boot;
mod cgroup;
mod ending;
mod events;
mod input;
mod log;
mod peer;
mod pty;
mod requests;
mod screen;
mod terminal;

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use nix::sys::signalfd::SignalFd;

use self::input::Input;
use self::log::Log;
use self::peer::Peer;
use self::terminal::Terminal;
use crate::adapters::sessions::files::SessionRecord;
use crate::adapters::sessions::launch::{COLS, ROWS};
use crate::adapters::sessions::tmux::{self, Pane};
use crate::domain::typed_line::TypedLine;

pub(in crate::adapters::sessions) use self::cgroup::{
    kill as kill_cgroup, remove as remove_cgroup,
};
pub(in crate::adapters::sessions) use self::log::tail as log_tail;
#[cfg(test)]
pub(crate) use self::screen::view_of;

/// Runs a holder to its end. Call this before the process has any other thread; `args` are those after `hold`.
#[must_use]
pub fn hold_main(args: &[OsString]) -> ExitCode {
    let [dir] = args else {
        eprintln!("usage: horde-session hold <session directory> (started by the supervisor)");
        return ExitCode::from(2);
    };
    let launch = match boot::read_launch() {
        Ok(launch) => launch,
        Err(error) => {
            eprintln!("horde-session hold: standard input has no session to start: {error}");
            return ExitCode::from(2);
        }
    };
    match boot::detach() {
        Ok(true) => {}
        Ok(false) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("horde-session hold: {error}");
            return ExitCode::FAILURE;
        }
    }
    bound_complaints();
    let terminal = || Terminal::open(ROWS, COLS);
    match boot::become_holder(Path::new(dir), launch, terminal, rustix::stdio::stdout()) {
        Some(holder) => holder.run(),
        None => ExitCode::FAILURE,
    }
}

/// Runs a holder inside a tmux pane to its end. Call this before the process has any other thread; `args` are those
/// after `hold-pane`.
#[must_use]
pub fn hold_pane_main(args: &[OsString]) -> ExitCode {
    let [dir, program] = args else {
        eprintln!("usage: horde-session hold-pane <session directory> <tmux>");
        return ExitCode::from(2);
    };
    let (launch, daemon) = match tmux::meet(Path::new(dir)) {
        Ok(met) => met,
        Err(error) => {
            eprintln!("horde-session hold-pane: the supervisor sent no session to start: {error}");
            return ExitCode::from(2);
        }
    };
    bound_complaints();
    let terminal = || Pane::take(Path::new(program)).map(Terminal::Pane);
    match boot::become_holder(Path::new(dir), launch, terminal, &daemon) {
        Some(holder) => holder.run(),
        None => ExitCode::FAILURE,
    }
}

/// Limits the panic messages. Standard error is a file: panics of the terminal model, which a program can cause, must
/// not fill the disk.
fn bound_complaints() {
    static LEFT: AtomicU32 = AtomicU32::new(16);
    std::panic::set_hook(Box::new(|info| {
        let more = |left: u32| left.checked_sub(1);
        if LEFT.fetch_update(Relaxed, Relaxed, more).is_ok() {
            complain(info);
        }
    }));
}

/// Writes an error to standard error, where people look for it. That is a file on a disk that may be full: then the
/// message is lost, but not the session (`eprintln` would panic).
fn complain(what: impl Display) {
    let _lost = writeln!(io::stderr(), "{what}");
}

/// A stop in progress.
#[derive(Debug, Clone, Copy)]
struct Stopping {
    /// The end of the grace period.
    kill_at: Instant,
    /// Set when KILL was sent.
    killed: bool,
}

/// The times of output that watching peers are told of.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    quiet_since: Option<Instant>,
    /// The time since which there is output that watching peers were not told of.
    unannounced_since: Option<Instant>,
}

/// The holder of a session.
struct Holder {
    state: SessionRecord,
    terminal: Terminal,
    log: Log,
    input: Input,
    activity: Activity,
    listener: UnixListener,
    signals: SignalFd,
    lock: File,
    peers: Vec<Peer>,
    next_peer: u64,
    /// The size to restore when the last client detaches.
    own_size: (u16, u16),
    /// Set when the marker of an attached client exists.
    marked: bool,
    stopping: Option<Stopping>,
    /// Set when the supervisor interrupted it, the first step of ending it: the agent did not end on its own.
    interrupted: bool,
    /// The time when a key that ends programs was typed last, by an attached person or by `hd send --keys`.
    ending_key: Option<Instant>,
    /// The time of the last input of an attached person.
    typed: Option<Instant>,
    /// The line that such a person has begun.
    begun: TypedLine,
    /// Set when the terminal was taken away.
    lost: bool,
}

impl Holder {
    fn new(
        state: SessionRecord,
        terminal: Terminal,
        listener: UnixListener,
        signals: SignalFd,
        lock: File,
        log: Log,
    ) -> Self {
        Self {
            state,
            own_size: terminal.size(),
            terminal,
            log,
            input: Input::default(),
            activity: Activity::default(),
            listener,
            signals,
            lock,
            peers: Vec::new(),
            next_peer: 0,
            marked: false,
            stopping: None,
            interrupted: false,
            ending_key: None,
            typed: None,
            begun: TypedLine::default(),
            lost: false,
        }
    }
}
