//! One command's process: started in a session of its own, watched by events, ended as a whole.

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

/// What is to be run.
#[derive(Debug)]
pub struct Script<'a> {
    /// For the shell.
    pub line: &'a str,
    /// Where.
    pub dir: &'a Path,
    /// All of its environment.
    pub env: &'a BTreeMap<String, String>,
    /// What it reads.
    pub stdin: Stdio,
    /// How long it may take.
    pub limit: Duration,
    /// Becomes readable when it is to end early.
    pub stop: Option<&'a OwnedFd>,
}

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long output is awaited when its last writer should be gone.
const DRAIN: Duration = Duration::from_secs(1);

/// What became of it.
#[derive(Debug)]
pub enum End {
    /// It could not be started.
    NotStarted(String),
    /// It ran.
    Ended {
        /// Exit code, when it ended by itself.
        code: Option<i32>,
        /// Signal, when one ended it.
        signal: Option<i32>,
        /// What cut it short.
        cut: Option<Cut>,
    },
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Its time was up.
    TimedOut,
    /// It was told to.
    Stopped,
}

/// Runs the command until it ends, its time is up or it is to stop. When this returns, its process
/// group is gone; who left the group is found by the token.
///
/// # Errors
/// It cannot be watched; it is ended then.
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
    // Nobody to end is what is hoped for. The child is not reaped yet, so its number is its own.
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

/// Pumps output until the child has ended; what cut it short. Ended, not reaped.
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
        // It may have ended in this very moment.
        let _gone = killpg(group, Signal::SIGTERM);
    }
}

/// What happened first.
struct Ready {
    ended: bool,
    output: bool,
    stop: bool,
}

/// Waits until the process has ended, output is there, it is to stop, or the deadline has passed.
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

/// Polls to the deadline; signals do not cut it short.
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

/// Takes one piece of what is there; whether more may come.
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

/// Takes the rest. A process that escaped may hold the pipe, so there is a deadline.
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
