//! Leases of open files, by which a process learns that no other has a file open.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use nix::libc;

/// A lease for writing on an open file (`fcntl`, `F_SETLEASE`): no other process has it open, and one that opens it waits, for
/// 45 s at most.
#[derive(Debug)]
pub struct Lease<'a>(&'a File);

impl<'a> Lease<'a> {
    /// Takes the lease. None if anything but this descriptor has the file open, or that cannot be told.
    #[must_use]
    pub fn of(file: &'a File) -> Option<Self> {
        // `F_SETSIG` of `fcntl.h`.
        const SET_SIGNAL: libc::c_int = 10;
        // A process that opens the file meanwhile sends a signal: one that is ignored by default, and not `SIGIO`, which ends this
        // process.
        let is_taken =
            set(file, SET_SIGNAL, libc::SIGURG) && set(file, libc::F_SETLEASE, libc::F_WRLCK);
        is_taken.then_some(Self(file))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // The lease ends with the descriptor, at the latest.
        let _ended = set(self.0, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn set(file: &File, command: libc::c_int, value: libc::c_int) -> bool {
    // SAFETY: `file` keeps the descriptor open, and the commands of a lease take a number.
    unsafe { libc::fcntl(file.as_raw_fd(), command, value) == 0 }
}
