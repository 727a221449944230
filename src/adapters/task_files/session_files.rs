//! Files that configure the harness of one session: beside its prompt, or in its sandbox.

use std::path::{Path, PathBuf};

use super::{at, make_dir, write_whole};
use crate::adapters::{beneath, exclude};
use crate::ports::tasks::TaskError;

/// The largest file that is read: a longer one is not ours.
const FILE_MAX: u64 = 1024 * 1024;
/// The largest file that names a directory: it is one line.
const LINE_MAX: u64 = 16 * 1024;

/// A mark of the files in a sandbox that were written here.
const OURS: &str = "hook-event";

/// Writes a file into a directory, which is made if needed.
pub(super) fn write_beside(dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError> {
    let path = dir.join(name);
    make_dir(path.parent().unwrap_or(dir))?;
    write_whole(&path, text)?;
    Ok(path)
}

/// Writes a file into a sandbox, excluded from git, unless the project has one of that name.
pub(super) fn write_unless_there(
    sandbox: &Path,
    path: &str,
    text: &str,
) -> Result<bool, TaskError> {
    let file = sandbox.join(path);
    let (root, name) = (sandbox.parent().unwrap_or(sandbox), sandbox.file_name());
    let name = Path::new(name.unwrap_or_default()).join(path);
    match beneath::read_text(root, &name, FILE_MAX) {
        Ok(None) => {}
        Ok(Some(text)) if text.contains(OURS) => {}
        // The project's file, or a path that leads out of the sandbox.
        Ok(Some(_)) | Err(_) => return Ok(false),
    }
    let Some((_, common)) = git_dirs(sandbox) else {
        return Ok(false);
    };
    exclude::add(&common, [format!("/{path}").as_str()])
        .map_err(at(&common.join(exclude::FILE)))?;
    let parent = name.parent().unwrap_or(Path::new(""));
    let written = beneath::make_dirs(root, parent)
        .and_then(|()| beneath::replace_durably(root, &name, text.as_bytes()));
    match written {
        Err(error) if beneath::is_odd(&error) => Ok(false),
        written => written.map(|()| true).map_err(at(&file)),
    }
}

/// Excludes files from git by patterns.
pub(super) fn exclude_all(sandbox: &Path, patterns: &[String]) -> Result<(), TaskError> {
    let Some((_, common)) = git_dirs(sandbox) else {
        return Ok(());
    };
    exclude::add(&common, patterns.iter().map(String::as_str))
        .map_err(at(&common.join(exclude::FILE)))
}

/// Returns the git directories that the `.git` file of a worktree leads to. None if they do not belong to one
/// repository, or would not fit into an argument: an agent can write both files.
pub(super) fn git_dirs(sandbox: &Path) -> Option<(PathBuf, PathBuf)> {
    let line = |dir: &Path, name: &str| beneath::read_text(dir, Path::new(name), LINE_MAX);
    let text = line(sandbox, ".git").ok()??;
    let own = PathBuf::from(text.strip_prefix("gitdir: ")?.trim_end());
    let own = match own.is_absolute() {
        true => own,
        false => sandbox.join(own),
    };
    let common = line(&own, "commondir").ok()??;
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
    use std::fs;

    use super::*;

    #[test]
    fn file_of_the_project_is_never_overwritten_and_ours_is_excluded() {
        let dir = crate::testing::scratch();
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

    /// The agent can write both files, and their content becomes an argument of its next session.
    #[test]
    fn directories_of_git_that_an_agent_made_up_are_not_taken() {
        let dir = crate::testing::scratch();
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
