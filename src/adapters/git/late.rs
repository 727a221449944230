//! What was written into a sandbox after its last measurement, before or while it was renamed beside its place. Nothing
//! measured that, so it is not known to be safe anywhere.
//!
//! All entries are looked at once more, there. One that has the stamp it was measured with is as it was, unless
//! that is as young as the measurement itself; any other file is hashed, and compared with what was measured. Of what lies
//! in a repository inside, and of unchanged copies, only stamps were looked at: there the change time decides, which the
//! owner of a file cannot set.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::admin::failed;
use super::bytes;
use super::files::compare::{Item, read};
use super::files::open::Root;
use super::files::paths::Paths;
use super::files::seen::Seen;
use super::files::walk::{Entry, Kind, walk};
use super::inner::Home;
use super::measure::{Measured, rules};
use super::rig::GitRepo;
use super::{ignored, links};
use crate::adapters::trash::stamp_now;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// What git writes in the administrative directory with every commit, checkout or `add`.
const STATE: [&str; 3] = ["HEAD", "index", "logs/HEAD"];

/// A change time so far in the future, in seconds, is of before a clock was set back. The kernel's own times for files
/// are finer than the clock that is asked here.
const SLACK: i64 = 2;

/// Before the last measurement of a sandbox began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Began((i64, i64));

impl Began {
    pub(super) fn now() -> Self {
        Self(stamp_now())
    }

    /// Whether something was changed since.
    fn precedes(self, changed: (i64, i64)) -> bool {
        self.0 <= changed && changed.0 <= stamp_now().0 + SLACK
    }
}

/// Has the sandbox renamed to `place`, and returns what was written since it was measured, for people. What cannot be told
/// counts as written.
///
/// # Errors
/// As `rename`; then nothing was renamed.
pub(super) fn watch(
    repo: &GitRepo,
    measured: &Measured,
    began: Began,
    place: &Path,
    rename: impl FnOnce() -> Result<(), RepoError>,
) -> Result<Option<String>, RepoError> {
    let excludes = ignored::excludes(repo);
    let listed = measured.index.entries.iter().map(|staged| &staged.path);
    let own = links::names(measured.ground.note.as_ref());
    let shown = Paths::of(measured.tree.keys().chain(listed).chain(&own));
    // Which links are ours can be told only where they lie.
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
        Ok(late) => late.map(|what| format!("{what} was written while it was removed")),
        Err(error) => Some(format!("what was written to it last: {error}")),
    })
}

struct Late<'a> {
    measured: &'a Measured,
    began: Began,
    root: &'a Root,
}

impl Late<'_> {
    /// The first of the entries that holds what nothing measured.
    fn first(&self, entries: Vec<Entry>) -> Result<Option<String>, RepoError> {
        let more = &self.measured.inner.more;
        let more = more.iter().filter(|(home, _)| *home == Home::Sandbox);
        let more = more.map(|(_, item)| item);
        let items = self.measured.files.items.iter().chain(more);
        let known: HashMap<&[u8], &Item> = items
            .map(|item| (item.entry.path.as_slice(), item))
            .collect();
        for entry in entries {
            // A directory holds nothing itself, neither does a pipe.
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
        let now = read(self.root, entry, self.measured.format, &mut Seen::default())?;
        // What was removed meanwhile was measured.
        Ok(now.is_none_or(|(_, now)| now == *id))
    }

    /// What was measured of its bytes. A file that was as it was checked out has those of the commit.
    fn id<'i>(&'i self, item: &'i Item) -> Option<&'i Oid> {
        let committed = || self.measured.tree.get(&item.entry.path).map(|(_, id)| id);
        item.id.as_ref().or_else(committed)
    }

    /// A commit, checkout or `add` in it, which the administrative directory tells of.
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
