//! What was set aside of worktrees that are gone ([`super::admin::retire`]): it stays for as long as it may
//! be the last that holds or names some work. One that looks like a clean worktree's goes once refs hold
//! all that it names; the rest goes when it was kept for as long as salvage is.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::admin::{self, failed};
use super::bytes;
use super::files::list::list as files_of;
use super::measure::lens;
use super::rig::GitRepo;
use super::traces::{ids, kinds, tips};
use super::way;
use crate::adapters::{beneath, mounts};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// What git and we make for a clean worktree, and what its commits and fetches leave there. Whatever else
/// there is may be work.
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

/// Nothing of that is larger; what is, is not searched, and kept.
const SEARCH_MAX: u64 = 4 * 1024 * 1024;

/// Sets the entry of a worktree aside, and says where it is then. What it names is copied into ours first: nothing that
/// git knows of names it afterwards, and a `gc` of the agents would take it.
///
/// # Errors
/// What is whole of it cannot be copied, or the entry not be moved.
pub(super) fn retire(repo: &GitRepo, entry: &Path) -> Result<PathBuf, RepoError> {
    // What a link leads to is no entry's.
    if fs::symlink_metadata(entry).is_ok_and(|found| found.is_dir()) {
        way::save(repo, &named(repo, entry)?)?;
    }
    admin::retire(repo, entry)
}

/// What the files of an entry name, its index and its branch among them. What cannot be read names nothing: it stays.
fn named(repo: &GitRepo, entry: &Path) -> Result<BTreeSet<Oid>, RepoError> {
    let files = files_of(entry, true).unwrap_or_else(|why| {
        tracing::warn!(entry = %entry.display(), %why, "not all of it can be read");
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

/// Removes the entries that name nothing alone, and says how many. One that cannot be judged, or not be
/// removed, stays, and holds up no other.
pub(super) fn drop(repo: &GitRepo) -> Result<usize, RepoError> {
    let mut dropped = 0;
    for entry in list(&admin::retired(repo))? {
        // No branch goes while it is judged; sandboxes are made and removed between two of them.
        let _serial = repo.worktrees();
        match is_needed(repo, &entry).and_then(|needed| remove(&entry, needed)) {
            Ok(removed) => dropped += usize::from(removed),
            Err(error) => {
                let entry = entry.display();
                tracing::warn!(%entry, %error, "what was set aside of a worktree stays");
            }
        }
    }
    Ok(dropped)
}

/// Removes the entries that were set aside before that time, and says how many. One that cannot be removed holds
/// up no other.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    let mut expired = 0;
    for entry in list(&admin::retired(repo))? {
        let old = set_aside(&entry).is_some_and(|at| at < before);
        match remove(&entry, !old) {
            Ok(removed) => expired += usize::from(removed),
            Err(error) => tracing::warn!(entry = %entry.display(), %error, "it stays"),
        }
    }
    Ok(expired)
}

/// When an entry was set aside: the move changed it last.
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

/// Whether the entry may have anything that no ref holds: a file of other than a clean worktree, a commit
/// of its HEAD or reflog, or staged content, be it that a salvage has that, too. What is no worktree's
/// entry is not ours to judge.
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

/// What was checked out last; its branch may be gone.
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

/// Whether refs reach all of these, as far as they are there at all; a tag must be a ref's own, and what
/// else is there and no commit counts as not held. What a remote has of raiders was only seen there: their
/// branches are deleted when somebody thinks that they are done with.
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

/// Whether the index has anything that the commit has not.
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
    // 1 for a difference; anything else could not be told.
    Ok(!differs.ok())
}
