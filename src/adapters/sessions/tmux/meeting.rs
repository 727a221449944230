//! Passes the instructions to the holder inside a pane. tmux would show a command line or an environment to every
//! user, so both go over a socket in the session's directory, which only its owner can enter.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::adapters::proc::Pidfd;
use crate::adapters::sessions::files;
use crate::adapters::sessions::launch::{Launch, PATIENCE, Reply, converse};
use crate::domain::facts::ProcessId;

/// The daemon's side, which waits for the holder.
pub struct Meeting<'a> {
    dir: &'a Path,
    listener: UnixListener,
}

impl<'a> Meeting<'a> {
    /// Begins to listen; the pane may be made now.
    pub fn arrange(dir: &'a Path) -> io::Result<Self> {
        files::remove(dir, files::START)?;
        let here = File::open(dir)?;
        // This path fits into a socket's address, even in a deeply nested city.
        let path = format!("/proc/self/fd/{}/{}", here.as_raw_fd(), files::START);
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { dir, listener })
    }

    /// Waits for this holder process, sends it the instructions, and returns its reply.
    pub fn hold(&self, holder: &ProcessId, launch: &Launch) -> io::Result<Reply> {
        let gone = || io::Error::other("the pane ended before its session was started");
        let pidfd = Pidfd::open(holder)?.ok_or_else(gone)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(stream) = self.accept(holder)? {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                let done = |to: &UnixStream| {
                    // The holder has got everything; if this fails, the end of the stream closes it.
                    let _closed = to.shutdown(std::net::Shutdown::Write);
                };
                return converse(&stream, done, &stream, launch);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::other("the pane's holder does not connect"));
            }
            if pidfd.wait(Duration::ZERO)? {
                return Err(gone());
            }
            let timeout = rustix::time::Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = [
                PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Accepts the next connection if it is of this very process.
    fn accept(&self, holder: &ProcessId) -> io::Result<Option<UnixStream>> {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let peer = rustix::net::sockopt::socket_peercred(&stream)?;
        let pid = peer.pid.as_raw_nonzero().get().unsigned_abs();
        Ok((pid == holder.pid).then_some(stream))
    }
}

impl Drop for Meeting<'_> {
    fn drop(&mut self) {
        // A dead socket does no harm: the next start replaces it.
        let _best_effort = files::remove(self.dir, files::START);
    }
}

/// The holder's side: receives the instructions. The reply goes to the returned stream.
pub fn meet(dir: &Path) -> io::Result<(Launch, UnixStream)> {
    std::env::set_current_dir(dir)?;
    let mut stream = UnixStream::connect(files::START)?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    Ok((serde_json::from_slice(&bytes)?, stream))
}
