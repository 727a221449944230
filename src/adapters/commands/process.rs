//! The process of a command: started below a keeper, watched by events, ended with everything below it.

use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::adapters::keeper::{self, Report};
use crate::adapters::runs::Run;
use crate::adapters::standstill;

/// A command to run.
#[derive(Debug)]
pub struct Script<'a> {
    /// The command line for the shell.
    pub line: &'a str,
    /// The working directory.
    pub dir: &'a Path,
    /// The complete environment, without the marks of the run.
    pub env: &'a BTreeMap<String, String>,
    /// The standard input.
    pub stdin: Stdio,
    /// The timeout.
    pub limit: Duration,
    /// Becomes readable when the command is to end early.
    pub stop: Option<&'a OwnedFd>,
}

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

/// Runs the command below a keeper until it ends, reaches its timeout or is to stop. When this returns without an error,
/// nothing below the keeper is left, except for processes that no signal ends: the log tells of them.
///
/// # Errors
/// When the command cannot be watched or ended.
pub fn run(script: Script<'_>, own: &Run, output: &mut dyn FnMut(&[u8])) -> std::io::Result<End> {
    standstill::pass();
    let (mut reader, writer) = std::io::pipe()?;
    let (mut report, reported) = std::io::pipe()?;
    for pipe in [&reader, &report] {
        rustix::io::ioctl_fionbio(pipe, true)?;
    }
    let (limit, stop) = (script.limit, script.stop);
    let mut keeper = {
        let mut keeper = keeper::of(script.line);
        keeper
            .current_dir(script.dir)
            .env_clear()
            .envs(script.env)
            .envs(own.marks());
        keeper.stdin(script.stdin).stdout(writer).stderr(reported);
        match keeper.spawn() {
            Ok(child) => child,
            Err(error) => return Ok(End::NotStarted(error.to_string())),
        }
        // The command is dropped here, and with it our writing ends of the pipes.
    };
    let watched = own
        .started(keeper.id())
        .and_then(|()| watch(&keeper, &mut reader, limit, stop, output));
    standstill::pass();
    if !matches!(watched, Ok((_, true))) {
        // The keeper is ended last, because processes that outlive it are found by their marks only.
        let killed = own.kill();
        if killed.is_err() {
            // Reaped if it has ended, so that no zombie stays.
            let _still_lives = keeper.try_wait();
        }
        killed?;
    }
    let status = keeper.wait()?;
    let (cut, _) = watched?;
    drain(&mut reader, output)?;
    Ok(ended(&rest(&mut report)?, status, cut))
}

/// Returns the end of the command, which is that of its keeper. Any process of the user can write to the report's pipe,
/// or kill the keeper, so neither can make a command succeed.
fn ended(report_text: &[u8], keeper: ExitStatus, cut: Option<Cut>) -> End {
    let report = Report::read(report_text);
    if let Some(Report {
        left: left @ 1.., ..
    }) = report
    {
        tracing::warn!(
            processes = left,
            "a command has ended, but processes that it started do not end by SIGKILL: they wait in the kernel, or belong to another user"
        );
    }
    let (code, signal) = (keeper.code(), keeper.signal());
    match report {
        Some(Report {
            not_started: Some(why),
            ..
        }) if code == Some(keeper::NOT_STARTED.into()) => End::NotStarted(why),
        None if signal.is_none() => {
            let said = String::from_utf8_lossy(report_text);
            End::NotStarted(format!("its keeper failed: {keeper}: {}", said.trim()))
        }
        Some(_) | None => End::Ended { code, signal, cut },
    }
}

/// Reads a report. A pipe keeps what was written to it, so nothing is awaited.
fn rest(report: &mut PipeReader) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match report.read_to_end(&mut bytes) {
        // A process that another thread is just starting may still have the other end.
        Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
        Ok(_) | Err(_) => Ok(bytes),
    }
}

/// Pumps output until the keeper has ended (it is not reaped here). Returns the reason for an early end, and whether
/// the keeper has ended.
fn watch(
    keeper: &Child,
    reader: &mut PipeReader,
    limit: Duration,
    stop: Option<&OwnedFd>,
    output: &mut dyn FnMut(&[u8]),
) -> std::io::Result<(Option<Cut>, bool)> {
    let pid = rustix::process::Pid::from_child(keeper);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
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
            return Ok((cut, true));
        }
        let late = Instant::now() >= deadline;
        match cut {
            Some(_) if late => return Ok((cut, false)),
            None if ready.stop => cut = Some(Cut::Stopped),
            None if late => cut = Some(Cut::TimedOut),
            Some(_) | None => continue,
        }
        deadline = Instant::now() + keeper::PATIENCE;
        // It ends the command, with a grace period.
        pidfd_send_signal(&pidfd, Signal::TERM)?;
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

/// Reads the rest. If the keeper was killed, a process that escaped may hold the pipe, so there is a deadline.
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
