//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. What they say, git would do there: run a filter, or push elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::config_text::Listed;
use super::super::rig::GitRepo;
use super::super::settings_read::{listed_as, of_user_files};
use super::super::written::{on_the_way, real};
use super::changed::raw;
use super::{own, worktrees};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Refuses a landing that changes such a file in the rig's checkout, or in another worktree that has the target.
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
    let mut places = BTreeMap::from([(real(checkout), checkout.to_owned())]);
    for worktree in worktrees(checkout)? {
        if worktree.branch.as_deref() == Some(target) && worktree.git_dir().is_some() {
            places.entry(worktree.path.clone()).or_insert(worktree.path);
        }
    }
    let mut changed = None;
    for (place, named) in places {
        let included = of(&place, &named)?;
        if included.is_empty() {
            continue;
        }
        let changed = match &changed {
            Some(changed) => changed,
            None => changed.insert(raw(repo.git(), old, new)?),
        };
        // A directory above it may become a link, and one in its place stops git.
        let is_changed = |file: &&PathBuf| {
            let mut paths = changed.iter().map(|it| bytes::path(&it.path));
            paths.any(|path| file.starts_with(path) || path.starts_with(file))
        };
        if let Some(file) = included.iter().find(is_changed) {
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

/// Returns the files of a work tree that its configuration is in, those that it would include if they were there, and the links on
/// the way to them.
fn of(worktree: &Path, named: &Path) -> Result<BTreeSet<PathBuf>, RepoError> {
    // Those of the user may not be there yet.
    let mut named_files: BTreeSet<PathBuf> = of_user_files().into_iter().collect();
    for it in listed_as(worktree, named)? {
        named_files.extend(included(&it));
        named_files.insert(it.file);
    }
    let all = named_files.iter().flat_map(|file| on_the_way(file));
    let inside = all.filter_map(|file| file.strip_prefix(worktree).ok().map(Path::to_owned));
    let is_tracked = |file: &PathBuf| *file != Path::new("") && !file.starts_with(".git");
    Ok(inside.filter(is_tracked).collect())
}

/// Returns the file that a setting includes.
fn included(it: &Listed) -> Option<PathBuf> {
    let (key, value) = &it.setting;
    let includes = key.starts_with("include.") || key.starts_with("includeif.");
    let path = value.as_deref();
    let path = path.filter(|_| includes && key.ends_with(".path"))?;
    Some(match path.strip_prefix("~/") {
        Some(path) => PathBuf::from(std::env::var_os("HOME")?).join(path),
        None => it.file.parent()?.join(path),
    })
}
