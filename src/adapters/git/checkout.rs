//! A person's checkout, which moves with its branch when work lands on a rig without a remote.
//!
//! It is only moved if the person loses nothing: not over files that git does not track, and not in the middle of a rebase or a
//! bisect.

mod any_path;
mod begins_with;
mod changed;
mod durable;
mod fast_forward;
mod filtered;
pub(super) mod included;
mod parts;
mod persons_git;
mod recovery;
mod restore;
mod unfinished;
mod writing;

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use self::changed::Changed;
use self::fast_forward::at;
pub(super) use self::fast_forward::fast_forward;
use self::recovery::is_interrupted;
pub(super) use self::recovery::recover as recover_in_turn;
#[cfg(test)]
pub(super) use self::unfinished::Unfinished;
use super::admin::{At, scratch};
use super::command::Git;
use super::object_copy::borrowing;
use super::rig::GitRepo;
use super::{bytes, name_locks};
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The number of files that are named.
const NAMED_MAX: usize = 20;

/// Files of a git directory that exist during an operation, and the operation's name. An operation on a detached HEAD
/// may concern the branch, too, and says so in another file.
const UNDERWAY: &[(&str, &str)] = &[
    ("rebase-merge", "a rebase"),
    ("rebase-apply/applying", "an am"),
    ("rebase-apply", "a rebase"),
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("sequencer", "a sequence of cherry-picks or reverts"),
    ("BISECT_START", "a bisect"),
    ("BISECT_LOG", "a bisect"),
    INDEX_LOCK,
];

/// git's lock of a worktree's index.
const INDEX_LOCK: (&str, &str) = ("index.lock", "a git command, or a leftover index.lock");

/// Files that name the branch of a rebase or bisect, which is checked out again at its end.
const ABOUT: &[&str] = &[
    "rebase-merge/head-name",
    "rebase-merge/update-refs",
    "rebase-apply/head-name",
    "BISECT_START",
];

/// The turn to land on a person's checkout: several rigs, and several supervisors, may land on the same one.
pub(super) struct LandingTurn {
    /// Its repository, locked with `flock` against other supervisors; none where the file system has no such locks.
    everywhere: Option<File>,
    _here: name_locks::Turn,
}

impl Drop for LandingTurn {
    fn drop(&mut self) {
        // A process that is being started has the descriptor, too: closing it here would not unlock it at once.
        if let Some(Err(error)) = self.everywhere.as_ref().map(File::unlock) {
            tracing::debug!(%error, "the lock of a checkout ends with its descriptor");
        }
    }
}

/// The name of the lock in this process.
const LANDING: &str = "landing";

/// Returns the checkout that moves with the target; none on a rig with a remote.
fn own(repo: &GitRepo) -> Result<Option<&Path>, RepoError> {
    match repo.pushes() {
        true => repo.own_origin(),
        false => Ok(None),
    }
}

/// Returns the repository of the checkout; none without a checkout.
///
/// # Errors
/// When git does not find the repository.
fn repository(repo: &GitRepo) -> Result<Option<PathBuf>, RepoError> {
    let Some(checkout) = own(repo)? else {
        return Ok(None);
    };
    let found = Git::in_dir(checkout)
        .as_user()
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
        .run()?;
    let dir = fs::canonicalize(bytes::path(found.stdout.trim_ascii_end()));
    dir.map(Some).at("cannot find the repository of", checkout)
}

/// Waits until no other rig of this supervisor lands on the checkout of this rig, takes the turn to land, and keeps other
/// supervisors out. Returns none without a checkout.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while another supervisor lands there.
pub(super) fn turn(repo: &GitRepo) -> Result<Option<LandingTurn>, RepoError> {
    let Some(dir) = repository(repo)? else {
        return Ok(None);
    };
    let here = name_locks::take(&dir, LANDING);
    only(repo, dir, here).map(Some)
}

/// Takes the turn to land as [`turn`], without a wait.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while another rig or supervisor lands there.
fn turn_now(repo: &GitRepo) -> Result<Option<LandingTurn>, RepoError> {
    let Some(dir) = repository(repo)? else {
        return Ok(None);
    };
    match name_locks::try_take(&dir, LANDING) {
        Some(here) => only(repo, dir, here).map(Some),
        None => Err(busy_landing(repo, dir, "rig")),
    }
}

/// Keeps other supervisors out.
fn only(repo: &GitRepo, dir: PathBuf, here: name_locks::Turn) -> Result<LandingTurn, RepoError> {
    let open = File::open(&dir).at("cannot open", &dir)?;
    let everywhere = match open.try_lock() {
        Ok(()) => Some(open),
        Err(TryLockError::WouldBlock) => {
            return Err(busy_landing(repo, dir, "supervisor"));
        }
        Err(TryLockError::Error(error)) => {
            tracing::debug!(dir = %dir.display(), %error, "the file system of a checkout has no locks");
            None
        }
    };
    Ok(LandingTurn {
        everywhere,
        _here: here,
    })
}

/// Takes back what an interrupted landing of this rig wrote.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while a landing is under way; when the checkout cannot be read or written.
pub(super) fn recover(repo: &GitRepo) -> Result<(), RepoError> {
    if !is_interrupted(repo) {
        return Ok(());
    }
    let _turn = turn_now(repo)?;
    recovery::recover(repo)
}

fn busy_landing(repo: &GitRepo, dir: PathBuf, whose: &str) -> RepoError {
    let path = own(repo).ok().flatten().map(Path::to_owned);
    RepoError::CheckoutBusy {
        path: path.unwrap_or(dir),
        why: CheckoutBusy::Landing(whose.to_owned()),
    }
}

/// Checks that the checkout could move with the target, before anything is merged or tested. Waits for no landing of another
/// rig, during which files are changed.
///
/// # Errors
/// As [`free`]'s.
pub(super) fn look(
    repo: &GitRepo,
    target: &str,
    landing: Option<(&Oid, &Oid)>,
) -> Result<(), RepoError> {
    let _turn = turn_now(repo)?;
    recovery::recover(repo)?;
    free(repo, target, landing)
}

/// Checks that the checkout could move with the target.
///
/// # Errors
/// [`RepoError::CheckoutBusy`], or another error when git cannot read the checkout.
pub(super) fn free(
    repo: &GitRepo,
    target: &str,
    landing: Option<(&Oid, &Oid)>,
) -> Result<(), RepoError> {
    let Some(checkout) = own(repo)? else {
        return Ok(());
    };
    let mut on_it = Vec::new();
    for worktree in worktrees(checkout)? {
        let busy = |why| RepoError::CheckoutBusy {
            path: worktree.path.clone(),
            why,
        };
        let on = worktree.branch.as_deref() == Some(target);
        match worktree.git_dir() {
            Some(dir) => {
                if let Some(what) = underway(&dir, target, on) {
                    return Err(busy(CheckoutBusy::Underway(what.to_owned())));
                }
            }
            None if on => return Err(busy(CheckoutBusy::Gone)),
            None => {}
        }
        on_it.extend(on.then(|| worktree.path.clone()));
    }
    let [path] = &on_it[..] else {
        return several(on_it);
    };
    let why = match changed(path)? {
        Some(names) => Some(CheckoutBusy::Changed(names)),
        None => match landing {
            Some((old, new)) => in_the_way(repo, path, old, new)?,
            None => None,
        },
    };
    let path = path.clone();
    why.map_or(Ok(()), |why| Err(RepoError::CheckoutBusy { path, why }))
}

/// Only one worktree of a branch can move with it; the others would not.
fn several(paths: Vec<PathBuf>) -> Result<(), RepoError> {
    let shown: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    match paths.into_iter().next() {
        None => Ok(()),
        Some(path) => Err(RepoError::CheckoutBusy {
            path,
            why: CheckoutBusy::Several(shown.join(", ")),
        }),
    }
}

/// A worktree of a repository.
struct Worktree {
    path: PathBuf,
    branch: Option<String>,
}

impl Worktree {
    /// Returns its own git directory; none if it has none.
    fn git_dir(&self) -> Option<PathBuf> {
        let link = self.path.join(".git");
        if link.is_dir() {
            // It may be a link, and git lists the real path.
            return fs::canonicalize(link).ok();
        }
        let text = fs::read(&link).ok()?;
        let dir = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
        // The link may be relative, and git lists the real path.
        fs::canonicalize(self.path.join(bytes::path(dir))).ok()
    }
}

/// Lists all worktrees of the checkout, including linked ones. A bare repository does not count.
fn worktrees(checkout: &Path) -> Result<Vec<Worktree>, RepoError> {
    let list = Git::in_dir(checkout)
        .as_user()
        .args(["worktree", "list", "--porcelain", "-z"])
        .run()?;
    let mut found = Vec::new();
    for line in list.stdout.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            found.push(Worktree {
                path: bytes::path(path).to_owned(),
                branch: None,
            });
        } else if line == b"bare" {
            found.pop();
        } else if let Some(branch) = line.strip_prefix(b"branch refs/heads/")
            && let Some(last) = found.last_mut()
        {
            last.branch = Some(bytes::lossy(branch));
        }
    }
    // git lists the directory of the repository where that is not in the checkout.
    let here = Worktree {
        path: checkout.to_owned(),
        branch: None,
    };
    if let Some(main) = found.first_mut()
        && main.git_dir().is_none()
        && here.git_dir() == fs::canonicalize(&main.path).ok()
    {
        main.path = here.path;
    }
    Ok(found)
}

/// Returns the operation in progress in a worktree that has the branch checked out, or will check it out at the end.
fn underway(dir: &Path, target: &str, on: bool) -> Option<&'static str> {
    let begun = |name: &str| fs::symlink_metadata(dir.join(name)).is_ok();
    let found = UNDERWAY.iter().find(|(name, _)| begun(name));
    found
        .filter(|_| on || about(dir, target))
        .map(|(_, what)| *what)
}

/// Returns true if the operation in progress in a worktree will move or check out the branch at its end.
fn about(dir: &Path, target: &str) -> bool {
    let full = format!("refs/heads/{target}");
    ABOUT.iter().any(|name| {
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        text.lines().any(|line| line == full || line == target)
    })
}

/// Returns the changed or staged files of a worktree, for people.
fn changed(path: &Path) -> Result<Option<String>, RepoError> {
    let status = Git::in_dir(path)
        .as_user()
        .args(["--no-optional-locks", "status", "--porcelain", "-z", "-uno"])
        .args(["--no-renames", "--ignore-submodules=dirty"])
        .run()?;
    let names = bytes::split(&status.stdout).filter_map(|line| line.get(3..));
    Ok(named(names.map(bytes::lossy).collect()))
}

/// Joins the names, up to a readable number; none without names.
fn named(mut names: Vec<String>) -> Option<String> {
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

fn busy(path: &Path, why: CheckoutBusy) -> RepoError {
    RepoError::CheckoutBusy {
        path: path.to_owned(),
        why,
    }
}

/// Returns the files in the way of a landing, or git's own refusal.
fn in_the_way(
    repo: &GitRepo,
    path: &Path,
    old: &Oid,
    new: &Oid,
) -> Result<Option<CheckoutBusy>, RepoError> {
    let changed = Changed::of(repo, old, new)?;
    if let Some(why) = changed.obstacles(path) {
        return Ok(Some(why));
    }
    // With a copy of the index: a person may be about to lock the other one.
    let scratch = scratch(repo)?;
    let index = scratch.path().join("index");
    let Some(git_dir) = at(path).git_dir() else {
        return Ok(Some(CheckoutBusy::Gone));
    };
    durable::copy_index(&git_dir.join("index"), &index)?;
    let git = || Git::in_dir(path).as_user().env("GIT_INDEX_FILE", &index);
    // A file that was only touched is unchanged: git must refresh its index first.
    git()
        .args(["update-index", "-q", "--ignore-submodules", "--refresh"])
        .output()?;
    // Flags of the index hide changes from the status, but not from this check.
    let rehearsal = borrowing(git(), &repo.repo_dir().join("objects"))
        .args(["read-tree", "--dry-run", "-u", "-m"])
        .args([old.as_str(), new.as_str()])
        .output()?;
    if rehearsal.ok() {
        return Ok(None);
    }
    let said = rehearsal.stderr.trim().to_owned();
    let hidden = hidden(path, &changed.all)?.map(CheckoutBusy::Hidden);
    Ok(Some(hidden.unwrap_or(CheckoutBusy::Changed(said))))
}

/// Returns the existing files among these that a flag of the index hides from the status, each with its flag.
fn hidden(path: &Path, names: &HashSet<Vec<u8>>) -> Result<Option<String>, RepoError> {
    let listed = Git::in_dir(path)
        .as_user()
        .args(["ls-files", "-v", "-z"])
        .run()?;
    let flagged = bytes::split(&listed.stdout).filter_map(|line| {
        // `<tag> <path>`
        let (tag, name) = (line.first()?, line.get(2..)?);
        let flag = match tag {
            b'S' | b's' => "skip-worktree",
            tag if tag.is_ascii_lowercase() => "assume-unchanged",
            _ => return None,
        };
        let is_there = || fs::symlink_metadata(path.join(bytes::path(name))).is_ok();
        let shown = || format!("{} ({flag})", bytes::lossy(name));
        (names.contains(name) && is_there()).then(shown)
    });
    Ok(named(flagged.collect()))
}
