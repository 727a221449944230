//! Retired entries: administrative directories of worktrees that are gone ([`super::admin::retire`]). An entry is
//! kept as long as it may be the last holder of some work. An entry that looks like a clean worktree's is removed
//! once refs hold all that it names; the others expire after the retention time of salvage.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::admin::{self, failed};
use super::branch_conflicts;
use super::bytes;
use super::files::list::list as files_of;
use super::measure::lens;
use super::reflog_commits::{ids, kinds, tips};
use super::rig::GitRepo;
use crate::adapters::{beneath, mounts};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The files that git and the supervisor make for a clean worktree, and those that its commits and fetches leave
/// there. Any other file may be work.
const PLAIN: &[&str] = &[
    "COMMIT_EDITMSG",
    "FETCH_HEAD",
    "HEAD",
    "ORIG_HEAD",
    "commondir",
    "gitdir",
    "horde.json",
    "index",
    "logs/HEAD",
];

/// The largest file that is searched. None of the plain files is larger; an entry with a larger file is kept.
const SEARCH_MAX: u64 = 4 * 1024 * 1024;

/// Retires the entry of a worktree and returns its new path. First copies the objects that it names into ours:
/// afterwards no ref that git knows names them, and a `gc` of the agents would remove them.
///
/// # Errors
/// When its whole objects cannot be copied, or the entry cannot be moved.
pub(super) fn retire(repo: &GitRepo, entry: &Path) -> Result<PathBuf, RepoError> {
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

/// Removes the entries that name nothing alone, and returns their number. An entry that cannot be judged or removed
/// stays, and the others are removed all the same.
pub(super) fn drop(repo: &GitRepo) -> Result<usize, RepoError> {
    let mut dropped = 0;
    for entry in list(&admin::retired(repo))? {
        // Locked per entry: no branch goes during the judgement, and sandboxes can be made and removed between two
        // entries.
        let _serial = repo.worktrees();
        match is_needed(repo, &entry).and_then(|needed| remove(&entry, needed)) {
            Ok(removed) => dropped += usize::from(removed),
            Err(error) => {
                let entry = entry.display();
                tracing::warn!(%entry, %error, "a retired worktree entry could not be judged or removed; it stays");
            }
        }
    }
    Ok(dropped)
}

/// Removes the entries that were retired before that time, and returns their number. An entry that cannot be removed
/// stays, and the others are removed all the same.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    let mut expired = 0;
    for entry in list(&admin::retired(repo))? {
        let old = set_aside(&entry).is_some_and(|at| at < before);
        match remove(&entry, !old) {
            Ok(removed) => expired += usize::from(removed),
            Err(error) => {
                tracing::warn!(entry = %entry.display(), %error, "an expired worktree entry could not be removed; it stays")
            }
        }
    }
    Ok(expired)
}

/// Returns the time when an entry was retired: the move changed it last.
fn set_aside(entry: &Path) -> Option<Timestamp> {
    let meta = fs::symlink_metadata(entry).ok()?;
    let nanos = i32::try_from(meta.ctime_nsec()).ok()?;
    Timestamp::new(meta.ctime(), nanos).ok()
}

fn remove(entry: &Path, needed: bool) -> Result<bool, RepoError> {
    if needed {
        return Ok(false);
    }
    let removed = mounts::remove_dir_all(entry);
    removed.map_err(|error| failed("cannot remove", entry, &error))?;
    Ok(true)
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, RepoError> {
    let fail = |error: std::io::Error| failed("cannot list", dir, &error);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error)),
    };
    entries
        .map(|entry| Ok(entry.map_err(fail)?.path()))
        .collect()
}

/// Returns true if the entry may have anything that no ref holds: a file that a clean worktree does not have, a
/// commit of its HEAD or reflog, or staged content (even if a salvage has that, too). An entry without a
/// HEAD is not a worktree's, and counts as needed.
fn is_needed(repo: &GitRepo, entry: &Path) -> Result<bool, RepoError> {
    let mut named = BTreeSet::new();
    for file in files_of(entry, true)? {
        let name = bytes::lossy(&file);
        let path = entry.join(bytes::path(&file));
        let fail = |error: std::io::Error| failed("cannot read", &path, &error);
        let meta = fs::symlink_metadata(&path).map_err(fail)?;
        if !PLAIN.contains(&name.as_str()) || !meta.is_file() {
            return Ok(true);
        }
        if name == "index" {
            continue;
        }
        if meta.len() > SEARCH_MAX {
            return Ok(true);
        }
        let text = beneath::read(entry, bytes::path(&file), SEARCH_MAX).map_err(fail)?;
        named.extend(ids(&text.unwrap_or_default()));
    }
    let Some(head) = head(repo, entry)? else {
        return Ok(true);
    };
    named.insert(head.clone());
    Ok(!are_held(repo, &named)? || is_staged(repo, entry, &head)?)
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

/// Returns true if refs reach all of these objects, as far as they still exist. A tag must be the object of a ref;
/// any other object that is not a commit counts as not held. Remote-tracking refs of raiders' branches do not count:
/// those branches are deleted when their work is thought to be finished.
fn are_held(repo: &GitRepo, named: &BTreeSet<Oid>) -> Result<bool, RepoError> {
    let refs = repo.refs()?;
    let lasting = refs.iter().filter(|(_, name)| {
        let seen = name.strip_prefix("refs/remotes/");
        !name.starts_with(super::stash::PINS) && !seen.is_some_and(|name| name.contains("/raider/"))
    });
    let known: BTreeSet<&str> = lasting.map(|(id, _)| id.as_str()).collect();
    let mut commits = BTreeSet::new();
    for (id, kind) in kinds(repo, named)? {
        match kind.as_str() {
            "commit" => {
                commits.insert(id);
            }
            "tag" if known.contains(id.as_str()) => {}
            _ => return Ok(false),
        }
    }
    let known: String = known.iter().map(|id| format!("^{id}\n")).collect();
    Ok(tips(repo, &commits, known.as_bytes())?.is_empty())
}

/// Returns true if the index differs from the commit.
fn is_staged(repo: &GitRepo, entry: &Path, head: &Oid) -> Result<bool, RepoError> {
    let index = entry.join("index");
    if fs::symlink_metadata(&index).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return Ok(false);
    }
    let differs = repo
        .lens()
        .env("GIT_INDEX_FILE", &index)
        .args(["diff-index", "--cached", "--quiet", head.as_str()])
        .output()?;
    // 1 is a difference; at any other code git could not tell.
    Ok(!differs.ok())
}
