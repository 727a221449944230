//! Merges in memory: makes the commits that would land without a work tree and without moving a ref.
//!
//! ```text
//! styles (rebase, squash, merge)
//!    └── engine ── in process: tree (paths that one side alone changed, over git2)
//!             └─── commands:   git merge-tree, for every other merge
//! ```

mod attributes;
mod commands;
mod commit;
mod engine;
mod message;
mod styles;
mod tree;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod lab;
#[cfg(test)]
mod source;
#[cfg(test)]
mod submodules;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upstream;

use std::path::Path;

pub(super) use self::commands::Apart;
use super::rig::GitRepo;
use crate::domain::merge::MergeOutcome;
use crate::ports::repo::{LandRequest, RepoError};

/// Makes, in memory, the commits that would land.
///
/// # Errors
/// [`RepoError`]; a conflict is an outcome, not an error.
pub(super) fn merge(repo: &GitRepo, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
    merge_in(repo.repo_dir(), request)
}

/// As [`merge`], for a look at the result: nothing of it lands, so nothing is signed, and all objects are written apart.
///
/// # Errors
/// As [`merge`].
pub(super) fn preview(
    repo: &GitRepo,
    request: &LandRequest,
    apart: Apart,
) -> Result<MergeOutcome, RepoError> {
    let engine = engine::open_apart(repo.repo_dir(), apart);
    styles::land(engine.as_ref(), request)
}

/// As [`merge`], but in any repository.
fn merge_in(dir: &Path, request: &LandRequest) -> Result<MergeOutcome, RepoError> {
    let engine = engine::open(dir)?;
    styles::land(engine.as_ref(), request)
}
