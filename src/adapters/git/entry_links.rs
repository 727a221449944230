//! The links between a sandbox and its administrative directory in `repo.git/worktrees`. An agent can write anything into
//! both.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use super::admin::{
    At, entries, failed, home, is_closed, is_nothing, is_passing, is_strange, line,
};
use super::bytes::{self, RelPath};
use super::real_paths::RealPaths;
use super::rig::GitRepo;
use crate::ports::repo::RepoError;

/// A sandbox whose links were followed and found correct.
#[derive(Debug, Clone)]
pub(super) struct SandboxAdmin {
    /// `repo.git/worktrees/<id>`.
    pub(super) admin: PathBuf,
}

/// Follows the sandbox's `.git` link and makes sure that it leads into this rig's `repo.git` and back.
pub(super) fn locate(repo: &GitRepo, sandbox: &Path) -> Result<SandboxAdmin, RepoError> {
    match fs::symlink_metadata(sandbox) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(broken(sandbox, "it is not a directory")),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let what = format!("the sandbox {}", sandbox.display());
            return Err(RepoError::NotFound(what));
        }
        Err(error) => return Err(failed("cannot read", sandbox, &error)),
    }
    let admin = linked(sandbox).ok_or_else(|| broken(sandbox, "its .git link is broken"))?;
    if admin.parent() != home(repo).as_deref() {
        return Err(broken(sandbox, "its .git link leads elsewhere"));
    }
    if !leads_back(&admin, sandbox) {
        return Err(broken(sandbox, "repo.git has it under another path"));
    }
    Ok(SandboxAdmin { admin })
}

fn broken(sandbox: &Path, why: &str) -> RepoError {
    RepoError::Broken {
        sandbox: sandbox.to_owned(),
        why: why.to_owned(),
    }
}

/// Returns the git directory of a checkout; a bare repository is its own.
pub(super) fn git_dir(top: &Path) -> PathBuf {
    let own = top.join(".git");
    match own.is_dir() {
        true => own,
        false => linked(top).unwrap_or_else(|| top.to_owned()),
    }
}

/// Returns true if a path that an agent wrote can name no directory: it is too long, goes around in links, or has a
/// zero byte.
fn is_no_place(error: &io::Error) -> bool {
    let code = error.raw_os_error().map(Errno::from_raw);
    code == Some(Errno::ENAMETOOLONG) || is_strange(error)
}

/// Returns the directory to which the `.git` file of a directory leads, if it exists.
pub(super) fn linked(dir: &Path) -> Option<PathBuf> {
    let target = read_link_file(&dir.join(".git")).ok()??;
    fs::canonicalize(dir.join(target)).ok()
}

/// Returns the path in a `.git` file, as written; none if there is none.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn read_link_file(file: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(dir), Some(name)) = (file.parent(), file.file_name()) else {
        return Ok(None);
    };
    let text = line(dir, Path::new(name))?;
    let target = text
        .as_ref()
        .and_then(|text| text.strip_prefix(b"gitdir: "));
    Ok(target.map(|target| bytes::path(target.trim_ascii_end()).to_owned()))
}

/// Returns true if the administrative directory names this sandbox.
pub(super) fn leads_back(admin: &Path, sandbox: &Path) -> bool {
    let Ok(Some(text)) = line(admin, Path::new("gitdir")) else {
        return false;
    };
    let link = admin.join(bytes::path(text.trim_ascii_end()));
    let (Some(dir), Some(parent)) = (link.parent(), sandbox.parent()) else {
        return false;
    };
    if link.file_name() != Some(".git".as_ref()) || dir.file_name() != sandbox.file_name() {
        return false;
    }
    // The sandbox itself may be gone, but its parent exists.
    let real = |path: &Path| fs::canonicalize(path).ok();
    dir.parent()
        .and_then(real)
        .is_some_and(|found| real(parent) == Some(found))
}

/// Returns the administrative directories that name this sandbox, usually one.
pub(super) fn of_sandbox(repo: &GitRepo, sandbox: &Path) -> Result<Vec<PathBuf>, RepoError> {
    let all = entries(repo)?;
    Ok(all
        .into_iter()
        .filter(|admin| leads_back(admin, sandbox))
        .collect())
}

/// Returns true if the link of another sandbox leads to the administrative directory, whatever the directory itself
/// names.
///
/// # Errors
/// When the system, and not an entry of an agent, keeps that from being found out.
pub(super) fn is_of_another(
    repo: &GitRepo,
    admin: &Path,
    sandbox: &Path,
) -> Result<bool, RepoError> {
    let others = repo.raiders_dir();
    let none_if_strange = |found: io::Result<bool>| match found {
        Err(error) if is_passing(&error) => {
            Err(failed("cannot compare the links of", others, &error))
        }
        found => Ok(found.unwrap_or_default()),
    };
    let compare = || -> io::Result<bool> {
        let real = fs::canonicalize(admin)?;
        for other in fs::read_dir(others)? {
            let other = other?.path();
            let leads_here = || -> io::Result<bool> {
                let target = read_link_file(&other.join(".git"))?;
                let target = target.map(|target| fs::canonicalize(other.join(target)));
                Ok(target.transpose()?.as_ref() == Some(&real))
            };
            match leads_here() {
                Ok(true) if other != sandbox => return Ok(true),
                Err(error) if is_passing(&error) => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(false)
    };
    none_if_strange(compare())
}

/// Returns the worktrees of `repo.git` that the agent made inside the sandbox: their administrative directories, and
/// their paths relative to the sandbox.
pub(super) fn inside(repo: &GitRepo, sandbox: &Path) -> Result<Vec<(PathBuf, RelPath)>, RepoError> {
    let home = fs::canonicalize(sandbox).at("cannot find", sandbox)?;
    let (mut found, mut real) = (Vec::new(), RealPaths::default());
    for admin in entries(repo)? {
        let dir = line(&admin, Path::new("gitdir")).and_then(|text| {
            let text = text.ok_or(ErrorKind::NotFound)?;
            let link = admin.join(bytes::path(text.trim_ascii_end()));
            let dir = link.parent().unwrap_or(&link);
            match real.of(dir) {
                Err(error) if is_closed(dir, &error) => Ok(dir.to_owned()),
                found => found,
            }
        });
        let dir = match dir {
            Ok(dir) => dir,
            // A worktree that is being made or is gone has nothing that could be lost.
            Err(error) if is_nothing(&error) || is_no_place(&error) => continue,
            Err(error) => return Err(failed("cannot follow", &admin, &error)),
        };
        if let Ok(below) = dir.strip_prefix(&home)
            && below != Path::new("")
        {
            found.push((admin, bytes::of(below).to_vec()));
        }
    }
    Ok(found)
}
