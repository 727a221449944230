//! The user's pre-push hook, for the user's own policies and for the upload of git-lfs files. A push of the
//! supervisor runs it as a push of the user would. No other hook ever runs here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::admin::{At, common_dir, failed};
use super::checkouts;
use super::command::Git;
use super::config_text::{self, Listed};
use super::entry_links::git_dir;
use super::rig::{GitRepo, locked};
use super::written::Written;
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
        checkouts::look(checkout);
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
    let Some(dir) = dir else { return Ok(None) };
    let hook = dir.join("pre-push");
    // The hook may be a link to a tracked file.
    if written.has(&hook) {
        // The disk of another rig may hang.
        let is_hook = || is_program(&hook).unwrap_or_default();
        if checkouts::is_of_another(repo.source().path(), &hook) || is_hook() {
            tell_left_out(repo, &hook);
        }
        return Ok(None);
    }
    Ok(is_program(&hook)?.then_some(dir))
}

/// Tells people once that a hook of theirs does not run.
fn tell_left_out(repo: &GitRepo, hook: &Path) {
    let mut told = locked(&repo.state.hook_left_out);
    if told.as_deref() != Some(hook) {
        tracing::warn!(rig = %repo.name(), hook = %hook.display(), "pushes of the supervisor do not run this pre-push hook: agents write it, or change it with their work (docs/guide/custody.md)");
        *told = Some(hook.to_owned());
    }
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

/// Returns whether a program is there that git would run.
///
/// # Errors
/// Those of the disk. git passes over a hook that is not there or that it may not reach.
fn is_program(path: &Path) -> Result<bool, RepoError> {
    const NO_HOOK: [Errno; 4] = [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::LOOP];
    match fs::metadata(path) {
        Ok(found) => Ok(found.is_file() && found.permissions().mode() & 0o111 != 0),
        Err(error)
            if NO_HOOK
                .map(Errno::raw_os_error)
                .map(Some)
                .contains(&error.raw_os_error()) =>
        {
            Ok(false)
        }
        Err(error) => Err(failed("cannot look at", path, &error)),
    }
}
