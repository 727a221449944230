//! The checkouts of all rigs of this process: the settings of one rig may name a file of another. Each rig looks at its own disk
//! alone, and others use what it saw: a disk that hangs must not stop them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::admin::{read_if_there, stamp, write_whole};
use super::bytes;
use super::command::{Git, READ_LIMIT};
use super::config_text;
use super::rig::GitRepo;
use crate::adapters::link_walk::real;
use crate::domain::plain_path::plain;
use crate::ports::repo::RepoError;

/// The file of ours with the places of the rig's checkout, for the time after a start before the rig has looked at it again.
const FILE: &str = "horde/checkout.places";

/// The checkouts, by their paths.
static CHECKOUTS: Mutex<BTreeMap<PathBuf, Seen>> = Mutex::new(BTreeMap::new());

/// The places of a checkout, as its rig saw them last.
#[derive(Debug, Default)]
struct Seen {
    /// The number of rigs of this process with this checkout: a reload makes a rig anew, before it drops the former one.
    rigs: usize,
    /// The work trees of the repository.
    trees: BTreeSet<PathBuf>,
    /// The files that git reads settings from there.
    read: BTreeSet<PathBuf>,
    main: MainTree,
}

fn checkouts() -> MutexGuard<'static, BTreeMap<PathBuf, Seen>> {
    CHECKOUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the checkout of a rig, without a look at it: as it was when [`keep`] was last called.
pub(super) fn note(checkout: &Path, ours: &Path) {
    let known = read_if_there(&ours.join(FILE)).unwrap_or_else(|error| {
        tracing::warn!(checkout = %checkout.display(), %error, "the places of the checkout that were kept cannot be read; they are known again when its rig is prepared");
        None
    });
    let known = known.unwrap_or_default();
    let of_kind = |kind: u8| {
        let records = bytes::split(&known).filter_map(<[u8]>::split_first);
        let records = records.filter(move |it| *it.0 == kind);
        records.map(|it| bytes::path(it.1).to_owned())
    };
    let mut all = checkouts();
    let now = all.entry(checkout.to_owned()).or_default();
    now.rigs += 1;
    if now.trees.is_empty() {
        now.trees = of_kind(TREE).chain([checkout.to_owned()]).collect();
        now.read = of_kind(READ).collect();
    }
}

/// The kinds of a record of [`FILE`].
const TREE: u8 = b't';
const READ: u8 = b'r';

/// Forgets the checkout of a rig that ends.
pub(super) fn forget(checkout: &Path) {
    let mut all = checkouts();
    let Some(now) = all.get_mut(checkout) else {
        return;
    };
    now.rigs = now.rigs.saturating_sub(1);
    if now.rigs == 0 {
        all.remove(checkout);
    }
}

/// Looks at the checkout of the own rig.
pub(super) fn look(checkout: &Path) {
    let known = checkouts().get(checkout).map(|seen| seen.main.clone());
    // A checkout that is away keeps its places: it may come back.
    let Some((trees, main)) = trees(checkout, known.unwrap_or_default()) else {
        return;
    };
    if let Some(now) = checkouts().get_mut(checkout) {
        (now.trees, now.main) = (trees, main);
    }
}

/// Notes the files that git reads settings from in the checkout of the own rig. If not all are known, those that were known before
/// stay.
pub(super) fn note_read(checkout: &Path, files: BTreeSet<PathBuf>, are_all: bool) {
    if let Some(now) = checkouts().get_mut(checkout) {
        match are_all {
            true => now.read = files,
            false => now.read.extend(files),
        }
    }
}

/// Keeps the places of the own rig's checkout for the next start.
///
/// # Errors
/// Errors of the disk.
pub(super) fn keep(repo: &GitRepo) -> Result<(), RepoError> {
    let checkout = repo.source().path();
    checkout.map_or(Ok(()), |checkout| keep_in(repo.repo_dir(), checkout))
}

fn keep_in(ours: &Path, checkout: &Path) -> Result<(), RepoError> {
    let mut records = Vec::new();
    if let Some(seen) = checkouts().get(checkout) {
        let trees = seen.trees.iter().map(|it| (TREE, it));
        for (kind, path) in trees.chain(seen.read.iter().map(|it| (READ, it))) {
            records.push([&[kind], bytes::of(path)].concat());
        }
    }
    let text = bytes::join(records.iter().map(Vec::as_slice));
    let file = ours.join(FILE);
    match read_if_there(&file)? {
        Some(before) if before == text => Ok(()),
        _ => write_whole(&file, &text),
    }
}

/// Returns the files that git reads settings from in the checkouts of the other rigs, each with that checkout.
pub(super) fn read_by_others(checkout: &Path) -> BTreeMap<PathBuf, PathBuf> {
    let all = checkouts();
    let others = all.iter().filter(|(other, _)| *other != checkout);
    let files = others.flat_map(|(other, seen)| seen.read.iter().map(move |file| (file, other)));
    files
        .map(|(file, other)| (file.clone(), other.clone()))
        .collect()
}

/// Returns true for a path in the checkout of another rig, as it is written: its disk may hang. A checkout may be in another one; the
/// nearest counts.
pub(super) fn is_of_another(checkout: Option<&Path>, file: &Path) -> bool {
    let (file, all) = (plain(file), checkouts());
    let depth = |is_own: bool| {
        let these = all
            .iter()
            .filter(|(it, _)| (checkout == Some(it.as_path())) == is_own);
        let dirs = these.flat_map(|(it, seen)| seen.trees.iter().chain([it]));
        let around = dirs.filter(|dir| file.starts_with(dir));
        around.map(|dir| dir.components().count()).max()
    };
    depth(false) > depth(true)
}

/// The parts of a repository's configuration that say its main work tree.
#[derive(Debug, Clone, Default)]
struct MainTree {
    /// The stamps of the files that it was read from; none if that failed.
    stamps: Option<[Option<String>; 2]>,
    is_bare: bool,
    /// `core.worktree`.
    set: Option<PathBuf>,
}

impl MainTree {
    /// Reads it; `known` where the files are the same, and where git cannot read them.
    fn read(common: &Path, known: Self) -> Self {
        let files = ["config", "config.worktree"].map(|name| common.join(name));
        let now = files.each_ref().map(|file| stamp(file));
        if known.stamps.as_ref() == Some(&now) {
            return known;
        }
        let mut read = Self {
            stamps: Some(now),
            ..Self::default()
        };
        let mut has_own = false;
        for (nth, file) in files.iter().enumerate() {
            // git reads the second file only where the first says so.
            if !file.exists() || nth > 0 && !has_own {
                continue;
            }
            let git = Git::in_dir(Path::new("/")).limit(READ_LIMIT);
            let git = git.args(["config", "--no-includes", "-z", "--file"]);
            let asked = git.arg(file).args([
                "--get-regexp",
                r"^(core\.(bare|worktree)|extensions\.worktreeconfig)$",
            ]);
            // 1 is: neither is set.
            let Some(output) = asked
                .output()
                .ok()
                .filter(|it| matches!(it.code, Some(0 | 1)))
            else {
                return known;
            };
            for (key, value) in config_text::listed(&output.stdout) {
                match (key.as_str(), value) {
                    ("core.worktree", Some(path)) => read.set = Some(common.join(path)),
                    ("core.bare", value) => read.is_bare = value.is_none_or(|it| is_true(&it)),
                    ("extensions.worktreeconfig", value) => {
                        has_own = value.is_none_or(|it| is_true(&it));
                    }
                    _ => {}
                }
            }
        }
        read
    }

    /// Returns the work tree; none of a bare repository, and of one in a directory of another name than `.git` that does not say it.
    fn tree(&self, common: &Path) -> Option<PathBuf> {
        let above = || common.ends_with(".git").then(|| common.parent()).flatten();
        match self.is_bare {
            true => None,
            false => self.set.clone().or_else(|| above().map(Path::to_owned)),
        }
    }
}

fn is_true(value: &str) -> bool {
    !["false", "no", "off", "0", ""].contains(&value.to_lowercase().as_str())
}

/// Finds the work trees of a repository, by the files of git. Those of a bare one are the linked ones. None if no repository is there.
fn trees(checkout: &Path, known: MainTree) -> Option<(BTreeSet<PathBuf>, MainTree)> {
    let link = checkout.join(".git");
    let own = match fs::read(&link) {
        Ok(text) => {
            let dir = text.strip_prefix(b"gitdir: ").unwrap_or_default();
            checkout.join(bytes::path(dir.trim_ascii_end()))
        }
        Err(_) if link.is_dir() => link,
        // The repository itself, which is bare.
        Err(error) if error.kind() == ErrorKind::NotFound && checkout.join("HEAD").exists() => {
            checkout.to_owned()
        }
        Err(_) => return None,
    };
    let linked = fs::read(own.join("commondir")).ok();
    let common = match &linked {
        Some(dir) => own.join(bytes::path(dir.trim_ascii_end())),
        None => own.clone(),
    };
    let common = real(&common);
    let main = MainTree::read(&common, known);
    let mut trees = BTreeSet::new();
    if linked.is_some() || own != checkout && !main.is_bare {
        trees.extend([checkout.to_owned(), real(checkout)]);
    }
    trees.extend(
        main.tree(&common)
            .iter()
            .flat_map(|main| [main.clone(), real(main)]),
    );
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten();
    for entry in entries.flatten() {
        let gitdir = fs::read(entry.path().join("gitdir")).unwrap_or_default();
        let gitdir = entry.path().join(bytes::path(gitdir.trim_ascii_end()));
        trees.extend(gitdir.parent().map(real));
    }
    Some((trees, main))
}

/// Returns the work trees of all checkouts.
pub(super) fn work_trees() -> BTreeSet<PathBuf> {
    let all = checkouts();
    let trees = all.values().flat_map(|seen| seen.trees.iter());
    trees.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::super::written::Written;
    use super::*;

    #[test]
    fn main_work_tree_is_what_the_configuration_says() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        for (checkout, git_dir, config) in [
            ("bare-main", "project/.git", "[core]\n\tbare = true\n"),
            ("linked", "modules/sub", "[core]\n\tworktree = ../../sub\n"),
        ] {
            let own = at(git_dir).join("worktrees/own");
            fs::create_dir_all(&own).unwrap();
            fs::write(at(git_dir).join("config"), config).unwrap();
            fs::write(own.join("commondir"), "../..\n").unwrap();
            fs::create_dir(at(checkout)).unwrap();
            let link = format!("gitdir: {}\n", own.display());
            fs::write(at(checkout).join(".git"), link).unwrap();
            note(&at(checkout), &at("ours"));
            look(&at(checkout));
        }
        let written = Written::of(&at("city/rig"));
        assert!(!written.has(&at("project/hooks/pre-push")));
        assert!(written.has(&at("sub/.gitconfig")));
        // `git sparse-checkout` moves the setting.
        let config = at("modules/sub/config");
        fs::rename(&config, at("modules/sub/config.worktree")).unwrap();
        fs::write(&config, "").unwrap();
        look(&at("linked"));
        let has = || Written::of(&at("city/rig")).has(&at("sub/.gitconfig"));
        assert!(!has(), "git does not read it");
        fs::write(&config, "[extensions]\n\tworktreeConfig = true\n").unwrap();
        look(&at("linked"));
        assert!(has());
    }

    /// `git clone --bare URL project/.bare`, with a file `.git` that leads there.
    #[test]
    fn bare_repository_beside_its_work_trees_is_none_of_them() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        fs::create_dir_all(at("project/.bare")).unwrap();
        fs::write(at("project/.bare/config"), "[core]\n\tbare = true\n").unwrap();
        fs::write(at("project/.git"), "gitdir: ./.bare\n").unwrap();
        note(&at("project"), &at("ours"));
        look(&at("project"));
        let has = |path: &str| Written::of(&at("city/rig")).has(&at(path));
        assert!(!has("project/.bare/config") && !has("project/.bare/hooks/pre-push"));
        // With a work tree, its files count, also while it is away.
        fs::write(at("project/.bare/config"), "[core]\n\tbare = false\n").unwrap();
        look(&at("project"));
        assert!(has("project/x"));
        fs::rename(at("project"), at("away")).unwrap();
        look(&at("project"));
        assert!(has("project/x"));
    }

    /// The disk of the other may hang; the own files are looked at.
    #[test]
    fn checkout_in_another_is_of_its_own_rig() {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        for checkout in ["outer", "outer/vendor/inner"] {
            note(&at(checkout), &at("ours"));
        }
        let is_of_another = |rig: &str, file: &str| is_of_another(Some(&at(rig)), &at(file));
        assert!(!is_of_another("outer", "outer/x"));
        assert!(is_of_another("outer", "outer/vendor/inner/x"));
        assert!(!is_of_another("outer/vendor/inner", "outer/vendor/inner/x"));
        assert!(is_of_another("outer/vendor/inner", "outer/x"));
        assert!(!is_of_another("outer", "elsewhere"));
        for checkout in ["outer", "outer/vendor/inner"] {
            forget(&at(checkout));
        }
    }

    /// The disk of the other rig may hang after a start.
    #[test]
    fn places_of_a_checkout_are_known_before_its_rig_has_looked_at_it_again_and_gone_with_its_rig()
    {
        let scratch = crate::testing::scratch();
        let at = |path: &str| scratch.path().join(path);
        let (code, ours, file) = (at("code"), at("ours"), at("elsewhere/settings"));
        fs::create_dir_all(code.join(".git/worktrees/other")).unwrap();
        fs::create_dir_all(ours.join("horde")).unwrap();
        let gitdir = format!("{}\n", at("other/.git").display());
        fs::write(code.join(".git/worktrees/other/gitdir"), gitdir).unwrap();
        note(&code, &ours);
        look(&code);
        note_read(&code, BTreeSet::from([file.clone()]), true);
        keep_in(&ours, &code).unwrap();
        let is_known = || {
            let reader = read_by_others(&at("mine")).get(&file).cloned();
            let has = Written::of(&at("city/rig")).has(&at("other/x"));
            assert_eq!(reader.is_some(), has);
            reader == Some(code.clone())
        };
        assert!(is_known());
        // A reload.
        note(&code, &ours);
        forget(&code);
        assert!(is_known());
        forget(&code);
        assert!(!is_known());
        note(&code, &ours);
        assert!(is_known());
        forget(&code);
    }
}
