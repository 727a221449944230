//! The steps in which the files of a landing are written. git compares all files with its index before it writes the first one, and
//! writes then for as long as filters take: what a person saves meanwhile would be overwritten. So git writes a few files at a time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::admin::scratch;
use super::super::command::Git;
use super::super::rig::{GitRepo, oid};
use super::changed::{Raw, raw};
use super::unfinished::Unfinished;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The time that the files of a step may take, beside what git itself needs.
const STEP: Duration = Duration::from_millis(100);
/// The number of steps of a landing, nearly, unless filters are slow: each one costs the reading of an index.
const STEPS: usize = 50;

/// A path that changes, as `git update-index --index-info` reads it.
struct Change {
    path: Vec<u8>,
    line: Vec<u8>,
}

impl Change {
    fn is_removal(&self) -> bool {
        self.line.starts_with(b"0 ")
    }

    /// Returns true if it says how other files are written.
    fn is_attributes(&self) -> bool {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        name == Some(b".gitattributes")
    }
}

/// The steps from one tree to another, each of them a tree in ours.
pub(super) struct Parts<'r> {
    repo: &'r GitRepo,
    scratch: TempDir,
    /// The paths that are removed come first: a file may come in the place of a directory.
    left: std::vec::IntoIter<Change>,
    /// The files that a filter writes, which may be slow: they come last.
    filtered: Vec<Change>,
    /// Set when only those are left.
    is_filtered: bool,
    count: usize,
    at: Oid,
    end: Oid,
    size: usize,
    /// The time that git takes for a step that writes nothing, which is the first one.
    idle: Option<Duration>,
    begun: Option<Instant>,
}

/// A step.
pub(super) struct Part {
    pub(super) from: Oid,
    pub(super) to: Oid,
    /// The paths that it changes.
    pub(super) paths: HashSet<Vec<u8>>,
}

impl<'r> Parts<'r> {
    /// Makes the steps between two commits.
    ///
    /// # Errors
    /// When git cannot compare them.
    pub(super) fn of(repo: &'r GitRepo, landing: &Unfinished) -> Result<Self, RepoError> {
        let (old, new) = landing.commits();
        let mut changes = changes(repo, old, new)?;
        changes.sort_by_key(|change| (!change.is_removal(), !change.is_attributes()));
        let slow = filtered(repo, landing, &changes)?;
        let is_slow = |change: &Change| {
            !change.is_removal() && !change.is_attributes() && slow.contains(&change.path)
        };
        let count = changes.len();
        let (filtered, quick): (Vec<_>, Vec<_>) = changes.into_iter().partition(is_slow);
        let parts = Self {
            repo,
            scratch: scratch(repo)?,
            count,
            left: quick.into_iter(),
            filtered,
            is_filtered: false,
            at: old.clone(),
            end: new.clone(),
            size: 1,
            idle: None,
            begun: None,
        };
        parts.git().args(["read-tree", old.as_str()]).run()?;
        Ok(parts)
    }

    /// Returns the next step; none after the last one. Its size depends on the time that the one before took.
    ///
    /// # Errors
    /// When its tree cannot be written.
    pub(super) fn next(&mut self) -> Result<Option<Part>, RepoError> {
        let Some(begun) = self.begun else {
            self.begun = Some(now());
            let at = self.at.clone();
            return Ok((self.count > 0).then(|| Part {
                from: at.clone(),
                to: at,
                paths: HashSet::new(),
            }));
        };
        self.resize(now().duration_since(begun));
        if self.left.len() == 0 {
            self.left = std::mem::take(&mut self.filtered).into_iter();
            (self.size, self.is_filtered) = (1, true);
        }
        let changes: Vec<Change> = self.left.by_ref().take(self.size).collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let to = match self.left.len() + self.filtered.len() {
            0 => self.end.clone(),
            _ => self.tree(&changes)?,
        };
        let from = std::mem::replace(&mut self.at, to.clone());
        let paths = changes.into_iter().map(|change| change.path).collect();
        self.begun = Some(now());
        Ok(Some(Part { from, to, paths }))
    }

    /// Adapts the size of a step to the time that the last one took beside git's own.
    fn resize(&mut self, took: Duration) {
        let idle = self.idle.map_or(took, |idle| idle.min(took));
        self.idle = Some(idle);
        let least = match self.is_filtered {
            true => 1,
            false => (self.count / STEPS).max(1),
        };
        self.size = match took.saturating_sub(idle) {
            own if own > STEP => (self.size / 2).max(1),
            own if own * 2 < STEP => (self.size * 2).max(least),
            _ => self.size.max(least),
        };
    }

    fn tree(&self, changes: &[Change]) -> Result<Oid, RepoError> {
        let lines = changes.iter().flat_map(|change| change.line.clone());
        self.git()
            .args(["update-index", "-z", "--index-info"])
            .stdin(lines.collect::<Vec<u8>>())
            .run()?;
        let written = self.git().args(["write-tree", "--missing-ok"]).run()?;
        oid(written.text().trim())
    }

    fn git(&self) -> Git {
        let index: PathBuf = self.scratch.path().join("index");
        self.repo.git().env("GIT_INDEX_FILE", index)
    }
}

#[expect(clippy::disallowed_methods, reason = "git writes in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the paths that a filter writes, such as that of git-lfs. The attributes are read from an index, because git reads none from
/// a commit before its version 2.41.
fn filtered(
    repo: &GitRepo,
    landing: &Unfinished,
    changes: &[Change],
) -> Result<HashSet<Vec<u8>>, RepoError> {
    let list = changes
        .iter()
        .flat_map(|change| [&change.path[..], b"\0"].concat());
    let scratch = scratch(repo)?;
    let git = || {
        let index = scratch.path().join("index");
        landing.git().env("GIT_INDEX_FILE", index)
    };
    git()
        .args(["read-tree", landing.commits().1.as_str()])
        .run()?;
    let told = git()
        .args(["check-attr", "--cached", "-z", "--stdin", "filter"])
        .stdin(list.collect::<Vec<u8>>())
        .run()?;
    // `<path> <attribute> <value>`
    let told: Vec<&[u8]> = told.stdout.split(|byte| *byte == 0).collect();
    let has_filter = |told: &&[&[u8]]| !matches!(told[2], b"unspecified" | b"unset");
    let filtered = told.chunks_exact(3).filter(has_filter);
    Ok(filtered.map(|told| told[0].to_vec()).collect())
}

fn changes(repo: &GitRepo, old: &Oid, new: &Oid) -> Result<Vec<Change>, RepoError> {
    let change = |Raw { modes, ids, path }: Raw| {
        // A mode of zero removes.
        let mode = match modes.1.as_str() {
            "000000" => "0",
            mode => mode,
        };
        let line = format!("{mode} {}\t", ids.1).into_bytes();
        Change {
            line: [&line[..], &path, b"\0"].concat(),
            path,
        }
    };
    let changed = raw(repo.git(), old, new)?.into_iter();
    Ok(changed.map(change).collect())
}
