//! Compares files with the commit that they were checked out from, by their bytes and modes. The index only adds
//! content that may be staged, but neither in a commit nor in a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::time::SystemTime;

use super::super::admin::{At, failed};
use super::super::bytes::{self, RelPath};
use super::super::command::Git;
use super::convert::{Suspect, Why};
use super::hash::{self, Format};
use super::hash_cache::{CachedHash, HashCache};
use super::holes::Sparse;
use super::index::Index;
use super::open::{Root, is_nothing};
use super::paths::Beside;
use super::walk::{Entry, Kind, stamp};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Files of a commit: mode and blob by path.
pub(in super::super) type Tree = BTreeMap<RelPath, Blob>;

/// A file of a commit: its mode and its id.
type Blob = (String, Oid);

/// The number of reads of a file that changes while it is read.
const TRIES: usize = 3;

/// The length, in bytes, of the longest file that is read: 64 GiB.
const LONGEST: u64 = 64 << 30;

/// The mode of a submodule.
const LINK: &str = "160000";

/// An entry, and the id of its bytes if they were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Item {
    pub(in super::super) entry: Entry,
    /// None for directories and entries without content, and for a file that is unchanged since the checkout.
    pub(in super::super) id: Option<Oid>,
}

/// The differences of files from their commit.
#[derive(Debug, Default)]
pub(in super::super) struct Compared {
    /// The existing entries, sorted by path.
    pub(in super::super) items: Vec<Item>,
    /// Tracked paths with content that is not in the commit.
    pub(in super::super) dirty: BTreeSet<RelPath>,
    /// The paths among them that differ in the index.
    pub(in super::super) staged: BTreeSet<RelPath>,
    /// Files that are neither in the commit nor in the index.
    pub(in super::super) untracked: BTreeSet<RelPath>,
    /// Files that may differ only by a conversion of git's.
    pub(in super::super) converted: BTreeSet<RelPath>,
}

/// Lists the files of a commit, below a prefix.
///
/// # Errors
/// When git cannot read the commit.
pub(in super::super) fn tree(git: Git, commit: &Oid, prefix: &[u8]) -> Result<Tree, RepoError> {
    let listed = git.args(["ls-tree", "-r", "-z", commit.as_str()]).run()?;
    let record = |record: &[u8]| {
        // `<mode> <type> <oid>\t<path>`
        let tab = record.iter().position(|byte| *byte == b'\t')?;
        let head = std::str::from_utf8(&record[..tab]).ok()?;
        let mut fields = head.split(' ');
        let (mode, id) = (fields.next()?.to_owned(), Oid::new(fields.nth(1)?).ok()?);
        Some(([prefix, &record[tab + 1..]].concat(), (mode, id)))
    };
    bytes::split(&listed.stdout)
        .map(|text| {
            record(text).ok_or_else(|| {
                RepoError::Failed(format!("git ls-tree printed {:?}", bytes::lossy(text)))
            })
        })
        .collect()
}

/// The commit and index that the files are compared with.
pub(in super::super) struct Against<'a> {
    pub(in super::super) tree: &'a Tree,
    pub(in super::super) index: &'a Index,
    pub(in super::super) format: Format,
}

/// Compares the entries, which are sorted by path. `judge` decides why suspects differ.
///
/// # Errors
/// When a file cannot be read, or git fails.
pub(in super::super) fn compare(
    root: &Root,
    entries: Vec<Entry>,
    against: &Against<'_>,
    seen: &mut HashCache,
    judge: impl FnOnce(&[Suspect<'_>]) -> Result<Vec<Why>, RepoError>,
) -> Result<Compared, RepoError> {
    let mut found = Compared {
        items: Vec::with_capacity(entries.len()),
        ..Compared::default()
    };
    let listed = seen.listed();
    let mut files = Beside::new(against.tree);
    let mut index = Beside::new(against.index.by_path());
    let mut known = Beside::new(&*listed);
    let mut suspects = Vec::new();
    for entry in entries {
        let file = files.at(&entry.path);
        let is_staged = index.at(&entry.path).is_some();
        let known = known.at(&entry.path);
        let (kept, id) = match read_entry(root, entry, file, known, against.format, seen)? {
            Some(read) => read,
            // It was removed meanwhile.
            None => continue,
        };
        let is_file = kept.git_mode().is_some();
        match file {
            Some((mode, blob)) if is_file => {
                let own = kept.git_mode() == Some(mode);
                if mode == LINK || !own {
                    found.dirty.insert(kept.path.clone());
                } else if id.as_ref().is_some_and(|id| id != blob) {
                    suspects.push(found.items.len());
                }
            }
            // A tracked file that became a directory is absent, and the directory's files are untracked.
            Some((mode, _)) if mode != LINK => drop(found.dirty.insert(kept.path.clone())),
            Some(_) => {}
            None if is_file && !is_staged => {
                found.untracked.insert(kept.path.clone());
            }
            None => {}
        }
        found.items.push(Item { entry: kept, id });
    }
    suspected(&mut found, &suspects, against, judge)?;
    absent(&mut found, against);
    found.staged = staged(against);
    found.dirty.extend(found.staged.iter().cloned());
    for path in &found.dirty {
        found.untracked.remove(path);
        found.converted.remove(path);
    }
    named(root, &mut found, against.format, seen)?;
    Ok(found)
}

/// Reads files that are dirty although their bytes are unchanged (their staged content differs): they are saved.
fn named(
    root: &Root,
    found: &mut Compared,
    format: Format,
    seen: &mut HashCache,
) -> Result<(), RepoError> {
    for item in &mut found.items {
        let unread = item.id.is_none() && item.entry.git_mode().is_some();
        if !unread || !found.dirty.contains(&item.entry.path) {
            continue;
        }
        item.id = seen.id(&item.entry).cloned();
        if item.id.is_none()
            && let Some((entry, id)) = read(root, item.entry.clone(), format, seen)?
        {
            (item.entry, item.id) = (entry, Some(id));
        }
    }
    Ok(())
}

/// Calls `judge` for the suspects, given by their indices among the items.
fn suspected(
    found: &mut Compared,
    suspects: &[usize],
    against: &Against<'_>,
    judge: impl FnOnce(&[Suspect<'_>]) -> Result<Vec<Why>, RepoError>,
) -> Result<(), RepoError> {
    let mut index = Beside::new(against.index.by_path());
    let about = suspects.iter().filter_map(|at| {
        let entry = &found.items[*at].entry;
        let (_, blob) = against.tree.get(&entry.path)?;
        let staged = index.at(&entry.path);
        let same = staged.filter(|staged| staged.id == *blob);
        let refreshed = same.is_some_and(|staged| staged.is_refreshed(&entry.stamp));
        Some(Suspect {
            entry,
            blob,
            refreshed,
        })
    });
    let about: Vec<Suspect<'_>> = about.collect();
    for (suspect, why) in about.iter().zip(judge(&about)?) {
        let path = suspect.entry.path.clone();
        match why {
            Why::Given => {}
            Why::Converted => drop(found.converted.insert(path)),
            Why::Changed => drop(found.dirty.insert(path)),
        }
    }
    Ok(())
}

/// Reads an entry if its hash is unknown. None if it was removed.
fn read_entry(
    root: &Root,
    entry: Entry,
    file: Option<&Blob>,
    known: Option<&CachedHash>,
    format: Format,
    seen: &mut HashCache,
) -> Result<Option<(Entry, Option<Oid>)>, RepoError> {
    if entry.git_mode().is_none() {
        return Ok(Some((entry, None)));
    }
    let known = known.filter(|known| known.is_of(&entry));
    if let Some(known) = known {
        // Checked first: a file unchanged since the checkout needs no hash.
        if let Some((mode, blob)) = file
            && entry.git_mode() == Some(mode)
            && known.from() == Some(blob)
        {
            return match seen.doubted(known) {
                None => Ok(Some((entry, None))),
                Some(made) => doubted(root, entry, [made, Some(blob)], format, seen),
            };
        }
        if let Some(id) = seen.believed(known) {
            return Ok(Some((entry, Some(id.clone()))));
        }
    }
    let read = read(root, entry, format, seen)?;
    Ok(read.map(|(entry, id)| (entry, Some(id))))
}

/// Reads a file that may have been written under the fingerprint of its checkout, and compares it with the checkout's
/// output and with its blob.
fn doubted(
    root: &Root,
    entry: Entry,
    same: [Option<&Oid>; 2],
    format: Format,
    seen: &mut HashCache,
) -> Result<Option<(Entry, Option<Oid>)>, RepoError> {
    let Some((entry, id)) = read(root, entry, format, seen)? else {
        return Ok(None);
    };
    if same.contains(&Some(&id)) {
        return Ok(Some((entry, None)));
    }
    seen.disown(&entry);
    Ok(Some((entry, Some(id))))
}

/// Returns the id of the bytes of a file, or of the target of a link, with the entry at that time. None if it was
/// removed.
///
/// # Errors
/// When it cannot be read, or keeps changing.
pub(in super::super) fn read(
    root: &Root,
    mut entry: Entry,
    format: Format,
    seen: &mut HashCache,
) -> Result<Option<(Entry, Oid)>, RepoError> {
    let path = root.path().join(bytes::path(&entry.path));
    let mut last = io::Error::other("it keeps changing while it is read");
    for _ in 0..TRIES {
        let began = SystemTime::now();
        let read = match entry.kind {
            Kind::Link => root
                .link(&entry.path)
                .and_then(|to| hash::bytes(format, &to)),
            _ => root.sized(&entry.path).and_then(|(file, size)| {
                is_readable(size)?;
                // Bytes that are appended meanwhile belong to another state.
                hash::file(format, &mut Sparse::of(file)?.take(size), size)
            }),
        };
        let now = root.stat(&entry.path);
        let Some(now) = now.at("cannot inspect", &path)? else {
            return Ok(None);
        };
        let before = std::mem::replace(&mut entry.stamp, stamp(&now));
        match read {
            Ok(id) => {
                if before == entry.stamp {
                    seen.record(&entry, &id, began);
                }
                return Ok(Some((entry, id)));
            }
            Err(error) if is_nothing(&error) => return Ok(None),
            Err(error) => last = error,
        }
    }
    Err(failed("cannot read", &path, &last))
}

/// Refuses a file that takes hours to read, and longer to save: the length of a sparse one has no end.
fn is_readable(size: u64) -> io::Result<()> {
    match size > LONGEST {
        true => Err(io::Error::other(format!(
            "it has {size} bytes, and a file of more than {LONGEST} bytes is not read"
        ))),
        false => Ok(()),
    }
}

/// Adds the paths of the commit that are not on the disk. A path outside of a sparse checkout may be absent.
fn absent(found: &mut Compared, against: &Against<'_>) {
    let items = found.items.iter();
    let mut there = Beside::new(items.map(|item| (&item.entry.path, item.entry.kind)));
    let mut index = Beside::new(against.index.by_path());
    for (path, (mode, _)) in against.tree {
        let is_there = there.at(path).is_some_and(|kind| {
            matches!(kind, Kind::File | Kind::Link) || (mode == LINK && kind == Kind::Dir)
        });
        if !is_there && !index.at(path).is_some_and(|staged| staged.skip) {
            found.dirty.insert(path.clone());
        }
    }
}

/// Returns the paths whose index entry differs from the commit.
pub(in super::super) fn staged(against: &Against<'_>) -> BTreeSet<RelPath> {
    let mut found = BTreeSet::new();
    if against.index.odd.is_some() {
        return found;
    }
    let mut left = against.tree.iter().peekable();
    for staged in &against.index.entries {
        while let Some((path, _)) = left.next_if(|(path, _)| **path < staged.path) {
            found.insert(path.clone());
        }
        let same = left.next_if(|(path, _)| **path == staged.path);
        let same = same.is_some_and(|(_, (mode, id))| (mode, id) == (&staged.mode, &staged.id));
        if !same || staged.stage > 0 || staged.promised {
            found.insert(staged.path.clone());
        }
    }
    found.extend(left.map(|(path, _)| path.clone()));
    found
}
