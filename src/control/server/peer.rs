//! The process at the other end of a connection. A pid alone proves nothing: the process may have ended, and another
//! may have its pid. A pidfd tells.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::errno::Errno;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::UnixStream;

/// A hold (pidfd) on the process that made a connection.
#[derive(Debug, Clone)]
pub struct Peer(Option<Arc<OwnedFd>>);

impl Peer {
    /// Holds the process that made the connection: itself if the kernel supports that (Linux 6.5), else the present
    /// owner of its pid. A process that cannot be held counts as gone.
    #[must_use]
    pub fn of(stream: &UnixStream, pid: Option<u32>) -> Self {
        use nix::sys::socket::{getsockopt, sockopt::PeerPidfd};
        Self::told(getsockopt(stream, PeerPidfd), pid)
    }

    /// Holds the process that the kernel returned, or, if it does not support that, the present owner of the pid.
    fn told(held: Result<OwnedFd, Errno>, pid: Option<u32>) -> Self {
        match held {
            Ok(fd) => Self(Some(Arc::new(fd))),
            Err(Errno::ENOPROTOOPT) => pid.map_or(Self(None), Self::of_pid),
            Err(_) => Self(None),
        }
    }

    /// Holds the process that has this pid now.
    #[must_use]
    pub fn of_pid(pid: u32) -> Self {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let held = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self(held.map(Arc::new))
    }

    /// Returns whether the process lives. If so, its pid was its own until now.
    #[must_use]
    pub fn lives(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.0.as_ref().is_some_and(|held| {
            let mut fds = [PollFd::new(held, PollFlags::IN)];
            poll(&mut fds, Some(&now)).is_ok_and(|ended| ended == 0)
        })
    }
}

/// Peers always compare equal: a hold serves to recognise a caller, and is no part of its identity.
impl PartialEq for Peer {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Peer {}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the test needs a process")]
    async fn process_that_is_gone_is_not_held_by_its_number() {
        let (here, _there) = UnixStream::pair().unwrap();
        assert!(Peer::of(&here, None).lives(), "it is this process");
        let mut cat = Command::new("cat");
        let mut child = cat.stdin(Stdio::piped()).spawn().unwrap();
        let peer = Peer::of_pid(child.id());
        assert!(peer.lives());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!peer.lives());
        assert!(!Peer::of_pid(child.id()).lives());
        assert!(!Peer(None).lives());
    }

    /// Linux before 6.5 knows no pidfd of a connection.
    #[test]
    fn owner_of_the_pid_counts_only_where_the_kernel_names_no_process() {
        let own = std::process::id();
        assert!(Peer::told(Err(Errno::ENOPROTOOPT), Some(own)).lives());
        assert!(!Peer::told(Err(Errno::ENOPROTOOPT), None).lives());
        for ended in [Errno::ESRCH, Errno::EINVAL, Errno::ENODATA] {
            assert!(!Peer::told(Err(ended), Some(own)).lives(), "{ended}");
        }
    }
}
