//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. git would obey their new content there, for example run a filter that an agent wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::checkouts::{self, is_of_another};
use super::super::config_text::Setting;
use super::super::include_files::followed;
use super::super::rig::GitRepo;
use super::super::settings_read::{listed, of_user_files};
use super::changed::raw;
use super::{own, worktrees};
use crate::adapters::link_walk::{on_the_way, real};
use crate::domain::ids::Oid;
use crate::domain::plain_path::plain;
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
    let mut named = Named::default();
    for place in &places {
        named.look(place)?;
    }
    let (own, silent) = named.followed(checkout)?;
    all_known(silent)?;
    let mut read = read_here_by_others(checkout, &places)?;
    read.extend(own.into_iter().map(|file| (file, checkout.to_owned())));
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
                "{} is part of git's configuration in the checkout {} (an include, or a program), and only a person may change it there: take \
                 the change out of the commits, or let a person merge them",
                file.display(),
                reader.display()
            )));
        }
    }
    Ok(())
}

/// Notes the files that git reads settings from in all work trees of the checkout, for the landings of other rigs.
///
/// # Errors
/// git's, where the configuration cannot be read.
pub(in crate::adapters::git) fn note(checkout: &Path, real: &Path) -> Result<(), RepoError> {
    let mut named = Named::default();
    named.look(real)?;
    let mut are_all = true;
    for worktree in worktrees(checkout)? {
        // One that is away is read when it is back, and one that is broken must not stop the rig.
        if worktree.path != real
            && worktree.git_dir().is_some()
            && let Err(why) = named.look(&worktree.path)
        {
            tracing::warn!(worktree = %worktree.path.display(), %why, "git's configuration in a worktree of the checkout cannot be read; landings of other rigs may change files that it includes");
            are_all = false;
        }
    }
    let (read, silent) = named.followed(checkout)?;
    let are_all = are_all && silent.is_none();
    checkouts::note_read(checkout, read, are_all);
    Ok(())
}

/// Returns the files in these work trees that the checkouts of other rigs read settings from, each with the checkout. They were noted
/// as they are named there: the links are followed here, and so are the includes.
fn read_here_by_others(
    checkout: &Path,
    places: &BTreeSet<PathBuf>,
) -> Result<BTreeMap<PathBuf, PathBuf>, RepoError> {
    let mut read = BTreeMap::new();
    for (file, reader) in checkouts::read_by_others(checkout) {
        let is_here = |file: &Path| {
            let named = [checkout].into_iter();
            let mut dirs = named.chain(places.iter().map(PathBuf::as_path));
            dirs.any(|dir| file.starts_with(dir))
        };
        if !is_here(&plain(&file)) {
            continue;
        }
        let included = followed([file.clone()], Some(checkout))?;
        all_known(included.silent)?;
        let included = included.files.into_iter().flat_map(|it| it.places);
        let all = on_the_way(&file).into_iter().chain(included);
        read.extend(all.map(|file| (file, reader.clone())));
    }
    Ok(read)
}

fn all_known(silent: Option<PathBuf>) -> Result<(), RepoError> {
    silent.map_or(Ok(()), |file| {
        Err(RepoError::Failed(format!(
            "{}, which git's configuration includes, cannot be looked at: its disk does not answer",
            file.display()
        )))
    })
}

fn is_missing(file: &Path) -> bool {
    let found = file.symlink_metadata();
    found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Returns the absolute paths in a setting that names a program: what lands there would be run.
fn programs((key, value): &Setting) -> Vec<PathBuf> {
    let is_program = matches!(key.as_str(), "core.sshcommand" | "core.askpass")
        || key.starts_with("gpg.")
        || key.starts_with("credential.");
    let value = value.as_deref().filter(|_| is_program).unwrap_or_default();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let words = value.split(|char: char| char.is_whitespace() || "!'\"=;&|()$`".contains(char));
    let path = |word: &str| {
        // `-F/path`
        let begin = word.find("~/").or_else(|| word.find('/'))?;
        match word[begin..].strip_prefix("~/") {
            Some(rest) => home.as_ref().map(|home| home.join(rest)),
            None => Some(PathBuf::from(&word[begin..])),
        }
    };
    words.filter_map(path).collect()
}

/// The files that git in work trees of a checkout reads settings from, and the programs that these name.
#[derive(Default)]
struct Named {
    files: BTreeSet<PathBuf>,
    programs: BTreeSet<PathBuf>,
}

impl Named {
    /// Adds those of a work tree.
    ///
    /// # Errors
    /// git's, where the configuration cannot be read.
    fn look(&mut self, dir: &Path) -> Result<(), RepoError> {
        let listed = listed(dir)?;
        self.files.extend(of_user_files());
        self.files.extend(listed.iter().map(|it| it.file.clone()));
        let programs = listed.iter().flat_map(|it| programs(&it.setting));
        self.programs.extend(programs);
        Ok(())
    }

    /// Returns them with the files that git would read if they were there or if a condition held, and the links on the way to them;
    /// and a file that does not answer, because of which not all are known.
    ///
    /// # Errors
    /// As [`followed`].
    fn followed(self, checkout: &Path) -> Result<(BTreeSet<PathBuf>, Option<PathBuf>), RepoError> {
        let named = self.programs.iter().chain(&self.files);
        let mut all: BTreeSet<PathBuf> = named
            .flat_map(|file| match is_of_another(Some(checkout), file) {
                true => vec![file.clone()],
                false => on_the_way(file),
            })
            .collect();
        let included = followed(self.files, Some(checkout))?;
        all.extend(included.files.into_iter().flat_map(|it| it.places));
        Ok((all, included.silent))
    }
}
