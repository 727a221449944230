//! The attributes of a tree for a git that cannot read them there (before 2.41): a directory with its
//! `.gitattributes` files, which git takes for the work tree.

use std::fs;
use std::path::{Component, Path};

use tempfile::TempDir;

use crate::adapters::git::bytes;
use crate::adapters::git::command::Git;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

const NAME: &str = ".gitattributes";

/// Makes the directory, which is removed when dropped.
///
/// # Errors
/// [`RepoError`]: git failed, or the directory cannot be written.
pub(super) fn directory(git: impl Fn() -> Git, tree: &Oid) -> Result<TempDir, RepoError> {
    let fail = |error: std::io::Error| {
        RepoError::Failed(format!("attributes cannot be prepared for git: {error}"))
    };
    let dir = tempfile::tempdir().map_err(fail)?;
    let listed = git().args(["ls-tree", "-r", "-z", tree.as_str()]).run()?;
    for entry in listed.stdout.split(|byte| *byte == 0) {
        let Some((id, path)) = attributes(entry) else {
            continue;
        };
        let to = dir.path().join(path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).map_err(fail)?;
        }
        let content = git().args(["cat-file", "blob", &id]).run()?.stdout;
        fs::write(to, content).map_err(fail)?;
    }
    Ok(dir)
}

/// Returns the blob and the path of an entry that is an attributes file: `100644 blob <id>\t<path>`.
fn attributes(entry: &[u8]) -> Option<(String, &Path)> {
    let tab = entry.iter().position(|byte| *byte == b'\t')?;
    let (head, path) = (std::str::from_utf8(&entry[..tab]).ok()?, &entry[tab + 1..]);
    let path = bytes::path(path);
    let mut words = head.split(' ');
    let is_file = words.next()?.starts_with("100");
    let id = words.nth(1)?.to_owned();
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_file && is_below && path.file_name()? == NAME).then_some((id, path))
}
