//! The user's pre-push hook, for the user's own policies and for the upload of git-lfs files. A push of the
//! supervisor runs it as a push of the user would. No other hook ever runs here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::admin::{At, common_dir};
use super::command::Git;
use super::config_text::{self, Listed};
use super::entry_links::git_dir;
use super::rig::GitRepo;
use super::settings_read::Written;
use crate::domain::city::RigSource;
use crate::ports::repo::RepoError;

/// Returns the directory of hooks that a push runs; none if the user has no pre-push hook.
///
/// For a rig with a path it is that of the checkout. A directory in the work tree (`core.hooksPath = .husky`) does
/// not count: its files depend on the commit, and expect to run in the work tree. Nor does one below the rig's directory, where
/// agents write. For a rig with a URL only the
/// user's own configuration can name one.
///
/// # Errors
/// When git cannot be asked.
pub(super) fn of_user(repo: &GitRepo) -> Result<Option<PathBuf>, RepoError> {
    let dir = match repo.source() {
        RigSource::Path(top) => of_checkout(top, repo.rig_dir())?,
        RigSource::Remote(_) => {
            let written = Written::in_rig(repo.rig_dir());
            let dir = configured(Path::new("/"), &written)?;
            dir.filter(|dir| dir.is_absolute() && !written.has(dir))
        }
    };
    Ok(dir.filter(|dir| is_program(&dir.join("pre-push"))))
}

fn of_checkout(top: &Path, rig_dir: &Path) -> Result<Option<PathBuf>, RepoError> {
    let git_dir = common_dir(&git_dir(top));
    let top = top.canonicalize().at("cannot find", top)?;
    let written = Written::of(&top, &git_dir, rig_dir);
    let dir = match configured(&top, &written)? {
        Some(dir) => top.join(dir),
        None => git_dir.join("hooks"),
    };
    Ok((!written.has(&dir)).then_some(dir))
}

/// Returns `core.hooksPath` as the user set it, without the setting of this process, and without those that agents write.
fn configured(dir: &Path, written: &Written) -> Result<Option<PathBuf>, RepoError> {
    let asked = Git::in_dir(dir)
        .as_user()
        .args(["config", "--show-scope", "--show-origin", "-z"])
        .args(["--path", "--get-all", "core.hooksPath"])
        .output()?;
    let set = config_text::with_files(&asked.stdout, dir);
    let is_users = |it: &Listed| it.scope != "command" && !written.has(&it.file);
    let last = set.into_iter().rfind(is_users);
    Ok(last.map(|it| PathBuf::from(it.setting.0)))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
