//! Finds files that were written into a sandbox after its last measurement, before or while it was renamed. Such
//! files are unmeasured, so they may exist nowhere else.
//!
//! All entries are examined once more after the rename. An entry with its measured stamp is unchanged, unless the
//! stamp is as young as the measurement itself, or the file was mapped; any other file is hashed and compared with the
//! measurement. For files in a repository inside, and for unchanged copies, only stamps were measured: there the stamp
//! decides, whose change time the owner of a file cannot set. A directory that was not measured is late with all its
//! files, which may be old: it was moved there.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::admin::At;
use super::bytes;
use super::files::compare::{Item, read};
use super::files::hash_cache::HashCache;
use super::files::open::Root;
use super::files::paths::Paths;
use super::files::walk::{Entry, Kind, walk};
use super::inner::Home;
use super::measure::{Measured, rules};
use super::rig::GitRepo;
use super::{ignored, injected_files};
use crate::adapters::proc::{FileId, mapped_files};
use crate::adapters::trash::{Note, Stamp, stamp_now};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The files that git writes in the administrative directory with every commit, checkout or `add`.
const STATE: [&str; 3] = ["HEAD", "index", "logs/HEAD"];

/// Seconds that a change time may be in the future; one further ahead is from before a clock was set back. The
/// kernel's times of files are finer than the clock that is read here.
const SLACK: i64 = 2;

/// The state before the last measurement of a sandbox began.
#[derive(Debug, Clone)]
pub(super) struct Began {
    at: Stamp,
    /// The files that other processes have mapped: they may be written without a change of their times.
    mapped: HashSet<FileId>,
}

impl Began {
    /// Looks at the clock and at the mappings.
    ///
    /// # Errors
    /// When the processes cannot be read.
    pub(super) fn now() -> io::Result<Self> {
        Ok(Self {
            at: stamp_now(),
            mapped: mapped_files()?,
        })
    }

    /// Adds the files that were mapped since.
    ///
    /// # Errors
    /// When the processes cannot be read.
    pub(super) fn map_more(&mut self) -> io::Result<()> {
        self.mapped.extend(mapped_files()?);
        Ok(())
    }

    /// Makes the note for the trash on a directory as it is now. `since` is earlier.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub(super) fn note(&self, place: &Path, since: Stamp) -> io::Result<Note> {
        Note::of(place, since, &self.mapped)
    }

    /// Returns true if the change came after it.
    fn precedes(&self, changed: Stamp) -> bool {
        self.at <= changed && changed.0 <= stamp_now().0 + SLACK
    }
}

/// Calls `rename`, which moves the sandbox to `place`, and returns the path that was written since the measurement,
/// for people. Anything uncertain counts as written.
///
/// # Errors
/// The error of `rename`; then nothing was renamed.
pub(super) fn watch(
    repo: &GitRepo,
    measured: &Measured,
    began: &Began,
    place: &Path,
    rename: impl FnOnce() -> Result<(), RepoError>,
) -> Result<Option<String>, RepoError> {
    let excludes = ignored::excludes(repo);
    let listed = measured.index.entries.iter().map(|staged| &staged.path);
    let own = injected_files::names(measured.ground.note.as_ref());
    let shown = Paths::of(measured.tree.keys().chain(listed).chain(&own));
    // Computed before the rename: our links can be recognised only in their place.
    let mut rules = rules(&measured.ground, &excludes, &shown, &measured.index);
    rename()?;
    let found = (|| {
        let root = Root::open(place).at("cannot read", place)?;
        let walked = walk(&root, &mut rules).at("cannot read", place)?;
        if let Some(closed) = walked.closed.iter().find(|closed| !closed.hidden) {
            let (path, why) = (bytes::lossy(&closed.path), &closed.why);
            return Err(RepoError::Failed(format!("cannot read {path}: {why}")));
        }
        let inodes = began.mapped.iter().map(|(_, inode)| *inode).collect();
        let late = Late {
            measured,
            began,
            mapped: inodes,
            root: &root,
        };
        match late.first(walked.entries)? {
            Some(path) => Ok(Some(format!("{path} was written or moved there"))),
            None => Ok(late.state().map(|name| format!("{name} was written"))),
        }
    })();
    Ok(match found {
        Ok(late) => late.map(|what| format!("{what} while it was removed")),
        Err(error) => Some(format!("its latest content: {error}")),
    })
}

struct Late<'a> {
    measured: &'a Measured,
    began: &'a Began,
    /// Inodes, on any device: a file more is hashed then.
    mapped: HashSet<u64>,
    root: &'a Root,
}

impl Late<'_> {
    /// Returns the first entry with unmeasured content.
    fn first(&self, entries: Vec<Entry>) -> Result<Option<String>, RepoError> {
        let more = &self.measured.inner.more;
        let more = more.iter().filter(|(home, _)| *home == Home::Sandbox);
        let more = more.map(|(_, item)| item);
        let items = self.measured.files.items.iter().chain(more);
        let known: HashMap<&[u8], &Item> = items
            .map(|item| (item.entry.path.as_slice(), item))
            .collect();
        let there = self.measured.entries.iter();
        let there: HashMap<&[u8], &Entry> = there.map(|it| (it.path.as_slice(), it)).collect();
        for entry in entries {
            let before = there.get(entry.path.as_slice()).copied();
            let item = known.get(entry.path.as_slice()).copied();
            let is_known = match entry.kind {
                Kind::Dir => before
                    .is_some_and(|it| (it.kind, it.stamp.inode) == (Kind::Dir, entry.stamp.inode)),
                // A pipe or socket has no content.
                Kind::Other => true,
                Kind::File | Kind::Link => match item {
                    Some(item) => self.is_measured(item, entry.clone())?,
                    None => before == Some(&entry) && !self.is_young(&entry),
                },
            };
            if !is_known {
                return Ok(Some(bytes::lossy(&entry.path)));
            }
        }
        Ok(None)
    }

    fn is_young(&self, entry: &Entry) -> bool {
        let (second, part) = entry.stamp.changed;
        self.began.precedes((second, part.into()))
    }

    fn is_measured(&self, item: &Item, entry: Entry) -> Result<bool, RepoError> {
        let is_mapped = self.mapped.contains(&entry.stamp.inode);
        if item.entry.stamp == entry.stamp && !is_mapped && !self.is_young(&entry) {
            return Ok(true);
        }
        let same = (entry.kind, entry.git_mode()) == (item.entry.kind, item.entry.git_mode());
        let Some(id) = self.id(item).filter(|_| same) else {
            return Ok(false);
        };
        let now = read(
            self.root,
            entry,
            self.measured.format,
            &mut HashCache::default(),
        )?;
        // A file that was removed meanwhile was measured.
        Ok(now.is_none_or(|(_, now)| now == *id))
    }

    /// Returns the measured id of the file's bytes. An unchanged file has that of the commit.
    fn id<'i>(&'i self, item: &'i Item) -> Option<&'i Oid> {
        let committed = || self.measured.tree.get(&item.entry.path).map(|(_, id)| id);
        item.id.as_ref().or_else(committed)
    }

    /// Returns the file in the administrative directory that shows a later commit, checkout or `add`.
    fn state(&self) -> Option<String> {
        let admin = self.measured.ground.admin.as_deref()?;
        let is_late = |name: &&'static str| {
            let found = fs::symlink_metadata(admin.join(name));
            found.is_ok_and(|found| self.began.precedes((found.ctime(), found.ctime_nsec())))
        };
        let name = STATE.into_iter().find(is_late)?;
        Some(format!("{name} of its repository"))
    }
}
