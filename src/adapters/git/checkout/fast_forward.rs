//! Moves a branch of the user's repository, and its checkout with it. A push cannot do that safely: it runs hooks that a
//! commit of an agent may have brought, overwrites ignored files, takes back a commit that the user makes meanwhile, and goes on
//! when the supervisor ends. A fast-forward merge there checks and writes under git's own lock, without a pause in between.

use std::path::Path;

use super::super::command::{CHECKOUT, Git};
use super::super::push::{Answer, passes};
use super::super::rig::GitRepo;
use super::{INDEX_LOCK, free, worktrees};
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The commit that a person's last reset or merge left, which `git merge` overwrites.
const ORIG_HEAD: &str = "ORIG_HEAD";

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
    let on_it = worktrees(checkout)?;
    let on_it = on_it
        .into_iter()
        .find(|worktree| worktree.branch.as_deref() == Some(target));
    match on_it {
        Some(worktree) => merge(&worktree.path, old, new),
        None => {
            let name = format!("refs/heads/{target}");
            let moved = git(checkout)
                .args(["update-ref", "-m", "landed", &name])
                .args([new.as_str(), old.as_str()])
                .output()?;
            Ok(match moved.ok() {
                true => Answer::Done,
                false => Answer::Stale(moved.stderr.trim().to_owned()),
            })
        }
    }
}

fn git(dir: &Path) -> Git {
    Git::in_dir(dir).as_user().limit(CHECKOUT)
}

/// Copies the commit, with everything below it, into the user's repository. Returns the refusal if git there does not take the
/// objects.
fn bring(repo: &GitRepo, checkout: &Path, new: &Oid) -> Result<Option<Answer>, RepoError> {
    let fetched = git(checkout)
        .args([
            "-c",
            "protocol.version=2",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"])
        .args(["--no-auto-maintenance", "--no-recurse-submodules"])
        .arg(repo.repo_dir())
        .arg(new.as_str())
        .output()?;
    let said = fetched.stderr.trim().to_owned();
    match fetched.ok() {
        true => Ok(None),
        false if passes(&said) => Err(RepoError::Remote(said)),
        false => Ok(Some(Answer::Refused(said))),
    }
}

/// Moves the worktree and its branch.
fn merge(worktree: &Path, old: &Oid, new: &Oid) -> Result<Answer, RepoError> {
    let at = |name: &str| {
        let found = git(worktree).args(["rev-parse", "-q", "--verify", name]);
        found.output().map(|found| found.text().trim().to_owned())
    };
    let (head, left) = (at("HEAD")?, at(ORIG_HEAD)?);
    if head != old.as_str() && head != new.as_str() {
        return Ok(Answer::Stale(format!("HEAD is at {head}")));
    }
    let merged = git(worktree)
        .args(["merge", "--quiet", "--ff-only", "--no-overwrite-ignore"])
        .args(["--no-autostash", "--no-stat", "--no-verify-signatures"])
        .arg(new.as_str())
        .output()?;
    if at(ORIG_HEAD)? != left {
        let restore = match &*left {
            "" => git(worktree).args(["update-ref", "-d", ORIG_HEAD]),
            left => git(worktree).args(["update-ref", ORIG_HEAD, left]),
        };
        restore.run()?;
    }
    if merged.ok() {
        return Ok(Answer::Done);
    }
    let busy = |why| RepoError::CheckoutBusy {
        path: worktree.to_owned(),
        why,
    };
    let said = merged.stderr.trim().to_owned();
    if said.contains(INDEX_LOCK.0) {
        return Err(busy(CheckoutBusy::Underway(INDEX_LOCK.1.to_owned())));
    }
    if said.contains("would be overwritten") || said.contains("would lose untracked files") {
        return Err(busy(CheckoutBusy::Changed(said)));
    }
    let now = at("HEAD")?;
    if now != old.as_str() && now != new.as_str() {
        // The person committed while git wrote the files of the landing.
        undo(worktree, old, new)?;
        return Ok(Answer::Stale(said));
    }
    Err(RepoError::Remote(said))
}

/// Takes the files of a landing back whose branch did not move, without a change of any other file. Does nothing if they are not
/// there.
fn undo(worktree: &Path, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    let back = git(worktree)
        .args(["read-tree", "-m", "-u", new.as_str(), old.as_str()])
        .output()?;
    if !back.ok() {
        let (worktree, why) = (worktree.display(), back.stderr.trim());
        tracing::debug!(%worktree, why, "the files of a landing are not in a checkout, or were changed there; they stay");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::super::testing::Rigged;
    use super::*;

    /// The person's commit came after git had written the files, and before it moved the branch.
    #[test]
    fn files_of_a_landing_are_taken_back_from_a_commit_that_came_first() {
        let rig = Rigged::local();
        let new = rig.commit(&rig.base, &[("file", "landed\n"), ("more", "m\n")]);
        assert_eq!(bring(&rig.repo, &rig.origin(), &new).unwrap(), None);
        fs::write(rig.origin().join("mine"), "mine\n").unwrap();
        rig.in_origin(&["add", "mine"]);
        rig.in_origin(&["read-tree", "-m", "-u", rig.base.as_str(), new.as_str()]);
        let tree = rig.in_origin(&["rev-parse", "HEAD^{tree}"]);
        rig.in_origin(&["stash", "list"]);
        let person = ["-c", "user.name=P", "-c", "user.email=p@x"];
        let only = ["commit", "-q", "-m", "mine", "--only", "mine"];
        rig.in_origin(&[&person[..], &only[..]].concat());
        assert_ne!(rig.in_origin(&["rev-parse", "HEAD^{tree}"]), tree);
        undo(&rig.origin(), &rig.base, &new).unwrap();
        assert_eq!(rig.in_origin(&["status", "--porcelain"]), "");
        let text = |name: &str| fs::read_to_string(rig.origin().join(name)).ok();
        assert_eq!(text("file").as_deref(), Some("1\n2\n3\n"));
        assert_eq!((text("more"), text("mine")), (None, Some("mine\n".into())));
    }
}
