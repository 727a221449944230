//! Stale locks that a killed git left in the supervisor's repository. git never removes them, and every later command
//! on the same file fails.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::command::CHECKOUT;
use crate::adapters::proc;

/// The age above which a lock is stale: the longest timeout of a command of the supervisor that takes locks.
pub(super) const STALE: Duration = CHECKOUT;

/// git's message about a lock that is taken.
const TAKEN: &str = "Unable to create '";

/// Removes the lock that a command failed on if it is stale: it is older than any command may run, and every git
/// process that works here began after it. Returns true if the command may be retried.
pub(super) fn clear_stale(repo: &Path, said: &str) -> bool {
    let Some(lock) = named(said).filter(|lock| is_inside(repo, lock)) else {
        return false;
    };
    let found = fs::symlink_metadata(&lock).ok();
    let written = found.filter(fs::Metadata::is_file);
    let Some(written) = written.and_then(|found| found.modified().ok()) else {
        // It is gone already, or is not a lock.
        return !lock.exists();
    };
    let age = SystemTime::now().duration_since(written);
    let Ok(age) = age
        .map_err(drop)
        .and_then(|age| (age > STALE).then_some(age).ok_or(()))
    else {
        return false;
    };
    if is_worked_on(repo, age) {
        return false;
    }
    tracing::warn!(lock = %lock.display(), ?age, "stale lock of a killed git: it is removed and the command is retried");
    fs::remove_file(&lock).is_ok()
}

/// Returns the lock that git's message names.
fn named(said: &str) -> Option<PathBuf> {
    let rest = &said[said.find(TAKEN)? + TAKEN.len()..];
    let path = Path::new(&rest[..rest.find("': File exists")?]);
    path.extension()
        .is_some_and(|extension| extension == "lock")
        .then(|| path.to_owned())
}

fn is_inside(repo: &Path, lock: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    match (real(repo), lock.parent().and_then(real)) {
        (Some(repo), Some(parent)) => parent.starts_with(repo),
        _ => false,
    }
}

/// Returns true if a git process works in the directory that may have taken a lock of this age. Returns true in doubt.
pub(super) fn is_worked_on(repo: &Path, age: Duration) -> bool {
    let (Ok(repo), Ok(all)) = (repo.canonicalize(), proc::all()) else {
        return true;
    };
    all.into_iter()
        .filter(|(pid, stat)| stat.lives() && works_in(*pid, &repo))
        .any(|(_, stat)| proc::age(&stat) + Duration::from_secs(1) >= age)
}

/// Returns true if a process is a git that works in a directory, given by its real path.
pub(super) fn works_in(pid: u32, repo: &Path) -> bool {
    let place = PathBuf::from(format!("/proc/{pid}"));
    let name = fs::read_to_string(place.join("comm")).unwrap_or_default();
    if !name.starts_with("git") {
        return false;
    }
    let here = match fs::read_link(place.join("cwd")) {
        Ok(dir) => dir.starts_with(repo),
        // Another user's git, as in a container, may work here.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => name.trim_end() == "git",
        Err(_) => false,
    };
    let named = proc::environment_value(pid, "GIT_DIR");
    // `--git-dir` is in its arguments, and in no environment but those of its children.
    let told = fs::read(place.join("cmdline")).unwrap_or_default();
    let is_told = || contains(&told, repo.as_os_str().as_bytes());
    here || named.is_some_and(|dir| Path::new(&dir).starts_with(repo)) || is_told()
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_of_the_repository_alone_is_named() {
        let dir = crate::testing::scratch();
        let (repo, outside) = (dir.path().join("repo"), dir.path().join("x.lock"));
        fs::create_dir(&repo).unwrap();
        let old = SystemTime::now() - STALE - Duration::from_secs(60);
        let lock = |path: &Path, at: SystemTime| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(at).unwrap();
            clear_stale(
                &repo,
                &format!("fatal: Unable to create '{}': File exists.", path.display()),
            )
        };
        assert!(!lock(&outside, old));
        assert!(!lock(&repo.join("index"), old), "it is no lock");
        assert!(
            !lock(&repo.join("a.lock"), SystemTime::now()),
            "it is young"
        );
        assert!(lock(&repo.join("a.lock"), old));
        assert!(!repo.join("a.lock").exists());
        assert!(!clear_stale(&repo, "fatal: something else"));
    }
}
