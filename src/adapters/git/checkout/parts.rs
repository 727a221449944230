//! The steps in which the files of a landing are written. git compares all files with its index before it writes the first one, and
//! writes then for as long as filters take: what a person saves meanwhile would be overwritten. So git writes a few files at a time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::admin::scratch;
use super::super::bytes;
use super::super::command::Git;
use super::super::rig::{GitRepo, oid};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The time that a step may take, if git itself does not need more.
const STEP: Duration = Duration::from_millis(100);
/// The number of steps of a landing, nearly, unless filters are slow: each one costs the reading of an index.
const STEPS: usize = 50;

/// A path that changes, as `git update-index --index-info` reads it.
struct Change {
    path: Vec<u8>,
    line: Vec<u8>,
}

/// The steps from one tree to another, each of them a tree in ours.
pub(super) struct Parts<'r> {
    repo: &'r GitRepo,
    scratch: TempDir,
    /// The paths that are removed come first: a file may come in the place of a directory.
    left: std::vec::IntoIter<Change>,
    count: usize,
    at: Oid,
    end: Oid,
    size: usize,
    /// The time that the first step took.
    first: Option<Duration>,
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
    pub(super) fn of(repo: &'r GitRepo, old: &Oid, new: &Oid) -> Result<Self, RepoError> {
        let mut changes = changes(repo, old, new)?;
        // Attributes say how the others are written.
        let is_attributes = |change: &Change| change.path.ends_with(b".gitattributes");
        changes.sort_by_key(|change| (!change.line.starts_with(b"0 "), !is_attributes(change)));
        let parts = Self {
            repo,
            scratch: scratch(repo)?,
            count: changes.len(),
            left: changes.into_iter(),
            at: old.clone(),
            end: new.clone(),
            size: 1,
            first: None,
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
        self.resize();
        let changes: Vec<Change> = self.left.by_ref().take(self.size).collect();
        if changes.is_empty() {
            return Ok(None);
        }
        let to = match self.left.len() {
            0 => self.end.clone(),
            _ => self.tree(&changes)?,
        };
        let from = std::mem::replace(&mut self.at, to.clone());
        let paths = changes.into_iter().map(|change| change.path).collect();
        self.begun = Some(now());
        Ok(Some(Part { from, to, paths }))
    }

    /// Adapts the size of a step: a slow filter makes small ones.
    fn resize(&mut self) {
        let Some(took) = self.begun.map(|begun| now().duration_since(begun)) else {
            return;
        };
        let first = *self.first.get_or_insert(took);
        let limit = STEP.max(first * 2);
        let least = (self.count / STEPS).max(1);
        self.size = match took {
            took if took > limit => (self.size / 2).max(1),
            took if took * 2 < limit => (self.size * 2).max(least),
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

fn changes(repo: &GitRepo, old: &Oid, new: &Oid) -> Result<Vec<Change>, RepoError> {
    let diff = repo
        .git()
        .args(["diff-tree", "-r", "-z", "--no-renames"])
        .args([old.as_str(), new.as_str()])
        .run()?;
    let mut fields = bytes::split(&diff.stdout);
    let mut found = Vec::new();
    // `:<mode> <mode> <id> <id> <status>`, then the path.
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<&[u8]> = what.split(|byte| *byte == b' ').collect();
        let [_, mode, _, id, status] = words[..] else {
            let what = bytes::lossy(what);
            return Err(RepoError::Failed(format!("git diff-tree printed {what:?}")));
        };
        // A mode of zero removes.
        let mode = if status == b"D" { b"0" } else { mode };
        found.push(Change {
            path: path.to_vec(),
            line: [mode, b" ", id, b"\t", path, b"\0"].concat(),
        });
    }
    Ok(found)
}
