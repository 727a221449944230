//! Feeds and drains a child process, and waits for its end and for nothing else: who it has left
//! behind may hold its output open for ever (a hook that starts a watcher).

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

/// Output beyond this many bytes per stream is an error, never silently cut.
const OUTPUT_MAX: usize = 256 * 1024 * 1024;

/// What became of it.
#[derive(Debug)]
pub(super) struct Collected {
    /// None when it was ended at its limit, with its whole process group.
    pub(super) status: Option<ExitStatus>,
    /// What it printed until then.
    pub(super) stdout: Vec<u8>,
    /// The same on standard error.
    pub(super) stderr: Vec<u8>,
}

/// Waits for the child, which leads a process group, and has whatever it is piped.
pub(super) fn collect(
    mut child: Child,
    stdin: Option<Vec<u8>>,
    limit: Duration,
) -> io::Result<Collected> {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let collected = pump(&mut child, stdin.unwrap_or_default(), limit);
    if !matches!(&collected, Ok(collected) if collected.status.is_some()) {
        // Nothing to do if the group is gone already.
        let _gone = killpg(group, Signal::SIGKILL);
        let _reaped = child.wait();
    }
    collected
}

fn pump(child: &mut Child, stdin: Vec<u8>, limit: Duration) -> io::Result<Collected> {
    let pidfd = pidfd_open(rustix::process::Pid::from_child(child), PidfdFlags::empty())?;
    let mut input = Input::new(child.stdin.take(), stdin)?;
    let mut out = Output::new(child.stdout.take())?;
    let mut err = Output::new(child.stderr.take())?;
    let deadline = Instant::now() + limit;
    let status = loop {
        let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
        fds.extend(input.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        fds.extend(out.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        fds.extend(err.pipe.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) => break None,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let ended = !fds[0].revents().is_empty();
        input.feed();
        // What it printed before its end is there at its end.
        out.drain()?;
        err.drain()?;
        if ended {
            break Some(child.wait()?);
        }
    };
    Ok(Collected {
        status,
        stdout: out.bytes,
        stderr: err.bytes,
    })
}

fn unblock(pipe: impl AsFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(pipe, true).map_err(io::Error::from)
}

/// What it reads.
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

    /// Gives it as much as it takes. A command that does not read all of its input says so by its exit
    /// code.
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

/// What it prints.
struct Output<R> {
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

    /// Takes what there is.
    fn drain(&mut self) -> io::Result<()> {
        let mut part = [0; 64 * 1024];
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut part) {
                Ok(0) => self.pipe = None,
                Ok(read) => self.bytes.extend_from_slice(&part[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.bytes.len() > OUTPUT_MAX {
                return Err(io::Error::other("it printed more than can be handled"));
            }
        }
        Ok(())
    }
}
