//! Salvage: everything a sandbox holds, as refs in ours, and back.
//!
//! ```text
//!   refs/horde/salvage/<rig>/<raider>/<incarnation>[.n]/
//!     head        HEAD's commit
//!     worktree    a commit with what the files were, where not all were committed; for people
//!     stash-k     stash entries of this sandbox
//!     reflog-k    commits that only HEAD's reflog named
//!     meta        what else there was; its parents are the commits that the state of git names
//!       manifest.json   for people
//!       files           a line for every entry: path, mode, size, time, and the blob with its bytes
//!       blobs/<id>      the blobs that HEAD does not reach
//! ```
//!
//! The sandbox is its bytes: files are stored raw, by our own walk, and put back in the same way. Neither an
//! index nor a configuration of git takes part. The index itself is one of the files.
//!
//! A merge request that never landed has no sandbox any more: its salvage is `head` alone. Salvage of the
//! first plan has trees instead of a list ([`legacy`]).
//!
//! `measure ─► blobs ─► measure afresh: equal? ─► refs (one transaction) ─► read back`

mod capture;
mod legacy;
mod manifest;
mod part;
mod prune;
mod relink;
mod restore;
mod store;
mod work;
mod written;

use std::path::Path;

pub(super) use prune::{delete_refs, tips};
pub(super) use restore::restore;
pub(super) use store::keep;

use self::capture::{Capture, capture};
use self::manifest::{Manifest, VERSION, clones};
use super::files::store::{Store, Unstored};
use super::measure::{Files, Measured, measure_left};
use super::rig::GitRepo;
use crate::domain::ids::{Incarnation, RaiderId};
use crate::ports::repo::{RepoError, SalvageRecord};

/// A sandbox that changes under salvage this often is in use.
const ROUNDS: usize = 3;

/// How much there is to save, before any of it is written; nothing where there is nothing any more, or
/// [`salvage`] would find it saved.
pub(super) fn size(repo: &GitRepo, sandbox: &Path) -> Result<u64, RepoError> {
    let Some(left) = measure_left(repo, sandbox, Files::Known)? else {
        return Ok(0);
    };
    let saved = match &left.ground.note {
        Some(note) => store::existing(repo, &note.raider, note.incarnation, &left.fingerprint)?,
        None => None,
    };
    saved.map_or_else(|| capture::size(repo, &left), |_| Ok(0))
}

/// Saves the sandbox, or what git still knows of it where its directory is gone. What was saved before
/// from the very same state is not saved twice.
pub(super) fn salvage(
    repo: &GitRepo,
    sandbox: &Path,
    raider: &RaiderId,
    incarnation: Incarnation,
) -> Result<SalvageRecord, RepoError> {
    let measure = |files| {
        let gone = || RepoError::NotFound(format!("the sandbox {}", sandbox.display()));
        measure_left(repo, sandbox, files)?.ok_or_else(gone)
    };
    let mut before = measure(Files::Known)?;
    if let Some(record) = store::existing(repo, raider, incarnation, &before.fingerprint)? {
        return Ok(record);
    }
    for _ in 0..ROUNDS {
        let mut blobs = Store::new(|| repo.git(), before.format);
        let captured = capture(repo, &mut blobs, &before);
        let after = measure(Files::Afresh)?;
        match captured {
            Ok(captured) if before.fingerprint == after.fingerprint => {
                return store::write(repo, blobs, &before, &captured, raider, incarnation);
            }
            Ok(_) | Err(Unstored::Changed) => {}
            Err(Unstored::Failed(error)) => return Err(error),
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
) -> Manifest {
    let ground = &measured.ground;
    let admin = ground.admin.as_ref();
    Manifest {
        version: VERSION,
        raider: raider.clone(),
        incarnation,
        sandbox: ground.sandbox.display().to_string(),
        admin: admin
            .map(|admin| admin.display().to_string())
            .unwrap_or_default(),
        head: ground.head.clone(),
        branch: ground.branch.clone(),
        fingerprint: measured.fingerprint.clone(),
        stashes: measured
            .stashes
            .iter()
            .map(|stash| stash.message.clone())
            .collect(),
        special: measured.special.iter().map(ToString::to_string).collect(),
        ignored,
        clones: clones(measured),
        bytes: 0,
        other: capture.other.clone(),
    }
}
