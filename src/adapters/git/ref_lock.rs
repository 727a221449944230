//! git's own locks of files of theirs: `<file>.lock`. A process that is killed leaves its lock, and every later command
//! of git that needs it fails.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::admin::failed;
use super::rig::GitRepo;
use super::theirs::is_absent;
use super::{bytes, locks, name_locks, repair};
use crate::ports::repo::RepoError;

/// The files that all sandboxes of a rig share and that the supervisor locks, too.
const SHARED: [&str; 2] = ["refs/stash", "packed-refs"];

/// A lock that is held as long as this value lives.
pub(super) struct RefLock(PathBuf);

impl RefLock {
    /// Takes the lock of a file of theirs; none if it is held. A stale one is removed: it contains nothing that is not
    /// written again.
    pub(super) fn take(theirs: &Path, file: &Path) -> Result<Option<Self>, RepoError> {
        let lock = lock_of(file);
        let mut made = fs::File::create_new(&lock);
        if made.is_err() && clear_stale(theirs, &lock) {
            made = fs::File::create_new(&lock);
        }
        match made {
            Ok(_) => Ok(Some(Self(lock))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            // Without the directory there is no loose ref to lock.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(Self(lock))),
            Err(error) => Err(failed("cannot make", &lock, &error)),
        }
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0)
            && !is_absent(&error)
        {
            tracing::warn!(lock = %self.0.display(), %error, "the supervisor could not remove its own lock file; git commands that need the lock fail until it counts as stale, after a minute");
        }
    }
}

/// Removes the stale locks of shared files: while one is there, no sandbox of the rig can stash, or delete a branch.
pub(super) fn clear_shared(repo: &GitRepo) {
    for file in SHARED {
        clear_stale(repo.theirs(), &lock_of(&repo.theirs().join(file)));
    }
}

fn lock_of(file: &Path) -> PathBuf {
    let mut name = bytes::of(file).to_vec();
    name.extend_from_slice(b".lock");
    bytes::path(&name).to_owned()
}

/// Removes a lock if it is a file and stale: older than git holds a lock, and no git works in the rig that may have taken
/// it. Returns true if it was removed.
fn clear_stale(theirs: &Path, lock: &Path) -> bool {
    // One at once: another one may remove it and take it in between.
    let _turn = name_locks::take(theirs, "stale locks");
    let found = fs::symlink_metadata(lock)
        .ok()
        .filter(fs::Metadata::is_file);
    let Some(found) = found.filter(|_| repair::is_stale(lock)) else {
        return false;
    };
    let age = found.modified().ok().and_then(|at| at.elapsed().ok());
    let rig = theirs.parent().unwrap_or(theirs);
    if locks::is_worked_on(rig, age.unwrap_or_default()) {
        return false;
    }
    let removed = fs::remove_file(lock);
    let lock = lock.display();
    match &removed {
        Ok(()) => {
            tracing::warn!(%lock, "a process that was killed left this lock of git; it was removed")
        }
        Err(error) => tracing::warn!(%lock, %error, "a stale lock of git cannot be removed"),
    }
    removed.is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    /// A supervisor that was killed had left the lock of the stash list: no agent could stash any more.
    #[test]
    fn stale_lock_is_taken_over_and_a_fresh_one_is_respected() {
        let dir = crate::testing::scratch();
        let theirs = dir.path().join("repo.git");
        fs::create_dir(&theirs).unwrap();
        let (file, lock) = (theirs.join("stash"), theirs.join("stash.lock"));
        let held = RefLock::take(&theirs, &file).unwrap();
        assert!(held.is_some() && lock.exists());
        assert!(RefLock::take(&theirs, &file).unwrap().is_none());
        drop(held);
        assert!(!lock.exists());
        let made = fs::File::create(&lock).unwrap();
        assert!(RefLock::take(&theirs, &file).unwrap().is_none());
        let old = SystemTime::now() - Duration::from_secs(90);
        made.set_modified(old).unwrap();
        assert!(RefLock::take(&theirs, &file).unwrap().is_some());
        assert!(!lock.exists());
        fs::create_dir(&lock).unwrap();
        assert!(
            RefLock::take(&theirs, &file).unwrap().is_none(),
            "it is no lock"
        );
    }
}
