//! Feeds and drains a child process, and waits for its end only. Processes that it leaves behind may hold its output
//! open for ever (a hook that starts a watcher), and are not disturbed.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getpgid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};
use rustix::time::Timespec;

use crate::adapters::children::{self, UNKILLABLE};
use crate::adapters::proc;

/// The limit of output per stream. More is an error, never silently cut.
const OUTPUT_MAX: usize = 256 * 1024 * 1024;

/// The part of standard error that is kept at its beginning and at its end: it is for people, and a hook may print without end.
const SAID_MAX: usize = 512 * 1024;

/// The number of reads of a stream before the others, and the time, are looked at: more than the largest pipe holds.
const READS: usize = 64;

/// The result of a child process.
#[derive(Debug)]
pub(super) struct Collected {
    /// None if it was killed at its timeout, with its whole process group.
    pub(super) status: Option<ExitStatus>,
    /// Its standard output; that of a chatty one without the middle, if it is long.
    pub(super) stdout: Vec<u8>,
    /// Its standard error, without the middle of a long one.
    pub(super) stderr: Vec<u8>,
}

/// Waits for the child, which leads a process group, and feeds it `stdin`. Of standard output, too, the middle of a long one is
/// left out if the child `is_chatty`.
pub(super) fn collect(
    mut child: Child,
    stdin: Option<Vec<u8>>,
    limit: Duration,
    is_chatty: bool,
) -> io::Result<Collected> {
    let collected = pump(&mut child, stdin.unwrap_or_default(), limit, is_chatty);
    if !matches!(&collected, Ok(collected) if collected.status.is_some()) {
        let _reaped = end_group(&mut child);
    }
    collected
}

/// Kills the group of a child that is not reaped yet, and waits for the end of both. git below an anchor is no child, and
/// what it was writing must not be taken back beside it.
fn end_group(child: &mut Child) -> io::Result<ExitStatus> {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    // The group may be gone already.
    let _gone = killpg(group, Signal::SIGKILL);
    let status = child.wait();
    wait_gone(group);
    status
}

/// Reaps a child that has ended. If it was killed, its group is ended first: it may be the front of an anchor that was
/// killed alone, and git would go on.
fn reap(child: &mut Child) -> io::Result<ExitStatus> {
    let end = children::peek_one(child.id())?;
    match end.is_some_and(|end| end.signal == Some(Signal::SIGKILL as i32)) {
        true => end_group(child),
        false => child.wait(),
    }
}

/// Waits until no process of a group that was killed lives, for a moment at most.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel is waited for, in real time"
)]
fn wait_gone(group: Pid) {
    let deadline = Instant::now() + UNKILLABLE;
    while lives(group) {
        if Instant::now() >= deadline {
            tracing::warn!(%group, "processes of a git command that was killed have not ended");
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns true if any process of the group lives, or that cannot be told. A signal can be sent to zombies, too.
fn lives(group: Pid) -> bool {
    let is_in = |pid: u32| getpgid(Some(Pid::from_raw(pid.cast_signed()))) == Ok(group);
    killpg(group, None).is_ok()
        && proc::all().map_or(true, |all| {
            all.iter().any(|(pid, found)| found.lives() && is_in(*pid))
        })
}

fn pump(
    child: &mut Child,
    stdin: Vec<u8>,
    limit: Duration,
    is_chatty: bool,
) -> io::Result<Collected> {
    let pidfd = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    let mut input = Input::new(child.stdin.take(), stdin)?;
    let mut out = Output::new(child.stdout.take())?;
    let mut err = Output::new(child.stderr.take())?;
    let (mut said, mut printed) = (Said::default(), Said::default());
    let deadline = Instant::now() + limit;
    let status = loop {
        let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
        fds.extend(input.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        fds.extend(out.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        fds.extend(err.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        match poll(&mut fds, Some(&until(deadline))) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ended = !fds[0].revents().is_empty();
        input.feed();
        // All output that the child wrote before its end is in the pipe now.
        out.drain()?;
        err.drain()?;
        // Rarely, because each time moves the end.
        said.cut(&mut err.bytes, 8 * SAID_MAX);
        if is_chatty {
            printed.cut(&mut out.bytes, 8 * SAID_MAX);
        }
        if ended {
            break Some(reap(child)?);
        }
        if Instant::now() >= deadline {
            break None;
        }
    };
    if status.is_some() {
        release(out.pipe, err.pipe);
    }
    Ok(Collected {
        status,
        stdout: match is_chatty {
            true => printed.shown(out.bytes),
            false => out.bytes,
        },
        stderr: said.shown(err.bytes),
    })
}

/// The messages of a child: the beginning and the end are kept.
#[derive(Default)]
struct Said {
    left_out: usize,
}

impl Said {
    /// Leaves out the middle of what is longer than this.
    fn cut(&mut self, bytes: &mut Vec<u8>, most: usize) {
        if bytes.len() > most {
            let end = bytes.len() - SAID_MAX;
            bytes.drain(SAID_MAX..end);
            self.left_out += end - SAID_MAX;
        }
    }

    fn shown(mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        self.cut(&mut bytes, 2 * SAID_MAX);
        if self.left_out > 0 {
            let note = format!("\n... {} bytes are left out ...\n", self.left_out);
            bytes.splice(SAID_MAX..SAID_MAX, note.into_bytes());
        }
        bytes
    }
}

fn unblock(pipe: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(pipe, true).map_err(io::Error::from)
}

/// The limit of the wait for the last writers of its pipes, after the child's end: a helper of git may end a moment later,
/// and a process that another thread starts has a copy of the pipes until it executes its program.
const LAST_WRITERS: Duration = Duration::from_millis(20);

/// Gives up the pipes that are still open: the processes that the child left behind keep them.
fn release(out: Option<ChildStdout>, err: Option<ChildStderr>) {
    let deadline = Instant::now() + LAST_WRITERS;
    let parts = [
        out.and_then(|pipe| still_written(pipe, deadline))
            .map(hand_on),
        err.and_then(|pipe| still_written(pipe, deadline))
            .map(hand_on),
    ];
    for handed in parts.into_iter().flatten() {
        if let Err(error) = handed {
            tracing::warn!(%error, "no reader could be started for the output of processes that git left behind; their next write fails");
        }
    }
}

/// Returns the pipe if it still has a writer at the deadline.
fn still_written<P: AsFd>(pipe: P, deadline: Instant) -> Option<P> {
    loop {
        // Without events to wait for, only the end of the last writer is reported.
        let mut fds = [PollFd::new(&pipe, PollFlags::empty())];
        match poll(&mut fds, Some(&until(deadline))) {
            Ok(0) => return Some(pipe),
            Ok(_) => return None,
            Err(Errno::INTR) => {}
            Err(_) => return Some(pipe),
        }
    }
}

/// Returns the time that is left until then.
fn until(deadline: Instant) -> Timespec {
    let left = deadline.saturating_duration_since(Instant::now());
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    }
}

/// Hands an open pipe to a process of its own. A process that the child left behind still has the other end, and a
/// signal would kill it at its next line if the pipe had no reader. The new process discards the output until the
/// last writer has gone: that costs this process neither a thread nor a descriptor, and outlives it.
fn hand_on(pipe: impl AsFd + Into<Stdio>) -> io::Result<()> {
    rustix::io::ioctl_fionbio(&pipe, false)?;
    let mut reader = Command::new("/bin/sh");
    // A shell gives its background processes no input unless told otherwise.
    reader
        .args(["-c", "command -v cat && { cat <&3 & } 3<&0"])
        .env_clear();
    if let Some(path) = std::env::var_os("PATH") {
        reader.env("PATH", path);
    }
    reader.current_dir("/").process_group(0).stdin(pipe);
    let status = reader
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(io::Error::other(status.to_string())),
    }
}

/// The child's input.
struct Input {
    pipe: Option<ChildStdin>,
    bytes: Vec<u8>,
    fed: usize,
}

impl Input {
    fn new(pipe: Option<ChildStdin>, bytes: Vec<u8>) -> io::Result<Self> {
        pipe.as_ref().map(unblock).transpose()?;
        Ok(Self {
            pipe,
            bytes,
            fed: 0,
        })
    }

    /// Writes as much as the child takes. A command that does not read all of its input says so by its exit code.
    fn feed(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.write(&self.bytes[self.fed..]) {
                Ok(0) => self.pipe = None,
                Ok(written) => self.fed += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.pipe = None,
            }
        }
    }
}

/// The child's output.
struct Output<R> {
    /// None when no writer is left.
    pipe: Option<R>,
    bytes: Vec<u8>,
}

impl<R: Read + AsFd> Output<R> {
    fn new(pipe: Option<R>) -> io::Result<Self> {
        pipe.as_ref().map(unblock).transpose()?;
        Ok(Self {
            pipe,
            bytes: Vec::new(),
        })
    }

    /// Reads what is in the pipe now, and a part of what comes meanwhile: a writer may keep it filled.
    fn drain(&mut self) -> io::Result<()> {
        let mut part = [0; 64 * 1024];
        for _ in 0..READS {
            let Some(pipe) = &mut self.pipe else { break };
            match pipe.read(&mut part) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.bytes.len() > OUTPUT_MAX {
                return Err(io::Error::other("its output is too large"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::SAID_MAX;
    use crate::adapters::proc;

    /// A hook that printed 40 MB had them in the store and in each answer about its merge request.
    #[test]
    fn beginning_and_end_of_endless_messages_are_kept() {
        let mut shell = Command::new("/bin/sh");
        let line = "echo begin >&2; head -c 30000000 /dev/zero >&2; echo end >&2";
        shell.args(["-c", line]).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = shell.stderr(Stdio::piped()).spawn().unwrap();
        let said = super::collect(child, None, Duration::from_secs(60), false)
            .unwrap()
            .stderr;
        assert!(said.starts_with(b"begin\n") && said.ends_with(b"end\n"));
        let text = String::from_utf8(said).unwrap();
        let left_out = 30_000_000 + "begin\nend\n".len() - 2 * SAID_MAX;
        assert!(text.contains(&format!("... {left_out} bytes are left out ...")));
        assert!(text.len() < 2 * SAID_MAX + 100);
    }

    /// Its messages were read until 256 MB were there, whatever the time was.
    #[test]
    fn child_that_writes_without_end_is_killed_at_its_timeout() {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "yes >&2 & yes"]).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = shell.stderr(Stdio::piped()).spawn().unwrap();
        let collected = super::collect(child, None, Duration::from_millis(200), true).unwrap();
        assert!(collected.status.is_none());
        for part in [collected.stdout, collected.stderr] {
            assert!(part.len() < 2 * SAID_MAX + 100);
        }
    }

    /// A reader for processes that were left behind would be started for nothing.
    #[test]
    fn pipe_whose_last_writer_ends_soon_is_not_handed_on() {
        let later = |ms| Instant::now() + Duration::from_millis(ms);
        let (reader, writer) = std::io::pipe().unwrap();
        let copy = writer.try_clone().unwrap();
        drop(writer);
        let reader = super::still_written(reader, later(1)).expect("a writer is there");
        let ending = std::thread::spawn(move || drop(copy));
        assert!(super::still_written(reader, later(60_000)).is_none());
        ending.join().unwrap();
    }

    /// As a front that is killed alone, while git goes on below its anchor.
    #[test]
    fn group_of_a_child_that_was_killed_is_ended() {
        let line = r#"sh -c "echo \$\$; kill -9 $$; exec sleep 300" & wait"#;
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", line]).process_group(0);
        shell.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = shell.stderr(Stdio::piped()).spawn().unwrap();
        let collected = super::collect(child, None, Duration::from_secs(60), false).unwrap();
        assert_eq!(collected.status.unwrap().signal(), Some(9));
        let pid = String::from_utf8(collected.stdout).unwrap();
        let left = proc::stat(pid.trim().parse().unwrap()).unwrap();
        assert!(left.is_none_or(|left| !left.lives()));
    }
}
