//! Repositories inside a sandbox: submodules, clones, `git init` in a subdirectory. The sandbox's
//! own git shows nothing of what they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::admin::{self, Place, linked};
use super::bytes::{self, RelPath};
use super::command::Git;
use super::rig::{GitRepo, oid, resolve};
use super::special;
use super::status::{IndexEntry, Status};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A repository inside the sandbox that holds work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Nested {
    /// Its directory.
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
}

/// How a repository comes to be in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The index has it.
    Submodule,
    /// It lies among the files.
    Untracked,
    /// Ignore rules hide it.
    Ignored,
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
    for link in index.iter().filter(|entry| entry.is_gitlink()) {
        let dir = place.sandbox.join(bytes::path(&link.path));
        if fs::symlink_metadata(dir.join(".git")).is_err() {
            continue;
        }
        let change = status
            .changes
            .iter()
            .find(|change| change.path == link.path);
        let dirty = change.and_then(|change| change.submodule.clone());
        let holds = match dirty {
            Some(dirty) => Some(dirty),
            None => {
                let recorded = recorded(place, base, &link.path)?;
                unpushed(&dir, recorded.as_ref().map(Oid::as_str))?
            }
        };
        if let Some(holds) = holds {
            collect(place, &link.path, Kind::Submodule, holds, &mut found)?;
        }
    }
    for dir in repositories(place, status, index) {
        collect(
            place,
            &dir,
            Kind::Untracked,
            "its own repository".to_owned(),
            &mut found,
        )?;
    }
    for (dir, linked) in ignored(repo, place, status, worktrees)? {
        if found.iter().any(|known| known.path == dir) {
            continue;
        }
        let path = place.sandbox.join(bytes::path(&dir));
        let head = status.head.as_ref().filter(|_| linked);
        if let Some(holds) = unsaved(&path, linked, head)? {
            collect(place, &dir, Kind::Ignored, holds, &mut found)?;
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    Ok(found)
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
/// worktrees of `repo.git` anywhere in the sandbox; true for those.
fn ignored(
    repo: &GitRepo,
    place: &Place,
    status: &Status,
    worktrees: &[RelPath],
) -> Result<BTreeMap<RelPath, bool>, RepoError> {
    let mut found = BTreeMap::new();
    let mut note = |dir: &[u8]| {
        let full = place.sandbox.join(bytes::path(dir));
        if let Some(meta) = there(&full, fs::symlink_metadata(full.join(".git")))? {
            found.insert(dir.to_vec(), !meta.is_dir() && is_of(repo, &full));
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
    let home = fs::canonicalize(repo.repo_dir());
    linked(dir).is_some_and(|admin| home.is_ok_and(|home| admin.starts_with(home)))
}

/// What a repository holds that is nowhere else: changes, an operation in progress, or commits that its remotes do not have. What
/// a worktree of `repo.git` shares with the sandbox's HEAD is judged with the sandbox.
fn unsaved(dir: &Path, linked: bool, head: Option<&Oid>) -> Result<Option<String>, RepoError> {
    let git = || Git::in_dir(dir).env("GIT_OPTIONAL_LOCKS", "0");
    let status = git().args(["status", "--porcelain", "-z", "--untracked-files=all"]);
    let status = status.arg("--ignore-submodules=none").output()?;
    if !status.ok() {
        return Ok(Some(format!("cannot be judged: {}", status.stderr.trim())));
    }
    if !status.stdout.is_empty() {
        return Ok(Some("changes".to_owned()));
    }
    // It may have put changes aside.
    if let Some(line) = special::in_progress(&of_repository(dir)).next() {
        return Ok(Some(line));
    }
    if !linked {
        return unpushed(dir, None);
    }
    // Its branches are everybody's; what is its own is what it has checked out.
    let mut count = git().args(["rev-list", "--count", "HEAD", "--not", "--remotes"]);
    if let Some(head) = head {
        count = count.arg(head.as_str());
    }
    let count = count.output()?;
    if !count.ok() {
        return Ok(Some(format!("cannot be judged: {}", count.stderr.trim())));
    }
    let commits = count.text();
    Ok((commits != "0").then(|| format!("unpushed commits: {commits}")))
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
    let mut files = Vec::new();
    let mut inner = Vec::new();
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
        files = walk(&dir, false)?
            .iter()
            .map(|name| bytes::below(path, name))
            .collect();
    }
    files.sort();
    files.dedup();
    found.push(Nested {
        path: path.to_vec(),
        kind,
        git_dir: git_dir(place, &dir),
        head: resolve(Git::in_dir(&dir), "HEAD").unwrap_or_default(),
        files,
        holds,
    });
    for path in inner {
        let kind = match kind {
            Kind::Ignored => Kind::Ignored,
            Kind::Submodule | Kind::Untracked => Kind::Untracked,
        };
        collect(place, &path, kind, "its own repository".to_owned(), found)?;
    }
    Ok(())
}

/// The git directory of a repository; of a worktree, its administrative directory.
fn of_repository(dir: &Path) -> PathBuf {
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

/// The commit that the sandbox's base records for the submodule: it came from outside.
fn recorded(place: &Place, base: Option<&Oid>, path: &[u8]) -> Result<Option<Oid>, RepoError> {
    let Some(base) = base else { return Ok(None) };
    let output = place
        .git()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-tree", "-z", base.as_str(), "--"])
        .arg(bytes::path(path))
        .run()?;
    // `160000 commit <oid>\t<path>`
    let text = bytes::lossy(&output.stdout);
    let head = text.split('\t').next().unwrap_or_default();
    match head.strip_prefix("160000 commit ") {
        Some(id) => oid(id).map(Some),
        None => Ok(None),
    }
}

/// What a clean repository holds that neither its remotes do nor a commit that is known.
fn unpushed(dir: &Path, known: Option<&str>) -> Result<Option<String>, RepoError> {
    let git = || Git::in_dir(dir).env("GIT_OPTIONAL_LOCKS", "0");
    let count = git().args(["rev-list", "--count", "--ignore-missing"]);
    let count = count.args(["HEAD", "--branches", "--not", "--remotes", "--stdin"]);
    // Where a shallow clone ends is nobody's work; that of a tag has no branch of its remote.
    let shallow = fs::read_to_string(of_repository(dir).join("shallow")).unwrap_or_default();
    let known = known.into_iter().chain(shallow.lines());
    let known: String = known.map(|id| format!("^{id}\n")).collect();
    let output = count.stdin(known).output()?;
    if !output.ok() {
        return Ok(Some(format!("cannot be judged: {}", output.stderr.trim())));
    }
    let commits = output.text();
    if commits != "0" {
        return Ok(Some(format!("unpushed commits: {commits}")));
    }
    if resolve(git(), "refs/stash")?.is_some() {
        return Ok(Some("stash entries".to_owned()));
    }
    let inner = super::status::index(git())?;
    for link in inner.iter().filter(|entry| entry.is_gitlink()) {
        let inside = dir.join(bytes::path(&link.path));
        if fs::symlink_metadata(inside.join(".git")).is_ok()
            && let Some(holds) = unpushed(&inside, Some(link.oid.as_str()))?
        {
            return Ok(Some(format!("{}: {holds}", bytes::lossy(&link.path))));
        }
    }
    Ok(None)
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
