//! Measures a sandbox: everything in it that a removal could lose, and a digest of all of it.
//!
//! Facts are made from this, and salvage writes exactly what this names, so that nothing can be in
//! the one and not in the other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::admin::{self, Note, Place, locate};
use super::bytes::{self, RelPath};
use super::nested::{self, Nested};
use super::rig::GitRepo;
use super::status::{self, IndexEntry, Status};
use super::traces::{self, Lost, Stash};
use super::{digest, links, special};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A sandbox at one moment.
#[derive(Debug)]
pub(super) struct Measured {
    /// Where.
    pub(super) place: Place,
    /// Its administrative directory, and those of worktrees that the agent made inside it.
    pub(super) admins: Vec<PathBuf>,
    /// What `git status` says.
    pub(super) status: Status,
    /// The index, flags included.
    pub(super) index: Vec<IndexEntry>,
    /// Edited paths that git was told not to look at.
    pub(super) hidden: Vec<RelPath>,
    /// Paths that our own excludes hide from git, and that are not as we made them.
    pub(super) extra: Vec<RelPath>,
    /// Repositories inside the sandbox whose contents git does not show.
    pub(super) nested: Vec<Nested>,
    /// Stash entries of this sandbox.
    pub(super) stashes: Vec<Stash>,
    /// Commits that only its reflog and branches name.
    pub(super) lost: Lost,
    /// What else holds work, for people.
    pub(super) special: Vec<String>,
    /// Digest of everything above and of the content behind it.
    pub(super) fingerprint: String,
}

impl Measured {
    /// Tracked paths that hold something a commit does not.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &RelPath> {
        let changed = self.status.changes.iter().map(|change| &change.path);
        changed.chain(&self.hidden)
    }

    /// Untracked paths, nested repositories (ending with `/`) among them.
    pub(super) fn untracked(&self) -> impl Iterator<Item = &RelPath> {
        self.status.untracked.iter().chain(&self.extra)
    }
}

/// Measures the sandbox now. Changes nothing in it.
pub(super) fn measure(repo: &GitRepo, sandbox: &Path) -> Result<Measured, RepoError> {
    look(repo, locate(repo, sandbox)?)
}

/// Measures what is left of a sandbox, be it that its directory is gone. None where there is nothing.
pub(super) fn measure_left(repo: &GitRepo, sandbox: &Path) -> Result<Option<Measured>, RepoError> {
    match measure(repo, sandbox) {
        Err(RepoError::NotFound(_)) => measure_gone(repo, sandbox),
        measured => measured.map(Some),
    }
}

/// Measures all that git still knows of a sandbox whose directory is gone, as if its files were as the
/// index has them. None where it is there, or git knows nothing.
pub(super) fn measure_gone(repo: &GitRepo, sandbox: &Path) -> Result<Option<Measured>, RepoError> {
    let place = admin::locate_gone(repo, sandbox)?;
    let place = place.filter(|place| !is_unborn(&place.admin));
    place.map(|place| look(repo, place)).transpose()
}

/// Whether it was never filled: no agent was in it, and without an index all files look deleted.
fn is_unborn(admin: &Path) -> bool {
    let unfilled = Note::read(admin).is_some_and(|note| !note.complete);
    unfilled && std::fs::symlink_metadata(admin.join("index")).is_err()
}

fn look(repo: &GitRepo, place: Place) -> Result<Measured, RepoError> {
    let sandbox = place.sandbox.as_path();
    let note = Note::read(&place.admin);
    let mut status = status::read(place.git())?;
    status
        .untracked
        .retain(|path| !links::is_ours(sandbox, path));
    let index = status::index(place.git())?;
    let base = note.as_ref().map(|note| &note.base);
    let (mut hidden, mut extra, mut inside) = (Vec::new(), Vec::new(), Vec::new());
    if place.is_gone() {
        status.changes.retain(|change| change.in_index);
        for change in &mut status.changes {
            change.in_tree = false;
        }
    } else {
        hidden = hidden_edits(repo, &place, &index)?;
        extra = links::strangers(sandbox, note.as_ref(), &index);
        inside = admin::inside(repo, sandbox)?;
    }
    let (mut admins, inner): (Vec<_>, Vec<_>) = inside.into_iter().unzip();
    admins.insert(0, place.admin.clone());
    let nested = nested::find(repo, &place, &status, &index, base, &inner)?;
    let reflog = traces::head_reflogs(&admins)?;
    let stashes = traces::stashes(repo, note.as_ref(), &status, &reflog)?;
    let lost = traces::lost(repo, &place, note.as_ref(), &status, &reflog)?;
    // What it has committed is judged, and kept, in ours.
    let mut commits: Vec<Oid> = status.head.iter().cloned().collect();
    commits.extend(lost.tips.iter().chain(&lost.own).cloned());
    commits.extend(stashes.iter().map(|stash| stash.commit.clone()));
    repo.take(&commits)?;
    let mut measured = Measured {
        place,
        admins,
        status,
        index,
        hidden,
        extra,
        nested,
        stashes,
        lost,
        special: Vec::new(),
        fingerprint: String::new(),
    };
    measured.special = special::list(&measured)?;
    measured.fingerprint = digest::of(&measured)?;
    Ok(measured)
}

/// Edits of files that git was told not to look at (skip-worktree, assume-unchanged): compared in
/// a private index without those flags.
fn hidden_edits(
    repo: &GitRepo,
    place: &Place,
    index: &[IndexEntry],
) -> Result<Vec<RelPath>, RepoError> {
    let on_disk = |entry: &IndexEntry| {
        let path = place.sandbox.join(bytes::path(&entry.path));
        std::fs::symlink_metadata(path).is_ok()
    };
    let mut edits = BTreeSet::new();
    let mut suspects = Vec::new();
    for entry in index.iter().filter(|entry| entry.stage == 0) {
        match (entry.skip, entry.assume, on_disk(entry)) {
            (false, false, _) => {}
            // A path outside a sparse checkout is not there, and need not be.
            (true, _, false) => {}
            (false, true, false) => {
                edits.insert(entry.path.clone());
            }
            (_, _, true) => suspects.push(entry),
        }
    }
    if suspects.is_empty() {
        return Ok(edits.into_iter().collect());
    }
    let scratch = admin::scratch(repo)?;
    let file = scratch.path().join("index");
    let git = || place.git().env("GIT_INDEX_FILE", &file);
    let records: Vec<_> = suspects
        .iter()
        .map(|entry| entry.record(&entry.path, 0))
        .collect();
    git()
        .args(["update-index", "-z", "--index-info"])
        .stdin(bytes::join(records.iter().map(Vec::as_slice)))
        .run()?;
    // Ends with 1 where something differs, which the next command lists.
    git().args(["update-index", "-q", "--refresh"]).output()?;
    let differing = git().args(["diff-files", "--name-only", "-z"]).run()?;
    edits.extend(bytes::split(&differing.stdout).map(<[u8]>::to_vec));
    Ok(edits.into_iter().collect())
}
