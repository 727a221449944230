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
use super::written::{self, Written};
use crate::domain::city::RigSource;
use crate::ports::repo::RepoError;

/// Returns the directory of hooks that a push runs; none if the user has no pre-push hook.
///
/// For a rig with a path it is that of the checkout. A directory in the work tree (`core.hooksPath = .husky`) does not count: its
/// files depend on the commit, and expect to run in the work tree. Nor does one below the rig's directory, where agents write. For
/// a rig with a URL only the user's own configuration can name one.
///
/// # Errors
/// When git cannot be asked.
pub(super) fn of_user(repo: &GitRepo) -> Result<Option<PathBuf>, RepoError> {
    if let RigSource::Path(checkout) = repo.source() {
        written::look(checkout);
    }
    let written = Written::of(repo.rig_dir());
    let dir = match repo.source() {
        RigSource::Path(named) => {
            let top = named.canonicalize().at("cannot find", named)?;
            let own = || common_dir(&git_dir(named)).join("hooks");
            let set = configured(&top, &written)?;
            Some(set.map_or_else(own, |dir| top.join(dir)))
        }
        RigSource::Remote(_) => {
            let top = Path::new("/");
            configured(top, &written)?.filter(|dir| dir.is_absolute())
        }
    };
    // The hook may be a link to a tracked file.
    let is_users = |dir: &PathBuf| {
        let hook = dir.join("pre-push");
        !written.has(&hook) && is_program(&hook)
    };
    Ok(dir.filter(is_users))
}

/// Returns `core.hooksPath` as the user set it, without the setting of this process, and without those in files that agents write.
fn configured(dir: &Path, written: &Written) -> Result<Option<PathBuf>, RepoError> {
    let asked = |dir: &Path| -> Result<Vec<Listed>, RepoError> {
        let asked = Git::in_dir(dir)
            .as_user()
            .args(["config", "--show-scope", "--show-origin", "-z"])
            .args(["--path", "--get-all", "core.hooksPath"]);
        let output = asked.output()?;
        // 1 is: not set.
        if !matches!(output.code, Some(0 | 1)) {
            let why = output.stderr.trim();
            return Err(RepoError::Failed(format!(
                "git config core.hooksPath: {why}"
            )));
        }
        let mut set = config_text::with_files(&output.stdout, dir);
        set.retain(|it| it.scope != "command");
        Ok(set)
    };
    let mut set = asked(dir)?;
    if set.iter().any(|it| written.has(&it.file)) {
        let everywhere = asked(Path::new("/"))?;
        set.retain(|it| !written.has(&it.file) || everywhere.contains(it));
    }
    Ok(set.pop().map(|it| PathBuf::from(it.setting.0)))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
