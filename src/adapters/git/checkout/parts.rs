//! The steps in which the files of a landing are written. git compares all files with its index before it writes the first one, and
//! writes then for as long as filters and large files take: what a person saves meanwhile would be overwritten. So git writes a few
//! files at a time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::super::admin::scratch;
use super::super::command::Git;
use super::super::object_copy::looked_up;
use super::super::rig::{GitRepo, oid};
use super::changed::{Raw, raw};
use super::filtered::Filtered;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The time that the files of a step may take, beside what git itself needs.
pub(super) const STEP: Duration = Duration::from_millis(100);
/// The number of steps of a landing, nearly, unless files are slow or large: each one costs the reading of an index.
const STEPS: usize = 50;
/// The bytes of files that are written in a step. A larger file has a step of its own.
pub(super) const STEP_BYTES: u64 = 16 * 1024 * 1024;

/// A path that changes, as `git update-index --index-info` reads it.
struct Change {
    path: Vec<u8>,
    line: Vec<u8>,
    /// Set when it says how other files are written.
    is_attributes: bool,
    /// The content; none for a removal and a submodule.
    content: Option<Oid>,
    /// The length of the content in bytes.
    size: u64,
}

impl Change {
    fn is_removal(&self) -> bool {
        self.line.starts_with(b"0 ")
    }
}

/// The steps from one tree to another, each of them a tree in ours.
pub(super) struct Parts<'r> {
    repo: &'r GitRepo,
    scratch: TempDir,
    /// The files without a filter. The paths that are removed come first: a file may come in the place of a directory.
    quick: std::vec::IntoIter<Change>,
    /// The files that a filter writes, which may be slow, with the time that it took in the rehearsal: they come last.
    filtered: std::vec::IntoIter<(Change, Duration)>,
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
    /// Makes the steps between two commits, with the times of the files that a filter writes.
    ///
    /// # Errors
    /// When git cannot compare them.
    pub(super) fn of(
        repo: &'r GitRepo,
        (old, new): (&Oid, &Oid),
        times: &Filtered,
    ) -> Result<Self, RepoError> {
        let mut changes = changes(repo, old, new)?;
        changes.sort_by_key(|change| (!change.is_removal(), !change.is_attributes));
        let count = changes.len();
        let (mut quick, mut filtered) = (Vec::new(), Vec::new());
        for change in changes {
            match times.get(&change.path) {
                Some(time) => filtered.push((change, *time)),
                None => quick.push(change),
            }
        }
        let parts = Self {
            repo,
            scratch: scratch(repo)?,
            count,
            quick: quick.into_iter(),
            filtered: filtered.into_iter(),
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
        let mut changes = self.quick_files();
        if changes.is_empty() {
            changes = self.filtered_files();
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let to = match self.quick.len() + self.filtered.len() {
            0 => self.end.clone(),
            _ => self.tree(&changes)?,
        };
        let from = std::mem::replace(&mut self.at, to.clone());
        let paths = changes.into_iter().map(|change| change.path).collect();
        self.begun = Some(now());
        Ok(Some(Part { from, to, paths }))
    }

    /// Takes files until the step is full.
    fn quick_files(&mut self) -> Vec<Change> {
        let (mut files, mut bytes) = (Vec::new(), 0_u64);
        while files.len() < self.size
            && let Some(next) = self.quick.as_slice().first()
        {
            bytes = next.size.saturating_add(bytes);
            if bytes > STEP_BYTES && !files.is_empty() {
                break;
            }
            files.extend(self.quick.next());
        }
        files
    }

    /// Takes files until their filters need the time of a step, as far as the rehearsal tells.
    fn filtered_files(&mut self) -> Vec<Change> {
        let (mut files, mut spent) = (Vec::new(), Duration::ZERO);
        while let Some((_, took)) = self.filtered.as_slice().first() {
            spent += *took;
            if spent > STEP && !files.is_empty() {
                break;
            }
            files.extend(self.filtered.next().map(|(change, _)| change));
        }
        files
    }

    /// Adapts the size of a step to the time that the last one took beside git's own.
    fn resize(&mut self, took: Duration) {
        let idle = self.idle.map_or(took, |idle| idle.min(took));
        self.idle = Some(idle);
        self.size = next_size(self.size, (self.count / STEPS).max(1), took, idle);
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

/// Returns the number of files of the next step. Where git alone takes long, its time varies by more than that of a step.
fn next_size(size: usize, least: usize, took: Duration, idle: Duration) -> usize {
    match took.saturating_sub(idle) {
        own if own > STEP.max(idle / 2) => (size / 2).max(1),
        own if own * 2 < STEP => (size * 2).max(least),
        _ => size.max(least),
    }
}

#[expect(clippy::disallowed_methods, reason = "git writes in real time")]
fn now() -> Instant {
    Instant::now()
}

fn changes(repo: &GitRepo, old: &Oid, new: &Oid) -> Result<Vec<Change>, RepoError> {
    let change = |it: Raw| {
        // A mode of zero removes.
        let mode = match it.modes.1.as_str() {
            "000000" => "0",
            mode => mode,
        };
        let line = format!("{mode} {}\t", it.ids.1).into_bytes();
        Change {
            line: [&line[..], &it.path, b"\0"].concat(),
            is_attributes: it.is_attributes(),
            content: it.is_file_after().then_some(it.ids.1),
            path: it.path,
            size: 0,
        }
    };
    let changed = raw(repo.git(), old, new)?.into_iter();
    let mut changes: Vec<Change> = changed.map(change).collect();
    let contents = changes.iter().filter_map(|change| change.content.as_ref());
    let sizes = looked_up(repo.git(), "%(objectsize)", contents)?;
    let with_content = changes.iter_mut().filter(|it| it.content.is_some());
    for (change, (_, size)) in with_content.zip(sizes) {
        change.size = size.and_then(|size| size.parse().ok()).unwrap_or(u64::MAX);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_while_they_are_quick_and_shrink_when_they_are_slow() {
        let ms = Duration::from_millis;
        for (size, took, idle, next) in [
            (1, 10, 10, 4),
            (4, 30, 10, 8),
            (8, 100, 10, 8),
            (8, 500, 10, 4),
            (1, 500, 10, 1),
            // git alone takes a second, and a tenth of it is no sign of slow files.
            (8, 1200, 1000, 8),
            (8, 2000, 1000, 4),
        ] {
            let found = next_size(size, 4, ms(took), ms(idle));
            assert_eq!(found, next, "{size} files in {took} ms, {idle} ms of git");
        }
    }
}
