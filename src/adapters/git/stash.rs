//! The stash entries of raiders that are gone. All sandboxes share one list, and a nuke saves the entries of its
//! branch without taking them out of it: they go when they were kept for as long as salvage is.

use jiff::Timestamp;

use super::admin::Note;
use super::branches::checked_out;
use super::rig::GitRepo;
use super::sandbox;
use super::traces::{branch_of, stash_entry};
use crate::ports::repo::RepoError;

/// The list.
const STASH: &str = "refs/stash";

/// Takes the entries from before that time out of the list, but those of living sandboxes, and says how many.
pub(super) fn expire(repo: &GitRepo, before: Timestamp) -> Result<usize, RepoError> {
    // No sandbox is made or removed between the question and the act.
    let _serial = repo.worktrees();
    let in_use = checked_out(repo)?;
    let is_used = |branch: &str| {
        let full = format!("refs/heads/{branch}");
        in_use.iter().any(|(used, _)| *used == full)
    };
    let sandboxes = sandbox::list(repo)?.into_iter();
    let oldest = sandboxes
        .filter_map(|(_, dir)| Some(Note::read(repo, &dir)?.created))
        .min();
    // What cannot be read stays, and so does what names no branch and a living sandbox may have made.
    let stays = |line: &str| {
        let Some(entry) = stash_entry(line) else {
            return true;
        };
        let living = match branch_of(&entry.stash.message) {
            Some(branch) => is_used(branch),
            None => oldest.is_some_and(|oldest| oldest <= entry.made),
        };
        living || entry.made >= before.as_second()
    };
    repo.their_refs().thin_log(STASH, stays)
}
