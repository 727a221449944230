//! The places of files that agents write: what they change in the work tree of a checkout lands there, or is pulled by a person. No
//! setting, filter or hook of the supervisor comes from such a file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::bytes;
use crate::domain::plain_path::plain;

/// The number of links that are followed, as by the system.
const LINKS_MAX: usize = 40;

/// The checkouts of all rigs of this process, by their paths: the settings of one rig may name a file of another. Each rig looks at
/// its own disk alone, and others use what it saw: a disk that hangs must not stop them.
static CHECKOUTS: Mutex<BTreeMap<PathBuf, Seen>> = Mutex::new(BTreeMap::new());

/// The places of a checkout, as its rig saw them last.
#[derive(Debug, Clone, Default)]
struct Seen {
    trees: BTreeSet<PathBuf>,
    git_dirs: BTreeSet<PathBuf>,
    /// The files that git reads settings from there.
    read: BTreeSet<PathBuf>,
}

fn checkouts() -> MutexGuard<'static, BTreeMap<PathBuf, Seen>> {
    CHECKOUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the checkout of a rig, without a look at it.
pub(super) fn note(checkout: &Path) {
    let unseen = || Seen {
        trees: BTreeSet::from([checkout.to_owned()]),
        git_dirs: BTreeSet::from([checkout.join(".git")]),
        read: BTreeSet::new(),
    };
    let mut all = checkouts();
    all.entry(checkout.to_owned()).or_insert_with(unseen);
}

/// Looks at the checkout of the own rig.
pub(super) fn look(checkout: &Path) {
    let seen = seen(checkout);
    let mut all = checkouts();
    let now = all.entry(checkout.to_owned()).or_default();
    (now.trees, now.git_dirs) = (seen.trees, seen.git_dirs);
}

/// Notes the files that git reads settings from in the checkout of the own rig.
pub(super) fn note_read(checkout: &Path, files: BTreeSet<PathBuf>) {
    checkouts().entry(checkout.to_owned()).or_default().read = files;
}

/// Returns the files that git reads settings from in the checkouts of the other rigs.
pub(super) fn read_by_others(checkout: &Path) -> BTreeSet<PathBuf> {
    let all = checkouts();
    let others = all.iter().filter(|(other, _)| *other != checkout);
    others
        .flat_map(|(_, seen)| seen.read.iter().cloned())
        .collect()
}

/// Finds the worktrees of a repository, by the files of git.
fn seen(checkout: &Path) -> Seen {
    let link = checkout.join(".git");
    let own = match fs::read(&link) {
        Ok(text) => {
            let dir = text.strip_prefix(b"gitdir: ").unwrap_or_default();
            checkout.join(bytes::path(dir.trim_ascii_end()))
        }
        // A bare repository has no work tree.
        Err(_) if !link.exists() => checkout.to_owned(),
        Err(_) => link,
    };
    let common = match fs::read(own.join("commondir")) {
        Ok(dir) => own.join(bytes::path(dir.trim_ascii_end())),
        Err(_) => own,
    };
    let common = real(&common);
    let mut trees = BTreeSet::from([checkout.to_owned(), real(checkout)]);
    if common.ends_with(".git") {
        trees.extend(common.parent().map(Path::to_owned));
    }
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten();
    for entry in entries.flatten() {
        let gitdir = fs::read(entry.path().join("gitdir")).unwrap_or_default();
        let gitdir = entry.path().join(bytes::path(gitdir.trim_ascii_end()));
        trees.extend(gitdir.parent().map(real));
    }
    let links = trees.iter().map(|tree| tree.join(".git"));
    Seen {
        git_dirs: links.chain([common.clone()]).collect(),
        trees,
        read: BTreeSet::new(),
    }
}

/// The places.
pub(super) struct Written {
    /// The city, named as it is and by its real path.
    cities: [PathBuf; 2],
    trees: BTreeSet<PathBuf>,
    git_dirs: BTreeSet<PathBuf>,
}

impl Written {
    /// Begins with the directory of a rig in its city. The checkouts of all rigs that were noted are among the places, with their
    /// other worktrees.
    pub(super) fn of(rig_dir: &Path) -> Self {
        let city = rig_dir.parent().unwrap_or(rig_dir);
        let mut written = Self {
            cities: [city.to_owned(), real(city)],
            trees: BTreeSet::new(),
            git_dirs: BTreeSet::new(),
        };
        for seen in checkouts().values() {
            written.trees.extend(seen.trees.iter().cloned());
            written.git_dirs.extend(seen.git_dirs.iter().cloned());
        }
        written
    }

    /// Returns true for a file that agents write, for one that a link there leads to, and for one that would be there.
    pub(super) fn has(&self, file: &Path) -> bool {
        // A work tree may be in a git directory, and the other way round: the nearest decides.
        let nearest = |dirs: &BTreeSet<PathBuf>, file: &Path| {
            let around = dirs.iter().filter(|dir| file.starts_with(dir));
            around.map(|dir| dir.components().count()).max()
        };
        let is_there = |file: &Path| {
            let theirs = nearest(&self.trees, file).max(self.of_a_rig(file));
            theirs > nearest(&self.git_dirs, file)
        };
        is_there(&plain(file)) || on_the_way(file).iter().any(|it| is_there(it))
    }

    /// Returns the depth of a rig's directory, or of the supervisor's state, around a file. Agents have their files there.
    fn of_a_rig(&self, file: &Path) -> Option<usize> {
        self.cities.iter().find_map(|city| {
            let part = file.strip_prefix(city).ok()?.components().next()?;
            let dir = city.join(part);
            let is_rig = || dir.join("repo.git").symlink_metadata().is_ok();
            let is_theirs = dir.ends_with(".horde") || is_rig();
            is_theirs.then(|| dir.components().count())
        })
    }

    /// Returns the directories that programs and files of agents are in, for a look at a command.
    pub(super) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let all = self.cities.iter().chain(&self.trees);
        all.map(PathBuf::as_path)
    }
}

/// Follows the links of a path, to a place that may not exist.
pub(super) fn real(path: &Path) -> PathBuf {
    on_the_way(path).pop().unwrap_or_default()
}

/// Returns the links on the way to a file, and the place that it leads to.
pub(super) fn on_the_way(file: &Path) -> Vec<PathBuf> {
    let (mut at, mut names) = (PathBuf::from("/"), Vec::new());
    let mut open = vec![file.to_owned()];
    while let Some(path) = open.pop() {
        let mut rest = path.components();
        let Some(part) = rest.next() else { continue };
        open.push(rest.as_path().to_owned());
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(at.pop()),
            Component::RootDir | Component::Prefix(_) => at = PathBuf::from("/"),
            Component::Normal(name) => {
                let next = at.join(name);
                let leads_to = (names.len() < LINKS_MAX).then(|| fs::read_link(&next).ok());
                match leads_to.flatten() {
                    Some(leads_to) => {
                        names.push(next);
                        open.push(leads_to);
                    }
                    None => at = next,
                }
            }
        }
    }
    names.push(at);
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_of_work_trees_and_rigs_count_and_those_of_git_and_of_the_user_do_not() {
        let dir = crate::testing::scratch();
        let at = |path: &str| dir.path().join(path);
        for made in [
            "code/.git/worktrees/other",
            "other/hooks",
            "city/rig/repo.git",
            "bare/worktrees/main",
            "bare/main",
            "city/.horde",
            "city/home",
        ] {
            fs::create_dir_all(at(made)).unwrap();
        }
        let gitdir = format!("{}\n", at("other/.git").display());
        fs::write(at("code/.git/worktrees/other/gitdir"), gitdir).unwrap();
        let gitdir = format!("{}\n", at("bare/main/.git").display());
        fs::write(at("bare/worktrees/main/gitdir"), gitdir).unwrap();
        symlink(at("code/settings"), at("city/home/.gitconfig")).unwrap();
        symlink("../outside", at("code/link")).unwrap();
        look(&at("code"));
        look(&at("bare"));
        let written = Written::of(&at("city/rig"));
        for file in [
            "code/.gitconfig",
            "code/not/there",
            "code/link",
            "code/.git/../x",
            "bare/main/hooks/pre-push",
            "other/hooks/pre-push",
            "city/rig/raiders/Toast/x",
            "city/.horde/tasks/x",
            "city/home/.gitconfig",
        ] {
            assert!(written.has(&at(file)), "{file}");
        }
        for file in [
            "code/.git/config",
            "bare/config",
            "bare/main/.git",
            "other/.git",
            "city/home/x",
            "outside",
            "city/city.toml",
        ] {
            assert!(!written.has(&at(file)), "{file}");
        }
        assert!(!written.has(Path::new("")));
    }
}
