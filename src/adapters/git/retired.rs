//! Retired entries: administrative directories of worktrees that are gone ([`super::admin::retire`]). An entry may be
//! the last holder of some work, and expires after the retention time of salvage.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, FileType, statat};

use super::admin::{self, At as _};
use super::branch_conflicts;
use super::bytes;
use super::files::list::list as files_of;
use super::measure::lens;
use super::reflog_commits::ids;
use super::rig::GitRepo;
use crate::adapters::{beneath, mounts, removal, standstill};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The files that git makes for a clean worktree, and those that its commits and fetches leave there.
const PLAIN: &[&str] = &[
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "ORIG_HEAD",
    "commondir",
    "gitdir",
    "index",
    "logs/HEAD",
];

/// The largest file that is searched. None of the plain files is larger.
const SEARCH_MAX: u64 = 4 * 1024 * 1024;

/// Retires the entry of a worktree and returns its new path. First copies the objects that it names into ours:
/// afterwards no ref that git knows names them, and a `gc` of the agents would remove them.
///
/// # Errors
/// When its whole objects cannot be copied, or the entry cannot be moved.
pub(super) fn retire(repo: &GitRepo, entry: &Path) -> Result<PathBuf, RepoError> {
    // Objects and directories are made by path below.
    standstill::pass();
    // A link is not followed.
    if fs::symlink_metadata(entry).is_ok_and(|found| found.is_dir()) {
        branch_conflicts::save(repo, &named(repo, entry)?)?;
    }
    admin::retire(repo, entry)
}

/// Returns the objects that the files of an entry name, including its index and branch. Skips unreadable files: they
/// stay.
fn named(repo: &GitRepo, entry: &Path) -> Result<BTreeSet<Oid>, RepoError> {
    let files = files_of(entry, true).unwrap_or_else(|why| {
        tracing::warn!(entry = %entry.display(), %why, "a retired worktree entry cannot be read completely; only its known files are searched for objects");
        PLAIN.iter().map(|name| name.as_bytes().to_vec()).collect()
    });
    let mut named: BTreeSet<Oid> = head(repo, entry).ok().flatten().into_iter().collect();
    for file in files.iter().filter(|file| file.as_slice() != b"index") {
        let text = beneath::read(entry, bytes::path(file), SEARCH_MAX);
        named.extend(ids(&text.ok().flatten().unwrap_or_default()));
    }
    let index = lens(repo)?.1.index(entry, &repo.recent)?;
    named.extend(index.entries.iter().map(|staged| staged.id.clone()));
    Ok(named)
}

/// Removes the entries that were retired before that time, and returns their number. An entry that cannot be removed
/// stays, and the others are removed all the same.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    let mut expired = 0;
    let place = admin::retired(repo);
    // An agent may have put a link there: what it leads to is not ours.
    let dir = match beneath::open_room(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        dir => dir.at("cannot open", &place)?,
    };
    for name in beneath::names(&dir).at("cannot list", &place)? {
        let entry = place.join(&name);
        let old = set_aside(&dir, &name).is_some_and(|at| at < before);
        if !old {
            continue;
        }
        match mounts::none_in(&entry).and_then(|()| removal::remove_at(&dir, &name)) {
            Ok(()) => expired += 1,
            Err(error) => {
                tracing::warn!(entry = %entry.display(), %error, "an expired worktree entry could not be removed; it stays")
            }
        }
    }
    Ok(expired)
}

/// Returns the time when an entry was retired: the move changed it last. None for anything but a directory.
fn set_aside(dir: &OwnedFd, name: &OsStr) -> Option<Timestamp> {
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        return None;
    }
    let nanos = i32::try_from(found.st_ctime_nsec).ok()?;
    Timestamp::new(found.st_ctime, nanos).ok()
}

/// Returns the commit that was checked out last; its branch may be gone.
fn head(repo: &GitRepo, entry: &Path) -> Result<Option<Oid>, RepoError> {
    let read = |name: &str| {
        let text = beneath::read(entry, Path::new(name), SEARCH_MAX);
        bytes::lossy(&text.ok().flatten().unwrap_or_default())
    };
    let text = read("HEAD");
    let name = text.trim().trim_start_matches("ref: ");
    let named = match Oid::new(name) {
        Ok(id) => Some(id),
        Err(_) => repo.their_refs().resolve(name)?,
    };
    if named.is_some() {
        return Ok(named);
    }
    let log = read("logs/HEAD");
    let last = log.lines().last().and_then(|line| line.split(' ').nth(1));
    Ok(last.and_then(|id| Oid::new(id).ok()))
}
