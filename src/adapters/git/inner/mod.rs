//! Repositories inside a sandbox: submodules, clones, worktrees, `git init` in a subdirectory. They are files
//! like any others, and are saved as such. What is asked here is only whether one holds anything: tools fetch
//! large ones, and a submodule that is as it was checked out is no work.

mod view;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

pub(super) use view::Held;
use view::{View, recorded};

use super::admin;
use super::bytes::{self, RelPath};
use super::files::compare::{Against, Compared, Item, Tree, compare, read, tree};
use super::files::convert::{Judge, lists};
use super::files::hash::Format;
use super::files::ignore::{Excludes, Rules};
use super::files::index::Index;
use super::files::open::Root;
use super::files::seen::Seen;
use super::files::walk::{All, Closed, Entry, Repository, Sieve, Walked, from};
use super::rig::GitRepo;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Where the git directory of a submodule lies that is not checked out. No file has such a path.
const MODULES: &[u8] = b".git/modules";

/// How a repository comes to be in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The index has it.
    Submodule,
    /// A submodule without anybody at work: what it holds only its git directory tells.
    Left,
    /// It lies among the files.
    Untracked,
    /// Ignore rules hide it.
    Ignored,
}

/// A repository inside the sandbox that holds work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Inner {
    /// Its directory; one below [`MODULES`] where it is not checked out.
    pub(super) path: RelPath,
    pub(super) kind: Kind,
    /// Its HEAD, where only its changed files are saved.
    pub(super) head: Option<Oid>,
    /// What it holds, for people.
    pub(super) holds: String,
    /// Where it was cloned from, when all that is not there are its changed files.
    pub(super) origin: Option<String>,
    /// Not all of it can be read, hence not be saved either.
    pub(super) closed: bool,
}

/// Where a file lies that is saved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Home {
    /// In the sandbox.
    Sandbox,
    /// In its administrative directory.
    Admin,
    /// In that of a worktree which the agent made inside it.
    Other(PathBuf),
}

/// The sandbox in which they are looked for.
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

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) inner: Vec<Inner>,
    /// What is to be saved beside the sandbox's own files.
    pub(super) more: Vec<(Home, Item)>,
    /// Objects of theirs that only such a worktree has staged.
    pub(super) staged: BTreeSet<Oid>,
    /// Files that are told of here, and are listed nowhere else.
    pub(super) shown: BTreeSet<RelPath>,
    /// The directories that they are in.
    told: Vec<RelPath>,
    /// Directories that are saved with what rules hide there.
    whole: Vec<RelPath>,
}

impl Found {
    /// Takes what is told here out of what is told of the sandbox.
    pub(super) fn apply(&mut self, files: &mut Compared, hidden: &mut Vec<RelPath>) {
        let is_in = |dirs: &[RelPath], path: &[u8]| {
            dirs.iter().any(|dir| path.starts_with(&bytes::below(dir, b"")))
        };
        let shown = files.untracked.iter().filter(|path| is_in(&self.told, path));
        self.shown = shown.cloned().collect();
        files.untracked.retain(|path| !self.shown.contains(path));
        hidden.retain(|path| !is_in(&self.whole, path));
        let loose = self.inner.iter().filter(|inner| inner.kind == Kind::Untracked);
        files.untracked.extend(loose.map(|inner| bytes::below(&inner.path, b"")));
        self.inner.sort_by(|a, b| a.path.cmp(&b.path));
        self.more
            .sort_by(|a, b| (&a.0, &a.1.entry.path).cmp(&(&b.0, &b.1.entry.path)));
        self.more
            .dedup_by(|a, b| (&a.0, &a.1.entry.path) == (&b.0, &b.1.entry.path));
    }
}

/// Finds them.
///
/// # Errors
/// Something cannot be read that would have to be saved.
pub(super) fn find(
    around: &Around<'_>,
    walked: &Walked,
    seen: &mut Seen,
) -> Result<Found, RepoError> {
    let mut search = Search {
        around,
        seen,
        found: Found::default(),
        known: BTreeMap::new(),
        present: Vec::new(),
        links: links(around.index, around.tree),
    };
    for repository in &walked.repositories {
        search.visit(repository)?;
    }
    search.bare_submodules(walked)?;
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

/// A submodule that was looked at, for those inside it.
struct Known {
    view: View,
    base: Option<Oid>,
    links: HashMap<RelPath, Oid>,
    /// What is checked out, where none of it is saved so far.
    spare: Option<Looked>,
}

struct Search<'a, 's> {
    around: &'a Around<'a>,
    seen: &'s mut Seen,
    found: Found,
    known: BTreeMap<RelPath, Known>,
    /// Git directories of what is checked out.
    present: Vec<PathBuf>,
    links: HashMap<RelPath, Oid>,
}

impl Search<'_, '_> {
    fn full(&self, path: &[u8]) -> PathBuf {
        self.around.root.path().join(bytes::path(path))
    }

    fn visit(&mut self, repository: &Repository) -> Result<(), RepoError> {
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

    /// The git directory of a directory, if there is one.
    fn git_dir(&self, path: &[u8]) -> Option<PathBuf> {
        let dir = self.full(path);
        let own = dir.join(".git");
        match fs::symlink_metadata(&own) {
            Ok(meta) if meta.is_dir() => Some(own),
            Ok(_) => admin::linked(&dir),
            Err(_) => dir.join("objects").is_dir().then_some(dir),
        }
    }

    /// Walks and compares what is checked out there.
    fn look(&mut self, path: &[u8], view: &View) -> Result<Looked, RepoError> {
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
        let tracked: BTreeSet<RelPath> = tracked.cloned().collect();
        let mut rules = Rules::new(self.around.excludes, &tracked);
        let walked = self.walk(path, &mut rules)?;
        let scratch = view.scratch();
        let judge = Judge {
            git: || view.git(),
            root: self.around.root,
            lists: lists(&files),
            scratch: &scratch,
            prefix: &prefix,
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
        Ok(Looked {
            files,
            index,
            git,
            closed: walked.closed,
        })
    }

    fn walk(&self, path: &[u8], sieve: &mut impl Sieve) -> Result<Walked, RepoError> {
        let walked = from(self.around.root, path, sieve);
        walked.map_err(|error| admin::failed("cannot list", &self.full(path), &error))
    }

    fn submodule(
        &mut self,
        path: &[u8],
        pin: &Oid,
        (base, pins): (Option<Oid>, &[Oid]),
        above: Option<RelPath>,
    ) -> Result<(), RepoError> {
        let Some(git_dir) = self.git_dir(path) else {
            let holds = "its .git leads nowhere".to_owned();
            return self.whole(path, Kind::Submodule, holds);
        };
        let view = match View::of(self.around.repo, &git_dir, self.around.format) {
            Ok(view) => view,
            Err(error) => {
                return self.whole(path, Kind::Submodule, format!("cannot be judged: {error}"));
            }
        };
        self.present.push(git_dir.clone());
        let looked = match self.look(path, &view) {
            Ok(looked) => looked,
            Err(error) => {
                return self.whole(path, Kind::Submodule, format!("cannot be judged: {error}"));
            }
        };
        let says = state(&looked.files, view.head().as_ref() != Some(pin), &looked.closed);
        let held = match says {
            Some(says) => Some(says),
            None => view.held(base.as_ref(), pins)?,
        };
        let links = links(&looked.index, &Tree::default());
        // What is inside a submodule that is saved comes back with it.
        let around = above.is_some_and(|dir| self.found.inner.iter().any(|it| it.path == dir));
        let mut known = Known {
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
            self.tell(path, kind, held.what);
        }
        Ok(())
    }

    /// Has what is checked out in a submodule saved, and its git directory.
    fn keep(&mut self, looked: Looked, git_dir: &Path) -> Result<(), RepoError> {
        let items = looked.files.items.into_iter();
        self.found.more.extend(items.map(|item| (Home::Sandbox, item)));
        self.save(Home::Sandbox, looked.git)?;
        self.keep_git_dir(git_dir)
    }

    /// Saves submodules that hold nothing themselves, but are around one that does.
    fn surround(&mut self) -> Result<(), RepoError> {
        let admin = self.around.admin.map(Path::to_owned);
        let real = |path: &Path| fs::canonicalize(path).ok();
        let mut kept = Vec::new();
        for (dir, known) in &mut self.known {
            let own = real(&known.view.git_dir);
            let is_in = |inner: &Inner| match inner.path.strip_prefix(b".git/") {
                Some(module) => {
                    let at = admin.as_ref().and_then(|it| real(&it.join(bytes::path(module))));
                    at.zip(own.as_ref()).is_some_and(|(at, own)| at.starts_with(own))
                }
                None => inner.path.starts_with(&bytes::below(dir, b"")),
            };
            if self.found.inner.iter().any(is_in)
                && let Some(looked) = known.spare.take()
            {
                kept.push((looked, known.view.git_dir.clone()));
            }
        }
        kept.into_iter().try_for_each(|(looked, git_dir)| self.keep(looked, &git_dir))
    }

    /// Submodules that are not checked out, where there are files all the same.
    fn bare_submodules(&mut self, walked: &Walked) -> Result<(), RepoError> {
        let is_repository = |path: &RelPath| walked.repositories.iter().any(|it| it.path == *path);
        let paths: Vec<_> = self.links.keys().filter(|path| !is_repository(path)).cloned().collect();
        for path in paths {
            let below = bytes::below(&path, b"");
            let mut files = walked.entries.iter();
            if files.any(|entry| entry.path.starts_with(&below)) {
                let holds = "files, although it is not checked out".to_owned();
                self.tell(&path, Kind::Submodule, holds);
                self.found.told.push(path);
            }
        }
        Ok(())
    }

    /// A repository that ignore rules hide, if it holds what is nowhere else. Of one whose commits its
    /// remotes have, the changed files are enough: what tools fetch is large, and they write into it.
    fn hidden(&mut self, path: &[u8], base: Option<Oid>, pins: &[Oid]) -> Result<(), RepoError> {
        let unknown = |why: &dyn std::fmt::Display| format!("cannot be judged: {why}");
        let Some(git_dir) = self.git_dir(path) else {
            return self.whole(path, Kind::Ignored, unknown(&"its .git leads nowhere"));
        };
        let view = match View::of(self.around.repo, &git_dir, self.around.format) {
            Ok(view) => view,
            Err(error) => return self.whole(path, Kind::Ignored, unknown(&error)),
        };
        let own = match self.is_theirs(&git_dir) {
            true => self.unshared(&view),
            false => view.held(base.as_ref(), pins),
        };
        let own = own.unwrap_or_else(|error| Some(Held::at_work(unknown(&error))));
        if git_dir == self.full(path) {
            return match own {
                Some(held) => self.whole(path, Kind::Ignored, held.what),
                None => Ok(()),
            };
        }
        let looked = match self.look(path, &view) {
            Ok(looked) => looked,
            Err(error) => return self.whole(path, Kind::Ignored, unknown(&error)),
        };
        let changed = state(&looked.files, false, &looked.closed);
        let links = links(&looked.index, &Tree::default());
        match (own, changed) {
            (None, None) => {
                let known = Known {
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

    /// Whether it is a worktree of theirs, whose branches are those of all raiders.
    fn is_theirs(&self, git_dir: &Path) -> bool {
        let home = fs::canonicalize(admin::worktrees(self.around.repo));
        home.is_ok_and(|home| git_dir.starts_with(home)) && !self.is_own(git_dir)
    }

    fn is_own(&self, git_dir: &Path) -> bool {
        let real = self.around.admin.and_then(|admin| fs::canonicalize(admin).ok());
        real.is_some_and(|admin| git_dir.starts_with(admin))
    }

    /// What a worktree of theirs holds beside its files: an operation in progress, or commits. What it shares
    /// with the sandbox's HEAD is judged with that.
    fn unshared(&self, view: &View) -> Result<Option<Held>, RepoError> {
        let busy = super::special::in_progress(&view.git_dir).next();
        if busy.is_some() {
            return Ok(busy.map(Held::at_work));
        }
        let Some(head) = view.head() else {
            return Ok(None);
        };
        let count = self.around.repo.lens().args(["rev-list", "--count", head.as_str()]);
        let count = count.args(["--not", "--remotes"]);
        let count = count.args(self.around.head.map(Oid::as_str)).run()?.text();
        let held = || Held::at_work(format!("unpushed commits: {count}"));
        Ok((count != "0").then(held))
    }

    /// Has only the changed files saved.
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

    /// Has everything in the directory saved, whatever rules hide there, and its git directory.
    fn whole(&mut self, path: &[u8], kind: Kind, holds: String) -> Result<(), RepoError> {
        self.tell(path, kind, holds);
        let walked = match self.walk(path, &mut All) {
            Ok(walked) => walked,
            Err(error) if kind == Kind::Ignored => {
                self.mark_closed(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !walked.closed.is_empty() || !walked.mounts.is_empty() {
            self.mark_closed(&"not all of it can be read");
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

    /// Has a git directory saved that goes with the sandbox, but lies elsewhere.
    fn keep_git_dir(&mut self, git_dir: &Path) -> Result<(), RepoError> {
        let real = |path: &Path| fs::canonicalize(path).ok();
        let (Some(at), Some(own)) = (real(git_dir), self.around.admin.and_then(real)) else {
            return Ok(());
        };
        let fail = |error: std::io::Error| admin::failed("cannot read", git_dir, &error);
        if let Ok(below) = at.strip_prefix(&own) {
            if below == Path::new("") {
                // A copy of the sandbox's own link: that directory is saved anyway.
                return Ok(());
            }
            let root = Root::open(&own).map_err(fail)?;
            let walked = from(&root, bytes::of(below), &mut All).map_err(fail)?;
            return self.save(Home::Admin, walked.entries);
        }
        if self.is_theirs(&at) {
            let root = Root::open(&at).map_err(fail)?;
            let walked = from(&root, b"", &mut All).map_err(fail)?;
            let view = View::of(self.around.repo, &at, self.around.format)?;
            let index = view.index()?;
            let blobs = index.entries.into_iter().filter(|it| !it.is_link());
            self.found.staged.extend(blobs.map(|it| it.id).chain(index.more));
            return self.save(Home::Other(at), walked.entries);
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
            RepoError::Failed(format!("an administrative directory cannot be read: {error}"))
        };
        let other = other.transpose().map_err(fail)?;
        for entry in entries {
            if entry.git_mode().is_none() {
                self.found.more.push((home.clone(), Item { entry, id: None }));
                continue;
            }
            let format = self.around.format;
            // Only what is in the sandbox is known by its path.
            let read = match &other {
                None => match self.seen.id(&entry).cloned() {
                    Some(id) => Some((entry, id)),
                    None => read(self.around.root, entry, format, self.seen)?,
                },
                Some(root) => read(root, entry, format, &mut Seen::default())?,
            };
            if let Some((entry, id)) = read {
                let id = Some(id);
                self.found.more.push((home.clone(), Item { entry, id }));
            }
        }
        Ok(())
    }

    fn tell(&mut self, path: &[u8], kind: Kind, holds: String) {
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

mod absent;

/// What is checked out in a repository.
struct Looked {
    files: Compared,
    index: Index,
    /// Its `.git`, and what is in it.
    git: Vec<Entry>,
    closed: Vec<Closed>,
}

impl Looked {
    /// Whether all that changed are files that are there: nothing is deleted, staged or hidden from git.
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

/// Leaves out what lies in repositories below a directory, unless it is tracked around them.
pub(super) fn outside(
    mut entries: Vec<Entry>,
    repositories: &[Repository],
    dir: &[u8],
    tracked: &BTreeSet<RelPath>,
) -> Vec<Entry> {
    let inner = repositories.iter().filter(|it| !it.hidden && it.path != dir);
    let inner: BTreeSet<&[u8]> = inner.map(|it| it.path.as_slice()).collect();
    if inner.is_empty() {
        return entries;
    }
    let is_in = |path: &[u8]| {
        let cuts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        cuts.map(|(cut, _)| &path[..cut]).any(|above| inner.contains(above))
    };
    entries.retain(|entry| tracked.contains(&entry.path) || !is_in(&entry.path));
    entries
}

/// What its files say.
fn state(files: &Compared, moved: bool, closed: &[Closed]) -> Option<Held> {
    let says = [
        (moved, "other commits"),
        (!files.dirty.is_empty(), "changed files"),
        (!files.untracked.is_empty(), "untracked files"),
        (!closed.is_empty(), "files that cannot be read"),
    ];
    let found: Vec<_> = says.iter().filter(|says| says.0).map(|says| says.1).collect();
    if !found.is_empty() {
        return Some(Held::at_work(found.join(", ")));
    }
    let converted = !files.converted.is_empty();
    converted.then(|| Held::left("files that git converts"))
}
