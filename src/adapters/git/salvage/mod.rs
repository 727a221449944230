//! Salvage: everything a sandbox holds, as refs in `repo.git`, and back.
//!
//! ```text
//!   refs/horde/salvage/<rig>/<raider>/<incarnation>[.n]/
//!     head        HEAD's commit
//!     index       the index; in a conflict our side, all stages are in meta
//!     worktree    every file, byte for byte; `git diff <ref>^ <ref>` shows what was not committed
//!     stash-k     stash entries of this sandbox
//!     reflog-k    commits that only HEAD's reflog named
//!     nested-k    the git directory of a repository inside the sandbox, as plain files
//!     staged-k    the index of a worktree that the agent made inside the sandbox, by stages
//!     meta        manifest, exact index, flags, state of a rebase, merge or bisect; its parents
//!                 are the commits that this state names
//! ```
//!
//! A merge request that never landed has no sandbox any more: its salvage is `head` alone.
//!
//! `measure ─► capture ─► refs (one transaction) ─► read back ─► measure and capture again: equal?`

mod capture;
mod manifest;
mod part;
mod prune;
mod restore;
mod store;

use std::path::Path;

pub(super) use prune::{delete_refs, tips};
pub(super) use restore::restore;
pub(super) use store::keep;

use self::capture::{Capture, capture};
use self::manifest::{Lists, Manifest, clones};
use super::measure::{Measured, measure_left};
use super::raw::Raw;
use super::rig::GitRepo;
use crate::domain::ids::{Incarnation, RaiderId};
use crate::ports::repo::{RepoError, SalvageRecord};

/// A sandbox that changes under salvage this often is in use.
const ROUNDS: usize = 3;

/// How much there is to save, before any of it is written; nothing where there is nothing any more.
pub(super) fn size(repo: &GitRepo, sandbox: &Path) -> Result<u64, RepoError> {
    measure_left(repo, sandbox)?.map_or(Ok(0), |left| capture::size(&left))
}

/// Saves the sandbox, or what git still knows of it where its directory is gone. What was saved before from the very same state is not saved twice.
pub(super) fn salvage(
    repo: &GitRepo,
    sandbox: &Path,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    let measure = || {
        let gone = || RepoError::NotFound(format!("the sandbox {}", sandbox.display()));
        measure_left(repo, sandbox)?.ok_or_else(gone)
    };
    let mut before = measure()?;
    if let Some(record) = store::existing(repo, raider, incarnation, &before.fingerprint)? {
        return Ok(record);
    }
    let raw = Raw::new(repo)?;
    for round in 0..ROUNDS {
        let first = capture(&raw, &before, 2 * round)?;
        let second = capture(&raw, &before, 2 * round + 1)?;
        let after = measure()?;
        if first == second && before.fingerprint == after.fingerprint {
            return store::write(repo, &raw, &before, &first, raider, incarnation);
        }
        before = after;
    }
    Err(RepoError::Failed(format!(
        "{} keeps changing while it is saved",
        sandbox.display()
    )))
}

/// The manifest of a captured sandbox.
fn describe(
    measured: &Measured,
    capture: &Capture,
    raider: &RaiderId,
    incarnation: Incarnation,
    ignored: Vec<String>,
) -> (Manifest, Lists) {
    let manifest = Manifest {
        version: 1,
        raider: raider.clone(),
        incarnation,
        sandbox: measured.place.sandbox.display().to_string(),
        head: measured.status.head.clone(),
        branch: measured.status.branch.clone(),
        fingerprint: measured.fingerprint.clone(),
        stashes: measured
            .stashes
            .iter()
            .map(|stash| stash.message.clone())
            .collect(),
        special: measured.special.clone(),
        ignored,
        clones: clones(measured),
    };
    (manifest, Lists::of(measured, capture))
}
