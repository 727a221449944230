//! Salvage: saves everything in a sandbox as refs in ours, and restores it.
//!
//! ```text
//!   refs/horde/salvage/<rig>/<raider>/<incarnation>[.n]/
//!     head        HEAD's commit
//!     worktree    a commit with the files, if not all were committed; for people
//!     stash-k     stash entries of this sandbox
//!     reflog-k    commits that only HEAD's reflog named
//!     meta        everything else; its parents are the commits that git's state files name
//!       manifest.json   for people
//!       files           a line for every entry: path, mode, size, time, and the blob with its bytes
//!       blobs/<id>      the blobs that HEAD does not reach
//!       trees/<id>      whole directories of damaged commits
//! ```
//!
//! A sandbox consists of its bytes: files are stored raw, by our own walk, and restored in the same way. Neither an
//! index nor a configuration of git takes part. The index itself is one of the files.
//!
//! A merge request that never landed no longer has a sandbox: its salvage is `head` alone.
//!
//! `measure ─► blobs ─► measure again: equal? ─► refs (one transaction) ─► read back`

mod capture;
mod damaged;
mod manifest;
mod part;
mod prune;
mod relink;
mod restore;
mod store;
mod work;
mod written;

use std::path::Path;

pub(super) use prune::{delete_refs, present_tips, tips};
pub(super) use restore::restore;
pub(super) use store::keep;

use self::capture::{Capture, capture};
use self::manifest::{Manifest, VERSION, clones};
use super::files::store::{Store, Unstored};
use super::measure::{Files, Measured, measure_left};
use super::rig::GitRepo;
use crate::domain::ids::{Incarnation, RaiderId};
use crate::ports::repo::{RepoError, SalvageRecord};

/// The number of tries: a sandbox that changes this often during salvage is in use.
const ROUNDS: usize = 3;

/// Returns the number of bytes to save, before any of it is written. 0 if nothing is left, or [`salvage`] would find
/// it saved already.
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

/// Saves the sandbox, or what git still knows of it if its directory is gone. An unchanged state is not saved twice.
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

/// Makes the manifest of a captured sandbox.
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
        special: measured
            .other_work
            .iter()
            .map(ToString::to_string)
            .collect(),
        ignored,
        clones: clones(measured),
        bytes: 0,
        other: capture.other.clone(),
        damaged: Vec::new(),
    }
}
