//! Limits of open files, of this process and of others.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use super::lives;
use crate::domain::facts::ProcessId;

/// Raises this process's soft limit of open files to the hard one: a daemon holds one descriptor per session. Returns
/// the original limit, for the programs that it starts.
pub fn raise_open_files() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    static STARTED_WITH: OnceLock<Option<u64>> = OnceLock::new();
    *STARTED_WITH.get_or_init(|| {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
        if let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
            tracing::warn!(%error, "the soft limit of open files could not be raised and stays at {soft}");
        }
        Some(soft)
    })
}

/// The number of descriptors that are reserved for operations that must always work: accepting a connection, ending a
/// session.
const KEPT_BACK: u64 = 24;

/// Returns true if this descriptor is one of the last that this process may have.
#[must_use]
pub fn is_scarce(descriptor: impl AsFd) -> bool {
    is_among_last(descriptor, KEPT_BACK)
}

/// Returns true if this descriptor is among the last `last` ones that this process may have.
#[must_use]
pub fn is_among_last(descriptor: impl AsFd, last: u64) -> bool {
    use std::os::fd::AsRawFd;
    let number = u64::try_from(descriptor.as_fd().as_raw_fd()).unwrap_or(u64::MAX);
    open_files().is_some_and(|limit| number.saturating_add(last) >= limit)
}

/// Returns the limit of open descriptors.
#[must_use]
pub fn open_files() -> Option<u64> {
    use nix::sys::resource::{Resource, getrlimit};
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    Some(soft)
}

/// The descriptors of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// The number of open ones.
    pub open: u64,
    /// The most that it may open.
    pub limit: u64,
}

/// Returns the descriptors of another process of this user; none if it has no limit, or ended.
///
/// # Errors
/// When `/proc` cannot be read: then nothing is known.
pub fn descriptors(process: &ProcessId) -> io::Result<Option<Descriptors>> {
    let read = || -> io::Result<Option<Descriptors>> {
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.pid))?;
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let open = fs::read_dir(format!("/proc/{}/fd", process.pid))?.count();
        let open = u64::try_from(open).unwrap_or(u64::MAX);
        Ok(soft.map(|limit| Descriptors { open, limit }))
    };
    match read() {
        // It may have ended meanwhile.
        Err(_) if !lives(process)? => Ok(None),
        found => found,
    }
}
