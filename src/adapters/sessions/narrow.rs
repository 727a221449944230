//! Lets few starts and stops through at a time where the process may have few descriptors: each takes some
//! for a moment, and what answers a person needs some as well.

use std::fs::File;
use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::adapters::proc;

/// With a limit of so many descriptors there is no shortage.
const PLENTY: u64 = 1024;
/// At most so many at a time otherwise.
const FEW: usize = 2;
/// What must be left when one begins.
const LEFT: u64 = 12;

/// The narrow place.
pub struct Narrow {
    /// None where there is no shortage.
    free: Option<Mutex<usize>>,
    changed: Condvar,
}

/// One that is let through, until it is dropped.
pub struct Pass<'a>(&'a Narrow);

impl Narrow {
    /// As narrow as the limit of this process makes it.
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

    /// Waits until one more may go on.
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

    /// Says that there are too few descriptors for one more session.
    ///
    /// # Errors
    /// There are.
    pub fn check(&self) -> io::Result<()> {
        if self.free.is_none() || !proc::is_among_last(&File::open("/dev/null")?, LEFT) {
            return Ok(());
        }
        let message = "there are few descriptors left; raise `ulimit -n`";
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, message))
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if let Some(free) = &self.0.free {
            *Narrow::lock(free) += 1;
            self.0.changed.notify_one();
        }
    }
}
