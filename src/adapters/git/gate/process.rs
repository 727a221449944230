//! One gate's process: started in a session of its own, watched by events, ended as a whole.

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

use super::failed;
use super::log::Log;
use crate::adapters::runs::{self, Run};
use crate::ports::repo::{GateSpec, RepoError};

/// Between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long output is awaited when its last writer should be gone.
const DRAIN: Duration = Duration::from_secs(1);

/// What became of the gate's command.
#[derive(Debug)]
pub(super) enum End {
    /// It could not be started.
    NotStarted(String),
    /// It ran.
    Ended {
        /// Exit code, when it ended by itself.
        code: Option<i32>,
        /// Signal, when one ended it.
        signal: Option<i32>,
        /// Whether its time was up.
        timed_out: bool,
    },
}

/// Runs the gate's command in the directory until it ends or its time is up. When this returns,
/// its process group is gone; who left the group is found by the token.
pub(super) fn run(gate: &GateSpec, dir: &Path, own: &Run, log: &mut Log) -> Result<End, RepoError> {
    let lost = |error: std::io::Error| failed("the gate's process", &error);
    let (mut output, writer) = std::io::pipe().map_err(lost)?;
    rustix::io::ioctl_fionbio(&output, true).map_err(|errno| lost(errno.into()))?;
    let mut child = {
        let mut command = command(gate, dir, own.token());
        command
            .stdout(writer.try_clone().map_err(lost)?)
            .stderr(writer);
        match command.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(End::NotStarted(error.to_string())),
        }
        // The command is dropped here, and with it our writing ends of the pipe.
    };
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let watched = own
        .started(child.id())
        .and_then(|()| watch(&child, group, &mut output, gate.timeout, log));
    // Nobody to end is what is hoped for. The child is not reaped yet, so its number is its own.
    let _gone = killpg(group, Signal::SIGKILL);
    let status = child.wait().map_err(lost)?;
    let timed_out = watched.map_err(lost)?;
    drain(&mut output, log).map_err(lost)?;
    Ok(End::Ended {
        code: status.code(),
        signal: status.signal(),
        timed_out,
    })
}

fn command(gate: &GateSpec, dir: &Path, token: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &gate.run])
        .current_dir(dir)
        .env_clear()
        .envs(&gate.env)
        .env(runs::TOKEN, token)
        .stdin(Stdio::null());
    // SAFETY: setsid is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
    command
}

/// Pumps output until the child has ended; whether its time was up. Ended, not reaped.
fn watch(
    child: &Child,
    group: Pid,
    output: &mut PipeReader,
    limit: Duration,
    log: &mut Log,
) -> std::io::Result<bool> {
    let pidfd = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    let mut deadline = Instant::now() + limit;
    let mut timed_out = false;
    let mut open = true;
    loop {
        let (ended, readable) = ready(&pidfd, open.then_some(&*output), deadline)?;
        if readable {
            open = pump(output, log)?;
        }
        if ended {
            return Ok(timed_out);
        }
        if Instant::now() < deadline {
            continue;
        }
        if timed_out {
            return Ok(true);
        }
        timed_out = true;
        deadline = Instant::now() + GRACE;
        // It may have ended in this very moment.
        let _gone = killpg(group, Signal::SIGTERM);
    }
}

/// Waits until the process has ended, output is there, or the deadline has passed.
fn ready(
    pidfd: &OwnedFd,
    output: Option<&PipeReader>,
    deadline: Instant,
) -> std::io::Result<(bool, bool)> {
    let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
    fds.extend(output.map(|output| PollFd::new(output, PollFlags::IN)));
    poll_until(&mut fds, deadline)?;
    let fired = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
    Ok((fired(fds.first()), fired(fds.get(1))))
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
fn pump(output: &mut PipeReader, log: &mut Log) -> std::io::Result<bool> {
    let mut piece = [0; 64 * 1024];
    match output.read(&mut piece) {
        Ok(0) => Ok(false),
        Ok(count) => {
            log.add(&piece[..count]);
            Ok(true)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Takes the rest. A process that escaped may hold the pipe, so there is a deadline.
fn drain(output: &mut PipeReader, log: &mut Log) -> std::io::Result<()> {
    let deadline = Instant::now() + DRAIN;
    loop {
        let mut fds = [PollFd::new(&*output, PollFlags::IN)];
        poll_until(&mut fds, deadline)?;
        let silent = fds[0].revents().is_empty();
        if silent || !pump(output, log)? || Instant::now() >= deadline {
            return Ok(());
        }
    }
}
