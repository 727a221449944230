//! Restores the branch of a sandbox that the agents' repository has lost: all sandboxes share its refs, so one agent
//! can remove the branch of another, with an emptied `packed-refs` or a link in place of a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use super::admin::{self, Note, stamp};
use super::measure::commit;
use super::rig::GitRepo;
use super::theirs::{self, Head};
use super::{bytes, sandbox, way};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A ref is one line.
const LINE_MAX: u64 = 64 * 1024;

/// Checks the branch of one sandbox; if it is lost, restores the lost branches of all. A failure is only logged,
/// once: each sandbox is judged as far as it can be read.
pub(super) fn check(repo: &GitRepo, sandbox: &Path) {
    let Some(name) = worked_on(repo, sandbox).map(|note| full(&note)) else {
        return;
    };
    if is_there(repo, sandbox, &name) {
        return;
    }
    let _alone = repo.healing();
    let Err(why) = all(repo) else { return };
    let mut said = repo.said().lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(why.to_string()) {
        tracing::error!(rig = %repo.name(), %why, "a raider's branch was lost and could not be restored; the next patrol tries again");
    }
}

/// Returns the note of a sandbox that an agent has worked in. A sandbox that is being made gets its branch there.
fn worked_on(repo: &GitRepo, sandbox: &Path) -> Option<Note> {
    Note::read(repo, sandbox).filter(|note| note.complete)
}

fn full(note: &Note) -> String {
    format!("refs/heads/{}", note.branch)
}

/// Returns true if git finds the branch. Reads `packed-refs` only if it changed.
fn is_there(repo: &GitRepo, sandbox: &Path, name: &str) -> bool {
    if !way::is_clear(repo, name) {
        return false;
    }
    let is_found = || matches!(repo.their_refs().resolve(name), Ok(Some(_)));
    if fs::symlink_metadata(repo.theirs().join(name)).is_ok() {
        return is_found();
    }
    let now = stamp(&repo.theirs().join("packed-refs"));
    if now.is_some() && repo.branches_seen().get(sandbox) == now.as_ref() {
        return true;
    }
    let found = is_found();
    if let (true, Some(now)) = (found, now) {
        repo.branches_seen().insert(sandbox.to_owned(), now);
    }
    found
}

/// A branch to check.
struct Branch {
    sandbox: PathBuf,
    note: Note,
    name: String,
    /// Its commit behind a link.
    behind: Option<Oid>,
}

/// Restores the branches of all sandboxes of the rig; the caller holds the lock of the repair. A failure of one does
/// not stop the others.
pub(super) fn all(repo: &GitRepo) -> Result<(), RepoError> {
    let listed = sandbox::list(repo)?.into_iter();
    let branches = listed.filter_map(|(_, sandbox)| {
        let note = worked_on(repo, &sandbox)?;
        let name = full(&note);
        // Read before the link of the first branch is set aside.
        let behind = behind(repo, &name);
        Some(Branch {
            sandbox,
            note,
            name,
            behind,
        })
    });
    let mut failure = None;
    for branch in branches.collect::<Vec<_>>() {
        failure = put_back(repo, &branch).err().or(failure);
    }
    failure.map_or(Ok(()), Err)
}

fn put_back(repo: &GitRepo, branch: &Branch) -> Result<(), RepoError> {
    let (name, theirs) = (&branch.name, repo.their_refs());
    if !way::is_clear(repo, name) || theirs.resolve(name).is_err() {
        way::check(repo, name)?;
    }
    let tip = match (&branch.behind, theirs.resolve(name)?) {
        // A packed value of the name is older.
        (Some(behind), _) => Some(behind.clone()),
        (None, Some(_)) => return Ok(()),
        (None, None) => last_seen(repo, branch)?,
    };
    let Some(tip) = tip else { return Ok(()) };
    way::clear(repo, name)?;
    theirs.create(name, &tip)?;
    repo.mended(format!(
        "the branch {} was removed, and was recreated at {}",
        branch.note.branch,
        tip.short()
    ));
    Ok(())
}

/// Returns the commit of a branch behind a link in place of a directory.
fn behind(repo: &GitRepo, name: &str) -> Option<Oid> {
    let is_link = |above: &&str| repo.theirs().join(above).is_symlink();
    let link = way::above(name).find(is_link)?;
    let home = fs::canonicalize(repo.theirs().join(link)).ok()?;
    let below = name.strip_prefix(link)?.trim_start_matches('/');
    let text = beneath::read(&home, Path::new(below), LINE_MAX).ok()??;
    let tip = Oid::new(bytes::lossy(text.trim_ascii_end())).ok()?;
    commit(repo, &tip).ok()?
}

/// Returns the last commit of a branch: from its own reflog, which moves with the branch when its agent renames it
/// and goes when the agent deletes it; from that of the HEAD that is on it; or else the base. None if its agent has
/// left it.
fn last_seen(repo: &GitRepo, branch: &Branch) -> Result<Option<Oid>, RepoError> {
    let log = repo.their_refs().reflog(&branch.name);
    if let Some(tip) = last(repo, &log.unwrap_or_default())? {
        return Ok(Some(tip));
    }
    let base = || Ok(Some(branch.note.base.clone()));
    let Ok(place) = admin::locate(repo, &branch.sandbox) else {
        return base();
    };
    match theirs::head(&place.admin) {
        Ok(Some(Head::Ref(name))) if name == branch.name => {
            let log = beneath::read(&place.admin, Path::new("logs/HEAD"), theirs::LIST_MAX);
            match last(repo, &log.ok().flatten().unwrap_or_default())? {
                Some(tip) => Ok(Some(tip)),
                None => base(),
            }
        }
        Ok(Some(Head::Ref(_))) => Ok(None),
        _ => base(),
    }
}

/// Returns the last commit of a reflog.
fn last(repo: &GitRepo, log: &[u8]) -> Result<Option<Oid>, RepoError> {
    let log = String::from_utf8_lossy(log);
    let line = log.lines().last().and_then(|line| line.split(' ').nth(1));
    match line.and_then(|id| Oid::new(id).ok()) {
        Some(id) => commit(repo, &id),
        None => Ok(None),
    }
}
