//! Writes in a person's checkout that survive a loss of power.

use std::fs::{self, File};
use std::path::Path;

use super::super::admin::At;
use crate::ports::repo::RepoError;

/// Writes everything of the file system of a checkout to the disk: git syncs no files of a work tree.
///
/// # Errors
/// When the disk fails.
pub(super) fn sync(worktree: &Path) -> Result<(), RepoError> {
    let dir = File::open(worktree).at("cannot open", worktree)?;
    let synced = rustix::fs::syncfs(&dir).map_err(std::io::Error::from);
    synced.at("cannot write the files of", worktree)
}

/// Writes the names in a directory to the disk.
///
/// # Errors
/// When the disk fails.
pub(super) fn sync_dir(dir: &Path) -> Result<(), RepoError> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.at("cannot write", dir)
}

/// Copies an index with its time, by which git knows which files it must read.
pub(super) fn copy_index(index: &Path, copy: &Path) -> Result<(), RepoError> {
    let copied = fs::copy(index, copy).and_then(|_| {
        let at = fs::metadata(index)?.modified()?;
        let copy = File::options().write(true).open(copy)?;
        copy.set_modified(at)?;
        copy.sync_all()
    });
    copied.at("cannot write", copy)
}
