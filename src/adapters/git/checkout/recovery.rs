//! Ends landings in the user's checkout that were interrupted, at the start and before the next landing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::super::admin::{At, entries_in};
use super::super::command::CHECKOUT;
use super::super::rig::GitRepo;
use super::fast_forward::unpin;
use super::unfinished::{Ended, RECORDS, Unfinished};
use super::{busy, persons_git};
use crate::adapters::proc::{self, Pidfd};
use crate::domain::facts::ProcessId;
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

/// Returns true if a landing of this rig may not have ended. One whose repository is gone does not count.
pub(in super::super) fn is_interrupted(repo: &GitRepo) -> bool {
    let may_go_on = |record: &PathBuf| match Unfinished::read(repo, record) {
        Ok(Some(it)) => it.has_git_dir(),
        Ok(None) | Err(_) => true,
    };
    records(repo).is_ok_and(|found| found.iter().any(may_go_on))
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
        let worktree = it.worktree().display();
        tracing::debug!(%worktree, "a landing was interrupted in a checkout that is gone, or not mounted; it is taken back when the checkout is there again");
        return Ok(());
    }
    it.follow();
    let worktree = it.worktree().to_owned();
    if let Some(what) = writer(&it) {
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

/// Takes back a landing that failed.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while its git still writes, although it was killed; as [`Unfinished::take_back`].
pub(super) fn take_back(landing: Unfinished) -> Result<Ended, RepoError> {
    match writer(&landing) {
        Some(what) => Err(busy(landing.worktree(), CheckoutBusy::Underway(what))),
        None => landing.take_back(),
    }
}

/// Returns what writes while the git of an interrupted landing does. A process that it started may live on, and writes no files of the
/// checkout.
pub(super) fn writer(landing: &Unfinished) -> Option<String> {
    let index = landing.own_index();
    let Ok(all) = proc::all() else {
        return Some("a landing that was interrupted, perhaps".to_owned());
    };
    let is_it = |pid: u32| {
        let used = proc::environment_value(pid, "GIT_INDEX_FILE");
        used.is_some_and(|used| Path::new(&used) == index) && persons_git::is_writer(pid)
    };
    let mut all = all.iter().filter(|(_, stat)| stat.lives());
    let (pid, stat) = all.find(|(pid, _)| is_it(**pid))?;
    // The supervisor that would have ended it is gone: a filter hangs.
    if proc::age(stat) > CHECKOUT {
        let process = ProcessId {
            pid: *pid,
            started: stat.started,
        };
        match end(&process) {
            Ok(()) => {
                tracing::warn!(
                    pid,
                    "the git of a landing that was interrupted hung, and was ended"
                );
            }
            Err(why) => {
                tracing::warn!(pid, %why, "the git of a landing that was interrupted hangs, and could not be ended");
            }
        }
    }
    Some(format!(
        "the git of a landing that was interrupted (process {pid})"
    ))
}

/// Ends a process. Its filter ends when it reads or writes, or lives on without harm.
fn end(process: &ProcessId) -> io::Result<()> {
    match Pidfd::open(process)? {
        Some(git) => git.signal(Signal::KILL),
        None => Ok(()),
    }
}
