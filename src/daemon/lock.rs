//! One supervisor per city: a lock on a file that is never removed. The pid in it is for people
//! (`health-patrol.md`, invariants: single controller, no pid files for liveness).

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::{DaemonError, failed_at};

/// How long a lock may outlive a supervisor that was killed.
const MOMENT: Duration = Duration::from_millis(500);

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
            .map_err(failed_at(&path, "cannot be opened"))?;
        match try_for_a_moment(&file) {
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
                return Err(failed_at(&path, "cannot be locked")(error));
            }
        }
        let pid = format!("{}\n", std::process::id());
        // Over what is there: a full disk has no other room for it.
        let written = file.write_all_at(pid.as_bytes(), 0);
        written
            .and_then(|()| file.set_len(pid.len() as u64))
            .map_err(failed_at(&path, "cannot be written"))?;
        Ok(Self { _file: file })
    }
}

/// A supervisor that was killed while it started a process leaves the lock to that process until
/// its `exec` closes it: a successor that comes at this moment must not be turned away.
fn try_for_a_moment(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + MOMENT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_about_to_go_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let first = CityLock::take(dir.path()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| CityLock::take(dir.path()).is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

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
