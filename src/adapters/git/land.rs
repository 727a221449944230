//! Moves the target, and checks what is on it.

use std::collections::HashSet;

use super::checkout;
use super::commit_checks::task_links;
use super::facts::merge_base;
use super::fetch::head_of;
use super::patch_equivalence;
use super::push::{Answer, Push};
use super::remote::{fetch, fetch_target, moved, remote_head, track};
use super::remotes::AS_WRITTEN;
use super::rig::GitRepo;
use super::share;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Moves the target from `old` to `new` and reads it back. Succeeds if that was done already.
///
/// # Errors
/// [`RepoError::Moved`] when another push came first, [`RepoError::CheckoutBusy`],
/// [`RepoError::Rejected`], [`RepoError::Remote`].
pub(super) fn land(repo: &GitRepo, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    // A lease switches git's own fast-forward check off.
    if !repo.is_ancestor(old, new)? {
        return Err(RepoError::Failed(format!(
            "{new} does not contain {old}: landing it would remove commits from {target}"
        )));
    }
    task_links::check_landing(repo, old, new)?;
    if !repo.pushes() {
        return land_here(repo, target, old, new);
    }
    let _turn = checkout::turn(repo)?;
    let own = repo.own_origin()?;
    if own.is_some() {
        checkout::recover_in_turn(repo)?;
        // A landing that was interrupted may have moved the branch, and its files are not in the way.
        let found = remote_head(repo, target)?;
        if found.as_ref() != Some(old) {
            return arrived(repo, target, old, new, found);
        }
        checkout::included::check(repo, target, (old, new))?;
    }
    checkout::free(repo, target, Some((old, new)))?;
    let push = Push {
        repo,
        branch: target,
        head: Some(new),
        lease: Some(old),
        is_rehearsal: own.is_some(),
    };
    let mut answer = push.run()?;
    if let (Some(checkout), Answer::Done) = (own, &answer) {
        answer = checkout::fast_forward(repo, checkout, target, (old, new))?;
    }
    let found = remote_head(repo, target)?;
    match answer {
        Answer::Done if found.as_ref() == Some(new) => {
            track_landing(repo, target, new);
            Ok(())
        }
        Answer::Done => arrived(repo, target, new, new, found),
        // Another push came first, whatever the remote says.
        _ if found.as_ref() != Some(old) => arrived(repo, target, old, new, found),
        Answer::Stale(why) => Err(RepoError::Remote(why)),
        Answer::Refused(why) => Err(RepoError::Rejected(why)),
    }
}

/// Records the landing in ours. A failure to do so does not undo the landing.
fn track_landing(repo: &GitRepo, target: &str, new: &Oid) {
    if let Err(error) = track(repo, target, new) {
        tracing::warn!(rig = %repo.name(), target, %error, "the work has landed, but its remote-tracking ref could not be updated; the next fetch does that");
    }
}

/// Handles a target that is not at `new`: a success if it contains `new`.
fn arrived(
    repo: &GitRepo,
    target: &str,
    expected: &Oid,
    new: &Oid,
    found: Option<Oid>,
) -> Result<(), RepoError> {
    let Some(found) = found else {
        return Err(moved(target, expected.to_string(), None));
    };
    if found == *new {
        track_landing(repo, target, new);
        return Ok(());
    }
    let tip = fetch_target(repo, target)?.tip;
    if repo.is_ancestor(new, &tip)? {
        return Ok(());
    }
    Err(moved(target, expected.to_string(), Some(&found)))
}

/// Moves the target as a branch of ours, without pushing.
fn land_here(repo: &GitRepo, target: &str, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    let name = format!("refs/heads/{target}");
    let swap = repo
        .git()
        .args(["update-ref", "-m", "landed", &name])
        .args([new.as_str(), old.as_str()])
        .output()?;
    if swap.ok() {
        share::publish(repo, &name, new);
        return Ok(());
    }
    match repo.resolve(&name)? {
        Some(found) if repo.is_ancestor(new, &found)? => Ok(()),
        Some(found) if found == *old => Err(RepoError::Failed(format!(
            "{name} cannot be moved: {}",
            swap.stderr.trim()
        ))),
        found => Err(moved(target, old.to_string(), found.as_ref())),
    }
}

/// Returns true if `commit` is on the remote's current target.
///
/// # Errors
/// [`RepoError::Remote`], [`RepoError::NotFound`] when there is no such target.
pub(super) fn landed(repo: &GitRepo, target: &str, commit: &Oid) -> Result<bool, RepoError> {
    has(repo, &fetch_target(repo, target)?.tip, commit)
}

/// Returns true if the tip of a target that was fetched has the commit.
pub(super) fn has(repo: &GitRepo, tip: &Oid, commit: &Oid) -> Result<bool, RepoError> {
    // All of the target was fetched, so a commit that ours lacks is not on it.
    if repo.resolve(commit.as_str())?.is_none() {
        return Ok(false);
    }
    repo.is_ancestor(commit, tip)
}

/// Returns true if a merge that takes the work of `head` back gives the tree of `tip`; none if that merge conflicts, because
/// parts of the work were changed since. The trees decide; no message of a commit does.
///
/// # Errors
/// When git cannot merge: it is older than 2.40, or a commit is missing.
pub(super) fn is_reverted(
    repo: &GitRepo,
    began: &Oid,
    head: &Oid,
    tip: &Oid,
) -> Result<Option<bool>, RepoError> {
    let base = base_before(repo, head, tip)?;
    let base = base.as_ref().unwrap_or(began);
    let back = repo
        .git()
        .args(["merge-tree", "--write-tree", "--no-messages"])
        .arg(format!("--merge-base={head}"))
        .args([tip.as_str(), base.as_str()])
        .output()?;
    match back.code {
        Some(0) => {
            let tree = repo.git().args(["rev-parse", "--verify"]);
            let tree = tree.arg(format!("{tip}^{{tree}}")).run()?;
            Ok(Some(tree.text().trim() == back.text().trim()))
        }
        Some(1) => Ok(None),
        _ => Err(RepoError::Failed(format!(
            "{head} cannot be compared with {tip}: {}",
            back.stderr.trim()
        ))),
    }
}

/// Returns the commit at which `head` left the target, as the target was before the merge of `head`: the work may have merged
/// the target meanwhile. None where no merge is found, or the target was fast-forwarded to `head`.
fn base_before(repo: &GitRepo, head: &Oid, tip: &Oid) -> Result<Option<Oid>, RepoError> {
    let since = format!("{head}..{tip}");
    let list = |how: &str| -> Result<String, RepoError> {
        let listed = repo.git().args(["rev-list", "--topo-order", how, &since]);
        Ok(listed.run()?.text())
    };
    let (with_head, line) = (list("--ancestry-path")?, list("--first-parent")?);
    let with_head: HashSet<&str> = with_head.lines().collect();
    let Some(merge) = line.lines().rfind(|commit| with_head.contains(commit)) else {
        return Ok(None);
    };
    let Some(before) = repo.resolve(&format!("{merge}^1"))? else {
        return Ok(None);
    };
    let base = merge_base(repo, head, Some(&before))?;
    Ok(base.filter(|base| base != head))
}

/// Returns true if every commit of `head` is on the target or default branch of a remote, as an ancestor or as an
/// equal patch.
///
/// # Errors
/// The error of a remote that could not be asked, if no other one has the work.
pub(super) fn on_main(repo: &GitRepo, head: &Oid, target: &str) -> Result<bool, RepoError> {
    let mut unknown = None;
    match fetch_target(repo, target) {
        Ok(state) if patch_equivalence::work(repo.repo_dir(), &state.tip, head)? => {
            return Ok(true);
        }
        Ok(_) | Err(RepoError::NotFound(_)) => {}
        Err(error) => unknown = Some(error),
    }
    let remotes = repo.git().arg("remote").run()?.text();
    for remote in remotes.lines().filter(|name| !name.ends_with(AS_WRITTEN)) {
        match remote_has(repo, remote, head, target) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) => {
                unknown.get_or_insert(error);
            }
        }
    }
    unknown.map_or(Ok(false), Err)
}

fn remote_has(repo: &GitRepo, remote: &str, head: &Oid, target: &str) -> Result<bool, RepoError> {
    let mut branches = vec![target.to_owned()];
    branches.extend(head_of(repo, remote)?.filter(|branch| branch != target));
    for branch in branches {
        match fetch(repo, remote, &branch) {
            Err(RepoError::NotFound(_)) => continue,
            other => other?,
        }
        let tip = repo.resolve(&format!("refs/remotes/{remote}/{branch}"))?;
        if let Some(tip) = tip
            && patch_equivalence::work(repo.repo_dir(), &tip, head)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
