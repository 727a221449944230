//! The checkouts of all rigs of this process: the settings of one rig may name a file of another. Each rig looks at its own disk
//! alone, and others use what it saw: a disk that hangs must not stop them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::admin::{read_if_there, write_whole};
use super::bytes;
use super::include_files::LOOK_LIMIT;
use super::rig::GitRepo;
use super::work_trees::{self, MainTree};
use crate::domain::plain_path::plain;
use crate::in_time::in_time;
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
    /// The files that git reads settings from there, by the work tree in which it was asked.
    read: BTreeMap<PathBuf, BTreeSet<PathBuf>>,
    main: MainTree,
}

fn checkouts() -> MutexGuard<'static, BTreeMap<PathBuf, Seen>> {
    CHECKOUTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the checkout of a rig, without a look at it: as it was when [`keep`] was last called.
pub(super) fn note(checkout: &Path, ours: &Path) {
    let file = ours.join(FILE);
    // Custody may be on a disk that hangs, and the others must start.
    let known = in_time(LOOK_LIMIT, move || read_if_there(&file));
    let silent = || Err(RepoError::Failed("its disk does not answer".to_owned()));
    let known = known.unwrap_or_else(silent).unwrap_or_else(|error| {
        tracing::warn!(checkout = %checkout.display(), %error, "the places of the checkout that were kept cannot be read; they are known again when its rig is prepared");
        None
    });
    let known = known.unwrap_or_default();
    let (mut trees, mut read) = (BTreeSet::from([checkout.to_owned()]), BTreeMap::new());
    let mut asked_in = checkout.to_owned();
    for (kind, path) in bytes::split(&known).filter_map(<[u8]>::split_first) {
        let path = bytes::path(path).to_owned();
        match *kind {
            TREE => drop(trees.insert(path)),
            ASKED_IN => asked_in = path,
            READ => {
                let files: &mut BTreeSet<PathBuf> = read.entry(asked_in.clone()).or_default();
                files.insert(path);
            }
            _ => {}
        }
    }
    let mut all = checkouts();
    let now = all.entry(checkout.to_owned()).or_default();
    now.rigs += 1;
    if now.trees.is_empty() {
        (now.trees, now.read) = (trees, read);
    }
}

/// The kinds of a record of [`FILE`].
const TREE: u8 = b't';
/// The work tree of the files that follow.
const ASKED_IN: u8 = b'w';
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
    let Some(found) = work_trees::of(checkout, known.unwrap_or_default()) else {
        return;
    };
    if let Some(now) = checkouts().get_mut(checkout) {
        now.main = found.main;
        match found.are_all {
            true => now.trees = found.trees,
            false => now.trees.extend(found.trees),
        }
    }
}

/// The files that git reads settings from in a work tree.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) files: BTreeSet<PathBuf>,
    /// A place that could not be looked at: there may be more.
    pub(super) silent: Option<PathBuf>,
}

impl Read {
    /// Adds what another place leads to.
    pub(super) fn add(&mut self, other: &Self) {
        self.files.extend(other.files.iter().cloned());
        self.silent = self.silent.take().or_else(|| other.silent.clone());
    }
}

/// Notes the files of all work trees of the own rig's checkout. Where not all are known, those that were known before stay.
pub(super) fn note_read(checkout: &Path, read: BTreeMap<PathBuf, Read>) {
    if let Some(now) = checkouts().get_mut(checkout) {
        let mut before = std::mem::take(&mut now.read);
        let known = |(tree, mut read): (PathBuf, Read)| {
            if read.silent.is_some() {
                read.files.extend(before.remove(&tree).unwrap_or_default());
            }
            (tree, read.files)
        };
        now.read = read.into_iter().map(known).collect();
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
        let read = seen.read.iter().flat_map(|(tree, files)| {
            let files = files.iter().map(|it| (READ, it));
            [(ASKED_IN, tree)].into_iter().chain(files)
        });
        for (kind, path) in trees.chain(read) {
            records.push([&[kind], bytes::of(path)].concat());
        }
    }
    let text = bytes::join(records.iter().map(Vec::as_slice));
    let file = ours.join(FILE);
    match read_if_there(&file) {
        Ok(Some(before)) if before == text => Ok(()),
        // Also over one that cannot be read.
        _ => write_whole(&file, &text),
    }
}

/// Returns the files that git reads settings from in the checkouts of other rigs, and in these work trees of the own one, each with its
/// checkout.
pub(super) fn read_elsewhere(
    checkout: &Path,
    own: &BTreeSet<PathBuf>,
) -> BTreeMap<PathBuf, PathBuf> {
    let mut found = BTreeMap::new();
    for (reader, seen) in checkouts().iter() {
        let is_meant = |tree: &Path| reader != checkout || own.contains(tree);
        let read = seen.read.iter().filter(|(tree, _)| is_meant(tree));
        let files = read.flat_map(|(_, files)| files.iter().cloned());
        found.extend(files.map(|file| (file, reader.clone())));
    }
    found
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

/// Returns the work trees of all checkouts.
pub(super) fn work_trees() -> BTreeSet<PathBuf> {
    let all = checkouts();
    let trees = all.values().flat_map(|seen| seen.trees.iter());
    trees.cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::written::Written;
    use super::*;

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
        fs::create_dir_all(code.join(".git/worktrees/half")).unwrap();
        fs::create_dir_all(ours.join("horde")).unwrap();
        let gitdir = format!("{}\n", at("other/.git").display());
        fs::write(code.join(".git/worktrees/other/gitdir"), gitdir).unwrap();
        note(&code, &ours);
        look(&code);
        let read = |files: &[&PathBuf], silent: Option<&PathBuf>| Read {
            files: files.iter().copied().cloned().collect(),
            silent: silent.cloned(),
        };
        let away = at("other");
        note_read(
            &code,
            BTreeMap::from([(away.clone(), read(&[&file], None))]),
        );
        // It is away, and keeps its files.
        let now = [
            (code.clone(), read(&[], None)),
            (away.clone(), read(&[], Some(&away))),
        ];
        note_read(&code, BTreeMap::from(now));
        fs::write(ours.join(FILE), "").unwrap();
        keep_in(&ours, &code).unwrap();
        let of_own = |trees: &[&PathBuf]| {
            let trees = trees.iter().copied().cloned().collect();
            read_elsewhere(&code, &trees).contains_key(&file)
        };
        assert!(!of_own(&[&code]) && of_own(&[&away]));
        let is_known = || {
            let reader = read_elsewhere(&at("mine"), &BTreeSet::new())
                .get(&file)
                .cloned();
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
