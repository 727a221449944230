//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. git would obey their new content there, for example run a filter that an agent wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::checkouts;
use super::super::include_files::followed;
use super::super::rig::GitRepo;
use super::super::settings_read::{listed, of_user_files};
use super::changed::raw;
use super::{own, worktrees};
use crate::adapters::link_walk::{on_the_way, real};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Refuses a landing that changes such a file in the rig's checkout, or in another worktree that has the target. The file may be part
/// of the configuration of another rig's checkout.
///
/// # Errors
/// [`RepoError::Rejected`] names the file; git's, where the configuration cannot be read.
pub(in crate::adapters::git) fn check(
    repo: &GitRepo,
    target: &str,
    (old, new): (&Oid, &Oid),
) -> Result<(), RepoError> {
    let Some(checkout) = own(repo)? else {
        return Ok(());
    };
    let mut places = BTreeSet::from([real(checkout)]);
    for worktree in worktrees(checkout)? {
        if worktree.branch.as_deref() == Some(target) && worktree.git_dir().is_some() {
            places.insert(real(&worktree.path));
        }
    }
    // A bare repository has its own files in the place of a work tree's.
    places.retain(|place| !is_missing(&place.join(".git")));
    let mut own = BTreeSet::new();
    for place in &places {
        let (files, silent) = read_by_git(place, checkout)?;
        if let Some(file) = silent {
            return Err(RepoError::Failed(format!(
                "{}, which git's configuration includes, cannot be looked at: its disk does not answer",
                file.display()
            )));
        }
        own.extend(files);
    }
    if !own.is_empty() {
        checkouts::note_read(checkout, own.clone(), true);
    }
    let own = own.into_iter().map(|file| (file, checkout.to_owned()));
    let read: BTreeMap<PathBuf, PathBuf> = checkouts::read_by_others(checkout)
        .into_iter()
        .chain(own)
        .collect();
    for place in places {
        let inside = read.iter().filter_map(|(file, reader)| {
            let file = file.strip_prefix(&place).ok()?;
            Some((file, reader))
        });
        let is_tracked =
            |(file, _): &(&Path, _)| *file != Path::new("") && !file.starts_with(".git");
        let inside: Vec<(&Path, &PathBuf)> = inside.filter(is_tracked).collect();
        if inside.is_empty() {
            continue;
        }
        let changed = raw(repo.git(), old, new)?;
        // A directory above it may become a link, and one in its place stops git.
        let is_changed = |(file, _): &&(&Path, &PathBuf)| {
            let mut paths = changed.iter().map(|it| bytes::path(&it.path));
            paths.any(|path| file.starts_with(path) || path.starts_with(file))
        };
        if let Some((file, reader)) = inside.iter().find(is_changed) {
            return Err(RepoError::Rejected(format!(
                "{} is part of git's configuration in the checkout {} (include.path), and only a person may change it there: take \
                 the change out of the commits, or let a person merge them",
                file.display(),
                reader.display()
            )));
        }
    }
    Ok(())
}

fn is_missing(file: &Path) -> bool {
    let found = file.symlink_metadata();
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the files that git in a work tree of the checkout reads settings from, or would if they were there or if a condition held,
/// and the links on the way to them; and a file that does not answer, because of which not all are known.
///
/// # Errors
/// git's, where the configuration cannot be read.
pub(in crate::adapters::git) fn read_by_git(
    dir: &Path,
    checkout: &Path,
) -> Result<(BTreeSet<PathBuf>, Option<PathBuf>), RepoError> {
    let mut files: BTreeSet<PathBuf> = of_user_files().into_iter().collect();
    files.extend(listed(dir)?.into_iter().map(|it| it.file));
    let mut all: BTreeSet<PathBuf> = files.iter().flat_map(|file| on_the_way(file)).collect();
    let included = followed(files, Some(checkout))?;
    all.extend(included.files.into_iter().flat_map(|it| it.places));
    Ok((all, included.silent))
}
