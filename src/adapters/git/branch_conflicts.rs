//! Makes room for the branch of a raider: anything that agents have put there is renamed and keeps its commits.
//!
//! A ref is a file, and its name is a path. A branch `raider` blocks `raider/Toast/gt-1-1`, and so does
//! `raider/Toast/gt-1-1/x`: one agent could stop all charges of its rig.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::admin::{self, failed, write_whole};
use super::ref_lock;
use super::reflog_commits::kinds_there;
use super::rig::GitRepo;
use super::theirs::{self, Head};
use super::{share, unreadable};
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Moves anything away that blocks a new branch or its reflog.
///
/// # Errors
/// [`RepoError::Failed`] if it cannot be saved or renamed.
pub(super) fn clear(repo: &GitRepo, name: &str) -> Result<(), RepoError> {
    for above in above(name) {
        match repo.their_refs().resolve(above) {
            Ok(None) => {}
            Ok(Some(tip)) => {
                let only = BTreeMap::from([(above.to_owned(), tip)]);
                rename(repo, above, &only, name)?;
            }
            // A link or a pipe is not a branch; it is set aside as it is.
            Err(why) => {
                tracing::debug!(
                    above,
                    %why,
                    "a ref above a new branch cannot be read; it is not a branch and is set aside"
                )
            }
        }
        unless_dir(repo, Path::new(above))?;
    }
    let below = repo.their_refs().list(&format!("{name}/"))?;
    if !below.is_empty() {
        rename(repo, name, &below, name)?;
    }
    let logs = above(name).map(|above| Path::new("logs").join(above));
    logs.into_iter()
        .try_for_each(|log| unless_dir(repo, &log))?;
    for place in [PathBuf::from(name), Path::new("logs").join(name)] {
        if fs::symlink_metadata(repo.theirs().join(&place)).is_ok_and(|found| found.is_dir()) {
            theirs::drop_empty(&repo.theirs().join(&place));
            unless(repo, &place, |found| !found.is_dir())?;
        }
    }
    Ok(())
}

/// Sets aside what has the name of a branch without work, or of a directory that it would be in, and is no ref,
/// and any reflog of it: a link would be followed, git would wait for a pipe, and it stops at an emptied file.
///
/// # Errors
/// As [`clear`].
pub(super) fn check(repo: &GitRepo, name: &str) -> Result<(), RepoError> {
    let is_ref = |found: &fs::Metadata| found.is_file() || found.is_dir();
    for place in above(name).chain([name]) {
        unless(repo, Path::new(place), is_ref)?;
    }
    if repo.their_refs().resolve(name).is_err() {
        unless(repo, Path::new(name), |found| !found.is_file())?;
    }
    let log = Path::new("logs").join(name);
    match repo.their_refs().resolve(name)? {
        // Its reflog is moved with the branch.
        Some(_) => unless(repo, &log, fs::Metadata::is_file),
        None => unless(repo, &log, fs::Metadata::is_dir),
    }
}

/// Renames a branch to a name that no new raider's branch gets. Saves its commits first.
///
/// # Errors
/// As [`clear`].
pub(super) fn move_branch(repo: &GitRepo, name: &str, tip: &Oid) -> Result<(), RepoError> {
    let only = BTreeMap::from([(name.to_owned(), tip.clone())]);
    rename(repo, name, &only, name)
}

/// Returns the directories above a ref: `refs/heads`, `refs/heads/raider` ...
pub(super) fn above(name: &str) -> impl Iterator<Item = &str> + Clone {
    let ends = name.match_indices('/').map(|(at, _)| &name[..at]);
    ends.filter(|above| *above != "refs")
}

/// Returns true if only directories are on the path of a ref: git would follow a link.
pub(super) fn is_clear(repo: &GitRepo, name: &str) -> bool {
    above(name).all(|above| {
        let found = fs::symlink_metadata(repo.theirs().join(above));
        found.map_or_else(|error| admin::is_nothing(&error), |found| found.is_dir())
    })
}

/// Renames refs: `place`, the prefix of all of them, gets the suffix `.aside`. Worktrees that have one of them
/// checked out get the new name, as after `git branch --move`.
fn rename(
    repo: &GitRepo,
    place: &str,
    refs: &BTreeMap<String, Oid>,
    wanted: &str,
) -> Result<(), RepoError> {
    // Saved first: an agent may remove them under either name.
    save(repo, &refs.values().cloned().collect())?;
    let theirs = repo.their_refs();
    let aside = free(repo, place)?;
    let new_name = |name: &str| format!("{aside}{}", name.strip_prefix(place).unwrap_or_default());
    let new = refs.iter().map(|(name, tip)| (new_name(name), tip.clone()));
    let new: Vec<_> = new.collect();
    // One file for all of them, or one file each if git holds the lock.
    if !theirs.pack(&new)? {
        for (name, tip) in &new {
            theirs.create(name, tip)?;
        }
    }
    for admin in admin::entries(repo)? {
        if let Ok(Some(Head::Ref(head))) = theirs::head(&admin)
            && refs.contains_key(&head)
        {
            let line = format!("ref: {}\n", new_name(&head));
            write_whole(&admin.join("HEAD"), line.as_bytes())?;
        }
    }
    move_log(repo, place, &aside)?;
    for (name, tip) in refs {
        let is_gone =
            theirs.delete(name, tip)? || (unlock(repo, name)? && theirs.delete(name, tip)?);
        if !is_gone {
            return Err(RepoError::Failed(format!(
                "{name} is in the place of {wanted}, and cannot be renamed: git holds its lock in \
                {}, which counts as stale after a minute",
                repo.theirs().display()
            )));
        }
    }
    repo.mended(format!(
        "{place} of the repository of the agents was in the place of the branch {wanted}, and is \
        set aside as {aside}; its commits are saved"
    ));
    Ok(())
}

/// Sets stale locks of a ref aside: an agent may have left them. Returns true if there were any.
pub(super) fn unlock(repo: &GitRepo, name: &str) -> Result<bool, RepoError> {
    let locks = [name, "packed-refs"].map(|file| format!("{file}.lock"));
    let is_stale = |lock: &&String| ref_lock::is_stale(repo.theirs(), &repo.theirs().join(lock));
    let stale: Vec<_> = locks.iter().filter(is_stale).collect();
    for lock in &stale {
        // Moved away, because among the refs it would count as one.
        unless(repo, Path::new(lock), |_| false)?;
    }
    Ok(!stale.is_empty())
}

/// Copies the objects that refs name into ours, as far as they exist and are whole.
pub(super) fn save(repo: &GitRepo, named: &BTreeSet<Oid>) -> Result<(), RepoError> {
    let (mut there, absent) = kinds_there(repo, named)?;
    // Closed files are opened by the check. One that stays closed must not stop the rig: an agent can name any object.
    if !absent.is_empty() && unreadable::check(repo, &absent, "").is_err() {
        there = kinds_there(repo, named)?.0;
    }
    let there = there.into_iter().map(|it| it.0);
    let left = repo.take_each(&there.collect::<Vec<_>>())?;
    let lost = [left.damaged, left.unseen, left.closed].concat();
    if !lost.is_empty() {
        tracing::warn!(rig = %repo.name(), objects = ?lost, "refs or files of agents name objects that are damaged or cannot be read; they are not saved");
    }
    Ok(())
}

/// Returns an unused name.
fn free(repo: &GitRepo, place: &str) -> Result<String, RepoError> {
    let theirs = repo.their_refs();
    let mut name = format!("{place}.aside");
    let mut n = 2_u64;
    while fs::symlink_metadata(repo.theirs().join(&name)).is_ok()
        || theirs.resolve(&name)?.is_some()
        || !theirs.list(&format!("{name}/"))?.is_empty()
    {
        name = format!("{place}.aside.{n}");
        n += 1;
    }
    Ok(name)
}

/// Renames the reflogs of renamed refs: they name commits, too.
fn move_log(repo: &GitRepo, from: &str, to: &str) -> Result<(), RepoError> {
    let at = |name: &str| Path::new("logs").join(name);
    match beneath::rename(repo.theirs(), &at(from), &at(to)) {
        Err(error) if !admin::is_nothing(&error) && !admin::is_strange(&error) => Err(failed(
            "cannot rename",
            &repo.theirs().join(at(from)),
            &error,
        )),
        _ => Ok(()),
    }
}

/// Sets anything but a directory aside.
fn unless_dir(repo: &GitRepo, name: &Path) -> Result<(), RepoError> {
    unless(repo, name, fs::Metadata::is_dir)
}

/// Moves an entry that is not fine out of the refs and reflogs: git would follow a link there under any name.
pub(super) fn unless(
    repo: &GitRepo,
    name: &Path,
    is_fine: impl Fn(&fs::Metadata) -> bool,
) -> Result<(), RepoError> {
    let dir = repo.theirs();
    let at = dir.join(name);
    if !fs::symlink_metadata(&at).is_ok_and(|found| !is_fine(&found)) {
        return Ok(());
    }
    if let Some(to) = share::set_aside(dir, name)? {
        repo.mended(format!(
            "{} was in the place of a file that git needs, and is set aside as {}",
            at.display(),
            to.display()
        ));
    }
    Ok(())
}
