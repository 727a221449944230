//! The process of a command: started in a session of its own, watched by events, ended with its whole group.

use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::adapters::runs::{self, Run};

/// A command to run.
#[derive(Debug)]
pub struct Script<'a> {
    /// The command line for the shell.
    pub line: &'a str,
    /// The working directory.
    pub dir: &'a Path,
    /// The complete environment.
    pub env: &'a BTreeMap<String, String>,
    /// The standard input.
    pub stdin: Stdio,
    /// The timeout.
    pub limit: Duration,
    /// Becomes readable when the command is to end early.
    pub stop: Option<&'a OwnedFd>,
}

/// The time between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);
/// The time that output is awaited after its last writer should be gone.
const DRAIN: Duration = Duration::from_secs(1);

/// The end of the command.
#[derive(Debug)]
pub enum End {
    /// The command could not be started.
    NotStarted(String),
    /// The command ran.
    Ended {
        /// Exit code, when it ended by itself.
        code: Option<i32>,
        /// Signal, when one ended it.
        signal: Option<i32>,
        /// The reason for ending it early.
        cut: Option<Cut>,
    },
}

/// The reason for ending a command early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The timeout was reached.
    TimedOut,
    /// The caller asked to stop it.
    Stopped,
}

/// Runs the command until it ends, reaches its timeout or is to stop. When this returns, its process group is gone;
/// processes that left the group are found by the token.
///
/// # Errors
/// When the command cannot be watched; it is ended then.
pub fn run(script: Script<'_>, own: &Run, output: &mut dyn FnMut(&[u8])) -> std::io::Result<End> {
    let (mut reader, writer) = std::io::pipe()?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let (limit, stop) = (script.limit, script.stop);
    let mut child = {
        let mut command = command(script, own.token());
        command.stdout(writer.try_clone()?).stderr(writer);
        match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(End::NotStarted(error.to_string())),
        }
        // The command is dropped here, and with it our writing ends of the pipe.
    };
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let watched = own
        .started(child.id())
        .and_then(|()| watch(&child, group, &mut reader, limit, stop, output));
    // Usually the group is empty already. The child is not reaped yet, so its number cannot be reused.
    let _gone = killpg(group, Signal::SIGKILL);
    let status = child.wait()?;
    let cut = watched?;
    drain(&mut reader, output)?;
    Ok(End::Ended {
        code: status.code(),
        signal: status.signal(),
        cut,
    })
}

fn command(script: Script<'_>, token: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script.line])
        .current_dir(script.dir)
        .env_clear()
        .envs(script.env)
        .env(runs::TOKEN, token)
        .stdin(script.stdin);
    // SAFETY: setsid is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    command
}

/// Pumps output until the child has ended (it is not reaped here). Returns the reason for an early end.
fn watch(
    child: &Child,
    group: Pid,
    reader: &mut PipeReader,
    limit: Duration,
    stop: Option<&OwnedFd>,
    output: &mut dyn FnMut(&[u8]),
) -> std::io::Result<Option<Cut>> {
    let pidfd = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    let mut deadline = Instant::now() + limit;
    let mut cut = None;
    let mut open = true;
    loop {
        let stop = stop.filter(|_| cut.is_none());
        let ready = ready(&pidfd, open.then_some(&*reader), stop, deadline)?;
        if ready.output {
            open = pump(reader, output)?;
        }
        if ready.ended {
            return Ok(cut);
        }
        let late = Instant::now() >= deadline;
        match cut {
            Some(_) if late => return Ok(cut),
            None if ready.stop => cut = Some(Cut::Stopped),
            None if late => cut = Some(Cut::TimedOut),
            Some(_) | None => continue,
        }
        deadline = Instant::now() + GRACE;
        // The group may have ended in this moment.
        let _gone = killpg(group, Signal::SIGTERM);
    }
}

/// The events of one poll.
struct Ready {
    ended: bool,
    output: bool,
    stop: bool,
}

/// Waits for the end of the process, for output, for the stop signal or for the deadline.
fn ready(
    pidfd: &OwnedFd,
    output: Option<&PipeReader>,
    stop: Option<&OwnedFd>,
    deadline: Instant,
) -> std::io::Result<Ready> {
    let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
    fds.extend(output.map(|output| PollFd::new(output, PollFlags::IN)));
    fds.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
    poll_until(&mut fds, deadline)?;
    let mut fired = fds.iter().map(|fd| !fd.revents().is_empty());
    let mut next = |there: bool| there && fired.next().unwrap_or(false);
    Ok(Ready {
        ended: next(true),
        output: next(output.is_some()),
        stop: next(stop.is_some()),
    })
}

/// Polls until the deadline; retries when a signal interrupts.
fn poll_until(fds: &mut [PollFd<'_>], deadline: Instant) -> std::io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(fds, Some(&timeout)) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads one piece of output. Returns true if more may come.
fn pump(reader: &mut PipeReader, output: &mut dyn FnMut(&[u8])) -> std::io::Result<bool> {
    let mut piece = [0; 64 * 1024];
    match reader.read(&mut piece) {
        Ok(0) => Ok(false),
        Ok(count) => {
            output(&piece[..count]);
            Ok(true)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Reads the rest. A process that escaped may hold the pipe, so there is a deadline.
fn drain(reader: &mut PipeReader, output: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
    let deadline = Instant::now() + DRAIN;
    loop {
        let mut fds = [PollFd::new(&*reader, PollFlags::IN)];
        poll_until(&mut fds, deadline)?;
        let silent = fds[0].revents().is_empty();
        if silent || !pump(reader, output)? || Instant::now() >= deadline {
            return Ok(());
        }
    }
}
