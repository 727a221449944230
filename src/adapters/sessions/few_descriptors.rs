//! Limits concurrent starts and stops if the process may have few descriptors: each takes some for a moment, and
//! answers to people need some as well.

use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::adapters::proc;

/// The limit of descriptors above which there is no shortage.
const PLENTY: u64 = 1024;
/// The number of concurrent operations during a shortage.
const FEW: usize = 2;
/// The number of descriptors that must be free when one begins.
const LEFT: u64 = 12;

/// A limit of concurrent starts and stops.
pub struct FewDescriptors {
    /// None without a shortage.
    free: Option<Mutex<usize>>,
    changed: Condvar,
}

/// A permission to go on, until it is dropped.
pub struct Pass<'a>(&'a FewDescriptors);

impl FewDescriptors {
    /// Sets the limit by the descriptors that this process may have.
    pub fn new() -> Self {
        let few = proc::open_files().is_some_and(|limit| limit < PLENTY);
        Self {
            free: few.then(|| Mutex::new(FEW)),
            changed: Condvar::new(),
        }
    }

    fn lock(free: &Mutex<usize>) -> MutexGuard<'_, usize> {
        free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until another operation may go on.
    pub fn pass(&self) -> Pass<'_> {
        if let Some(free) = &self.free {
            let mut left = Self::lock(free);
            while *left == 0 {
                left = self
                    .changed
                    .wait(left)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            *left -= 1;
        }
        Pass(self)
    }

    /// Checks that there are enough descriptors for another session.
    ///
    /// # Errors
    /// When there are too few.
    pub fn check(&self) -> io::Result<()> {
        if self.free.is_none() || !proc::is_among_last(&File::open("/dev/null")?, LEFT) {
            return Ok(());
        }
        let message = "few file descriptors are left; raise `ulimit -n`";
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(free) = &self.0.free {
            *FewDescriptors::lock(free) += 1;
            self.0.changed.notify_one();
        }
    }
}
