//! Merging in memory: what would land, made without a work tree and without moving a ref.
//!
//! ```text
//! styles (rebase, squash, merge)
//!    └── engine ── in process: tree (pruned three-way merge over git2)
//!             └─── commands:   git merge-tree, whenever there is doubt
//! ```

mod attributes;
mod commands;
mod commit;
mod engine;
mod message;
mod styles;
mod tree;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod tests;

use std::path::Path;

use super::equal;
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::domain::merge::MergeOutcome;
use crate::ports::repo::{LandRequest, RepoError};
use commit::Commit;

/// Makes, in memory, the commits that would land.
///
/// # Errors
/// [`RepoError`]; a conflict is an outcome, not an error.
pub(super) fn merge(repo: &GitRepo, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
    merge_in(repo.repo_dir(), request)
}

/// As [`merge`], in any repository.
fn merge_in(dir: &Path, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
    let engine = engine::open(dir)?;
    styles::land(engine.as_ref(), &Patches(dir), request)
}

/// Looks for equal patches with the `git` program.
struct Patches<'a>(&'a Path);

impl styles::Upstream for Patches<'_> {
    fn has_commit(&self, onto: &Oid, commit: &Commit) -> Result<bool, RepoError> {
        let Some(parent) = commit.parents.first() else {
            return Ok(false);
        };
        equal::commits(self.0, onto, &commit.id, Some(parent))
    }

    fn has_all(&self, onto: &Oid, head: &Oid) -> Result<bool, RepoError> {
        equal::work(self.0, onto, head)
    }
}
