//! Files that configure the harness of one session: beside its prompt, or in its sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{at, write_whole};
use crate::ports::tasks::TaskError;
use crate::regular;

/// Marks a file in a sandbox as one that was written here.
const OURS: &str = "hook-event";

/// Writes a file into a directory, which is made where it is not there.
pub(super) fn write_beside(dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError> {
    let path = dir.join(name);
    let parent = path.parent().unwrap_or(dir);
    fs::create_dir_all(parent).map_err(at(parent))?;
    write_whole(&path, text)?;
    Ok(path)
}

/// Writes a file into a sandbox, excluded from git, unless the project has one there.
pub(super) fn write_unless_there(
    sandbox: &Path,
    path: &str,
    text: &str,
) -> Result<bool, TaskError> {
    let file = sandbox.join(path);
    match file.symlink_metadata() {
        Ok(meta) if !meta.is_file() => return Ok(false),
        Ok(_) if !regular::read_text(&file).is_ok_and(|text| text.contains(OURS)) => {
            return Ok(false);
        }
        Ok(_) | Err(_) => {}
    }
    // A link would lead out of the sandbox.
    let parent = file.parent().unwrap_or(sandbox);
    if parent
        .symlink_metadata()
        .is_ok_and(|meta| meta.is_symlink())
    {
        return Ok(false);
    }
    let Some((_, common)) = git_dirs(sandbox) else {
        return Ok(false);
    };
    exclude(&common, &format!("/{path}"))?;
    fs::create_dir_all(parent).map_err(at(parent))?;
    write_whole(&file, text)?;
    Ok(true)
}

/// Excludes files from git by patterns.
pub(super) fn exclude_all(sandbox: &Path, patterns: &[String]) -> Result<(), TaskError> {
    let Some((_, common)) = git_dirs(sandbox) else {
        return Ok(());
    };
    patterns
        .iter()
        .try_for_each(|pattern| exclude(&common, pattern))
}

static EXCLUDING: Mutex<()> = Mutex::new(());

/// Adds a pattern to `info/exclude`.
fn exclude(common: &Path, line: &str) -> Result<(), TaskError> {
    // Two sessions of a repository may start at once.
    let _alone = EXCLUDING.lock().unwrap_or_else(PoisonError::into_inner);
    let file = common.join("info").join("exclude");
    let mut text = match regular::read_text(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(at(&file)(error)),
    };
    if text.lines().any(|have| have == line) {
        return Ok(());
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    let dir = common.join("info");
    fs::create_dir_all(&dir).map_err(at(&dir))?;
    write_whole(&file, &text)
}

/// The directories of git that the `.git` file of a worktree leads to. None where they are not those of one
/// repository, or would not fit into an argument: an agent can write both files.
pub(super) fn git_dirs(sandbox: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = regular::read_text(&sandbox.join(".git")).ok()?;
    let own = PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end());
    let own = match own.is_absolute() {
        true => own,
        false => sandbox.join(own),
    };
    let common = regular::read_text(&own.join("commondir")).ok()?;
    let common = own.join(common.trim_end()).canonicalize().ok()?;
    let inside = own
        .canonicalize()
        .ok()?
        .starts_with(common.join("worktrees"));
    let plain = |path: &Path| {
        let path = path.to_string_lossy();
        !path.contains(|c: char| c.is_control() || "\"'\\".contains(c))
    };
    (inside && plain(&own) && plain(&common)).then_some((own, common))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_the_project_is_never_overwritten_and_ours_is_excluded() {
        let dir = tempfile::tempdir().unwrap();
        let (common, sandbox) = (dir.path().join("repo.git"), dir.path().join("Toast"));
        let own = common.join("worktrees/Toast");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&sandbox).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(sandbox.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        let write = |text: &str| write_unless_there(&sandbox, ".x/settings.json", text).unwrap();
        let read = || fs::read_to_string(sandbox.join(".x/settings.json")).unwrap();
        assert!(write("hook-event 1"));
        assert!(write("hook-event 2"), "ours is renewed");
        assert_eq!(read(), "hook-event 2");
        let excluded = fs::read_to_string(common.join("info/exclude")).unwrap();
        assert_eq!(excluded, "/.x/settings.json\n");
        let droppings = [".aider*".to_owned()];
        exclude_all(&sandbox, &droppings).unwrap();
        exclude_all(&sandbox, &droppings).unwrap();
        let excluded = fs::read_to_string(common.join("info/exclude")).unwrap();
        assert_eq!(excluded, "/.x/settings.json\n.aider*\n");
        fs::write(sandbox.join(".x/settings.json"), "theirs").unwrap();
        assert!(!write("hook-event 3"));
        assert_eq!(read(), "theirs");
        let real = common.canonicalize().unwrap();
        assert_eq!(git_dirs(&sandbox), Some((own, real)));
        fs::remove_dir_all(sandbox.join(".x")).unwrap();
        std::os::unix::fs::symlink(dir.path(), sandbox.join(".x")).unwrap();
        assert!(!write("hook-event 4"), "a link leads out of the sandbox");
    }

    /// Both files are in reach of the agent, and what they name becomes an argument of its next session.
    #[test]
    fn directories_of_git_that_an_agent_made_up_are_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let sandbox = dir.path().join("Toast");
        let made = |common: &str, commondir: &str| {
            let own = dir.path().join(common).join("worktrees/Toast");
            fs::create_dir_all(&own).unwrap();
            fs::create_dir_all(&sandbox).unwrap();
            fs::write(own.join("commondir"), commondir).unwrap();
            fs::write(sandbox.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
            git_dirs(&sandbox)
        };
        assert!(made("repo.git", "../..\n").is_some());
        assert_eq!(made("elsewhere.git", "../../../repo.git\n"), None);
        assert_eq!(made("a\",\"b.git", "../..\n"), None);
    }
}
