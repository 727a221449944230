//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. git would obey their new content there, for example run a filter that an agent wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::super::bytes;
use super::super::checkouts::{self, Read, is_of_another};
use super::super::config_text::Setting;
use super::super::include_files::{followed, way};
use super::super::rig::GitRepo;
use super::super::settings_read::{listed, of_user_files};
use super::changed::raw;
use super::{own, worktrees};
use crate::adapters::link_walk::real;
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
    let (mut named, mut read) = (Named::default(), BTreeMap::new());
    for place in &places {
        named.look(place)?;
    }
    let (own, silent) = named.followed(checkout)?;
    all_known(silent)?;
    read.extend(own.into_iter().map(|file| (file, checkout.to_owned())));
    read.extend(read_here_from_elsewhere(checkout, &places)?);
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

/// Notes the files that git reads settings from in all work trees of the checkout, for the landings of other rigs, and for those of this
/// rig in another work tree.
///
/// # Errors
/// git's, where the configuration cannot be read.
pub(in crate::adapters::git) fn note(checkout: &Path, real: &Path) -> Result<(), RepoError> {
    let mut named = Named::default();
    named.look(real)?;
    let mut read = BTreeMap::from([(real.to_owned(), named.noted(checkout)?)]);
    for worktree in worktrees(checkout)? {
        if worktree.path == real {
            continue;
        }
        // One that is broken must not stop the rig. It keeps the files that were noted before, and so does one that is away.
        let noted = match worktree.git_dir().map(|_| named.look(&worktree.path)) {
            None => Read::default(),
            Some(Ok(())) => named.noted(checkout)?,
            Some(Err(why)) => {
                tracing::warn!(worktree = %worktree.path.display(), %why, "git's configuration in a worktree of the checkout cannot be read; landings may change files that were included there since it was read last");
                Read::default()
            }
        };
        read.insert(worktree.path, noted);
    }
    checkouts::note_read(checkout, read);
    Ok(())
}

/// Returns the files in these work trees that git reads settings from in the checkouts of other rigs, and in other work trees of this one,
/// each with the checkout. They were noted as they are named there: the links are followed here, and so are the includes.
fn read_here_from_elsewhere(
    checkout: &Path,
    places: &BTreeSet<PathBuf>,
) -> Result<BTreeMap<PathBuf, PathBuf>, RepoError> {
    let mut read = BTreeMap::new();
    for (file, reader) in checkouts::read_elsewhere(checkout, places) {
        let is_here = |file: &Path| {
            let named = [checkout].into_iter();
            let mut dirs = named.chain(places.iter().map(PathBuf::as_path));
            dirs.any(|dir| file.starts_with(dir))
        };
        if !is_here(&plain(&file)) {
            continue;
        }
        let (all, silent) = with_included(checkout, [&file], BTreeSet::from([file.clone()]))?;
        all_known(silent)?;
        read.extend(all.into_iter().map(|file| (file, reader.clone())));
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

/// Returns the absolute paths in a setting that names a program: what lands there would be run. A shell splits it, and it may name a
/// directory with such a sign: what is found too much is the path of no file.
fn programs((key, value): &Setting) -> BTreeSet<PathBuf> {
    const SPLITS: [&str; 3] = ["", "'\"!", " \t\n'\"!"];
    const SPLIT_MOST: &str = " \t\n'\"!=:;&|()$`";
    let is_program = matches!(key.as_str(), "core.sshcommand" | "core.askpass")
        || key.starts_with("gpg.")
        || key.starts_with("credential.");
    let value = value.as_deref().filter(|_| is_program).unwrap_or_default();
    let home = std::env::var_os("HOME").map(PathBuf::from);
    // `-F/path`, `-F~/path`
    let path = |word: &str| {
        let (before, rest) = word.split_at(word.find('/')?);
        match &home {
            Some(home) if before.ends_with('~') => Some(home.join(rest.trim_start_matches('/'))),
            _ => Some(PathBuf::from(rest)),
        }
    };
    let texts = [value.to_owned(), value.replace('\\', "")];
    let splits = SPLITS.into_iter().chain([SPLIT_MOST]);
    let words = splits.flat_map(|split| {
        let words = texts
            .iter()
            .flat_map(move |it| it.split(|char| split.contains(char)));
        words.map(str::trim)
    });
    words.filter_map(path).collect()
}

/// The files that git in work trees of a checkout reads settings from, and the programs that these name.
#[derive(Default)]
struct Named {
    files: BTreeSet<PathBuf>,
    programs: BTreeSet<PathBuf>,
    /// The files that were followed before.
    done: BTreeSet<PathBuf>,
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

    /// Takes those that were added since, with all that they lead to, and a file that does not answer, because of which not all are known.
    ///
    /// # Errors
    /// As [`followed`].
    fn followed(
        &mut self,
        checkout: &Path,
    ) -> Result<(BTreeSet<PathBuf>, Option<PathBuf>), RepoError> {
        let [files, programs] = [&mut self.files, &mut self.programs].map(std::mem::take);
        let files: BTreeSet<PathBuf> = files.difference(&self.done).cloned().collect();
        self.done.extend(files.iter().cloned());
        with_included(checkout, programs.iter().chain(&files), files.clone())
    }

    fn noted(&mut self, checkout: &Path) -> Result<Read, RepoError> {
        let (files, silent) = self.followed(checkout)?;
        Ok(Read {
            files,
            are_all: silent.is_none(),
        })
    }
}

/// Returns these places with the links on the way to them, and with the files that git would read with these files if they were there or
/// if a condition held; and a file that does not answer.
fn with_included<'a>(
    checkout: &Path,
    places: impl IntoIterator<Item = &'a PathBuf>,
    files: BTreeSet<PathBuf>,
) -> Result<(BTreeSet<PathBuf>, Option<PathBuf>), RepoError> {
    let included = followed(files, Some(checkout))?;
    let mut silent = included.silent;
    let mut all: BTreeSet<PathBuf> = included
        .files
        .into_iter()
        .flat_map(|it| it.places)
        .collect();
    for place in places {
        match is_of_another(Some(checkout), place) {
            true => drop(all.insert(place.clone())),
            false => match way(place) {
                Some(way) => all.extend(way),
                None => silent = Some(place.clone()),
            },
        }
    }
    Ok((all, silent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_in_a_command_are_found_however_a_shell_splits_it() {
        let home = std::env::var("HOME").unwrap();
        let in_home = |path: &str| format!("{home}/{path}");
        for (key, value, path) in [
            ("core.sshcommand", "/code/bin/ssh -v", "/code/bin/ssh"),
            ("core.sshcommand", "ssh -F/code/config", "/code/config"),
            ("core.sshcommand", "'/R&D/bin/ssh' -v", "/R&D/bin/ssh"),
            ("core.sshcommand", "'/My Code/ssh' -v", "/My Code/ssh"),
            ("core.sshcommand", "/My\\ Code/ssh", "/My Code/ssh"),
            ("core.sshcommand", "X=/a=b/key ssh", "/a=b/key"),
            ("core.sshcommand", "cd /code&&bin/ssh", "/code"),
            (
                "core.sshcommand",
                "PATH=/code/bin:/usr/bin ssh",
                "/code/bin",
            ),
            ("core.askpass", "/My Code/ask", "/My Code/ask"),
            ("core.askpass", "/home/old~/ask", "/home/old~/ask"),
            ("gpg.program", "~/bin/gpg", &in_home("bin/gpg")),
            ("credential.helper", "!/code/(x)/help get", "/code/(x)/help"),
        ] {
            let found = programs(&(key.to_owned(), Some(value.to_owned())));
            assert!(found.contains(Path::new(path)), "{value}: {found:?}");
        }
        let other = programs(&("core.editor".to_owned(), Some("/code/x".to_owned())));
        assert_eq!(other, BTreeSet::new());
    }
}
