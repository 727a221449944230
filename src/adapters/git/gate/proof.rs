//! Verifies the tracked files of the gate's work tree by their bytes. An index only says what git believes, and a
//! gate can make git believe anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::adapters::git::admin::{failed, write_whole};
use crate::adapters::git::bytes::RelPath;
use crate::adapters::git::files::compare::{Tree, read};
use crate::adapters::git::files::hash::Format;
use crate::adapters::git::files::hash_cache::HashCache;
use crate::adapters::git::files::open::Root;
use crate::adapters::git::files::recent::Recent;
use crate::adapters::git::files::text;
use crate::adapters::git::files::walk::Entry;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The mode of a submodule, whose content does not land.
const LINK: &str = "160000";

/// Mode and id of the bytes of each tracked file that exists and is readable.
pub(super) type FileIds = BTreeMap<RelPath, (String, Oid)>;

/// Reads the tracked files. `seen` is the cache of ids of files that were not written since.
///
/// # Errors
/// When the directory cannot be read, or the cache cannot be written.
pub(super) fn state(
    dir: &Path,
    tree: &Tree,
    seen: &Path,
    recent: &Recent,
) -> Result<FileIds, RepoError> {
    let root = Root::open(dir).map_err(|error| failed("cannot read", dir, &error))?;
    let (mut known, mut found) = (HashCache::read(seen, recent), FileIds::new());
    for (path, (mode, blob)) in tree.iter().filter(|(_, (mode, _))| mode != LINK) {
        // A file that cannot be read is not as it was checked out.
        let Ok(Some(there)) = root.stat(path) else {
            continue;
        };
        let entry = Entry::of(path.clone(), &there);
        if entry.git_mode() != Some(mode) {
            continue;
        }
        let id = match known.id(&entry).cloned() {
            Some(id) => Some(id),
            None => {
                let bytes = read(&root, entry, Format::of(blob), &mut known);
                bytes.ok().flatten().map(|(_, id)| id)
            }
        };
        found.extend(id.map(|id| (path.clone(), (mode.clone(), id))));
    }
    known.write(seen, recent)?;
    Ok(found)
}

/// The results of filters and line-end conversions: blob, and id of the converted bytes, by path. Noted right after
/// git has written the files.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Made {
    files: BTreeMap<String, (Oid, Oid)>,
    #[serde(skip)]
    file: PathBuf,
}

impl Made {
    /// Reads the list. A torn list counts as empty.
    pub(super) fn read(file: &Path) -> Self {
        let text = fs::read(file).unwrap_or_default();
        let made: Self = serde_json::from_slice(&text).unwrap_or_default();
        let file = file.to_owned();
        Self { file, ..made }
    }

    /// Returns the tracked files that match neither their blob nor its noted conversion.
    pub(super) fn wrong(&self, tree: &Tree, state: &FileIds) -> Vec<RelPath> {
        let is_right = |path: &RelPath, blob: &Oid| {
            state.get(path).is_some_and(|(_, id)| {
                let made = self.files.get(&text::encode(path));
                id == blob || made == Some(&(blob.clone(), id.clone()))
            })
        };
        let tracked = tree.iter().filter(|(_, (mode, _))| mode != LINK);
        let wrong = tracked.filter(|(path, (_, blob))| !is_right(path, blob));
        wrong.map(|(path, _)| path.clone()).collect()
    }

    /// Notes files that git has just written.
    ///
    /// # Errors
    /// When a file is missing, or the list cannot be written.
    pub(super) fn record(
        &mut self,
        paths: &[RelPath],
        tree: &Tree,
        state: &FileIds,
    ) -> Result<(), RepoError> {
        for path in paths {
            let (Some((_, blob)), Some((_, id))) = (tree.get(path), state.get(path)) else {
                let path = crate::adapters::git::bytes::lossy(path);
                let what = format!("{path} in the gate worktree differs from the commit");
                return Err(RepoError::Failed(what));
            };
            let made = (blob.clone(), id.clone());
            self.files.insert(text::encode(path), made);
        }
        let kept = |path: &str| text::decode(path).is_some_and(|path| tree.contains_key(&path));
        self.files.retain(|path, _| kept(path));
        let text = serde_json::to_vec(self).map_err(|error| {
            RepoError::Failed(format!(
                "the gate worktree's list cannot be written: {error}"
            ))
        })?;
        write_whole(&self.file, &text)
    }
}

/// Returns the tracked files that changed.
pub(super) fn changed(tree: &Tree, before: &FileIds, now: &FileIds) -> Vec<RelPath> {
    let paths = tree.keys();
    let mut changed: Vec<RelPath> = paths
        .filter(|path| before.get(*path) != now.get(*path))
        .cloned()
        .collect();
    changed.sort();
    changed
}
