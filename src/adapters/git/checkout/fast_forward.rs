//! Moves a branch of the user's repository, and its checkout with it. A push cannot do that safely: it runs hooks that a
//! commit of an agent may have brought, overwrites ignored files, takes back a commit that the user makes meanwhile, and goes on
//! when the supervisor ends. Nor can `git merge`, which moves whichever branch is checked out, by the options of that branch.
//!
//! The order: the index is locked as git locks it, so that no commit, checkout or reset begins; git prepares the change of the
//! branch, so that none that had begun ends; git writes the files, with an index of its own; that index takes the place of the
//! other, and the branch moves. If the branch does not move, the supervisor restores the files, at once or at its next start.

use std::path::{Path, PathBuf};

use super::super::command::{CHECKOUT, Git};
use super::super::push::Answer;
use super::super::ref_transaction::Prepared;
use super::super::rig::GitRepo;
use super::changed::Changed;
use super::durable::sync;
use super::filtered::{Filtered, rehearsed};
use super::parts::{Part, Parts};
use super::recovery::{is_interrupted, take_back, writer};
use super::unfinished::{Ended, Unfinished};
use super::{Worktree, about, busy, free, persons_git, worktrees};
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
    if !is_interrupted(repo) {
        drop_pins(checkout, new);
    }
    let answer = move_to(repo, checkout, target, (old, new));
    // An interrupted landing needs the objects.
    if !is_interrupted(repo) {
        unpin(checkout, new);
    }
    answer
}

/// Moves the branch to a commit that is in the user's repository.
fn move_to(
    repo: &GitRepo,
    checkout: &Path,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<Answer, RepoError> {
    // Again, because a person may have begun something during the hook of the push.
    free(repo, target, Some((old, new)))?;
    let all = worktrees(checkout)?;
    let on_it = all.iter().find(|it| it.branch.as_deref() == Some(target));
    if let Some(worktree) = on_it {
        return with_worktree(repo, &worktree.path, target, (old, new));
    }
    // A person may be checking it out in any of them.
    let mut locks = Vec::new();
    let moved = all
        .iter()
        .filter(|worktree| worktree.git_dir().is_some())
        .try_for_each(|it| {
            locks.push(Unfinished::begin(repo, &it.path, target, (old, new))?);
            Ok(())
        })
        .and_then(|()| move_alone(checkout, target, (old, new)));
    let ended: Vec<_> = locks.into_iter().map(Unfinished::end).collect();
    let answer = moved?;
    let ended = ended.into_iter().collect::<Result<(), _>>();
    match answer {
        Answer::Done => ended.map_err(not_ended)?,
        _ => ended?,
    }
    Ok(answer)
}

/// Moves a branch that no worktree has. Their indexes are locked.
fn move_alone(
    checkout: &Path,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<Answer, RepoError> {
    let all = worktrees(checkout)?;
    let places: Vec<&Path> = all.iter().map(|it| it.path.as_path()).collect();
    let busy = |what| busy(checkout, CheckoutBusy::Underway(what));
    persons_git::settle(&places).map_err(busy)?;
    for worktree in worktrees(checkout)? {
        let begun = worktree.git_dir().is_some_and(|dir| about(&dir, target));
        if begun || worktree.branch.as_deref() == Some(target) {
            let what = "it was checked out, or a rebase of it was begun, meanwhile";
            return Ok(Answer::Stale(what.to_owned()));
        }
    }
    let name = format!("refs/heads/{target}");
    let moved = git(checkout)
        .args(["update-ref", "-m", "landed", &name])
        .args([new.as_str(), old.as_str()])
        .output()?;
    // While the indexes are locked, one that read the branch before it moved fails.
    linger(&places);
    Ok(match moved.ok() {
        true => Answer::Done,
        false => Answer::Stale(moved.stderr.trim().to_owned()),
    })
}

pub(super) fn git(dir: &Path) -> Git {
    // A sandbox may be removed because of the landing, so it must survive a loss of power.
    let durable = "core.fsync=committed,reference,index";
    Git::in_dir(dir)
        .as_user()
        .limit(CHECKOUT)
        .args(["-c", durable])
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
        // The person may prune unreachable objects at any time.
        .arg(format!("+{new}:{}", pin(new)))
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

/// Returns the ref that keeps the objects of a landing in the user's repository until the branch has them.
fn pin(new: &Oid) -> String {
    format!("refs/horde/landing/{new}")
}

/// Removes the refs that kept the objects of earlier landings, which were killed at their end.
fn drop_pins(checkout: &Path, but: &Oid) {
    let listed = git(checkout)
        .args(["for-each-ref", "--format=%(refname)", "refs/horde/landing/"])
        .run();
    let listed = match listed {
        Ok(listed) => listed.text(),
        Err(why) => {
            tracing::debug!(checkout = %checkout.display(), %why, "the refs of earlier landings cannot be listed; the next landing tries again");
            return;
        }
    };
    let kept = pin(but);
    for name in listed.lines().filter(|name| *name != kept) {
        if let Err(why) = git(checkout).args(["update-ref", "-d", name]).run() {
            tracing::debug!(name, %why, "the ref of an earlier landing stays in the checkout's repository until the next one");
        }
    }
}

/// Removes the ref that kept the objects of a landing.
pub(super) fn unpin(checkout: &Path, new: &Oid) {
    let removed = git(checkout).args(["update-ref", "-d", &pin(new)]).run();
    if let Err(why) = removed {
        tracing::warn!(checkout = %checkout.display(), pin = pin(new), %why, "the ref that kept the objects of a landing cannot be removed from the checkout's repository; `git update-ref -d` removes it");
    }
}

/// Moves the worktree and its branch.
fn with_worktree(
    repo: &GitRepo,
    worktree: &Path,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<Answer, RepoError> {
    let filtered = rehearsed(repo, worktree, (old, new))?;
    if !filtered.is_empty() {
        // A person may have begun something during the filters.
        free(repo, target, Some((old, new)))?;
    }
    let unfinished = Unfinished::begin(repo, worktree, target, (old, new))?;
    match step_by_step(repo, &unfinished, target, &filtered) {
        Ok(Answer::Done) => {
            linger(&[unfinished.worktree()]);
            // One that waited for the lock of HEAD may have left the branch: then the files are not the landing's any more.
            let ended = match unfinished.head() {
                Ok(tip) if tip == *old => unfinished.take_back().map(drop),
                Ok(_) => unfinished.end(),
                Err(why) => Err(why),
            };
            ended.map_err(not_ended)?;
            Ok(Answer::Done)
        }
        // git may have moved the branch, and have ended before it said so.
        failed => match take_back(unfinished) {
            Ok(Ended::Moved) => Ok(Answer::Done),
            Ok(Ended::Left) => {
                tracing::warn!(worktree = %worktree.display(), "index.lock was removed during a landing; the files that it had written stay, and `git status` shows them");
                failed
            }
            Ok(_) => failed,
            Err(why) => {
                tracing::warn!(
                    worktree = %worktree.display(),
                    ?failed,
                    %why,
                    "a landing failed and could not be taken back; the next landing retries that first"
                );
                Err(why)
            }
        },
    }
}

/// The error for a branch that has moved while the landing cannot end. The next attempt ends it, and finds the work landed.
fn not_ended(why: RepoError) -> RepoError {
    if matches!(why, RepoError::CheckoutBusy { .. }) {
        return why;
    }
    RepoError::Failed(format!(
        "the branch has moved, but the landing cannot end in the checkout yet: {why}"
    ))
}

/// The beginnings of git's messages that refuse a change before anything is written.
const REFUSALS: &[&str] = &["Entry '", "Untracked working tree file '", "Updating '"];

/// Returns true if git refused before it wrote anything. A filter may print anything before, and a name may have line ends.
fn is_refusal(said: &str) -> bool {
    let mut messages = said.rsplit("error: ");
    let last = messages.next().unwrap_or_default();
    let ends_line = said
        .strip_suffix(last)
        .and_then(|before| before.strip_suffix("error: "));
    let is_own_line = ends_line.is_some_and(|before| before.is_empty() || before.ends_with('\n'));
    let is_last = !last.contains("\nfatal: ");
    is_own_line && is_last && REFUSALS.iter().any(|begins| last.starts_with(begins))
}

/// Waits a moment for git commands of the person, which fail while the landing holds its locks.
fn linger(places: &[&Path]) {
    if let Err(still) = persons_git::settle(places) {
        tracing::debug!(still, "a landing ends beside a git command");
    }
}

fn step_by_step(
    repo: &GitRepo,
    unfinished: &Unfinished,
    target: &str,
    filtered: &Filtered,
) -> Result<Answer, RepoError> {
    let worktree = unfinished.worktree();
    let (old, new) = unfinished.commits();
    let prepared = Prepared::head(git(worktree), old, new);
    let change = match prepared.inspect_err(|_| unfinished.keep_for_locks())? {
        Ok(change) => change,
        Err(said) if said.contains("but expected") => return Ok(Answer::Stale(said)),
        Err(said) => {
            let lock = said.lines().next().unwrap_or_default();
            let what = format!("a git command, or has a leftover lock ({lock})");
            return Err(busy(worktree, CheckoutBusy::Underway(what)));
        }
    };
    // No other process can commit, reset or check another branch out from here on, except for one that has begun.
    settle(worktree)?;
    let head = git(worktree)
        .args(["symbolic-ref", "-q", "HEAD"])
        .output()?;
    if head.text().trim() != format!("refs/heads/{target}") {
        return Ok(Answer::Stale("another branch is checked out".to_owned()));
    }
    unfinished.copy_index_for_git()?;
    unfinished
        .git()
        .args(["update-index", "-q", "--ignore-submodules", "--refresh"])
        .output()?;
    let staged = unfinished
        .git()
        .args(["diff-index", "--cached", "--quiet", old.as_str(), "--"]);
    let staged = staged.output()?;
    if !matches!(staged.code, Some(0 | 1)) {
        let why = format!("git cannot read the index: {}", staged.stderr.trim());
        return Err(RepoError::Failed(why));
    }
    if !staged.ok() {
        let why = "something was staged during the landing".to_owned();
        return Err(busy(worktree, CheckoutBusy::Changed(why)));
    }
    write(repo, unfinished, filtered)?;
    sync(worktree)?;
    unfinished.use_index()?;
    settle(worktree)?;
    match change.commit()? {
        Ok(()) => Ok(Answer::Done),
        Err(said) => Ok(Answer::Stale(said)),
    }
}

/// Writes the files of a landing, in parts.
fn write(repo: &GitRepo, landing: &Unfinished, filtered: &Filtered) -> Result<(), RepoError> {
    let (old, new) = landing.commits();
    let changed = Changed::of(repo, old, new)?;
    let mut parts = Parts::of(repo, (old, new), filtered)?;
    landing.keep_index()?;
    let mut is_first = true;
    let mut write = || {
        while let Some(part) = parts.next()? {
            // git overwrites ignored files, and a build of the person may make one at any time.
            let obstacles = changed.obstacles_of(landing.worktree(), &part.paths);
            let refused = match obstacles {
                Some(why) => Some(why),
                None => write_part(landing, &part)?.map(CheckoutBusy::Changed),
            };
            if let Some(why) = refused {
                return Ok(Some(why));
            }
            is_first &= part.paths.is_empty();
        }
        Ok(None)
    };
    let written = write();
    match &written {
        Ok(Some(_)) => landing.writing().refused()?,
        // A git that was killed may not have ended yet.
        Err(_) if writer(landing).is_some() => {}
        _ => landing.writing().ended()?,
    }
    let Some(why) = written? else {
        return Ok(());
    };
    if is_first {
        landing.wrote_nothing()?;
    }
    Err(busy(landing.worktree(), why))
}

/// Writes the files that differ between two trees. Returns git's refusal, before which it wrote nothing.
fn write_part(landing: &Unfinished, part: &Part) -> Result<Option<String>, RepoError> {
    // The first part, which has no files, measures git alone: it writes its index.
    let written = landing
        .git()
        .args(["read-tree", "-m", "-u"])
        .args([part.from.as_str(), part.to.as_str()])
        .output()?;
    let said = written.stderr.trim();
    if written.ok() && !said.is_empty() {
        // git goes on where it cannot remove a file.
        tracing::warn!(worktree = %landing.worktree().display(), said, "git complains about the files of a landing, and has written them nevertheless");
    }
    match written.ok() {
        true => Ok(None),
        false if is_refusal(said) => Ok(Some(said.to_owned())),
        false => Err(RepoError::Failed(format!(
            "the files of a landing cannot be written to {}: {said}",
            landing.worktree().display()
        ))),
    }
}

/// Waits for git commands of the person that may be about to move the checkout.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] when one does not end.
fn settle(worktree: &Path) -> Result<(), RepoError> {
    persons_git::settle(&[worktree]).map_err(|what| busy(worktree, CheckoutBusy::Underway(what)))
}

/// Returns the worktree at this path, whatever branch it has.
pub(super) fn at(path: &Path) -> Worktree {
    Worktree {
        path: PathBuf::from(path),
        branch: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_is_the_last_message_of_git() {
        for (said, is) in [
            ("error: Entry 'a' not uptodate. Cannot merge.", true),
            (
                "error: Untracked working tree file 'a\nb' would be overwritten by merge.",
                true,
            ),
            ("error: Updating 'd' would lose untracked files in it", true),
            (
                "a filter: hm\nerror: Entry 'a' not uptodate. Cannot merge.",
                true,
            ),
            (
                "error: Entry 'a' of a filter\nerror: external filter 'x' failed",
                false,
            ),
            (
                "error: Entry 'a' of a filter\nfatal: m.big: smudge filter x failed",
                false,
            ),
            ("a filter says error: Entry 'a'", false),
            ("error: unable to write file a", false),
            ("", false),
        ] {
            assert_eq!(is_refusal(said), is, "{said}");
        }
    }
}
