//! One supervisor per city: a lock on a file that is never removed. The pid in it is for people
//! (`health-patrol.md`, invariants: single controller, no pid files for liveness).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{DaemonError, failed};

/// Held for the life of the supervisor; the kernel lets go of it however the process ends.
pub(super) struct CityLock {
    _file: File,
}

impl CityLock {
    /// Takes the lock, or says who holds it.
    pub(super) fn take(state_dir: &Path) -> Result<Self, DaemonError> {
        let path = state_dir.join("supervisor.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed("the lock file cannot be opened"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // The other end may be about to write it; the pid is for display only.
                let _unread = file.read_to_string(&mut pid);
                return Err(DaemonError::Held {
                    pid: pid.trim().to_owned(),
                });
            }
            Err(TryLockError::Error(error)) => {
                return Err(failed("the city cannot be locked")(error));
            }
        }
        let write = || {
            file.set_len(0)?;
            writeln!(file, "{}", std::process::id())
        };
        let mut write = write;
        write().map_err(failed("the lock file cannot be written"))?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_refused_and_the_first_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let first = CityLock::take(dir.path()).unwrap();
        let own = std::process::id().to_string();
        assert!(matches!(CityLock::take(dir.path()), Err(DaemonError::Held { pid }) if pid == own));
        drop(first);
        assert!(CityLock::take(dir.path()).is_ok());
    }
}
