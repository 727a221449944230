//! The keeper process: `horde-session keep <command line>`. It has one thread, and sleeps while the command runs.
//!
//! ```text
//! block signals, subreaper ─▶ start the shell ──ends──────────────────────▶ KILL all below ─▶ report ─▶ end as it ended
//!                                   └─TERM─▶ TERM to its group ─ends, or─▶┘
//!                                                                grace over
//! ```
//!
//! The daemon may die meanwhile. The keeper and the command go on; the next daemon ends them
//! (`runs::end_leftovers`), the keeper last.

use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};

use super::{NOT_STARTED, Report, end_as};
use crate::adapters::children::{self, Dead, Emptied, UNKILLABLE};

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);

/// The time within which a keeper that was sent TERM ends.
pub const PATIENCE: Duration = GRACE
    .saturating_add(UNKILLABLE)
    .saturating_add(Duration::from_secs(2));

/// Runs a keeper to its end. Call this before the process has any other thread; `args` are those after `keep`. Returns its exit code.
pub(super) fn keep_main(args: &[OsString]) -> u8 {
    let [line] = args else {
        eprintln!("usage: horde-session keep <command line> (started by the supervisor)");
        return 2;
    };
    let (report, end) = match keep(line) {
        Ok((first, left)) => (
            Report {
                not_started: None,
                left,
            },
            first,
        ),
        Err(error) => {
            let not_started = Some(error.to_string());
            (
                Report {
                    not_started,
                    left: 0,
                },
                None,
            )
        }
    };
    let text = serde_json::to_string(&report).expect("plain data always serialises");
    // A daemon that died meanwhile does not read it.
    let _unread = writeln!(io::stderr(), "{text}");
    match (report.not_started, end) {
        (Some(_), _) => NOT_STARTED,
        (None, Some(dead)) => end_as(dead.code, dead.signal),
        // The command was killed, and is stuck in the kernel.
        (None, None) => end_as(None, Some(Signal::SIGKILL as i32)),
    }
}

/// Returns the end of the command, none if it cannot be ended, and the number of processes that are left.
fn keep(line: &OsStr) -> io::Result<(Option<Dead>, u32)> {
    // Otherwise its name is that of the link that it was started by.
    let _only_for_lists = nix::sys::prctl::set_name(c"horde-keep");
    let signals = own_signals()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let shell = {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(line);
        // Our own standard error is for the report.
        shell.stderr(io::stdout().as_fd().try_clone_to_owned()?);
        // SAFETY: both only make system calls, and this process has one thread.
        unsafe {
            shell.pre_exec(|| {
                rustix::process::setsid()?;
                children::reset_signals();
                Ok(())
            });
        }
        shell.spawn()?.id()
        // The command is dropped here, and with it our copy of the output.
    };
    let_go();
    attend(shell, &signals);
    // The shell is not reaped yet, so its group's number cannot be reused. The group may be empty.
    let _gone = killpg(group(shell), Signal::SIGKILL);
    let Emptied { first, undead, .. } = children::end_all(shell, &signals);
    Ok((first, undead))
}

/// Blocks all signals: a signal to the daemon's terminal or a closed pipe ends no keeper. Receives the ends of children
/// and a request to end through a descriptor.
pub(super) fn own_signals() -> io::Result<SignalFd> {
    SigSet::all().thread_block()?;
    let mut heard = SigSet::empty();
    heard.add(Signal::SIGCHLD);
    heard.add(Signal::SIGTERM);
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    Ok(SignalFd::with_flags(&heard, flags)?)
}

/// Closes the command's input and output, and leaves its directory.
pub(super) fn let_go() {
    // Each call can only fail for lack of a descriptor number; then both stay open until the keeper ends.
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _in = rustix::stdio::dup2_stdin(&null);
        let _out = rustix::stdio::dup2_stdout(&null);
    }
    let _stays = std::env::set_current_dir("/");
}

fn group(shell: u32) -> Pid {
    Pid::from_raw(shell.cast_signed())
}

/// Waits until the shell has ended (it is not reaped here), or the grace period after a TERM is over.
fn attend(shell: u32, signals: &SignalFd) {
    let mut kill_at: Option<Instant> = None;
    loop {
        while let Ok(Some(dead)) = children::peek() {
            if dead.pid == shell {
                return;
            }
            children::reap_one(dead.pid);
        }
        let left = kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return;
        }
        let timeout = left.map(|left| rustix::time::Timespec {
            tv_sec: left.as_secs().cast_signed(),
            tv_nsec: left.subsec_nanos().into(),
        });
        // The loop looks again after any result.
        let _woken = poll(&mut [PollFd::new(signals, PollFlags::IN)], timeout.as_ref());
        while let Ok(Some(signal)) = signals.read_signal() {
            if signal.ssi_signo == Signal::SIGTERM as u32 && kill_at.is_none() {
                kill_at = Some(Instant::now() + GRACE);
                // The group may have ended in this moment. A stopped command takes the TERM once it is continued.
                let _gone = killpg(group(shell), Signal::SIGTERM);
                let _gone = killpg(group(shell), Signal::SIGCONT);
            }
        }
    }
}
