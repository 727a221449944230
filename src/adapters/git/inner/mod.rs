//! Repositories inside a sandbox: submodules, clones, worktrees, `git init` in a subdirectory. They consist of files
//! like any others and are saved as such. This module only decides whether a repository holds work: tools fetch large
//! repositories, and an unchanged submodule is no work.

mod absent;
mod search;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use search::Search;
pub(super) use view::HeldWork;

use super::bytes::{self, RelPath};
use super::files::compare::{Compared, Item, Tree};
use super::files::hash::Format;
use super::files::hash_cache::HashCache;
use super::files::ignore::Excludes;
use super::files::index::Index;
use super::files::open::Root;
use super::files::paths::Paths;
use super::files::walk::{Closed, Entry, Repository, Walked};
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The directory of git directories of submodules that are not checked out. No file of a sandbox has such a path.
const MODULES: &[u8] = b".git/modules";

/// The reason why a repository is in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The index has it.
    Submodule,
    /// A submodule that is not in use: only its git directory tells what it holds.
    Left,
    /// A repository among the untracked files.
    Untracked,
    /// Ignore rules hide it.
    Ignored,
}

/// A repository inside the sandbox that holds work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inner {
    /// Its directory; below [`MODULES`] if it is not checked out.
    pub(super) path: RelPath,
    pub(super) kind: Kind,
    /// Its HEAD, if only its changed files are saved.
    pub(super) head: Option<Oid>,
    /// The work that it holds, for people.
    pub(super) holds: String,
    /// The URL that it was cloned from, if only its changed files exist nowhere else.
    pub(super) origin: Option<String>,
    /// Set when a part cannot be read, and therefore cannot be saved.
    pub(super) closed: bool,
}

/// The directory that a saved file is in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Home {
    /// In the sandbox.
    Sandbox,
    /// In its administrative directory.
    Admin,
    /// In the administrative directory of a worktree that the agent made inside the sandbox.
    Other(PathBuf),
}

/// The sandbox that is searched.
pub(super) struct Around<'a> {
    pub(super) repo: &'a GitRepo,
    pub(super) root: &'a Root,
    /// Its administrative directory.
    pub(super) admin: Option<&'a Path>,
    pub(super) index: &'a Index,
    pub(super) tree: &'a Tree,
    pub(super) head: Option<&'a Oid>,
    pub(super) base: Option<&'a Oid>,
    pub(super) excludes: &'a Excludes,
    pub(super) format: Format,
}

/// The result of the search.
#[derive(Debug, Default)]
pub(super) struct InnerFindings {
    pub(super) inner: Vec<Inner>,
    /// Files to save in addition to the sandbox's own.
    pub(super) more: Vec<(Home, Item)>,
    /// Objects of theirs that only the index of such a worktree names.
    pub(super) staged: BTreeSet<Oid>,
    /// Files that are listed here and nowhere else.
    pub(super) shown: BTreeSet<RelPath>,
    /// The directories of these files.
    told: Vec<RelPath>,
    /// Directories that are saved including their ignored files.
    whole: Vec<RelPath>,
}

impl InnerFindings {
    /// Removes the files that are listed here from the lists of the sandbox.
    pub(super) fn apply(&mut self, files: &mut Compared, hidden: &mut Vec<RelPath>) {
        let is_in = |dirs: &[RelPath], path: &[u8]| {
            dirs.iter()
                .any(|dir| path.starts_with(&bytes::below(dir, b"")))
        };
        let shown = files
            .untracked
            .iter()
            .filter(|path| is_in(&self.told, path));
        self.shown = shown.cloned().collect();
        files.untracked.retain(|path| !self.shown.contains(path));
        hidden.retain(|path| !is_in(&self.whole, path));
        let loose = self
            .inner
            .iter()
            .filter(|inner| inner.kind == Kind::Untracked);
        files
            .untracked
            .extend(loose.map(|inner| bytes::below(&inner.path, b"")));
        self.inner.sort_by(|a, b| a.path.cmp(&b.path));
        self.more
            .sort_by(|a, b| (&a.0, &a.1.entry.path).cmp(&(&b.0, &b.1.entry.path)));
        self.more
            .dedup_by(|a, b| (&a.0, &a.1.entry.path) == (&b.0, &b.1.entry.path));
    }
}

/// Searches the sandbox for repositories. `items` are the sandbox's own files.
///
/// # Errors
/// When a file cannot be read that would have to be saved.
pub(super) fn find(
    around: &Around<'_>,
    walked: &Walked,
    items: &[Item],
    seen: &mut HashCache,
) -> Result<InnerFindings, RepoError> {
    let mut search = Search::new(around, seen);
    for repository in &walked.repositories {
        search.visit(repository)?;
    }
    search.bare_submodules(walked, items)?;
    if let Some(admin) = around.admin {
        search.absent(&admin.join("modules"), MODULES)?;
    }
    search.surround()?;
    for closed in walked.closed.iter().filter(|closed| closed.hidden) {
        search.closed(closed);
    }
    Ok(search.found)
}

/// Paths of submodules, with the commits that are staged for them.
fn links(index: &Index, tree: &Tree) -> HashMap<RelPath, Oid> {
    let of_tree = tree.iter().filter(|(_, (mode, _))| mode == "160000");
    let of_tree = of_tree.map(|(path, (_, id))| (path.clone(), id.clone()));
    let staged = index.entries.iter().filter(|staged| staged.is_link());
    let staged = staged.map(|staged| (staged.path.clone(), staged.id.clone()));
    of_tree.chain(staged).collect()
}

/// The state of a repository's work tree.
struct WorkTreeState {
    files: Compared,
    index: Index,
    /// The entries of its `.git`.
    git: Vec<Entry>,
    closed: Vec<Closed>,
}

impl WorkTreeState {
    /// Returns true if all changes are in files that exist: nothing is deleted, staged or hidden from git.
    fn is_plain(&self) -> bool {
        let (files, index) = (&self.files, &self.index);
        let items = files.items.iter().filter(|item| item.id.is_some());
        let there: BTreeSet<_> = items.map(|item| &item.entry.path).collect();
        let flagged = index.entries.iter().any(|it| it.skip || it.assume);
        let odd = index.odd.is_some() || !index.more.is_empty() || !self.closed.is_empty();
        let gone = files.dirty.iter().any(|path| !there.contains(path));
        files.staged.is_empty() && !flagged && !odd && !gone
    }
}

/// Leaves out entries in repositories below a directory, unless they are tracked outside of these.
pub(super) fn outside(
    mut entries: Vec<Entry>,
    repositories: &[Repository],
    dir: &[u8],
    tracked: &Paths<'_>,
) -> Vec<Entry> {
    let inner = repositories
        .iter()
        .filter(|it| !it.hidden && it.path != dir);
    let inner: BTreeSet<&[u8]> = inner.map(|it| it.path.as_slice()).collect();
    if inner.is_empty() {
        return entries;
    }
    let is_in = |path: &[u8]| {
        let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        cuts.map(|(cut, _)| &path[..cut])
            .any(|above| inner.contains(above))
    };
    entries.retain(|entry| tracked.contains(&entry.path) || !is_in(&entry.path));
    entries
}

/// Describes the work that the files hold.
fn state(files: &Compared, moved: bool, closed: &[Closed]) -> Option<HeldWork> {
    let says = [
        (moved, "other commits"),
        (!files.dirty.is_empty(), "changed files"),
        (!files.untracked.is_empty(), "untracked files"),
        (!closed.is_empty(), "files that cannot be read"),
    ];
    let found: Vec<_> = says
        .iter()
        .filter(|says| says.0)
        .map(|says| says.1)
        .collect();
    if !found.is_empty() {
        return Some(HeldWork::at_work(found.join(", ")));
    }
    let converted = !files.converted.is_empty();
    converted.then(|| HeldWork::left("files that git converts"))
}
