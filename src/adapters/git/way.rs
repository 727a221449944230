//! Clears the way for a branch of a raider: what agents have put there keeps its commits, under another name.
//!
//! A ref is a file, and its name a path. A branch `raider` leaves no place for `raider/Toast/gt-1-1`, and
//! `raider/Toast/gt-1-1/x` none either: one agent would stop all charges of its rig.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::admin::{self, failed, free_name, write_whole};
use super::repair;
use super::rig::GitRepo;
use super::theirs::{self, Head};
use super::traces::kinds;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Moves away what has the place of a branch that is about to be made, or of its reflog.
///
/// # Errors
/// [`RepoError::Failed`] where it cannot be saved or renamed.
pub(super) fn clear(repo: &GitRepo, name: &str) -> Result<(), RepoError> {
    for above in above(name) {
        match repo.their_refs().resolve(above) {
            Ok(None) => {}
            Ok(Some(tip)) => {
                let only = BTreeMap::from([(above.to_owned(), tip)]);
                rename(repo, above, &only, name)?;
            }
            // Neither a link nor a pipe is a branch; it is set aside as it is.
            Err(why) => tracing::debug!(above, %why, "no branch stands in the way"),
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

/// Sets aside what has the name of a branch that nobody worked on yet, or of a directory that it would be in, and is no ref,
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
        // It is moved with the branch.
        Some(_) => unless(repo, &log, fs::Metadata::is_file),
        None => unless(repo, &log, fs::Metadata::is_dir),
    }
}

/// Gives a branch another name that is no branch's of a fresh raider. Its commits are saved first.
///
/// # Errors
/// As [`clear`].
pub(super) fn move_branch(repo: &GitRepo, name: &str, tip: &Oid) -> Result<(), RepoError> {
    let only = BTreeMap::from([(name.to_owned(), tip.clone())]);
    rename(repo, name, &only, name)
}

/// The names of the directories that a ref is in: `refs/heads`, `refs/heads/raider` ...
pub(super) fn above(name: &str) -> impl Iterator<Item = &str> + Clone {
    let ends = name.match_indices('/').map(|(at, _)| &name[..at]);
    ends.filter(|above| *above != "refs")
}

/// Whether nothing but directories is on the way to a ref: git would follow a link.
pub(super) fn is_clear(repo: &GitRepo, name: &str) -> bool {
    above(name).all(|above| {
        let found = fs::symlink_metadata(repo.theirs().join(above));
        found.map_or_else(|error| admin::is_nothing(&error), |found| found.is_dir())
    })
}

/// Gives refs another name: `place`, which has all of them, ends with `.aside`. Each worktree that has one of them
/// checked out has it under its new name, as after `git branch --move`.
fn rename(
    repo: &GitRepo,
    place: &str,
    refs: &BTreeMap<String, Oid>,
    wanted: &str,
) -> Result<(), RepoError> {
    // First: an agent may remove them under either name.
    save(repo, &refs.values().cloned().collect())?;
    let theirs = repo.their_refs();
    let aside = free(repo, place)?;
    let new_name = |name: &str| format!("{aside}{}", name.strip_prefix(place).unwrap_or_default());
    let new = refs.iter().map(|(name, tip)| (new_name(name), tip.clone()));
    let new: Vec<_> = new.collect();
    // One file for all of them, or one for each where git is at that.
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
                "{name} has the place of {wanted}, and cannot be renamed: git holds its lock in {}, \
                 which is taken for left behind after a minute",
                repo.theirs().display()
            )));
        }
    }
    repo.mended(format!(
        "{place} of the repository of the agents had the place of the branch {wanted}, and is {aside} now; its commits \
         are saved"
    ));
    Ok(())
}

/// Sets the locks of a ref aside that nobody can hold any more: an agent may have left them. Returns whether there were any.
pub(super) fn unlock(repo: &GitRepo, name: &str) -> Result<bool, RepoError> {
    let locks = [name, "packed-refs"].map(|file| format!("{file}.lock"));
    let is_stale = |lock: &&String| repair::is_stale(&repo.theirs().join(lock));
    let stale: Vec<_> = locks.iter().filter(is_stale).collect();
    for lock in &stale {
        // Among the refs it would pass for one.
        unless(repo, Path::new(lock), |_| false)?;
    }
    Ok(!stale.is_empty())
}

/// Copies what refs name into ours, as far as it is there and whole.
pub(super) fn save(repo: &GitRepo, named: &BTreeSet<Oid>) -> Result<(), RepoError> {
    let there = kinds(repo, named)?.into_iter().map(|it| it.0);
    let damaged = repo.take_whole(&there.collect::<Vec<_>>())?;
    if !damaged.is_empty() {
        tracing::warn!(rig = %repo.name(), objects = ?damaged, "what agents left names objects that are damaged: they cannot be saved");
    }
    Ok(())
}

/// A name that nothing has.
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

/// Gives the reflogs of renamed refs their new name: they name commits, too.
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

/// Sets aside what is no directory and has the place of one.
fn unless_dir(repo: &GitRepo, name: &Path) -> Result<(), RepoError> {
    unless(repo, name, fs::Metadata::is_dir)
}

/// Moves out of the refs and reflogs what is there and is not so: under another name there, git would follow a link.
fn unless(
    repo: &GitRepo,
    name: &Path,
    is_fine: impl Fn(&fs::Metadata) -> bool,
) -> Result<(), RepoError> {
    let dir = repo.theirs();
    let at = dir.join(name);
    if !fs::symlink_metadata(&at).is_ok_and(|found| !is_fine(&found)) {
        return Ok(());
    }
    let flat = name.display().to_string().replace('/', "-");
    let to = free_name(dir, &format!("{flat}.aside"));
    let below = to.strip_prefix(dir).unwrap_or(&to);
    match beneath::rename(dir, name, below) {
        Err(error) if !admin::is_nothing(&error) => Err(failed("cannot rename", &at, &error)),
        _ => {
            repo.mended(format!(
                "{} had the place of something that git needs, and is set aside as {}",
                at.display(),
                to.display()
            ));
            Ok(())
        }
    }
}
