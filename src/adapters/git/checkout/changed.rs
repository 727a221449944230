//! The paths that a landing changes in the user's checkout, and the files of the user in their places.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::super::bytes;
use super::super::command::Git;
use super::super::rig::GitRepo;
use super::{NAMED_MAX, named};
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The paths that a landing changes.
pub(super) struct Changed {
    pub(super) all: HashSet<Vec<u8>>,
    added: HashSet<Vec<u8>>,
    /// Paths of which the kind changes: a file, a link, a submodule.
    retyped: HashSet<Vec<u8>>,
    removed: HashSet<Vec<u8>>,
}

impl Changed {
    pub(super) fn of(repo: &GitRepo, old: &Oid, new: &Oid) -> Result<Self, RepoError> {
        let mut it = Self {
            all: HashSet::new(),
            added: HashSet::new(),
            retyped: HashSet::new(),
            removed: HashSet::new(),
        };
        for Raw { modes, path, .. } in raw(repo.git(), old, new)? {
            // The first half of a mode is the kind.
            match (&modes.0[..3], &modes.1[..3]) {
                ("000", _) => drop(it.added.insert(path.clone())),
                (_, "000") => drop(it.removed.insert(path.clone())),
                (before, after) if before != after => drop(it.retyped.insert(path.clone())),
                _ => {}
            }
            it.all.insert(path);
        }
        Ok(it)
    }

    /// Returns the untracked files, including ignored ones, in place of files that the landing adds. git removes the checkout of a
    /// submodule that becomes a file, with everything in it.
    pub(super) fn obstacles(&self, path: &Path) -> Option<CheckoutBusy> {
        self.obstacles_of(path, &self.all)
    }

    /// As [`Changed::obstacles`], of some of the paths.
    pub(super) fn obstacles_of(&self, path: &Path, of: &HashSet<Vec<u8>>) -> Option<CheckoutBusy> {
        let mut found = Vec::new();
        // A path that was removed before may be a new file of the person's.
        let removed: HashSet<_> = of.intersection(&self.removed).cloned().collect();
        let mut added: Vec<_> = of.intersection(&self.added).collect();
        added.sort();
        for name in added {
            if found.len() > NAMED_MAX {
                break;
            }
            find_obstacles(path, name, &removed, &mut found);
        }
        for name in of.intersection(&self.retyped) {
            let place = path.join(bytes::path(name));
            if fs::symlink_metadata(&place).is_ok_and(|kind| kind.is_dir()) {
                below(&place, name, &removed, &mut found);
            }
        }
        found.truncate(NAMED_MAX + 1);
        found.dedup();
        named(found).map(CheckoutBusy::InTheWay)
    }
}

/// Searches for files in the way of `name`: above it, at it, or below it. Files that the landing itself removes do
/// not count.
fn find_obstacles(top: &Path, name: &[u8], removed: &HashSet<Vec<u8>>, found: &mut Vec<String>) {
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for (end, _) in slashes {
        let parent = &name[..end];
        match fs::symlink_metadata(top.join(bytes::path(parent))) {
            Ok(kind) if kind.is_dir() => {}
            Ok(_) if removed.contains(parent) => return,
            Ok(_) => return found.push(bytes::lossy(parent)),
            Err(_) => return,
        }
    }
    let place = top.join(bytes::path(name));
    match fs::symlink_metadata(&place) {
        Ok(kind) if kind.is_dir() => below(&place, name, removed, found),
        Ok(_) => found.push(bytes::lossy(name)),
        Err(_) => {}
    }
}

/// Searches for files in a directory that becomes a file. An unreadable directory is in the way.
fn below(dir: &Path, name: &[u8], removed: &HashSet<Vec<u8>>, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(dir) else {
        return found.push(bytes::lossy(name));
    };
    for entry in entries.flatten() {
        if found.len() > NAMED_MAX {
            return;
        }
        let name = bytes::below(name, bytes::of(Path::new(&entry.file_name())));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below(&entry.path(), &name, removed, found),
            _ if removed.contains(&name[..]) => {}
            _ => found.push(bytes::lossy(&name)),
        }
    }
}

/// A path that differs between two commits, as git lists it.
pub(super) struct Raw {
    /// The modes before and after; of zeros where it is absent.
    pub(super) modes: (String, String),
    /// The objects before and after.
    pub(super) ids: (Oid, Oid),
    pub(super) path: Vec<u8>,
}

impl Raw {
    /// Returns true if the path is a file or a link in the second commit.
    pub(super) fn is_file_after(&self) -> bool {
        !matches!(self.modes.1.as_str(), "000000" | "160000")
    }

    /// Returns true if it says how other files are written.
    pub(super) fn is_attributes(&self) -> bool {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        name == Some(b".gitattributes")
    }
}

/// Lists the paths that differ between two commits.
pub(super) fn raw(git: Git, old: &Oid, new: &Oid) -> Result<Vec<Raw>, RepoError> {
    let diff = git
        .args(["diff-tree", "-r", "-z", "--no-renames"])
        .args([old.as_str(), new.as_str()])
        .run()?;
    let mut fields = bytes::split(&diff.stdout);
    let mut found = Vec::new();
    // `:<mode> <mode> <id> <id> <status>`, then the path.
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        let text = bytes::lossy(what);
        let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
        let unknown = || RepoError::Failed(format!("git diff-tree printed {text:?}"));
        let [before, after, was, is, _] = words[..] else {
            return Err(unknown());
        };
        if before.len() != 6 || after.len() != 6 {
            return Err(unknown());
        }
        let oid = |id| Oid::new(id).map_err(|_| unknown());
        found.push(Raw {
            modes: (before.to_owned(), after.to_owned()),
            ids: (oid(was)?, oid(is)?),
            path: path.to_vec(),
        });
    }
    Ok(found)
}
