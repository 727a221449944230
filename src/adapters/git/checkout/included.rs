//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. What they say, git would do there: run a filter, or push elsewhere.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::config_text::Listed;
use super::super::rig::GitRepo;
use super::super::settings_read::{listed, real};
use super::changed::raw;
use super::{own, worktrees};
use crate::domain::ids::Oid;
use crate::domain::plain_path::plain;
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
    let mut places = BTreeSet::from([real(checkout)]);
    let on_it = worktrees(checkout)?.into_iter();
    let on_it = on_it.filter(|it| it.branch.as_deref() == Some(target) && it.git_dir().is_some());
    places.extend(on_it.map(|it| it.path));
    for place in places {
        let included = of(&place)?;
        if included.is_empty() {
            continue;
        }
        let changed = raw(repo.git(), old, new)?;
        let is_changed = |file: &&PathBuf| {
            // A directory above it may become a link.
            let is_it = |path: &[u8]| file.starts_with(bytes::path(path));
            changed.iter().any(|it| is_it(&it.path))
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

/// Returns the files of a work tree that its configuration is in, and those that it would include if they were there.
fn of(worktree: &Path) -> Result<BTreeSet<PathBuf>, RepoError> {
    let mut files = BTreeSet::new();
    for it in listed(worktree)? {
        let named = included(&it).into_iter().chain([it.file]);
        for file in named.flat_map(|file| [plain(&file), real(&file)]) {
            let inside = file.strip_prefix(worktree);
            files.extend(
                inside
                    .ok()
                    .filter(|it| !it.starts_with(".git"))
                    .map(Path::to_owned),
            );
        }
    }
    files.remove(Path::new(""));
    Ok(files)
}

/// Returns the file that a setting includes.
fn included(it: &Listed) -> Option<PathBuf> {
    let (key, value) = &it.setting;
    let includes = key.starts_with("include.") || key.starts_with("includeif.");
    let path = value
        .as_deref()
        .filter(|_| includes && key.ends_with(".path"))?;
    Some(match path.strip_prefix("~/") {
        Some(path) => PathBuf::from(std::env::var_os("HOME")?).join(path),
        None => it.file.parent()?.join(path),
    })
}
