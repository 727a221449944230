//! Makes a worktree atomically: built beside its final path, moved there at the end.
//!
//! ```text
//!   remove an earlier try ─► build <id>.part ─► register the final path ─► rename
//!                                   └── error: remove it
//! ```
//!
//! `git worktree move` refuses a worktree with submodules, so the move is made here.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::super::admin::{self, At, failed, remove_if_there};
use super::super::bytes;
use super::super::entry_links::{self, leads_back, linked, read_link_file};
use super::super::repair::claimed;
use super::super::rig::{GitRepo, locked};
use crate::adapters::city_root;
use crate::adapters::mounts;
use crate::ports::repo::RepoError;

/// Builds a worktree with this name beside `to`, and moves it there. `to` must not exist.
pub(super) fn whole(
    repo: &GitRepo,
    name: &str,
    to: &Path,
    build: impl FnOnce(&Path, &Path) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let taken = || RepoError::Failed(format!("{} exists already", to.display()));
    let place = to.file_name().ok_or_else(taken)?;
    if fs::symlink_metadata(to).is_ok() {
        return Err(taken());
    }
    let parent = to.parent().unwrap_or(Path::new("."));
    city_root::make_dirs(parent).at("cannot make", parent)?;
    let parent = fs::canonicalize(parent).at("cannot find", parent)?;
    let (part, to) = (parent.join(format!("{name}.part")), parent.join(place));
    clear(repo, &part)?;
    let built = build(&part, &to).and_then(|()| publish(repo, &part, &to));
    if built.is_err()
        && let Err(error) = clear(repo, &part)
    {
        tracing::warn!(path = %part.display(), %error, "the remains of a failed restore could not be removed; the next restore to this path tries again");
    }
    built
}

/// Registers the final path before the rename: after a crash in between, [`clear`] finds the part.
fn publish(repo: &GitRepo, part: &Path, to: &Path) -> Result<(), RepoError> {
    // Locked, so that no prune runs in between.
    let _serial = locked(&repo.state.worktrees);
    let admin = linked(part).ok_or_else(|| {
        let what = format!("{} has no git directory", part.display());
        RepoError::Failed(what)
    })?;
    let back = [bytes::of(&to.join(".git")), b"\n"].concat();
    admin::write_whole(&admin.join("gitdir"), &back)?;
    fs::rename(part, to).at("cannot move", part)
}

/// Removes the remains of an earlier try. Anything else at that path stays and blocks the build.
fn clear(repo: &GitRepo, part: &Path) -> Result<(), RepoError> {
    let _serial = locked(&repo.state.worktrees);
    let mut admins = entry_links::of_sandbox(repo, part)?;
    let fail = |error: std::io::Error| failed("cannot remove", part, &error);
    mounts::none_in(part).map_err(fail)?;
    match fs::read_dir(part).map(Iterator::collect::<Result<Vec<_>, _>>) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(fail(error)),
        Ok(list) => {
            let list = list.map_err(fail)?;
            let link = part.join(".git");
            let is_begun = !admins.is_empty() && list.iter().all(is_temporary);
            if !list.is_empty() && !is_begun && !is_ours(repo, part) {
                let what = format!("{} is in the way", part.display());
                return Err(RepoError::Failed(what));
            }
            admins.extend(linked(part).filter(|admin| leads_back(admin, part) || !claimed(admin)));
            // The link goes last: until then it shows that the directory is ours.
            for entry in list.iter().filter(|entry| entry.path() != link) {
                remove(&entry.path())?;
            }
            remove(&link)?;
            fs::remove_dir(part).map_err(fail)?;
        }
    }
    admins.iter().try_for_each(|admin| remove(admin))
}

/// Returns true for the file that becomes the link, as a killed restore leaves it.
fn is_temporary(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    is_file && bytes::of(Path::new(&name)).starts_with(b".tmp")
}

/// Returns true if its link leads into our repository, even to a missing entry.
fn is_ours(repo: &GitRepo, part: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let admin = read_link_file(&part.join(".git")).ok().flatten();
    let led = admin.and_then(|admin| real(part.join(admin).parent()?));
    led.is_some() && led == admin::home(repo)
}

/// Removes a file, or a directory with its content, if it exists.
fn remove(path: &Path) -> Result<(), RepoError> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    match is_dir {
        true => mounts::remove_dir_all(path).at("cannot remove", path),
        false => remove_if_there(path),
    }
}
