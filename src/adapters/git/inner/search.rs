//! Examines the repositories that were found, one after the other, outer ones first.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::super::admin::{self, At};
use super::super::bytes::{self, RelPath};
use super::super::entry_links;
use super::super::files::compare::{Against, Compared, Item, Tree, compare, read, tree};
use super::super::files::convert::{Judge, Lfs, lists};
use super::super::files::hash_cache::HashCache;
use super::super::files::ignore::Rules;
use super::super::files::open::Root;
use super::super::files::paths::Paths;
use super::super::files::walk::{All, Entry, Repository, Sieve, Walked, all_below, from};
use super::view::{HeldWork, View, recorded};
use super::{Around, Home, Inner, InnerFindings, Kind, WorkTreeState, links, outside, state};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A submodule that was examined, for the submodules inside.
pub(super) struct ExaminedSubmodule {
    view: View,
    base: Option<Oid>,
    links: HashMap<RelPath, Oid>,
    /// Its work tree, if none of it is saved so far.
    spare: Option<WorkTreeState>,
}

pub(super) struct Search<'a, 's> {
    pub(super) around: &'a Around<'a>,
    seen: &'s mut HashCache,
    pub(super) found: InnerFindings,
    known: BTreeMap<RelPath, ExaminedSubmodule>,
    /// Git directories of the repositories that are checked out.
    pub(super) present: Vec<PathBuf>,
    links: HashMap<RelPath, Oid>,
}

impl<'a, 's> Search<'a, 's> {
    /// Makes an empty search.
    pub(super) fn new(around: &'a Around<'a>, seen: &'s mut HashCache) -> Self {
        Self {
            around,
            seen,
            found: InnerFindings::default(),
            known: BTreeMap::new(),
            present: Vec::new(),
            links: links(around.index, around.tree),
        }
    }

    pub(super) fn full(&self, path: &[u8]) -> PathBuf {
        self.around.root.path().join(bytes::path(path))
    }

    pub(super) fn visit(&mut self, repository: &Repository) -> Result<(), RepoError> {
        let path = repository.path.as_slice();
        let inside = |dir: &RelPath| path.starts_with(&bytes::below(dir, b""));
        if self.found.whole.iter().any(inside) {
            return Ok(());
        }
        let above = self.known.iter().rev().find(|(dir, _)| inside(dir));
        let above = above.map(|(dir, known)| (dir.clone(), known));
        let pinned = match &above {
            Some((_, known)) => known.links.get(path),
            None => self.links.get(path),
        };
        if let Some(pin) = pinned.cloned() {
            let parent = above.as_ref().map(|(dir, _)| dir.clone());
            let (base, pins) = match above {
                Some((dir, known)) => {
                    let own = &path[dir.len() + 1..];
                    let base = known.view.recorded(known.base.as_ref(), own);
                    (base, vec![pin.clone()])
                }
                None => {
                    let git = self.around.repo.lens();
                    (recorded(git, self.around.base, path)?, Vec::new())
                }
            };
            return match repository.hidden {
                true => self.hidden(path, base, &pins),
                false => self.submodule(path, &pin, (base, &pins), parent),
            };
        }
        if repository.hidden {
            return self.hidden(path, None, &[]);
        }
        self.whole(path, Kind::Untracked, "its own repository".to_owned())
    }

    /// Returns the git directory of a directory, if there is one.
    fn git_dir(&self, path: &[u8]) -> Option<PathBuf> {
        let dir = self.full(path);
        let own = dir.join(".git");
        match fs::symlink_metadata(&own) {
            Ok(meta) if meta.is_dir() => Some(own),
            Ok(_) => entry_links::linked(&dir),
            Err(_) => dir.join("objects").is_dir().then_some(dir),
        }
    }

    /// Walks and compares the work tree of a repository.
    fn compare_worktree(&mut self, path: &[u8], view: &View) -> Result<WorkTreeState, RepoError> {
        let prefix = bytes::below(path, b"");
        let head = view.head();
        let files = match &head {
            Some(head) => tree(view.git(), head, &prefix)?,
            None => Tree::default(),
        };
        let mut index = view.index()?;
        for staged in &mut index.entries {
            staged.path = bytes::below(path, &staged.path);
        }
        let tracked = files.keys().chain(index.entries.iter().map(|it| &it.path));
        let tracked = Paths::of(tracked);
        let mut rules = Rules::new(self.around.excludes, &tracked);
        let left_out = index.entries.iter().filter(|staged| staged.skip);
        left_out.for_each(|staged| rules.left_out(&staged.path));
        let walked = self.walk(path, &mut rules)?;
        let scratch = view.scratch();
        let judge = Judge {
            git: || view.git(),
            root: self.around.root,
            lists: lists(&files),
            scratch: &scratch,
            prefix: &prefix,
            // Its remotes' content is only a claim.
            lfs: Lfs {
                ours: self.around.repo.repo_dir(),
                commits: None,
            },
        };
        let against = Against {
            tree: &files,
            index: &index,
            format: self.around.format,
        };
        let git = bytes::below(&prefix, b".git");
        let is_git = |entry: &Entry| {
            let rest = entry.path.strip_prefix(&git[..]);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        let (git, entries) = walked.entries.into_iter().partition(is_git);
        let entries = outside(entries, &walked.repositories, path, &tracked);
        let root = self.around.root;
        let files = compare(root, entries, &against, self.seen, |it| judge.judge(it))?;
        Ok(WorkTreeState {
            files,
            index,
            git,
            closed: walked.closed,
        })
    }

    fn walk(&self, path: &[u8], sieve: &mut impl Sieve) -> Result<Walked, RepoError> {
        let walked = from(self.around.root, path, sieve);
        walked.at("cannot list", &self.full(path))
    }

    fn submodule(
        &mut self,
        path: &[u8],
        pin: &Oid,
        (base, pins): (Option<Oid>, &[Oid]),
        above: Option<RelPath>,
    ) -> Result<(), RepoError> {
        let Some(git_dir) = self.git_dir(path) else {
            let holds = "its .git is a broken link".to_owned();
            return self.whole(path, Kind::Submodule, holds);
        };
        let view = match View::of(self.around.repo, &git_dir, self.around.format) {
            Ok(view) => view,
            Err(error) => {
                return self.whole(
                    path,
                    Kind::Submodule,
                    format!("cannot be inspected: {error}"),
                );
            }
        };
        self.present.push(git_dir.clone());
        let looked = match self.compare_worktree(path, &view) {
            Ok(looked) => looked,
            Err(error) => {
                return self.whole(
                    path,
                    Kind::Submodule,
                    format!("cannot be inspected: {error}"),
                );
            }
        };
        let says = state(
            &looked.files,
            view.head().as_ref() != Some(pin),
            &looked.closed,
        );
        let held = match says {
            Some(says) => Some(says),
            None => view.held(self.around.repo, base.as_ref(), pins)?,
        };
        let links = links(&looked.index, &Tree::default());
        // A repository inside a saved submodule is restored with it.
        let around = above.is_some_and(|dir| self.found.inner.iter().any(|it| it.path == dir));
        let mut known = ExaminedSubmodule {
            view,
            base,
            links,
            spare: None,
        };
        if held.is_none() && !around {
            known.spare = Some(looked);
        } else {
            self.keep(looked, &git_dir)?;
        }
        self.known.insert(path.to_vec(), known);
        if let Some(held) = held {
            let kind = match held.left {
                true => Kind::Left,
                false => Kind::Submodule,
            };
            self.add(path, kind, held.what);
        }
        Ok(())
    }

    /// Saves the files of a submodule, and its git directory.
    fn keep(&mut self, looked: WorkTreeState, git_dir: &Path) -> Result<(), RepoError> {
        let items = looked.files.items.into_iter();
        self.found
            .more
            .extend(items.map(|item| (Home::Sandbox, item)));
        self.save(Home::Sandbox, looked.git)?;
        self.keep_git_dir(git_dir)
    }

    /// Saves submodules without own work that contain a repository with work.
    pub(super) fn surround(&mut self) -> Result<(), RepoError> {
        let admin = self.around.admin.map(Path::to_owned);
        let real = |path: &Path| fs::canonicalize(path).ok();
        let mut kept = Vec::new();
        for (dir, known) in &mut self.known {
            let own = real(&known.view.git_dir);
            let is_in = |inner: &Inner| match inner.path.strip_prefix(b".git/") {
                Some(module) => {
                    let at = admin
                        .as_ref()
                        .and_then(|it| real(&it.join(bytes::path(module))));
                    at.zip(own.as_ref())
                        .is_some_and(|(at, own)| at.starts_with(own))
                }
                None => inner.path.starts_with(&bytes::below(dir, b"")),
            };
            if self.found.inner.iter().any(is_in)
                && let Some(looked) = known.spare.take()
            {
                kept.push((looked, known.view.git_dir.clone()));
            }
        }
        kept.into_iter()
            .try_for_each(|(looked, git_dir)| self.keep(looked, &git_dir))
    }

    /// Handles submodules that are not checked out although their directories contain files.
    pub(super) fn bare_submodules(
        &mut self,
        walked: &Walked,
        items: &[Item],
    ) -> Result<(), RepoError> {
        let is_repository = |path: &RelPath| walked.repositories.iter().any(|it| it.path == *path);
        let paths: Vec<_> = self
            .links
            .keys()
            .filter(|path| !is_repository(path))
            .cloned()
            .collect();
        for path in paths {
            let below = bytes::below(&path, b"");
            if items.iter().any(|it| it.entry.path.starts_with(&below)) {
                let holds = "files, although it is not checked out".to_owned();
                self.add(&path, Kind::Submodule, holds);
                self.found.told.push(path);
            }
        }
        Ok(())
    }

    /// Judges a repository that ignore rules hide. If its remotes have its commits, only its changed files are saved:
    /// repositories that tools fetch are large, and tools write into them.
    fn hidden(&mut self, path: &[u8], base: Option<Oid>, pins: &[Oid]) -> Result<(), RepoError> {
        let unknown = |why: &dyn std::fmt::Display| format!("cannot be inspected: {why}");
        let Some(git_dir) = self.git_dir(path) else {
            return self.whole(path, Kind::Ignored, unknown(&"its .git is a broken link"));
        };
        let view = match View::of(self.around.repo, &git_dir, self.around.format) {
            Ok(view) => view,
            Err(error) => return self.whole(path, Kind::Ignored, unknown(&error)),
        };
        let own = match self.is_theirs(&git_dir) {
            true => self.unshared(&view),
            false => view.held(self.around.repo, base.as_ref(), pins),
        };
        let own = own.unwrap_or_else(|error| Some(HeldWork::at_work(unknown(&error))));
        if git_dir == self.full(path) {
            return match own {
                Some(held) => self.whole(path, Kind::Ignored, held.what),
                None => Ok(()),
            };
        }
        let looked = match self.compare_worktree(path, &view) {
            Ok(looked) => looked,
            Err(error) => return self.whole(path, Kind::Ignored, unknown(&error)),
        };
        let changed = state(&looked.files, false, &looked.closed);
        let links = links(&looked.index, &Tree::default());
        match (own, changed) {
            (None, None) => {
                let known = ExaminedSubmodule {
                    view,
                    base,
                    links,
                    spare: None,
                };
                self.known.insert(path.to_vec(), known);
                Ok(())
            }
            (Some(held), None) => self.whole(path, Kind::Ignored, held.what),
            (None, Some(_)) if looked.is_plain() && !self.is_theirs(&git_dir) => {
                self.changed_files(path, &view, looked.files);
                Ok(())
            }
            (_, Some(_)) => self.whole(path, Kind::Ignored, "changes".to_owned()),
        }
    }

    /// Returns true for a worktree of theirs, whose branches are those of all raiders.
    fn is_theirs(&self, git_dir: &Path) -> bool {
        let home = fs::canonicalize(admin::worktrees(self.around.repo));
        home.is_ok_and(|home| git_dir.starts_with(home)) && !self.is_own(git_dir)
    }

    fn is_own(&self, git_dir: &Path) -> bool {
        let real = self
            .around
            .admin
            .and_then(|admin| fs::canonicalize(admin).ok());
        real.is_some_and(|admin| git_dir.starts_with(admin))
    }

    /// Returns the work of a worktree of theirs other than its files: an operation in progress, or commits. Commits
    /// that the sandbox's HEAD has, too, are judged with that.
    fn unshared(&self, view: &View) -> Result<Option<HeldWork>, RepoError> {
        let busy = super::super::other_work::in_progress(&view.git_dir).next();
        if busy.is_some() {
            return Ok(busy.map(HeldWork::at_work));
        }
        let Some(head) = view.head() else {
            return Ok(None);
        };
        let count = self
            .around
            .repo
            .lens()
            .args(["rev-list", "--count", head.as_str()]);
        let count = count.args(["--not", "--remotes"]);
        let count = count.args(self.around.head.map(Oid::as_str)).run()?.text();
        let held = || HeldWork::at_work(format!("unpushed commits: {count}"));
        Ok((count != "0").then(held))
    }

    /// Saves only the changed files.
    fn changed_files(&mut self, path: &[u8], view: &View, files: Compared) {
        let changed = |item: &Item| {
            let path = &item.entry.path;
            files.dirty.contains(path)
                || files.untracked.contains(path)
                || files.converted.contains(path)
        };
        let items = files.items.iter().filter(|item| changed(item)).cloned();
        let more = items.map(|item| (Home::Sandbox, item));
        self.found.more.extend(more);
        self.found.inner.push(Inner {
            path: path.to_vec(),
            kind: Kind::Ignored,
            head: view.head(),
            holds: "changes".to_owned(),
            origin: Some(view.origin()),
            closed: false,
        });
    }

    /// Saves everything in the directory, including ignored files, and its git directory.
    fn whole(&mut self, path: &[u8], kind: Kind, holds: String) -> Result<(), RepoError> {
        self.add(path, kind, holds);
        let walked = match self.walk(path, &mut All) {
            Ok(walked) => walked,
            Err(error) if kind == Kind::Ignored => {
                self.mark_closed(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !walked.closed.is_empty() || !walked.mounts.is_empty() {
            self.mark_closed(&"parts of it cannot be read");
        }
        let entries = walked.entries;
        self.save(Home::Sandbox, entries)?;
        self.found.whole.push(path.to_vec());
        match self.git_dir(path) {
            Some(git_dir) => self.keep_git_dir(&git_dir),
            None => Ok(()),
        }
    }

    fn mark_closed(&mut self, why: &dyn std::fmt::Display) {
        if let Some(last) = self.found.inner.last_mut() {
            last.closed = true;
            last.holds = format!("{}: {why}", last.holds);
        }
    }

    /// Saves a git directory that goes with the sandbox, but lies elsewhere.
    pub(super) fn keep_git_dir(&mut self, git_dir: &Path) -> Result<(), RepoError> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let (Some(at), Some(own)) = (real(git_dir), self.around.admin.and_then(real)) else {
            return Ok(());
        };
        if let Ok(below) = at.strip_prefix(&own) {
            if below == Path::new("") {
                // A copy of the sandbox's own link: that directory is saved anyway.
                return Ok(());
            }
            let root = Root::open(&own).at("cannot read", git_dir)?;
            return self.save(Home::Admin, all_below(&root, bytes::of(below))?);
        }
        if self.is_theirs(&at) {
            let root = Root::open(&at).at("cannot read", git_dir)?;
            let entries = all_below(&root, b"")?;
            let view = View::of(self.around.repo, &at, self.around.format)?;
            let index = view.index()?;
            let blobs = index.entries.into_iter().filter(|it| !it.is_link());
            self.found
                .staged
                .extend(blobs.map(|it| it.id).chain(index.more));
            return self.save(Home::Other(at), entries);
        }
        Ok(())
    }

    fn save(&mut self, home: Home, entries: Vec<Entry>) -> Result<(), RepoError> {
        let other = match &home {
            Home::Sandbox => None,
            Home::Admin => self.around.admin.map(Root::open),
            Home::Other(dir) => Some(Root::open(dir)),
        };
        let fail = |error: std::io::Error| {
            RepoError::Failed(format!(
                "an administrative directory cannot be read: {error}"
            ))
        };
        let other = other.transpose().map_err(fail)?;
        for entry in entries {
            if entry.git_mode().is_none() {
                self.found
                    .more
                    .push((home.clone(), Item { entry, id: None }));
                continue;
            }
            let format = self.around.format;
            // Only files in the sandbox have a cache entry by path.
            let read = match &other {
                None => match self.seen.id(&entry).cloned() {
                    Some(id) => Some((entry, id)),
                    None => read(self.around.root, entry, format, self.seen)?,
                },
                Some(root) => read(root, entry, format, &mut HashCache::default())?,
            };
            if let Some((entry, id)) = read {
                let id = Some(id);
                self.found.more.push((home.clone(), Item { entry, id }));
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, path: &[u8], kind: Kind, holds: String) {
        self.found.inner.push(Inner {
            path: path.to_vec(),
            kind,
            head: None,
            holds,
            origin: None,
            closed: false,
        });
    }
}
