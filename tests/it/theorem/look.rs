//! The contents of a sandbox: files, index, HEAD, reflogs, all read from the disk as bytes. Neither git nor a library
//! that reads its configuration is asked, nor the adapter that is being tested.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository};
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;

use super::index::{self, Entry};

/// A file, as git could hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// `file`, `exec` or `link`.
    pub kind: &'static str,
    /// The content of a file, or the target of a link.
    pub bytes: Vec<u8>,
}

impl File {
    /// Returns the id of its content.
    pub fn id(&self) -> Oid {
        Oid::hash_object(ObjectType::Blob, &self.bytes).expect("a hash")
    }
}

/// A repository whose git directory is not in the sandbox: a submodule, or a worktree of the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inner {
    head: Option<Oid>,
    pub index: Vec<Entry>,
    /// The files of its git directory, without the index, if that goes with the sandbox.
    files: BTreeMap<Vec<u8>, File>,
}

/// A sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxState {
    /// All files except for its own `.git` and ignored ones; repositories among ignored files are included.
    pub files: BTreeMap<Vec<u8>, File>,
    /// Set when `.git` leads to the administrative directory. Without that, its contents are unknown.
    pub linked: bool,
    /// The file of git's that is a pipe: its contents are unknown, and a restore makes it anew.
    pipe: Option<&'static str>,
    pub index: Vec<Entry>,
    pub head: Option<Oid>,
    pub head_line: String,
    /// The stash entries of the whole repository.
    pub stashes: Vec<Oid>,
    /// The commits that the reflog of HEAD names.
    pub reflog: BTreeSet<Oid>,
    /// Files of an operation in progress.
    pub state: BTreeMap<String, Vec<u8>>,
    pub inner: BTreeMap<Vec<u8>, Inner>,
}

/// The files of an operation in progress, and refs of the worktree's own.
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

/// The files of an administrative directory that may be pipes.
pub const PIPES: [&str; 4] = ["HEAD", "index", "gitdir", "logs/HEAD"];

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

fn bytes_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

/// Reads a file, which may be a pipe in a place of git's: a pipe holds nothing.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    match fs::metadata(path)?.is_file() {
        true => fs::read(path),
        false => Err(std::io::ErrorKind::InvalidInput.into()),
    }
}

fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

fn is_ignored(name: &[u8]) -> bool {
    name == b".env" || name == b"target" || name.ends_with(b".ignored")
}

/// Returns whether the file is the link of a worktree or submodule whose git directory is elsewhere: a restore makes it
/// anew.
fn is_relinked(path: &Path, file: &File) -> bool {
    let apart = |part: &[u8]| file.bytes.windows(part.len()).any(|found| found == part);
    path.ends_with(".git")
        && file.bytes.starts_with(b"gitdir: ")
        && (apart(b"/worktrees/") || apart(b"/modules/"))
}

/// Returns every file below a directory; without `all`, neither its own `.git` nor ignored files.
fn walk(dir: &Path, all: bool) -> BTreeMap<Vec<u8>, File> {
    let mut found = BTreeMap::new();
    let top = open(dir, OFlag::O_DIRECTORY, Mode::empty()).expect("a directory");
    walk_into(&top, b"", all, &mut found);
    found
}

/// Goes down directory by directory: a path may be longer than a system call takes.
fn walk_into(at: &OwnedFd, below: &[u8], all: bool, found: &mut BTreeMap<Vec<u8>, File>) {
    let here = PathBuf::from(format!("/proc/self/fd/{}", at.as_raw_fd()));
    for entry in fs::read_dir(&here).expect("a directory") {
        let last = entry.expect("an entry").file_name();
        let (path, own) = (here.join(&last), [below, last.as_bytes()].concat());
        let meta = fs::symlink_metadata(&path).expect("metadata");
        let ours = meta.is_symlink() && LINKS.iter().any(|link| own == link.as_bytes());
        if !all && (own == b".git" || ours || is_ignored(last.as_bytes())) {
            continue;
        }
        if meta.is_dir() {
            let how = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
            let next = openat(at, &*last, how, Mode::empty()).expect("a directory");
            walk_into(&next, &[&own, &b"/"[..]].concat(), all, found);
            continue;
        }
        let (kind, bytes) = if meta.is_symlink() {
            let to = fs::read_link(&path).expect("a link");
            ("link", to.as_os_str().as_bytes().to_vec())
        } else if !meta.is_file() {
            // A pipe holds nothing.
            continue;
        } else if meta.permissions().mode() & 0o111 != 0 {
            ("exec", fs::read(&path).expect("a file"))
        } else {
            ("file", fs::read(&path).expect("a file"))
        };
        let file = File { kind, bytes };
        if all || !is_relinked(&path, &file) {
            found.insert(own, file);
        }
    }
}

/// Returns the repositories below the ignored directory, also one that came back as files.
fn hidden(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![dir.join("target")];
    while let Some(here) = open.pop() {
        let is_bare = || {
            ["HEAD", "objects", "refs"]
                .iter()
                .all(|part| here.join(part).exists())
        };
        if here.join(".git").exists() || here.ends_with("beside") || is_bare() {
            found.push(here);
            continue;
        }
        let below = fs::read_dir(&here).into_iter().flatten().flatten();
        let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(below.map(|entry| entry.path()));
    }
    found
}

/// Returns the target of a `.git`, if that is a git directory.
fn git_dir(home: &Path) -> Option<PathBuf> {
    let link = home.join(".git");
    let meta = fs::symlink_metadata(&link).ok()?;
    let found = match meta.is_file() {
        true => {
            let text = fs::read(&link).ok()?;
            let to = text.trim_ascii_end().strip_prefix(b"gitdir: ")?;
            home.join(OsStr::from_bytes(to))
        }
        false if meta.is_dir() => link,
        false => return None,
    };
    let found = fs::canonicalize(found).ok()?;
    found.join("HEAD").exists().then_some(found)
}

/// Returns the directory that the worktrees of a repository share.
fn common(git_dir: &Path) -> PathBuf {
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(to) => git_dir.join(to.trim_end()),
        Err(_) => git_dir.to_owned(),
    }
}

/// Returns the commit of a ref.
fn resolve(git_dir: &Path, name: &str) -> Option<Oid> {
    for dir in [git_dir, &common(git_dir)] {
        if let Ok(text) = read(&dir.join(name)) {
            let text = String::from_utf8_lossy(&text);
            return match text.trim_end().strip_prefix("ref: ") {
                Some(to) => resolve(git_dir, to),
                None => Oid::from_str(text.trim_end()).ok(),
            };
        }
    }
    let packed = fs::read(common(git_dir).join("packed-refs")).unwrap_or_default();
    let packed = String::from_utf8_lossy(&packed);
    let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
    let (id, _) = lines.find(|(_, found)| *found == name)?;
    Oid::from_str(id).ok()
}

fn reflog(file: &Path) -> BTreeSet<Oid> {
    let text = read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let ids = text.lines().flat_map(|line| line.split(' ').take(2));
    ids.filter_map(|id| Oid::from_str(id).ok())
        .filter(|id| !id.is_zero())
        .collect()
}

impl SandboxState {
    /// Returns the administrative directory of a worktree.
    pub fn admin(dir: &Path) -> PathBuf {
        let text = fs::read_to_string(dir.join(".git")).expect("a link");
        text.trim().strip_prefix("gitdir: ").expect("a link").into()
    }

    /// Returns whether there is a file for the entry, or none is wanted.
    pub fn has_file_of(&self, entry: &Entry) -> bool {
        let wanted = !entry.is_skipped() && !entry.is_submodule() && entry.stage() == 0;
        !wanted || self.files.contains_key(&entry.path)
    }

    /// Reads the sandbox.
    pub fn of(dir: &Path) -> Self {
        let files = Self::below(dir);
        let link = fs::symlink_metadata(dir.join(".git"));
        let is_link = link.is_ok_and(|found| found.is_file());
        let Some(admin) = git_dir(dir).filter(|_| is_link) else {
            return Self::unlinked(dir, files);
        };
        let mut state = BTreeMap::new();
        for part in STATE {
            let path = admin.join(part);
            if path.is_dir() {
                for (file, content) in walk(&path, true) {
                    let file = String::from_utf8_lossy(&file).into_owned();
                    state.insert(format!("{part}/{file}"), content.bytes);
                }
            } else if let Ok(content) = read(&path) {
                state.insert((*part).to_owned(), content);
            }
        }
        let mut index = index::entries(&admin);
        if state.contains_key("info/sparse-checkout") {
            // git takes an existing path for wanted even if it need not exist, also if it is a directory by now.
            let is_there = |entry: &Entry| {
                let path = dir.join(OsStr::from_bytes(&entry.path));
                files.contains_key(&entry.path) || path.symlink_metadata().is_ok()
            };
            let there = index.iter_mut().filter(|entry| is_there(entry));
            there.for_each(Entry::unskip);
        }
        let inner = Self::inner(dir, &admin, &files);
        let stashes = reflog(&common(&admin).join("logs/refs/stash"));
        Self {
            files,
            linked: true,
            pipe: PIPES.into_iter().find(|name| is_pipe(&admin.join(name))),
            index,
            head: resolve(&admin, "HEAD"),
            head_line: String::from_utf8(read(&admin.join("HEAD")).unwrap_or_default())
                .unwrap_or_default(),
            stashes: stashes.into_iter().collect(),
            reflog: reflog(&admin.join("logs/HEAD")),
            state,
            inner,
        }
    }

    /// Returns the files, including those in repositories among ignored ones.
    fn below(dir: &Path) -> BTreeMap<Vec<u8>, File> {
        let mut files = walk(dir, false);
        for home in hidden(dir) {
            let own = name(&home, dir);
            for (path, file) in walk(&home, true) {
                if !is_relinked(bytes_path(&path), &file) {
                    files.insert([&own[..], b"/", &path].concat(), file);
                }
            }
        }
        files
    }

    /// Reads a directory whose `.git` leads to no administrative directory: it counts as ordinary files then.
    fn unlinked(dir: &Path, mut files: BTreeMap<Vec<u8>, File>) -> Self {
        let link = dir.join(".git");
        if let Ok(to) = fs::read_link(&link) {
            let bytes = to.as_os_str().as_bytes().to_vec();
            let kind = "link";
            files.insert(b".git".to_vec(), File { kind, bytes });
        } else if let Ok(bytes) = fs::read(&link) {
            let kind = "file";
            files.insert(b".git".to_vec(), File { kind, bytes });
        } else {
            let own = walk(&link, true).into_iter();
            files.extend(own.map(|(path, file)| ([b".git/", &path[..]].concat(), file)));
        }
        Self {
            files,
            linked: false,
            pipe: None,
            index: Vec::new(),
            head: None,
            head_line: String::new(),
            stashes: Vec::new(),
            reflog: BTreeSet::new(),
            state: BTreeMap::new(),
            inner: BTreeMap::new(),
        }
    }

    fn inner(
        dir: &Path,
        admin: &Path,
        files: &BTreeMap<Vec<u8>, File>,
    ) -> BTreeMap<Vec<u8>, Inner> {
        let mut homes: BTreeSet<PathBuf> = BTreeSet::new();
        for path in files.keys() {
            let path = dir.join(OsStr::from_bytes(path));
            let above = path.ancestors().skip(1).take_while(|above| *above != dir);
            homes.extend(above.map(Path::to_owned));
        }
        homes.retain(|home| home.join(".git").is_file());
        let inner = homes.into_iter().filter_map(|home| {
            // A worktree that the agent made comes back as files: its link leads nowhere.
            let git_dir = git_dir(&home)?;
            if git_dir.starts_with(dir) || git_dir == admin {
                return None;
            }
            let mut files = match git_dir.starts_with(admin) {
                true => walk(&git_dir, true),
                false => BTreeMap::new(),
            };
            // The restored submodule has another place, which its configuration names.
            files.retain(|name, _| name != b"index" && name != b"config");
            let inner = Inner {
                head: resolve(&git_dir, "HEAD"),
                index: index::entries(&git_dir),
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

    /// Returns the commits that the reflog names and HEAD does not reach.
    pub fn left_behind(&self, dir: &Path) -> Vec<Oid> {
        let repo = Repository::open_bare(common(&Self::admin(dir))).expect("a repository");
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

    /// Returns the parts that differ from another sandbox.
    pub fn differs(&self, other: &Self) -> Vec<String> {
        let paths = self.files.keys().chain(other.files.keys());
        let paths = paths.filter(|path| self.files.get(*path) != other.files.get(*path));
        let paths: BTreeSet<_> = paths.map(|path| String::from_utf8_lossy(path)).collect();
        let same = [
            (
                "index",
                self.pipe == Some("index") || self.index == other.index,
            ),
            ("HEAD", self.pipe == Some("HEAD") || self.head == other.head),
            ("state", self.state == other.state),
            ("inner repositories", self.own_inner().eq(other.own_inner())),
        ];
        let differs = same.iter().filter(|(_, same)| self.linked && !same);
        let differs = differs.map(|(what, _)| match *what {
            "index" => format!("index: {}", self.index_differences(other)),
            what => what.to_owned(),
        });
        let paths = paths.into_iter().map(|path| format!("file {path}"));
        paths.chain(differs).collect()
    }

    /// Describes the entries that only one of both indexes has; nothing where only their order differs.
    fn index_differences(&self, other: &Self) -> String {
        let only = |of: &[Entry], other: &[Entry], sign: &str| {
            let only = of.iter().filter(|entry| !other.contains(entry));
            only.map(|entry| format!("{sign}{entry:?}"))
                .collect::<Vec<_>>()
        };
        let gone = only(&self.index, &other.index, "-");
        [gone, only(&other.index, &self.index, "+")]
            .concat()
            .join(" ")
    }

    /// Reads the restored sandbox: a `.git` that was no link is beside that of the restored one.
    pub fn restored(&self, to: &Path) -> Self {
        let mut found = Self::of(to);
        if !self.linked {
            let files = std::mem::take(&mut found.files).into_iter();
            let named = files.map(|(name, file)| match name.strip_prefix(b"found.git") {
                Some(rest) => ([b".git", rest].concat(), file),
                None => (name, file),
            });
            found.files = named.collect();
        }
        if self.pipe.is_some() {
            // The link, if it leads to a directory that git takes for none of its own.
            found.files.remove(&b"found.git"[..]);
        }
        found
    }

    /// Returns the inner repositories whose git directory goes with the sandbox. A worktree that the agent made comes
    /// back as files, because its repository still exists.
    fn own_inner(&self) -> impl Iterator<Item = (&Vec<u8>, &Inner)> {
        self.inner
            .iter()
            .filter(|(_, inner)| !inner.files.is_empty())
    }

    /// Returns the ids of all contents that were tracked, staged or untracked. Staged contents of an inner repository
    /// are part of its git directory if that goes with the sandbox.
    pub fn contents(&self) -> BTreeSet<Oid> {
        let staged = |entry: &&Entry| !entry.is_submodule() && !entry.is_promised();
        let elsewhere = self.inner.values().filter(|inner| inner.files.is_empty());
        let index = elsewhere.flat_map(|inner| &inner.index);
        let index = self.index.iter().chain(index).filter(staged);
        let own = self.own_inner().flat_map(|(_, inner)| inner.files.values());
        let files = self.files.values().chain(own);
        let files = files.map(File::id);
        index.map(|entry| entry.id).chain(files).collect()
    }
}
