//! git's own locks of files of theirs: `<file>.lock`. A process that is killed leaves its lock, and every later command
//! of git that needs it fails.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::admin::failed;
use super::rig::GitRepo;
use super::theirs::is_absent;
use super::{branch_conflicts, bytes, locks, name_locks, repair};
use crate::ports::repo::RepoError;

/// The files that all sandboxes of a rig share and that the supervisor locks, too.
const SHARED: [&str; 2] = ["refs/stash", "packed-refs"];

/// A lock that is held as long as this value lives; its path and its file, if there is one. The file stays open, because
/// the next file of that path may otherwise get its inode.
pub(super) struct RefLock(Option<(PathBuf, fs::File)>);

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
            Ok(file) => Ok(Some(Self(Some((lock, file))))),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            // Without the directory there is no loose ref to lock. git may make both, so no lock is removed at the end.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Some(Self(None))),
            Err(error) => Err(failed("cannot make", &lock, &error)),
        }
    }

    /// Returns false if the directory of the file was absent when the lock was taken: no file was there, and git may
    /// have made one since.
    pub(super) fn is_of_file(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        // Another process may have taken it for stale, and have made its own in this place.
        let is_own = |lock: &Path, file: &fs::File| {
            let place = |found: fs::Metadata| (found.dev(), found.ino());
            let (there, own) = (
                fs::symlink_metadata(lock).map(place),
                file.metadata().map(place),
            );
            matches!((there, own), (Ok(there), Ok(own)) if there == own)
        };
        if let Some((lock, file)) = &self.0
            && is_own(lock, file)
            && let Err(error) = fs::remove_file(lock)
            && !is_absent(&error)
        {
            tracing::warn!(lock = %lock.display(), %error, "the supervisor could not remove its own lock file; git commands that need the lock fail until it is removed");
        }
    }
}

/// Removes the stale locks of shared files: while one is there, no sandbox of the rig can stash, or delete a branch.
pub(super) fn clear_shared(repo: &GitRepo) {
    for file in SHARED {
        let lock = lock_of(&repo.theirs().join(file));
        clear_stale(repo.theirs(), &lock);
        let is_odd = fs::symlink_metadata(&lock).is_ok_and(|found| !found.is_file());
        let below = lock.strip_prefix(repo.theirs()).unwrap_or(&lock);
        // A directory or a link of this name is no lock, and git cannot take one.
        if is_odd && let Err(why) = branch_conflicts::unless(repo, below, |_| false) {
            tracing::warn!(lock = %lock.display(), %why, "something that is no lock is in the place of one, and cannot be set aside; commands of agents that need the lock fail until it is removed");
        }
    }
}

fn lock_of(file: &Path) -> PathBuf {
    let mut name = bytes::of(file).to_vec();
    name.extend_from_slice(b".lock");
    bytes::path(&name).to_owned()
}

/// Returns true if a lock is stale: older than git holds a lock, and no git works in the rig that may have taken it.
/// Anything but a file is no lock, and counts by its age alone.
pub(super) fn is_stale(theirs: &Path, lock: &Path) -> bool {
    if !repair::is_stale(lock) {
        return false;
    }
    let Some(found) = fs::symlink_metadata(lock)
        .ok()
        .filter(fs::Metadata::is_file)
    else {
        return true;
    };
    let age = found.modified().ok().and_then(|at| at.elapsed().ok());
    let rig = theirs.parent().unwrap_or(theirs);
    !locks::is_worked_on(rig, age.unwrap_or_default())
}

/// Removes a lock if it is a file and stale. Returns true if it was removed.
fn clear_stale(theirs: &Path, lock: &Path) -> bool {
    // One at once: another one may remove it and take it in between.
    let _turn = name_locks::take(theirs, "stale locks");
    let is_file = || fs::symlink_metadata(lock).is_ok_and(|found| found.is_file());
    if !is_stale(theirs, lock) || !is_file() {
        return false;
    }
    let removed = fs::remove_file(lock);
    let lock = lock.display();
    match &removed {
        Ok(()) => {
            tracing::warn!(%lock, "a process that was killed left this lock of git; it was removed")
        }
        Err(error) => {
            tracing::warn!(%lock, %error, "a stale lock of git cannot be removed; git commands that need it fail until it is")
        }
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
        fs::remove_file(&lock).unwrap();
        fs::write(lock.with_extension("other"), "").unwrap();
        fs::rename(lock.with_extension("other"), &lock).unwrap();
        drop(held);
        assert!(lock.exists(), "it is another process's");
        fs::remove_file(&lock).unwrap();
        drop(RefLock::take(&theirs, &file).unwrap());
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

    /// git makes the directory of a ref and its lock in it.
    #[test]
    fn lock_of_another_process_is_not_removed_where_the_directory_was_absent() {
        let dir = crate::testing::scratch();
        let file = dir.path().join("refs/remotes/origin/main");
        let held = RefLock::take(dir.path(), &file).unwrap().unwrap();
        assert!(!held.is_of_file());
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(lock_of(&file), "").unwrap();
        drop(held);
        assert!(lock_of(&file).exists());
    }
}
