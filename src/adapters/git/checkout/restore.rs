//! Takes back the files of a landing in the user's checkout. A file counts as written by the landing only if git finds the landing's
//! content in it: everything else is the person's and stays.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::super::admin::{At, remove_if_there};
use super::super::bytes;
use super::super::command::{CHECKOUT, Output};
use super::super::files::{hash, index::quoted};
use super::super::object_copy::looked_up;
use super::begins_with::{PATIENCE, Shared, begins_with};
use super::changed::{Raw, raw};
use super::fast_forward::git;
use super::filtered::{filtered, not_checked_out};
use super::parts::STEP_BYTES;
use super::recovery::writer;
use super::unfinished::Unfinished;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The number of parts in which files are restored.
const PARTS: usize = 50;
/// The size, in bytes, above which a file may be written for long.
const LARGE: u64 = 64 * 1024;
/// The time, in seconds, after the last file that a killed git wrote, in which it may have begun another.
const SECONDS_AFTER: i64 = 2;
/// The time, in seconds, in which it may have written a large one.
const SECONDS_AFTER_LARGE: i64 = 600;

/// Restores the files that a landing replaced or removed, and removes those that it added.
///
/// # Errors
/// When one could not be read or written. It can be repeated.
pub(super) fn files(landing: &Unfinished) -> Result<(), RepoError> {
    let worktree = landing.worktree();
    let mut changes = changes(landing)?;
    let known = indexed(worktree, &changes)?;
    let absent = not_checked_out(worktree)?;
    changes.retain(|change| !absent.contains(&change.path));
    // All are read before the first is changed: attributes are among them.
    let (landed, unknown) = landed(landing, &changes)?;
    let place = |change: &Change| worktree.join(bytes::path(&change.path));
    // A person may have saved one while the others were read.
    let is_same = |change: &Change, seen: &Stamp| stamp(&place(change)) == Some(*seen);
    // First, because a file may be in the place of a directory, or the reverse.
    for (change, seen) in &landed {
        if change.before.0 != Kind::File && is_same(change, seen) {
            remove_added(worktree, &place(change))?;
        }
    }
    let seen = landed
        .iter()
        .map(|(change, seen)| (&change.path[..], *seen));
    let seen: BTreeMap<_, _> = seen.collect();
    for change in &changes {
        let place = place(change);
        let is_removed = change.before.0 == Kind::Submodule && stamp(&place).is_none();
        if is_removed && !is_elsewhere(worktree, &place) {
            fs::create_dir_all(&place).at("cannot make", &place)?;
        }
    }
    // With an index of its own: the other one is locked.
    landing.copy_index_for_git()?;
    let is_restored = |change: &&Change| match stamp(&place(change)) {
        None => !is_elsewhere(worktree, &place(change)),
        Some(_) if change.after.0 == Kind::Submodule => fs::remove_dir(place(change)).is_ok(),
        Some(now) => seen.get(&change.path[..]) == Some(&now),
    };
    let before = changes
        .iter()
        // A file that the person had removed from the index is in no commit of theirs.
        .filter(|change| change.before.0 == Kind::File && known.contains(&change.path));
    let restored: Vec<&Change> = before.filter(is_restored).collect();
    let failure = write_back(landing, restored, &seen);
    match unknown.or(failure) {
        Some(why) => Err(why),
        None => landing.use_index(),
    }
}

/// Writes files as they were, in parts. Returns the first failure: a filter that fails stops only its part.
fn write_back(
    landing: &Unfinished,
    restored: Vec<&Change>,
    seen: &BTreeMap<&[u8], Stamp>,
) -> Option<RepoError> {
    let worktree = landing.worktree();
    let (attributes, others): (Vec<_>, _) = restored
        .into_iter()
        .partition(|change| change.path.ends_with(b".gitattributes"));
    let mut failure = None;
    let (quick, filtered) = parts(landing, others);
    let quick = std::iter::once(attributes)
        .chain(quick)
        .map(|files| (files, false));
    let filtered = filtered.into_iter().map(|file| (vec![file], true));
    let mut hangs = false;
    for (files, is_filtered) in quick.chain(filtered) {
        // A filter that hangs is asked once: the others may need what it waits for, too.
        if is_filtered && hangs {
            continue;
        }
        let is_as_seen = |change: &&&Change| {
            let place = worktree.join(bytes::path(&change.path));
            let now = stamp(&place);
            match now {
                // The person may have made a file or a link in the place of a directory.
                None => !is_elsewhere(worktree, &place),
                Some(_) => now == seen.get(&change.path[..]).copied(),
            }
        };
        let files: Vec<&Change> = files.iter().filter(is_as_seen).copied().collect();
        if let Err(why) = check_out(landing, &files) {
            hangs |= matches!(why, RepoError::Timeout { .. });
            failure.get_or_insert(why);
            // A git that was killed may write on, with the same index.
            if writer(landing).is_some() {
                break;
            }
        }
    }
    failure
}

/// Divides files into parts, because a large file may be slow and a person may save one meanwhile. Returns those with a filter, which may
/// be slower, beside them; all are among these if git does not tell.
fn parts<'c>(
    landing: &Unfinished,
    files: Vec<&'c Change>,
) -> (Vec<Vec<&'c Change>>, Vec<&'c Change>) {
    let filtered = filtered_in(landing, landing.commits().0, &files);
    let contents = files.iter().map(|change| &change.before.1);
    let sizes = looked_up(landing.git(), "%(objectsize)", contents);
    let (Ok(filtered), Ok(sizes)) = (filtered, sizes) else {
        return (Vec::new(), files);
    };
    let most = (files.len() / PARTS).max(1);
    let (mut parts, mut room): (Vec<Vec<&Change>>, _) = (Vec::new(), 0);
    let mut slow = Vec::new();
    for (file, (_, size)) in files.into_iter().zip(sizes) {
        if filtered.contains(&file.path) {
            slow.push(file);
            continue;
        }
        let size: u64 = size
            .and_then(|size| size.parse().ok())
            .unwrap_or(STEP_BYTES);
        match parts.last_mut() {
            Some(part) if part.len() < most && size < room => {
                part.push(file);
                room -= size;
            }
            _ => {
                parts.push(vec![file]);
                room = STEP_BYTES.saturating_sub(size);
            }
        }
    }
    (parts, slow)
}

/// Returns the files that a filter writes in a commit.
fn filtered_in(
    landing: &Unfinished,
    commit: &Oid,
    files: &[&Change],
) -> Result<HashSet<Vec<u8>>, RepoError> {
    let paths = files.iter().map(|change| &change.path[..]);
    let index = landing.attributes_index();
    filtered(|| landing.git(), &index, commit, paths)
}

/// Removes a file that a landing added, and the directories that are empty without it.
fn remove_added(worktree: &Path, file: &Path) -> Result<(), RepoError> {
    remove_if_there(file)?;
    let above = file.ancestors().skip(1);
    let above = above.take_while(|dir| *dir != worktree);
    // A directory with anything in it stays.
    let _rest = above.map_while(|dir| fs::remove_dir(dir).ok()).count();
    Ok(())
}

/// Writes the files as they were, and notes their times in the landing's copy of the index.
fn check_out(landing: &Unfinished, files: &[&Change]) -> Result<(), RepoError> {
    if files.is_empty() {
        return Ok(());
    }
    let list = files
        .iter()
        .flat_map(|change| [&change.path[..], b"\0"].concat());
    let git = landing
        .git()
        .env("GIT_ATTR_SOURCE", landing.commits().0.as_str())
        .args(["checkout-index", "-f", "-u", "-z", "--stdin"])
        .arg("--ignore-skip-worktree-bits")
        .stdin(list.collect::<Vec<u8>>());
    landing
        .writing()
        .during(|| git.run().map(drop), || writer(landing).is_some())
}

/// The kind of an entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Absent,
    File,
    Link,
    Submodule,
}

impl Kind {
    fn of(mode: &str) -> Self {
        match mode {
            "000000" => Self::Absent,
            "120000" => Self::Link,
            "160000" => Self::Submodule,
            _ => Self::File,
        }
    }
}

/// A path that a landing changes.
struct Change {
    path: Vec<u8>,
    /// The entry without the landing, and its content; a link counts as a file.
    before: (Kind, Oid),
    /// The entry in the landing, and its content.
    after: (Kind, Oid),
}

/// Lists the paths that a landing changes, except for submodules that are there after it and were before, or are new.
fn changes(landing: &Unfinished) -> Result<Vec<Change>, RepoError> {
    let (old, new) = landing.commits();
    let mut found = Vec::new();
    for Raw { modes, ids, path } in raw(landing.git(), old, new)? {
        let (before, after) = (Kind::of(&modes.0), Kind::of(&modes.1));
        let is_left = |kind| matches!(kind, Kind::Submodule | Kind::Absent);
        // git removes the empty directory of a submodule that a landing removes.
        let is_removed = before == Kind::Submodule && after == Kind::Absent;
        if is_left(before) && is_left(after) && !is_removed {
            continue;
        }
        let before = match before {
            Kind::Link => Kind::File,
            kind => kind,
        };
        found.push(Change {
            path,
            before: (before, ids.0),
            after: (after, ids.1),
        });
    }
    Ok(found)
}

/// Returns those of the changed paths that are in the index.
fn indexed(worktree: &Path, changes: &[Change]) -> Result<HashSet<Vec<u8>>, RepoError> {
    let changed: HashSet<&[u8]> = changes.iter().map(|change| &change.path[..]).collect();
    let listed = git(worktree).args(["ls-files", "-z"]).run()?;
    let known = bytes::split(&listed.stdout).filter(|path| changed.contains(path));
    Ok(known.map(<[u8]>::to_vec).collect())
}

/// A file as it was seen: device, inode, length, time of change in seconds and nanoseconds. It is another one when they differ.
type Stamp = (u64, u64, u64, i64, i64);

/// Returns the stamp of a file; none if it is absent.
fn stamp(path: &Path) -> Option<Stamp> {
    let stamp = |it: Metadata| (it.dev(), it.ino(), it.len(), it.ctime(), it.ctime_nsec());
    fs::symlink_metadata(path).ok().map(stamp)
}

/// The changes whose paths are there as the landing leaves them, and the error for those of which git cannot tell.
type Landed<'c> = (Vec<(&'c Change, Stamp)>, Option<RepoError>);

/// Returns the changes whose paths are there as the landing leaves them.
fn landed<'c>(landing: &Unfinished, changes: &'c [Change]) -> Result<Landed<'c>, RepoError> {
    let worktree = landing.worktree();
    let (mut found, mut files) = (Vec::new(), Vec::new());
    for change in changes {
        let path = worktree.join(bytes::path(&change.path));
        let Some(seen) = stamp(&path).filter(|_| !is_elsewhere(worktree, &path)) else {
            continue;
        };
        let Ok(meta) = fs::symlink_metadata(&path) else {
            continue;
        };
        match &change.after {
            (Kind::Link, id) if meta.is_symlink() => {
                let link = fs::read_link(&path);
                let link = link.at("cannot read", &path)?;
                let hashed = hash::bytes(hash::Format::of(id), bytes::of(&link));
                if hashed.is_ok_and(|hashed| hashed == *id) {
                    found.push((change, seen));
                }
            }
            // One that a person made unreadable is not the landing's.
            // Where links are off (`core.symlinks`), git writes files for them.
            (Kind::File | Kind::Link | Kind::Absent, _)
                if meta.is_file() && File::open(&path).is_ok() =>
            {
                files.push((change, seen));
            }
            _ => {}
        }
    }
    let ids = hashes(landing, &files)?;
    let (mut parts, mut last, mut unknown) = (Vec::new(), landing.began(), None);
    let mut hangs = false;
    for ((change, seen), id) in files.into_iter().zip(ids) {
        // Filters and line ends need not give the same content back.
        let content = match id.as_deref() {
            Some(id) if id == change.after.1.as_str() => Content::Landed,
            Some(id) if id == change.before.1.as_str() => Content::Before,
            // A filter that hangs is asked once.
            id if id.is_none() || hangs => content_by_time(landing, seen),
            _ => {
                let found = content(landing, change, seen)?;
                hangs |= found.1;
                found.0
            }
        };
        match content {
            Content::Landed => found.push((change, seen)),
            Content::Before => {}
            Content::Part => parts.push((change, seen)),
            Content::Persons => continue,
            Content::Unknown => {
                let path = bytes::lossy(&change.path);
                let why = format!(
                    "git cannot tell what it writes to {path}: a filter fails, or does not answer"
                );
                unknown.get_or_insert(RepoError::Failed(why));
                continue;
            }
        }
        last = match content {
            Content::Part => last,
            _ => last.max(seen.3),
        };
    }
    let ended = landing.writing().end();
    parts.retain(|(_, seen)| may_be_of_git(*seen, ended, last));
    found.extend(parts);
    Ok((found, unknown))
}

/// Returns true if git may have written a beginning of a file at that time: it ended then, or was killed after its last whole file.
fn may_be_of_git(seen: Stamp, ended: Option<(i64, i64)>, last: i64) -> bool {
    match ended {
        Some(ended) => (seen.3, seen.4) <= ended,
        // git was killed, perhaps in a large file.
        None if seen.2 > LARGE => seen.3 <= last + SECONDS_AFTER_LARGE,
        None => seen.3 <= last + SECONDS_AFTER,
    }
}

/// The origin of what is in a file that a landing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// git wrote it for the landing.
    Landed,
    /// It is as before the landing.
    Before,
    /// It is a beginning of what git writes there: on a full disk git stops in the middle. A person may have made one, too: the
    /// time tells.
    Part,
    /// A person wrote it.
    Persons,
    /// A filter fails, or does not answer.
    Unknown,
}

/// Returns true if something that is no directory is above the path: the person, or the landing itself, put it there.
fn is_elsewhere(worktree: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut above = above.take_while(|dir| *dir != worktree);
    above.any(|dir| fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()))
}

/// Returns the ids of the files' content as git stores it; an empty one where git cannot say, as when a filter is not installed; none
/// for a file whose filter hangs, and for those with a filter after it.
fn hashes(
    landing: &Unfinished,
    files: &[(&Change, Stamp)],
) -> Result<Vec<Option<String>>, RepoError> {
    let hash = |files: &[(&Change, Stamp)], limit| {
        let list = files.iter().flat_map(|(change, _)| {
            let mut line = quoted(&change.path);
            line.push(b'\n');
            line
        });
        landing
            .git()
            .env("GIT_ATTR_SOURCE", landing.commits().1.as_str())
            .args(["hash-object", "--stdin-paths"])
            .stdin(list.collect::<Vec<u8>>())
            .limit(limit)
            .output()
    };
    let all = match hash(files, CHECKOUT) {
        // A filter hangs: the files are hashed one by one.
        Err(RepoError::Timeout { .. }) => None,
        all => Some(all?).filter(Output::ok),
    };
    let ids = all.map(|all| all.text().lines().map(|id| Some(id.to_owned())).collect());
    if let Some(ids) = ids.filter(|ids: &Vec<_>| ids.len() == files.len()) {
        return Ok(ids);
    }
    let changes: Vec<&Change> = files.iter().map(|(change, _)| *change).collect();
    let filtered = filtered_in(landing, landing.commits().1, &changes)?;
    let mut hangs = false;
    let each = files.iter().map(|file| {
        let limit = match filtered.contains(&file.0.path) {
            // Those of the other files may hang, too.
            true if hangs => return Ok(None),
            true => PATIENCE,
            false => CHECKOUT,
        };
        match hash(std::slice::from_ref(file), limit) {
            Err(RepoError::Timeout { .. }) => {
                hangs = true;
                Ok(None)
            }
            one => one.map(|one| {
                Some(match one.ok() {
                    true => one.text().trim().to_owned(),
                    false => String::new(),
                })
            }),
        }
    });
    each.collect()
}

/// Tells what is in a file of which git cannot: it is as before if nothing wrote it since the landing began.
fn content_by_time(landing: &Unfinished, seen: Stamp) -> Content {
    match seen.3 < landing.began() {
        true => Content::Before,
        false => Content::Unknown,
    }
}

/// Compares a file with what git writes there, filters and line ends included. Returns true, too, if its filter hangs.
fn content(
    landing: &Unfinished,
    change: &Change,
    seen: Stamp,
) -> Result<(Content, bool), RepoError> {
    let path = landing.worktree().join(bytes::path(&change.path));
    let (old, new) = landing.commits();
    let shared = |commit: &Oid, kind: Kind| {
        if !matches!(kind, Kind::File | Kind::Link) {
            return Ok(Shared::Other);
        }
        let mut name = format!("{commit}:").into_bytes();
        name.extend_from_slice(&change.path);
        let written = landing
            .git()
            .env("GIT_ATTR_SOURCE", commit.as_str())
            .args(["cat-file", "--filters"])
            .arg(bytes::path(&name));
        begins_with(written, &path).at("cannot compare", &path)
    };
    let landed = shared(new, change.after.0)?;
    let before = match landed {
        Shared::Hangs => Shared::Hangs,
        _ => shared(old, change.before.0)?,
    };
    let hangs = before == Shared::Hangs;
    let content = match (landed, before) {
        (Shared::Whole, _) => Content::Landed,
        (_, Shared::Whole) => Content::Before,
        (Shared::Unknown | Shared::Hangs, _) | (_, Shared::Unknown | Shared::Hangs) => {
            content_by_time(landing, seen)
        }
        (Shared::Part, _) | (_, Shared::Part) => Content::Part,
        (Shared::Other, Shared::Other) => Content::Persons,
    };
    Ok((content, hangs))
}
