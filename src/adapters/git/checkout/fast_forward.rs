//! Moves a branch of the user's repository, and its checkout with it. A push cannot do that safely: it runs hooks that a
//! commit of an agent may have brought, overwrites ignored files, takes back a commit that the user makes meanwhile, and goes on
//! when the supervisor ends. Nor can `git merge`, which moves whichever branch is checked out, by the options of that branch.
//!
//! The order: git prepares the change of the branch and holds its locks; the checkout is checked; git writes the files and the
//! index; the change is made. What is written is taken back if the change is not made, also at the next start.

use std::path::Path;

use super::super::command::{CHECKOUT, Git};
use super::super::push::Answer;
use super::super::ref_transaction::Prepared;
use super::super::rig::GitRepo;
use super::unfinished::{Unfinished, take_back};
use super::{INDEX_LOCK, free, worktrees};
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// Moves the branch from `old` to `new`, with the worktree that has it checked out.
///
/// # Errors
/// [`RepoError::CheckoutBusy`], [`RepoError::Remote`] when the repository could not be written.
pub(in super::super) fn fast_forward(
    repo: &GitRepo,
    checkout: &Path,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<Answer, RepoError> {
    if let Some(refused) = bring(repo, checkout, new)? {
        return Ok(refused);
    }
    // Again, because a person may have begun something during the hook of the push.
    free(repo, target, Some((old, new)))?;
    if let Some(path) = on_target(checkout, target)? {
        return with_worktree(repo, &path, target, (old, new));
    }
    let name = format!("refs/heads/{target}");
    let moved = git(checkout)
        .args(["update-ref", "-m", "landed", &name])
        .args([new.as_str(), old.as_str()])
        .output()?;
    if !moved.ok() {
        return Ok(Answer::Stale(moved.stderr.trim().to_owned()));
    }
    // A person checked the branch out meanwhile: its files are those of before.
    if let Some(path) = on_target(checkout, target)? {
        let followed = write(&path, old, new)?;
        if !followed.ok() {
            let (path, why) = (path.display(), followed.stderr.trim());
            tracing::warn!(%path, why, "a branch moved while it was being checked out, and its files could not follow");
        }
    }
    Ok(Answer::Done)
}

pub(super) fn git(dir: &Path) -> Git {
    Git::in_dir(dir).as_user().limit(CHECKOUT)
}

/// Returns the worktree that has the branch checked out.
fn on_target(checkout: &Path, target: &str) -> Result<Option<std::path::PathBuf>, RepoError> {
    let mut on_it = worktrees(checkout)?.into_iter();
    let on_it = on_it.find(|worktree| worktree.branch.as_deref() == Some(target));
    Ok(on_it.map(|worktree| worktree.path))
}

/// Copies the commit, with everything below it, into the user's repository. Returns the refusal if git there does not take the
/// objects.
fn bring(repo: &GitRepo, checkout: &Path, new: &Oid) -> Result<Option<Answer>, RepoError> {
    let fetched = git(checkout)
        .args(["-c", "protocol.version=2", "-c"])
        .arg("protocol.file.allow=always")
        .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
        .args(["--no-auto-maintenance", "--no-recurse-submodules"])
        .arg(repo.repo_dir())
        .arg(new.as_str())
        .output()?;
    let said = fetched.stderr.trim().to_owned();
    // Such a message names an object, which a retry would bring again.
    let is_verdict = said.contains("error: object ") || said.contains("fsck error");
    match fetched.ok() {
        true => Ok(None),
        false if is_verdict => Ok(Some(Answer::Refused(said))),
        false => Err(RepoError::Remote(said)),
    }
}

/// Moves the worktree and its branch.
fn with_worktree(
    repo: &GitRepo,
    worktree: &Path,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<Answer, RepoError> {
    let busy = |why| {
        let path = worktree.to_owned();
        RepoError::CheckoutBusy { path, why }
    };
    let change = match Prepared::head(git(worktree), old, new)? {
        Ok(change) => change,
        Err(said) if said.contains("File exists") => {
            let lock = said.lines().next().unwrap_or_default();
            let what = format!("a git command, or has a leftover lock ({lock})");
            return Err(busy(CheckoutBusy::Underway(what)));
        }
        Err(said) => return Ok(Answer::Stale(said)),
    };
    // From here on, no other process can commit, reset to another commit or check another branch out.
    let head = git(worktree)
        .args(["symbolic-ref", "-q", "HEAD"])
        .output()?;
    if head.text().trim() != format!("refs/heads/{target}") {
        return Ok(Answer::Stale("another branch is checked out".to_owned()));
    }
    free(repo, target, Some((old, new)))?;
    let unfinished = Unfinished::record(repo, worktree, target, (old, new))?;
    let written = write(worktree, old, new)?;
    let made = match written.ok() && is_written(worktree, new)? {
        true => change.commit()?,
        false => {
            let said = written.stderr.trim().to_owned();
            take_back(worktree, old, new)?;
            drop(change);
            unfinished.forget()?;
            return Err(match () {
                () if said.contains(INDEX_LOCK.0) => {
                    busy(CheckoutBusy::Underway(INDEX_LOCK.1.to_owned()))
                }
                () if said.is_empty()
                    || said.contains("verwritten")
                    || said.contains("not uptodate") =>
                {
                    busy(CheckoutBusy::Changed(said))
                }
                () => RepoError::Remote(said),
            });
        }
    };
    if let Err(said) = made {
        take_back(worktree, old, new)?;
        unfinished.forget()?;
        return Ok(Answer::Stale(said));
    }
    unfinished.forget()?;
    Ok(Answer::Done)
}

/// Writes the files and the index of a landing. Changes of other files stay.
fn write(
    worktree: &Path,
    old: &Oid,
    new: &Oid,
) -> Result<super::super::command::Output, RepoError> {
    git(worktree)
        .args(["read-tree", "-m", "-u", old.as_str(), new.as_str()])
        .output()
}

/// Returns true if the index is that of the landing: a person may have reset it meanwhile.
fn is_written(worktree: &Path, new: &Oid) -> Result<bool, RepoError> {
    let differs = git(worktree).args(["diff-index", "--cached", "--quiet", new.as_str(), "--"]);
    Ok(differs.output()?.ok())
}
