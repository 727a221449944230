//! Repositories inside a sandbox: submodules, clones, `git init` in a subdirectory. The sandbox's
//! own git shows nothing of what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::admin::{self, Place, linked};
use super::bytes::{self, RelPath};
use super::command::{Git, Output};
use super::modules::{self, Held, Inner, recorded};
use super::push::shown;
use super::rig::{GitRepo, resolve};
use super::special;
use super::status::{IndexEntry, Status};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A repository inside the sandbox that holds work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nested {
    /// Its directory; one below [`MODULES`] where it is not checked out.
    pub(super) path: RelPath,
    /// How it comes to be there.
    pub(super) kind: Kind,
    /// Its git directory, when that would go with the sandbox.
    pub(super) git_dir: Option<PathBuf>,
    /// Its HEAD.
    pub(super) head: Option<Oid>,
    /// Files that its ignore rules do not exclude, relative to the sandbox.
    pub(super) files: Vec<RelPath>,
    /// What it holds, for people.
    pub(super) holds: String,
    /// Where it was cloned from, when all that is not there are its changed files.
    pub(super) origin: Option<String>,
    /// Not all of it can be read, hence not be saved either.
    pub(super) closed: bool,
}

/// Where the git directory of a submodule lies that is not checked out. No file has such a path.
pub(super) const MODULES: &[u8] = b".git/modules";

/// How a repository comes to be in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The index has it.
    Submodule,
    /// A submodule where nobody is at work: what it holds only its git directory tells.
    Left,
    /// It lies among the files.
    Untracked,
    /// Ignore rules hide it.
    Ignored,
}

/// What lies below an ignored directory.
enum Hidden {
    /// A repository.
    Own,
    /// A worktree of `repo.git`.
    Worktree,
    /// A directory that its owner, who is the agent's, has closed.
    Closed(String),
}

/// Finds them. A submodule whose work is all in its remotes is not among them, nor is a repository
/// below an ignored directory: tools fetch those.
pub(super) fn find(
    repo: &GitRepo,
    place: &Place,
    status: &Status,
    index: &[IndexEntry],
    base: Option<&Oid>,
    worktrees: &[RelPath],
) -> Result<Vec<Nested>, RepoError> {
    let mut found = Vec::new();
    let mut known = submodules(place, status, index, base, &mut found)?;
    for dir in repositories(place, status, index) {
        collect(
            place,
            &dir,
            Kind::Untracked,
            "its own repository".to_owned(),
            &mut found,
        )?;
    }
    for (dir, hidden) in ignored(repo, place, status, worktrees)? {
        if found.iter().any(|known| known.path == dir) {
            continue;
        }
        match hidden {
            Hidden::Own => find_hidden(place, &dir, &mut found)?,
            Hidden::Worktree => {
                let path = place.sandbox.join(bytes::path(&dir));
                if let Some(holds) = unshared(&path, status.head.as_ref())? {
                    collect(place, &dir, Kind::Ignored, holds, &mut found)?;
                }
            }
            Hidden::Closed(why) => found.push(Nested {
                path: dir,
                kind: Kind::Ignored,
                git_dir: None,
                head: None,
                files: Vec::new(),
                holds: format!("cannot be read: {why}"),
                origin: None,
                closed: true,
            }),
        }
    }
    known.extend(found.iter().filter_map(|nested| nested.git_dir.clone()));
    find_absent(place, base, &known, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
}

/// Adds checked-out submodules that hold what is nowhere else. Answers with the git directories of all.
fn submodules(
    place: &Place,
    status: &Status,
    index: &[IndexEntry],
    base: Option<&Oid>,
    found: &mut Vec<Nested>,
) -> Result<Vec<PathBuf>, RepoError> {
    let mut git_dirs = Vec::new();
    for link in index.iter().filter(|entry| entry.is_gitlink()) {
        let dir = place.sandbox.join(bytes::path(&link.path));
        if !modules::is_inside(&place.sandbox, &link.path) {
            continue;
        }
        if fs::symlink_metadata(dir.join(".git")).is_err() {
            if !walk(&dir, false)?.is_empty() {
                let holds = "files, although it is not checked out".to_owned();
                collect(place, &link.path, Kind::Submodule, holds, found)?;
            }
            continue;
        }
        let inner = Inner::checked_out(&dir);
        let change = status
            .changes
            .iter()
            .find(|change| change.path == link.path);
        let held = match change.and_then(|change| change.submodule.clone()) {
            Some(dirty) => Some(Held::at_work(dirty)),
            None => inner.held(recorded(place.git(), base, &link.path)?, &[])?,
        };
        if let Some(held) = held {
            let kind = match held.left {
                true => Kind::Left,
                false => Kind::Submodule,
            };
            collect(place, &link.path, kind, held.what, found)?;
        }
        git_dirs.push(inner.git_dir);
    }
    Ok(git_dirs)
}

/// Adds those of which there is only a git directory, which none of these is.
fn find_absent(
    place: &Place,
    base: Option<&Oid>,
    known: &[PathBuf],
    found: &mut Vec<Nested>,
) -> Result<(), RepoError> {
    for (name, inner) in modules::absent(&place.admin, known)? {
        if let Some(held) = inner.held(recorded(place.git(), base, &name)?, &[])? {
            found.push(Nested {
                path: bytes::below(MODULES, &name),
                kind: Kind::Left,
                git_dir: Some(inner.git_dir),
                head: None,
                files: Vec::new(),
                holds: held.what,
                origin: None,
                closed: false,
            });
        }
    }
    Ok(())
}

/// Directories with a `.git` of their own: untracked ones, which git prints with a `/`, and those
/// that hold tracked or untracked files of the sandbox, in which git overlooks it.
fn repositories(place: &Place, status: &Status, index: &[IndexEntry]) -> BTreeSet<RelPath> {
    let mut dirs: BTreeSet<RelPath> = BTreeSet::new();
    let tracked = index
        .iter()
        .filter(|entry| !entry.is_gitlink())
        .map(|entry| &entry.path);
    for path in tracked.chain(&status.untracked) {
        let mut dir = path.as_slice();
        while let Some(cut) = dir.iter().rposition(|byte| *byte == b'/') {
            dir = &dir[..cut];
            if !dirs.insert(dir.to_vec()) {
                break;
            }
        }
    }
    dirs.retain(|dir| {
        let git = place.sandbox.join(bytes::path(dir)).join(".git");
        fs::symlink_metadata(git).is_ok()
    });
    dirs
}

/// Repositories that ignore rules hide, at the top of an ignored directory or one level below, and
/// worktrees of `repo.git` anywhere in the sandbox.
fn ignored(
    repo: &GitRepo,
    place: &Place,
    status: &Status,
    worktrees: &[RelPath],
) -> Result<BTreeMap<RelPath, Hidden>, RepoError> {
    let mut found = BTreeMap::new();
    let mut note = |dir: &[u8]| {
        let full = place.sandbox.join(bytes::path(dir));
        if let Some(hidden) = look(repo, &full)? {
            found.insert(dir.to_vec(), hidden);
        }
        Ok::<_, RepoError>(())
    };
    let dirs = status.ignored.iter();
    for dir in dirs.filter_map(|path| path.strip_suffix(b"/")) {
        note(dir)?;
        let here = place.sandbox.join(bytes::path(dir));
        for entry in there(&here, fs::read_dir(&here))?.into_iter().flatten() {
            if let Some(entry) = there(&here, entry)? {
                note(&bytes::below(dir, bytes::of(Path::new(&entry.file_name()))))?;
            }
        }
    }
    worktrees.iter().try_for_each(|dir| note(dir))?;
    Ok(found)
}

/// What a directory is to those that look for repositories, if anything.
fn look(repo: &GitRepo, dir: &Path) -> Result<Option<Hidden>, RepoError> {
    match fs::symlink_metadata(dir.join(".git")) {
        Err(error) if admin::is_closed(dir, &error) => Ok(Some(Hidden::Closed(error.to_string()))),
        git => Ok(there(dir, git)?.map(|meta| match meta.is_dir() {
            false if is_of(repo, dir) => Hidden::Worktree,
            _ => Hidden::Own,
        })),
    }
}

/// Nothing where there is nothing. Whatever else goes wrong says nothing of what is there.
fn there<T>(dir: &Path, read: io::Result<T>) -> Result<Option<T>, RepoError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if admin::is_nothing(&error) => Ok(None),
        Err(error) => Err(admin::failed("cannot read", dir, &error)),
    }
}

/// Whether a linked worktree belongs to `repo.git`.
fn is_of(repo: &GitRepo, dir: &Path) -> bool {
    let home = fs::canonicalize(repo.theirs());
    linked(dir).is_some_and(|admin| home.is_ok_and(|home| admin.starts_with(home)))
}

/// `git status` of a repository for programs.
fn changes(dir: &Path) -> Result<Output, RepoError> {
    let git = Git::in_dir(dir).env("GIT_OPTIONAL_LOCKS", "0");
    git.args(["status", "--porcelain", "-z", "--no-renames"])
        .args(["--untracked-files=all", "--ignore-submodules=none"])
        .output()
}

/// What a worktree of `repo.git` holds that is nowhere else: changes, an operation in progress (which may
/// have put changes aside), or commits. What it shares with the sandbox's HEAD is judged with that, and
/// its branches are everybody's.
fn unshared(dir: &Path, head: Option<&Oid>) -> Result<Option<String>, RepoError> {
    let status = changes(dir)?;
    if !status.ok() {
        return Ok(Some(format!("cannot be judged: {}", status.stderr.trim())));
    }
    if !status.stdout.is_empty() || passed_over(dir, &status.stderr) {
        return Ok(Some("changes".to_owned()));
    }
    if let Some(line) = special::in_progress(&of_repository(dir)).next() {
        return Ok(Some(line));
    }
    let git = Git::in_dir(dir).env("GIT_OPTIONAL_LOCKS", "0");
    let count = git.args(["rev-list", "--count", "HEAD", "--not", "--remotes"]);
    let count = count.args(head.map(Oid::as_str)).output()?;
    if !count.ok() {
        return Ok(Some(format!("cannot be judged: {}", count.stderr.trim())));
    }
    let commits = count.text();
    Ok((commits != "0").then(|| format!("unpushed commits: {commits}")))
}

/// Adds a repository that ignore rules hide, if it holds what is nowhere else. Of one whose commits its
/// remotes have, the changed files are enough: what tools fetch is large, and they write into it.
fn find_hidden(place: &Place, at: &[u8], found: &mut Vec<Nested>) -> Result<(), RepoError> {
    let dir = place.sandbox.join(bytes::path(at));
    let status = changes(&dir)?;
    let own = match Inner::checked_out(&dir).held(None, &[]) {
        Ok(held) => held.map(|held| held.what),
        Err(error) => Some(format!("cannot be judged: {error}")),
    };
    let edited = match &own {
        None => edited(place, at, &status)?,
        Some(_) => None,
    };
    let (holds, files) = match (own, edited) {
        (None, Some(files)) if files.is_empty() => return Ok(()),
        (None, _) if !status.ok() => (format!("cannot be judged: {}", status.stderr.trim()), None),
        (Some(own), _) if status.stdout.is_empty() => (own, None),
        (_, files) => ("changes".to_owned(), files),
    };
    let Some(files) = files else {
        return collect(place, at, Kind::Ignored, holds, found);
    };
    let urls = Git::in_dir(&dir).args(["config", "--get-regexp", r"^remote\..*\.url$"]);
    let urls = urls.output()?.text();
    let url = urls.lines().find_map(|line| line.split_once(' '));
    found.push(Nested {
        path: at.to_vec(),
        kind: Kind::Ignored,
        git_dir: None,
        head: resolve(Git::in_dir(&dir), "HEAD")?,
        files,
        holds,
        origin: Some(url.map_or_else(String::new, |(_, url)| shown(url))),
        closed: false,
    });
    Ok(())
}

/// The changed files of a repository, where those are all that changed. Its index tells what was staged,
/// deleted or hidden from git; what it may not read, git passes over.
fn edited(place: &Place, at: &[u8], status: &Output) -> Result<Option<Vec<RelPath>>, RepoError> {
    let dir = place.sandbox.join(bytes::path(at));
    if !status.ok() || passed_over(&dir, &status.stderr) {
        return Ok(None);
    }
    let mut files = Vec::new();
    for record in bytes::split(&status.stdout) {
        let ([b'?', b'?', b' ', path @ ..] | [b' ', b'M' | b'T', b' ', path @ ..]) = record else {
            return Ok(None);
        };
        let path = bytes::below(at, path);
        if path.ends_with(b"/") || place.sandbox.join(bytes::path(&path)).is_dir() {
            return Ok(None);
        }
        files.push(path);
    }
    let index = super::status::index(Git::in_dir(&dir).env("GIT_OPTIONAL_LOCKS", "0"))?;
    let plain = !index.iter().any(|entry| entry.skip || entry.assume);
    Ok((plain || files.is_empty()).then_some(files))
}

/// Adds the repository and those inside it.
fn collect(
    place: &Place,
    path: &[u8],
    kind: Kind,
    holds: String,
    found: &mut Vec<Nested>,
) -> Result<(), RepoError> {
    let dir = place.sandbox.join(bytes::path(path));
    let listed = Git::in_dir(&dir)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output()?;
    let (mut files, mut inner) = (Vec::new(), Vec::new());
    let mut closed = passed_over(&dir, &listed.stderr);
    if listed.ok() {
        for name in bytes::split(&listed.stdout) {
            let full = bytes::below(path, name.strip_suffix(b"/").unwrap_or(name));
            match fs::symlink_metadata(place.sandbox.join(bytes::path(&full))) {
                Ok(meta) if meta.is_dir() => inner.push(full),
                Ok(meta) if meta.is_file() || meta.is_symlink() => files.push(full),
                // Tracked there and deleted, or nothing that can be stored (a socket).
                Ok(_) | Err(_) => {}
            }
        }
    } else {
        let found = match walk(&dir, false) {
            Err(_) if kind == Kind::Ignored => {
                closed = true;
                Vec::new()
            }
            found => found?,
        };
        files.extend(found.iter().map(|name| bytes::below(path, name)));
    }
    files.sort();
    files.dedup();
    if files.is_empty() && fs::symlink_metadata(dir.join(".git")).is_err() {
        // A submodule of a submodule that is not checked out.
        return Ok(());
    }
    found.push(Nested {
        path: path.to_vec(),
        kind,
        git_dir: git_dir(place, &dir),
        head: resolve(Git::in_dir(&dir), "HEAD").unwrap_or_default(),
        files,
        holds,
        origin: None,
        closed,
    });
    for path in inner {
        let kind = match kind {
            Kind::Ignored | Kind::Left => kind,
            Kind::Submodule | Kind::Untracked => Kind::Untracked,
        };
        collect(place, &path, kind, "its own repository".to_owned(), found)?;
    }
    Ok(())
}

/// Whether git says that it has passed over a directory which the agent has closed.
fn passed_over(dir: &Path, stderr: &str) -> bool {
    let warnings = stderr
        .lines()
        .filter(|line| line.contains("could not open directory"));
    let mut names = warnings.filter_map(|line| line.split('\'').nth(1));
    names.any(|name| {
        let error = io::Error::from(io::ErrorKind::PermissionDenied);
        admin::is_closed(&dir.join(name), &error)
    })
}

/// The git directory of a repository; of a worktree, its administrative directory.
pub(super) fn of_repository(dir: &Path) -> PathBuf {
    linked(dir).unwrap_or_else(|| dir.join(".git"))
}

/// The git directory, if it lies in the sandbox or in its administrative directory: one elsewhere
/// outlives both.
fn git_dir(place: &Place, dir: &Path) -> Option<PathBuf> {
    let own = dir.join(".git");
    if fs::symlink_metadata(&own).ok()?.is_dir() {
        return Some(own);
    }
    let target = linked(dir)?;
    let home = fs::canonicalize(&place.sandbox).ok()?;
    let admin = fs::canonicalize(&place.admin).ok()?;
    (target.starts_with(home) || target.starts_with(admin)).then_some(target)
}

/// Every regular file and link below the directory, relative and sorted. With `all`, those in
/// `.git` directories too.
pub(super) fn walk(dir: &Path, all: bool) -> Result<Vec<RelPath>, RepoError> {
    let mut files = Vec::new();
    let mut open: Vec<RelPath> = vec![Vec::new()];
    while let Some(below) = open.pop() {
        let here = dir.join(bytes::path(&below));
        let fail = |error: std::io::Error| super::admin::failed("cannot list", &here, &error);
        for entry in fs::read_dir(&here).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = bytes::below(&below, bytes::of(Path::new(&entry.file_name())));
            let kind = entry.file_type().map_err(fail)?;
            if kind.is_dir() {
                if all || entry.file_name() != ".git" {
                    open.push(name);
                }
            } else if (kind.is_file() || kind.is_symlink()) && (all || entry.file_name() != ".git")
            {
                files.push(name);
            }
        }
    }
    files.sort();
    Ok(files)
}
