//! Ends landings in the user's checkout that were interrupted, at the start and before the next landing.

use std::fs;
use std::path::PathBuf;

use super::super::admin::{At, entries_in};
use super::super::rig::GitRepo;
use super::busy;
use super::fast_forward::unpin;
use super::unfinished::{Ended, RECORDS, Unfinished};
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The beginning of the names under which records that cannot be read are kept.
const UNREADABLE: &str = "horde/landing-unreadable-";

/// Lists the records of landings that did not end.
fn records(repo: &GitRepo) -> Result<Vec<PathBuf>, RepoError> {
    let dir = repo.repo_dir().join(RECORDS);
    let mut found: Vec<PathBuf> = entries_in(&dir)?.iter().map(fs::DirEntry::path).collect();
    // One that was being written has another name.
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        name.iter().all(u8::is_ascii_hexdigit)
    });
    Ok(found)
}

/// Returns true if a landing of this rig may not have ended.
pub(in super::super) fn is_interrupted(repo: &GitRepo) -> bool {
    records(repo).is_ok_and(|found| !found.is_empty())
}

/// Takes back the landings that did not end, unless their branches moved all the same. To be called in the turn to land.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while their git still writes; when a record or a checkout cannot be read or written.
pub(in super::super) fn recover(repo: &GitRepo) -> Result<(), RepoError> {
    let mut first = None;
    for record in records(repo)? {
        if let Err(why) = recover_one(repo, record) {
            first.get_or_insert(why);
        }
    }
    first.map_or(Ok(()), Err)
}

fn recover_one(repo: &GitRepo, record: PathBuf) -> Result<(), RepoError> {
    let Some(mut it) = Unfinished::read(repo, &record)? else {
        let name = record.file_name().unwrap_or_default().display();
        let aside = repo.repo_dir().join(format!("{UNREADABLE}{name}"));
        tracing::warn!(record = %record.display(), aside = %aside.display(), "the record of an interrupted landing is set aside; index.lock of the checkout may be the landing's");
        return fs::rename(&record, &aside).at("cannot move", &record);
    };
    if it.is_worktree_gone() {
        return it.forget();
    }
    if !it.has_git_dir() {
        // Unmounted, perhaps. No landing can begin there.
        return Ok(());
    }
    it.follow();
    let worktree = it.worktree().to_owned();
    if let Some(what) = it.writer() {
        return Err(busy(&worktree, CheckoutBusy::Underway(what)));
    }
    it.remove_ref_locks()?;
    let new = it.commits().1.clone();
    let ended = it.take_back()?;
    if worktree.is_dir() {
        unpin(&worktree, &new);
    }
    let worktree = worktree.display();
    match ended {
        Ended::TakenBack => {
            tracing::warn!(%worktree, "a landing was interrupted; the files that it had written into the checkout are taken back");
        }
        Ended::Left => {
            tracing::warn!(%worktree, "a landing was interrupted, and index.lock was removed since; the files that it had written stay, and `git status` shows them");
        }
        Ended::Moved | Ended::Unwritten => {
            tracing::info!(%worktree, ?ended, "a landing was interrupted; the checkout needs nothing");
        }
    }
    Ok(())
}
