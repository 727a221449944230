//! The anchor of a program: `horde-session anchor PROGRAM ARGUMENT...`, for the commands of git that run other
//! programs (hooks, helpers for credentials, ssh). Processes that such a program leaves behind may stay: a cache of
//! credentials, an ssh master, a watcher. They stay below the anchor, which carries the mark of an errand (`runs`), so they
//! never count as the operator, whatever environment, session and parent they give up.
//!
//! ```text
//! supervisor ─▶ front ─────▶ anchor (subreaper) ─▶ program
//!                 │            └─ adopts what the program leaves behind, and ends after the last of it
//!                 └─ ends as the program ended
//! ```
//!
//! The front and the program are one process group, which the supervisor kills at the command's timeout. No other signal
//! ends the front before the program. The anchor has a group of its own and outlives both, and the supervisor. If nothing
//! is left behind, it ends before the front.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, killpg};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork, getpid, setpgid};
use rustix::event::{PollFd, PollFlags, poll};

use super::process::{let_go, own_signals};
use super::{NOT_STARTED, end_as};
use crate::adapters::children::{self, Dead};

/// The kinds of a number in a report.
const CODE: u8 = b'c';
const SIGNAL: u8 = b's';
/// Follows the number if the program left nothing behind.
const ALONE: u8 = b'a';
const LEFT: u8 = b'l';

/// Runs a front, and in a process of its own the anchor, to their ends. Call this before the process has any other
/// thread; `args` are those after `anchor`. The process must lead its group.
pub(super) fn anchor_main(args: &[OsString]) -> u8 {
    let Some((program, args)) = args.split_first() else {
        eprintln!("usage: horde-session anchor PROGRAM ARGUMENT... (started by the supervisor)");
        return 2;
    };
    let mut command = Command::new(program);
    command.args(args);
    match split(&mut command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{} cannot be run: {error}", program.display());
            NOT_STARTED
        }
    }
}

fn split(command: &mut Command) -> io::Result<u8> {
    // A socket and no pipe: another process of the user cannot open it to write a report.
    let (reader, writer) = UnixStream::pair()?;
    let signals = own_signals()?;
    let front = getpid();
    // SAFETY: this process has one thread, so its copy is whole.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(reader);
            hold(command, front, writer, &signals)?;
            Ok(0)
        }
        ForkResult::Parent { child } => {
            drop(writer);
            Ok(end_as_reported(reader, front, child))
        }
    }
}

/// Starts the program, reports its end, and stays until nothing is left below this process.
fn hold(
    command: &mut Command,
    front: Pid,
    mut report: UnixStream,
    signals: &SignalFd,
) -> io::Result<()> {
    let program = match start(command, front) {
        Ok(program) => program,
        Err(error) => {
            // The front ends with this code.
            report.write_all(&line(Some(NOT_STARTED.into()), None, ALONE))?;
            return Err(error);
        }
    };
    let_go();
    let_go_of_errors();
    let ended = attend(program, front, &report, signals);
    let is_alone = is_alone();
    // A front that was killed reads nothing.
    let _unread = report.write_all(&line(
        ended.code,
        ended.signal,
        if is_alone { ALONE } else { LEFT },
    ));
    drop(report);
    // The error is that no child is left.
    while children::reap_next().is_ok() {}
    Ok(())
}

fn start(command: &mut Command, front: Pid) -> io::Result<u32> {
    let own = Pid::from_raw(0);
    setpgid(own, own)?;
    // Otherwise its name is that of the link that it was started by.
    let _only_for_lists = nix::sys::prctl::set_name(c"horde-anchor");
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    command.process_group(front.as_raw());
    // SAFETY: it only makes system calls, and this process has one thread.
    unsafe {
        command.pre_exec(|| {
            children::reset_signals();
            Ok(())
        });
    }
    Ok(command.spawn()?.id())
}

/// Closes the program's standard error, too: its reader waits for the last copy.
fn let_go_of_errors() {
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        // It can only fail for lack of a descriptor number; then it stays open until the anchor ends.
        let _err = rustix::stdio::dup2_stderr(&null);
    }
}

/// Waits for the end of the program. Without its front it has no timeout, and is killed.
fn attend(program: u32, front: Pid, report: &UnixStream, signals: &SignalFd) -> Dead {
    let mut watches_front = true;
    loop {
        while let Ok(Some(dead)) = children::reap() {
            if dead.pid == program {
                return dead;
            }
        }
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        // Nothing is sent to this end, so anything that is ready is the end of the front.
        fds.extend(watches_front.then(|| PollFd::from_borrowed_fd(report.as_fd(), PollFlags::IN)));
        // The loop looks again after any result.
        let _woken = poll(&mut fds, None);
        if fds.get(1).is_some_and(|front| !front.revents().is_empty()) {
            watches_front = false;
            let _gone = killpg(front, Signal::SIGKILL);
        }
        while let Ok(Some(_)) = signals.read_signal() {}
    }
}

/// Returns true if no child is left, after those that have ended were reaped.
fn is_alone() -> bool {
    loop {
        match children::reap() {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

/// The report: whether a number is an exit code or a signal, the number, and whether anything is left behind.
fn line(code: Option<i32>, signal: Option<i32>, left: u8) -> [u8; 6] {
    let (kind, number) = match code {
        Some(code) => (CODE, code),
        None => (SIGNAL, signal.unwrap_or(Signal::SIGKILL as i32)),
    };
    let [a, b, c, d] = number.to_le_bytes();
    [kind, a, b, c, d, left]
}

/// Waits for the report, and ends this process as the program ended.
fn end_as_reported(mut report: UnixStream, group: Pid, anchor: Pid) -> u8 {
    let mut line = [0; 6];
    if report.read_exact(&mut line).is_err() {
        // The anchor was killed: the program must not go on without it. This kills the front, too.
        let _gone = killpg(group, Signal::SIGKILL);
        return end_as(None, Some(Signal::SIGKILL as i32));
    }
    let [kind, number @ .., left] = line;
    if left == ALONE {
        // It ends now, and no other process may be there to reap it.
        let _reaped = waitpid(anchor, None);
    }
    let number = i32::from_le_bytes(number);
    match kind {
        SIGNAL => end_as(None, Some(number)),
        _ => end_as(Some(number), None),
    }
}
