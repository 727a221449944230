//! Finds files that were written into a sandbox after its last measurement, before or while it was renamed. Such
//! files are unmeasured, so they may exist nowhere else.
//!
//! All entries are examined once more after the rename. An entry with its measured stamp is unchanged, unless the
//! stamp is as young as the measurement itself; any other file is hashed and compared with the measurement. For files
//! in a repository inside, and for unchanged copies, only stamps were measured: there the change time decides, which
//! the owner of a file cannot set.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::admin::failed;
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
use crate::adapters::trash::stamp_now;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The files that git writes in the administrative directory with every commit, checkout or `add`.
const STATE: [&str; 3] = ["HEAD", "index", "logs/HEAD"];

/// Seconds that a change time may be in the future; one further ahead is from before a clock was set back. The
/// kernel's times of files are finer than the clock that is read here.
const SLACK: i64 = 2;

/// The time before the last measurement of a sandbox began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began((i64, i64));

impl Began {
    pub(super) fn now() -> Self {
        Self(stamp_now())
    }

    /// Returns true if the change came after it.
    fn precedes(self, changed: (i64, i64)) -> bool {
        self.0 <= changed && changed.0 <= stamp_now().0 + SLACK
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
    began: Began,
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
        let fail = |error: std::io::Error| failed("cannot read", place, &error);
        let root = Root::open(place).map_err(fail)?;
        let walked = walk(&root, &mut rules).map_err(fail)?;
        if let Some(closed) = walked.closed.iter().find(|closed| !closed.hidden) {
            let (path, why) = (bytes::lossy(&closed.path), &closed.why);
            return Err(RepoError::Failed(format!("cannot read {path}: {why}")));
        }
        let late = Late {
            measured,
            began,
            root: &root,
        };
        match late.first(walked.entries)? {
            Some(path) => Ok(Some(path)),
            None => Ok(late.state()),
        }
    })();
    Ok(match found {
        Ok(late) => late.map(|what| format!("{what} was written to while it was removed")),
        Err(error) => Some(format!("its latest content: {error}")),
    })
}

struct Late<'a> {
    measured: &'a Measured,
    began: Began,
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
        for entry in entries {
            // A directory, like a pipe, has no content of its own.
            if !matches!(entry.kind, Kind::File | Kind::Link) {
                continue;
            }
            let path = bytes::lossy(&entry.path);
            if !self.is_known(known.get(entry.path.as_slice()).copied(), entry)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn is_known(&self, item: Option<&Item>, entry: Entry) -> Result<bool, RepoError> {
        let (second, part) = entry.stamp.changed;
        let young = self.began.precedes((second, part.into()));
        let Some(item) = item else {
            return Ok(!young);
        };
        if item.entry.stamp == entry.stamp && !young {
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
