//! Takes back the files of a landing in the user's checkout. A file counts as written by the landing only if git finds the landing's
//! content in it: everything else is the person's and stays.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::admin::failed;
use super::super::bytes;
use super::super::files::{hash, index::quoted};
use super::fast_forward::git;
use super::unfinished::{Unfinished, remove};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Restores the files that a landing replaced or removed, and removes those that it added.
///
/// # Errors
/// When one could not be read or written. It can be repeated.
pub(super) fn files(landing: &Unfinished) -> Result<(), RepoError> {
    let worktree = landing.worktree();
    let mut changes = changes(landing)?;
    let sparse = skipped(worktree)?;
    changes.retain(|change| !sparse.contains(&change.path));
    let (before, added): (Vec<Change>, _) =
        changes.into_iter().partition(|it| it.before == Kind::File);
    // First, because a file may be in the place of a directory, or the reverse.
    for (change, _) in landed(worktree, &added)? {
        let file = worktree.join(bytes::path(&change.path));
        remove(&file)?;
        if change.before == Kind::Submodule {
            fs::create_dir(&file).map_err(|error| failed("cannot make", &file, &error))?;
        }
        let above = file.ancestors().skip(1);
        let above = above.take_while(|dir| *dir != worktree);
        // A directory with anything in it stays.
        let _rest = above.map_while(|dir| fs::remove_dir(dir).ok()).count();
    }
    // With an index of its own: the other one is locked.
    landing.copy_index_for_git()?;
    let mut before = landed(worktree, &before)?;
    // A person may have saved one while the others were read.
    before.retain(|(change, seen)| stamp(&worktree.join(bytes::path(&change.path))) == *seen);
    if before.is_empty() {
        return Ok(());
    }
    let list = before.iter();
    let list = list.map(|(change, _)| [change.path.as_slice(), b"\0"].concat());
    landing
        .git()
        .args(["checkout-index", "-f", "-u", "-z", "--stdin"])
        .stdin(list.flatten().collect::<Vec<u8>>())
        .run()?;
    landing.use_index()
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
    /// The entry without the landing; a link counts as a file.
    before: Kind,
    /// The entry in the landing, and its content.
    after: (Kind, Oid),
}

/// Lists the paths that a landing changes, except for those that are submodules before and after it.
fn changes(landing: &Unfinished) -> Result<Vec<Change>, RepoError> {
    let (old, new) = landing.commits();
    let diff = landing
        .git()
        .args(["diff-tree", "-r", "-z", "--no-renames"])
        .args([old.as_str(), new.as_str()])
        .run()?;
    let mut fields = bytes::split(&diff.stdout);
    let mut found = Vec::new();
    // `:<mode> <mode> <id> <id> <status>`, then the path.
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        let text = bytes::lossy(what);
        let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
        let unknown = || RepoError::Failed(format!("git diff-tree printed {text:?}"));
        let [before, after, _, id, _] = words[..] else {
            return Err(unknown());
        };
        let (before, after) = (Kind::of(before), Kind::of(after));
        let is_left = |kind| matches!(kind, Kind::Submodule | Kind::Absent);
        if is_left(before) && is_left(after) {
            continue;
        }
        let before = match before {
            Kind::Link => Kind::File,
            kind => kind,
        };
        let id = Oid::new(id).map_err(|_| unknown())?;
        found.push(Change {
            path: path.to_vec(),
            before,
            after: (after, id),
        });
    }
    Ok(found)
}

/// Returns the paths that are not checked out.
fn skipped(worktree: &Path) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let listed = git(worktree).args(["ls-files", "-t", "-z"]).run()?;
    let skipped = bytes::split(&listed.stdout).filter_map(|line| line.strip_prefix(b"S "));
    Ok(skipped.map(<[u8]>::to_vec).collect())
}

/// A file as it was seen: it is another one when this differs. None when it was absent.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> Stamp {
    let stamp = |it: Metadata| (it.dev(), it.ino(), it.len(), it.ctime(), it.ctime_nsec());
    fs::symlink_metadata(path).ok().map(stamp)
}

/// Returns the changes whose paths are as the landing leaves them; a file that it replaces may be absent.
fn landed<'c>(
    worktree: &Path,
    changes: &'c [Change],
) -> Result<Vec<(&'c Change, Stamp)>, RepoError> {
    let (mut found, mut files) = (Vec::new(), Vec::new());
    for change in changes {
        let path = worktree.join(bytes::path(&change.path));
        if is_elsewhere(worktree, &path) {
            continue;
        }
        let seen = stamp(&path);
        match (fs::symlink_metadata(&path), &change.after) {
            (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                // An added file that is absent needs nothing.
                found.extend((change.before == Kind::File).then_some((change, seen)));
            }
            (Ok(meta), (Kind::Link, id)) if meta.is_symlink() => {
                let link = fs::read_link(&path);
                let link = link.map_err(|error| failed("cannot read", &path, &error))?;
                let hashed = hash::bytes(hash::Format::of(id), bytes::of(&link));
                if hashed.is_ok_and(|hashed| hashed == *id) {
                    found.push((change, seen));
                }
            }
            // A submodule that is not populated is an empty directory.
            (Ok(meta), (Kind::Submodule, _)) if meta.is_dir() && fs::remove_dir(&path).is_ok() => {
                found.push((change, None));
            }
            // One that a person made unreadable is not the landing's.
            (Ok(meta), (Kind::File, _)) if meta.is_file() && File::open(&path).is_ok() => {
                files.push((change, seen));
            }
            _ => {}
        }
    }
    found.extend(same(worktree, files)?);
    Ok(found)
}

/// Returns true if something that is no directory is above the path: the person, or the landing itself, put it there.
fn is_elsewhere(worktree: &Path, path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut above = above.take_while(|dir| *dir != worktree);
    above.any(|dir| fs::symlink_metadata(dir).is_ok_and(|found| !found.is_dir()))
}

/// Returns those of the files that have the landing's content, as git stores it.
fn same<'c>(
    worktree: &Path,
    files: Vec<(&'c Change, Stamp)>,
) -> Result<Vec<(&'c Change, Stamp)>, RepoError> {
    let list = files.iter().flat_map(|(change, _)| {
        let mut line = quoted(&change.path);
        line.push(b'\n');
        line
    });
    let hashed = git(worktree)
        .args(["hash-object", "--stdin-paths"])
        .stdin(list.collect::<Vec<u8>>())
        .run()?;
    let text = hashed.text();
    let ids: Vec<&str> = text.lines().collect();
    if ids.len() != files.len() {
        let what = "git hash-object did not name every file".to_owned();
        return Err(RepoError::Failed(what));
    }
    let seen = files.into_iter().zip(ids);
    let same = seen.filter(|((change, _), id)| change.after.1.as_str() == *id);
    Ok(same.map(|(file, _)| file).collect())
}

/// Returns the directory of a linked worktree that was moved, as its repository knows it.
pub(super) fn moved_to(git_dir: &Path) -> Option<PathBuf> {
    let link = fs::read(git_dir.join("gitdir")).ok()?;
    let link = bytes::path(link.trim_ascii_end()).to_owned();
    link.parent().map(Path::to_owned)
}
