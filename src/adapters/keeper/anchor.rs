//! The anchor of a program: `horde-session anchor PROGRAM ARGUMENT...`, for the commands of git that run programs of
//! other people (hooks, helpers for credentials, ssh). What such a program leaves behind may stay: a cache of
//! credentials, an ssh master, a watcher. It stays below the anchor, which carries the mark of an errand (`runs`), so it
//! never counts as the operator, whatever environment, session and parent it gives up.
//!
//! ```text
//! supervisor ─▶ front ─────▶ anchor (subreaper) ─▶ program
//!                 │            └─ adopts what the program leaves behind, and ends after the last of it
//!                 └─ ends as the program ended
//! ```
//!
//! The front and the program are one process group, which the supervisor kills at the command's timeout. The anchor has
//! a group of its own and outlives both, and the supervisor.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal, killpg};
use nix::unistd::{ForkResult, Pid, fork, getpid, setpgid};

use super::process::let_go;
use super::{NOT_STARTED, end_as};
use crate::adapters::children;

/// The kinds of a report.
const CODE: u8 = b'c';
const SIGNAL: u8 = b's';

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
    let (reader, writer) = io::pipe()?;
    let front = getpid();
    // SAFETY: this process has one thread, so its copy is whole.
    match unsafe { fork() }? {
        ForkResult::Child => {
            drop(reader);
            hold(command, front, writer)?;
            Ok(0)
        }
        ForkResult::Parent { .. } => {
            drop(writer);
            Ok(end_as_reported(reader, front))
        }
    }
}

/// Starts the program, reports its end, and stays until nothing is left below this process.
fn hold(command: &mut Command, front: Pid, mut report: PipeWriter) -> io::Result<()> {
    let program = match start(command, front) {
        Ok(program) => program,
        Err(error) => {
            // The front ends with this code.
            report.write_all(&line(Some(NOT_STARTED.into()), None))?;
            return Err(error);
        }
    };
    let_go();
    let mut report = Some(report);
    // The error is that no child is left.
    while let Ok(dead) = children::reap_next() {
        if dead.pid == program
            && let Some(mut report) = report.take()
        {
            // A front that was killed at the timeout reads nothing.
            let _unread = report.write_all(&line(dead.code, dead.signal));
        }
    }
    Ok(())
}

fn start(command: &mut Command, front: Pid) -> io::Result<u32> {
    let own = Pid::from_raw(0);
    setpgid(own, own)?;
    // A signal to the terminal or a closed pipe ends no anchor.
    SigSet::all().thread_block()?;
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

/// The report: whether a number is an exit code or a signal, and the number.
fn line(code: Option<i32>, signal: Option<i32>) -> [u8; 5] {
    let (kind, number) = match code {
        Some(code) => (CODE, code),
        None => (SIGNAL, signal.unwrap_or(Signal::SIGKILL as i32)),
    };
    let [a, b, c, d] = number.to_le_bytes();
    [kind, a, b, c, d]
}

/// Waits for the report, and ends this process as the program ended.
fn end_as_reported(mut report: PipeReader, group: Pid) -> u8 {
    let mut line = [0; 5];
    if report.read_exact(&mut line).is_err() {
        // The anchor was killed: the program must not go on without it. This kills the front, too.
        let _gone = killpg(group, Signal::SIGKILL);
    }
    let [kind, number @ ..] = line;
    let number = i32::from_le_bytes(number);
    match kind {
        SIGNAL => end_as(None, Some(number)),
        _ => end_as(Some(number), None),
    }
}
