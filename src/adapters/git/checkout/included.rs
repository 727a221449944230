//! Files of the work tree that git reads its configuration from, as `include.path = ../.gitconfig` has it: a landing on a person's
//! checkout must not change them. git would obey their new content there, for example run a filter that an agent wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::super::bytes;
use super::super::checkouts::{self, Read, is_of_another};
use super::super::config_text::Setting;
use super::super::include_files::{LIMIT, followed, way};
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
    let (mut places, mut others) = (BTreeSet::from([real(checkout)]), BTreeSet::new());
    for worktree in worktrees(checkout)? {
        let is_on = worktree.branch.as_deref() == Some(target) && worktree.git_dir().is_some();
        let trees = if is_on { &mut places } else { &mut others };
        trees.insert(real(&worktree.path));
    }
    // A bare repository has its own files in the place of a work tree's.
    places.retain(|place| !is_missing(&place.join(".git")));
    if places.is_empty() {
        return Ok(());
    }
    others.retain(|other| !places.contains(other));
    let (mut reading, mut read) = (Reading::of(checkout), BTreeMap::new());
    for place in &places {
        let own = reading.in_tree(place)?;
        all_known(own.silent)?;
        read.extend(
            own.files
                .into_iter()
                .map(|file| (file, checkout.to_owned())),
        );
    }
    read.extend(reading.here_from_elsewhere(&places, &others)?);
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
pub(in crate::adapters::git) fn note(checkout: &Path, top: &Path) -> Result<(), RepoError> {
    const UNREAD: &str = "git's configuration in a work tree of the checkout cannot be read in full; landings may change files that were included there since it was read last";
    let mut reading = Reading::of(checkout);
    let mut read = BTreeMap::from([(top.to_owned(), reading.in_tree(top)?)]);
    for worktree in worktrees(checkout)? {
        let tree = real(&worktree.path);
        if tree == top {
            continue;
        }
        let unknown = || Read {
            silent: Some(tree.clone()),
            ..Read::default()
        };
        // One that is broken must not stop the rig. It keeps the files that were noted before, and so does one that is away.
        let noted = match worktree.git_dir().map(|_| reading.in_tree(&tree)) {
            None => unknown(),
            Some(Ok(read)) => {
                if read.silent.as_ref() == Some(&tree) {
                    let why = "the time for all work trees was over";
                    tracing::warn!(worktree = %tree.display(), %why, UNREAD);
                }
                read
            }
            Some(Err(why)) => {
                tracing::warn!(worktree = %tree.display(), %why, UNREAD);
                unknown()
            }
        };
        read.insert(tree, noted);
    }
    for (tree, read) in &read {
        if let Some(silent) = read.silent.as_ref().filter(|silent| *silent != tree) {
            tracing::warn!(worktree = %tree.display(), silent = %silent.display(), UNREAD);
        }
    }
    checkouts::note_read(checkout, read);
    Ok(())
}

fn all_known(silent: Option<PathBuf>) -> Result<(), RepoError> {
    silent.map_or(Ok(()), |file| {
        Err(RepoError::Failed(format!(
            "{}, which git's configuration names, cannot be looked at: its disk does not answer",
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
    const SPLITS: [&str; 3] = ["", " \t\n'\"!", " \t\n'\"!=:;&|()$`"];
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
    let words = SPLITS
        .iter()
        .flat_map(|split| value.split(|char| split.contains(char)));
    // `/My\ Code/ssh`, `'/My Code'/ssh`
    let quoted = shell_words::split(value.trim_start_matches('!')).unwrap_or_default();
    let quoted = quoted.iter().map(String::as_str);
    words.chain(quoted).filter_map(path).collect()
}

/// Looks at what git in the work trees of a checkout reads settings from.
struct Reading<'a> {
    checkout: &'a Path,
    /// Nothing is looked at after this.
    end: Instant,
    /// The places that each file of settings leads to: work trees have most of them in common.
    known: BTreeMap<PathBuf, Read>,
    /// The links on the way to each program.
    programs: BTreeMap<PathBuf, Read>,
}

impl<'a> Reading<'a> {
    fn of(checkout: &'a Path) -> Self {
        Self {
            checkout,
            end: Instant::now() + LIMIT,
            known: BTreeMap::new(),
            programs: BTreeMap::new(),
        }
    }

    /// Returns the files that git in a work tree reads settings from, and would read if they were there or if a condition held; the
    /// programs that the settings name; and the links on the way to them.
    ///
    /// # Errors
    /// git's, where the configuration cannot be read.
    fn in_tree(&mut self, tree: &Path) -> Result<Read, RepoError> {
        let mut all = Read::default();
        if Instant::now() >= self.end {
            all.silent = Some(tree.to_owned());
            return Ok(all);
        }
        let listed = listed(tree)?;
        let files = listed.iter().map(|it| it.file.clone());
        let files: BTreeSet<PathBuf> = files.chain(of_user_files()).collect();
        for file in files {
            if !self.known.contains_key(&file) {
                let read = self.file(&file)?;
                self.known.insert(file.clone(), read);
            }
            all.add(&self.known[&file]);
        }
        for program in listed.iter().flat_map(|it| programs(&it.setting)) {
            if !self.programs.contains_key(&program) {
                let read = self.place(&program);
                self.programs.insert(program.clone(), read);
            }
            all.add(&self.programs[&program]);
        }
        Ok(all)
    }

    /// Returns a file with the links on the way to it, and the files that it includes.
    fn file(&self, file: &Path) -> Result<Read, RepoError> {
        let mut read = self.place(file);
        let included = followed([file.to_owned()], Some(self.checkout), self.end)?;
        read.files
            .extend(included.files.into_iter().flat_map(|it| it.places));
        read.silent = read.silent.or(included.silent);
        Ok(read)
    }

    fn place(&self, place: &Path) -> Read {
        let way = match is_of_another(Some(self.checkout), place) {
            true => Some(vec![place.to_owned()]),
            false => way(place, self.end),
        };
        Read {
            silent: way.is_none().then(|| place.to_owned()),
            files: way.into_iter().flatten().collect(),
        }
    }

    /// Returns the files in these work trees that git reads settings from in the checkouts of other rigs, and in other work trees of this
    /// one, each with the checkout. Those of other rigs were noted as they are named there: the links are followed here, and so are the
    /// includes.
    fn here_from_elsewhere(
        &self,
        places: &BTreeSet<PathBuf>,
        own: &BTreeSet<PathBuf>,
    ) -> Result<BTreeMap<PathBuf, PathBuf>, RepoError> {
        let mut read = BTreeMap::new();
        for (file, reader) in checkouts::read_elsewhere(self.checkout, own) {
            if reader == self.checkout {
                read.insert(file, reader);
                continue;
            }
            let named = plain(&file);
            let mut dirs = places.iter().map(PathBuf::as_path).chain([self.checkout]);
            if dirs.any(|dir| named.starts_with(dir)) {
                let all = self.file(&file)?;
                all_known(all.silent)?;
                read.extend(all.files.into_iter().map(|file| (file, reader.clone())));
            }
        }
        Ok(read)
    }
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
            ("core.sshcommand", "/My\\ Code/ssh -v", "/My Code/ssh"),
            ("core.sshcommand", "'/My Code'/ssh -v", "/My Code/ssh"),
            ("core.sshcommand", "X=/a=b/key ssh", "/a=b/key"),
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
