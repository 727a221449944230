//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. git would obey their new content there, for example run a filter that an agent wrote.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::rig::GitRepo;
use super::super::settings_read::{includes, listed, of_user_files};
use super::super::written::{self, on_the_way, real};
use super::changed::raw;
use super::{own, worktrees};
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
    let mut read = BTreeSet::new();
    for place in &places {
        read.extend(read_by_git(place)?);
    }
    read.extend(written::read_by_others(checkout));
    for place in places {
        let inside = read
            .iter()
            .filter_map(|file| file.strip_prefix(&place).ok());
        let is_tracked = |file: &&Path| *file != Path::new("") && !file.starts_with(".git");
        let inside: Vec<&Path> = inside.filter(is_tracked).collect();
        if inside.is_empty() {
            continue;
        }
        let changed = raw(repo.git(), old, new)?;
        // A directory above it may become a link, and one in its place stops git.
        let is_changed = |file: &&&Path| {
            let mut paths = changed.iter().map(|it| bytes::path(&it.path));
            paths.any(|path| file.starts_with(path) || path.starts_with(file))
        };
        if let Some(file) = inside.iter().find(is_changed) {
            return Err(RepoError::Rejected(format!(
                "{} is part of git's configuration in the checkout {} (include.path), and only a person may change it there: take \
                 the change out of the commits, or let a person merge them",
                file.display(),
                place.display()
            )));
        }
    }
    Ok(())
}

/// Returns the files that git in a directory reads settings from, or would if they were there, and the links on the way to them.
///
/// # Errors
/// git's, where the configuration cannot be read.
pub(in crate::adapters::git) fn read_by_git(dir: &Path) -> Result<BTreeSet<PathBuf>, RepoError> {
    let mut files: BTreeSet<PathBuf> = of_user_files().into_iter().collect();
    files.extend(listed(dir)?.into_iter().map(|it| it.file));
    files.extend(includes(dir)?.into_iter().map(|it| it.1));
    Ok(files.iter().flat_map(|file| on_the_way(file)).collect())
}
