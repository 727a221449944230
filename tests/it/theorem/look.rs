//! What there is in a sandbox, read without a word of the adapter that is being tested.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::{IndexEntryExtendedFlag, ObjectType, Oid, Repository};

/// A file, as git could hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// `file`, `exec` or `link`.
    pub kind: &'static str,
    /// What is in it, or where it leads.
    pub bytes: Vec<u8>,
}

impl File {
    /// The name of its content.
    pub fn id(&self) -> Oid {
        Oid::hash_object(ObjectType::Blob, &self.bytes).expect("a hash")
    }
}

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub path: Vec<u8>,
    pub id: Oid,
    mode: u32,
    flags: u16,
    extended: u16,
}

/// The stage, and `assume-unchanged`.
const FLAGS: u16 = 0x3000 | 0x8000;

impl Entry {
    /// Above 0 in a conflict.
    pub fn stage(&self) -> u16 {
        (self.flags & 0x3000) >> 12
    }

    /// Whether git is told not to look at the file.
    pub fn is_flagged(&self) -> bool {
        self.flags & 0x8000 != 0
            || self.extended & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0
    }

    /// Whether the file is only promised.
    pub fn is_promised(&self) -> bool {
        self.extended & IndexEntryExtendedFlag::INTENT_TO_ADD.bits() != 0
    }

    fn is_submodule(&self) -> bool {
        self.mode == 0o160_000
    }
}

/// A repository inside the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    head: Option<Oid>,
    pub index: Vec<Entry>,
    /// Its git directory, the index apart, where that is in the sandbox or goes with it.
    files: BTreeMap<Vec<u8>, File>,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Everything but git's own and what is ignored, repositories there apart.
    pub files: BTreeMap<Vec<u8>, File>,
    pub index: Vec<Entry>,
    pub head: Option<Oid>,
    pub head_line: String,
    /// Of the whole repository.
    pub stashes: Vec<Oid>,
    /// What the reflog of HEAD names.
    pub reflog: BTreeSet<Oid>,
    /// Files of an operation in progress.
    pub state: BTreeMap<String, Vec<u8>>,
    pub inner: BTreeMap<Vec<u8>, Inner>,
}

/// What git keeps of an operation in progress, and refs of the worktree's own.
const STATE: &[&str] = &[
    "rebase-merge",
    "rebase-apply",
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "sequencer",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_TERMS",
    "refs",
    "info/sparse-checkout",
];

/// Links that the supervisor makes, unless something else took their place.
const LINKS: &[&str] = &[
    "TASK.md",
    ".horde-outcome",
    ".orange-outcome",
    ".horde-task.md",
];

fn name(path: &Path, of: &Path) -> Vec<u8> {
    path.strip_prefix(of)
        .expect("below")
        .as_os_str()
        .as_bytes()
        .to_vec()
}

fn is_ignored(name: &[u8]) -> bool {
    name == b".env" || name == b"target" || name.ends_with(b".ignored")
}

/// Every file below a directory; without `all`, no `.git` and nothing ignored.
fn walk(dir: &Path, all: bool) -> BTreeMap<Vec<u8>, File> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(&here).expect("a directory") {
            let path = entry.expect("an entry").path();
            let own = name(&path, dir);
            let meta = fs::symlink_metadata(&path).expect("metadata");
            let ours = meta.is_symlink() && LINKS.iter().any(|link| own == link.as_bytes());
            let last = path.file_name().unwrap_or_default().as_bytes();
            if !all && (last == b".git" || ours || is_ignored(last)) {
                continue;
            }
            if meta.is_dir() {
                open.push(path);
                continue;
            }
            let (kind, bytes) = if meta.is_symlink() {
                let to = fs::read_link(&path).expect("a link");
                ("link", to.as_os_str().as_bytes().to_vec())
            } else if meta.permissions().mode() & 0o111 != 0 {
                ("exec", fs::read(&path).expect("a file"))
            } else {
                ("file", fs::read(&path).expect("a file"))
            };
            found.insert(own, File { kind, bytes });
        }
    }
    found
}

/// Repositories below the directory that is ignored, also one that came back as files.
fn hidden(dir: &Path) -> Vec<PathBuf> {
    let inner = fs::read_dir(dir.join("target")).into_iter().flatten();
    let mut found: Vec<_> = inner.map(|entry| entry.expect("an entry").path()).collect();
    found.retain(|path| path.join(".git").exists() || path.ends_with("beside"));
    found
}

fn index(repo: &Repository) -> Vec<Entry> {
    let index = repo.index().expect("an index");
    let entries = index.iter().map(|entry| Entry {
        path: entry.path,
        id: entry.id,
        mode: entry.mode,
        flags: entry.flags & FLAGS,
        extended: entry.flags_extended
            & (IndexEntryExtendedFlag::SKIP_WORKTREE | IndexEntryExtendedFlag::INTENT_TO_ADD)
                .bits(),
    });
    entries.collect()
}

fn head(repo: &Repository) -> Option<Oid> {
    repo.head().ok().and_then(|head| head.target())
}

fn reflog(file: &Path) -> BTreeSet<Oid> {
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let ids = text.lines().flat_map(|line| line.split(' ').take(2));
    ids.filter_map(|id| Oid::from_str(id).ok())
        .filter(|id| !id.is_zero())
        .collect()
}

impl Seen {
    /// The administrative directory of a worktree.
    pub fn admin(dir: &Path) -> PathBuf {
        let text = fs::read_to_string(dir.join(".git")).expect("a link");
        text.trim().strip_prefix("gitdir: ").expect("a link").into()
    }

    /// Whether there is a file for the entry, where one is wanted.
    pub fn has_file_of(&self, entry: &Entry) -> bool {
        let skip = entry.extended & IndexEntryExtendedFlag::SKIP_WORKTREE.bits() != 0;
        let wanted = !skip && !entry.is_submodule() && entry.stage() == 0;
        !wanted || self.files.contains_key(&entry.path)
    }

    /// Looks.
    pub fn of(dir: &Path) -> Self {
        let repo = Repository::open(dir).expect("a repository");
        let admin = Self::admin(dir);
        let mut state = BTreeMap::new();
        for part in STATE {
            let path = admin.join(part);
            if path.is_dir() {
                for (file, content) in walk(&path, true) {
                    let file = String::from_utf8_lossy(&file).into_owned();
                    state.insert(format!("{part}/{file}"), content.bytes);
                }
            } else if let Ok(content) = fs::read(&path) {
                state.insert((*part).to_owned(), content);
            }
        }
        let mut files = walk(dir, false);
        for home in hidden(dir) {
            let own = name(&home, dir);
            let inner = walk(&home, false).into_iter();
            files.extend(inner.map(|(path, file)| ([&own[..], b"/", &path].concat(), file)));
        }
        let mut index = index(&repo);
        if state.contains_key("info/sparse-checkout") {
            // What is there although it need not be, be it a directory by now, git takes for wanted.
            let skip = IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
            let is_there = |entry: &Entry| {
                let path = dir.join(OsStr::from_bytes(&entry.path));
                files.contains_key(&entry.path) || path.symlink_metadata().is_ok()
            };
            let there = index.iter_mut().filter(|entry| is_there(entry));
            there.for_each(|entry| entry.extended &= !skip);
        }
        let inner = Self::inner(dir, &admin, &files);
        Self {
            files,
            index,
            head: head(&repo),
            head_line: fs::read_to_string(admin.join("HEAD")).unwrap_or_default(),
            stashes: reflog(&repo.commondir().join("logs/refs/stash"))
                .into_iter()
                .collect(),
            reflog: reflog(&admin.join("logs/HEAD")),
            state,
            inner,
        }
    }

    fn inner(
        dir: &Path,
        admin: &Path,
        files: &BTreeMap<Vec<u8>, File>,
    ) -> BTreeMap<Vec<u8>, Inner> {
        let mut homes: BTreeSet<PathBuf> = BTreeSet::new();
        for path in files.keys() {
            let path = dir.join(std::ffi::OsStr::from_bytes(path));
            let above = path.ancestors().skip(1).take_while(|above| *above != dir);
            homes.extend(above.map(Path::to_owned));
        }
        homes.retain(|home| home.join(".git").exists());
        let inner = homes.into_iter().filter_map(|home| {
            // A worktree that the agent made comes back as files: its link leads nowhere.
            let repo = Repository::open(&home).ok()?;
            let own = repo.path().starts_with(dir) || repo.path().starts_with(admin);
            let mut files = if own {
                walk(repo.path(), true)
            } else {
                BTreeMap::new()
            };
            // git writes anew what it measured; the restored submodule lies elsewhere.
            files.retain(|name, _| name != b"index" && name != b"config");
            let inner = Inner {
                head: head(&repo),
                index: self::index(&repo),
                files,
            };
            Some((name(&home, dir), inner))
        });
        let mut inner: BTreeMap<_, _> = inner.collect();
        let library = admin.join("modules/lib");
        if library.is_dir() && !dir.join("lib/.git").exists() {
            let mut files = walk(&library, true);
            files.retain(|name, _| name != b"index" && name != b"config");
            let (head, index) = (None, Vec::new());
            inner.insert(b".git/modules/lib".to_vec(), Inner { head, index, files });
        }
        inner
    }

    /// Commits that the reflog names and HEAD does not reach.
    pub fn left_behind(&self, dir: &Path) -> Vec<Oid> {
        let repo = Repository::open(dir).expect("a repository");
        let Some(head) = self.head else {
            return Vec::new();
        };
        let reached =
            |id: &Oid| *id == head || repo.graph_descendant_of(head, *id).unwrap_or(false);
        self.reflog
            .iter()
            .copied()
            .filter(|id| !reached(id))
            .collect()
    }

    /// What is not the same in another one.
    pub fn differs(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("files", self.files == other.files),
            ("index", self.index == other.index),
            ("HEAD", self.head == other.head),
            ("state", self.state == other.state),
            ("inner repositories", self.own_inner().eq(other.own_inner())),
        ];
        let differs = same.iter().filter(|(_, same)| !same);
        differs.map(|(what, _)| *what).collect()
    }

    /// Inner repositories whose git directory goes with the sandbox. A worktree that the agent made
    /// comes back as files: its repository is still there.
    fn own_inner(&self) -> impl Iterator<Item = (&Vec<u8>, &Inner)> {
        self.inner
            .iter()
            .filter(|(_, inner)| !inner.files.is_empty())
    }

    /// Every content that was tracked, staged or untracked. What an inner repository has staged whose git
    /// directory goes with the sandbox is in that.
    pub fn contents(&self) -> BTreeSet<Oid> {
        let staged = |entry: &&Entry| !entry.is_submodule() && !entry.is_promised();
        let elsewhere = self.inner.values().filter(|inner| inner.files.is_empty());
        let index = elsewhere.flat_map(|inner| &inner.index);
        let index = self.index.iter().chain(index).filter(staged);
        let own = self.own_inner().flat_map(|(_, inner)| inner.files.values());
        let files = self.files.values().chain(own).map(File::id);
        index.map(|entry| entry.id).chain(files).collect()
    }
}
