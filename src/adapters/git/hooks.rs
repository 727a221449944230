//! The user's pre-push hook, for the user's own policies and for the upload of git-lfs files. A push of the
//! supervisor runs it as a push of the user would. No other hook ever runs here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::admin::common_dir;
use super::command::Git;
use super::entry_links::git_dir;
use super::rig::GitRepo;
use crate::domain::city::RigSource;
use crate::ports::repo::RepoError;

/// Returns the directory of hooks that a push runs; none if the user has no pre-push hook.
///
/// For a rig with a path it is that of the checkout. A directory in the work tree (`core.hooksPath = .husky`) does
/// not count: its files depend on the commit, and expect to run in the work tree. For a rig with a URL only the
/// user's own configuration can name one.
///
/// # Errors
/// When git cannot be asked.
pub(super) fn of_user(repo: &GitRepo) -> Result<Option<PathBuf>, RepoError> {
    let dir = match repo.source() {
        RigSource::Path(top) => of_checkout(top)?,
        RigSource::Remote(_) => configured(Path::new("/"))?.filter(|dir| dir.is_absolute()),
    };
    Ok(dir.filter(|dir| is_program(&dir.join("pre-push"))))
}

fn of_checkout(top: &Path) -> Result<Option<PathBuf>, RepoError> {
    let git_dir = common_dir(&git_dir(top));
    let dir = match configured(top)? {
        Some(dir) => top.join(dir),
        None => git_dir.join("hooks"),
    };
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let (dir, top, git_dir) = (real(&dir), real(top), real(&git_dir));
    let tracked = dir.starts_with(&top) && !dir.starts_with(&git_dir);
    Ok((!tracked || top == git_dir).then_some(dir))
}

/// Returns `core.hooksPath` as the user set it, without the setting of this process.
fn configured(dir: &Path) -> Result<Option<PathBuf>, RepoError> {
    let asked = Git::in_dir(dir)
        .as_user()
        .args(["config", "--show-scope", "--path", "--get-all"])
        .arg("core.hooksPath")
        .output()?;
    let text = asked.text();
    let mut set = text.lines().filter_map(|line| line.split_once('\t'));
    let last = set.rfind(|(scope, _)| *scope != "command");
    Ok(last.map(|(_, path)| PathBuf::from(path)))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
