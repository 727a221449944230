//! Lists the files below a directory, by name only.

use std::path::Path;

use super::super::admin::failed;
use super::super::bytes::RelPath;
use super::open::Root;
use super::walk::{All, Kind, has_part, walk};
use crate::ports::repo::RepoError;

/// Lists every regular file and link below the directory, relative and sorted. With `all`, includes those in `.git`
/// directories.
///
/// # Errors
/// When something in it cannot be read.
pub(in super::super) fn list(dir: &Path, all: bool) -> Result<Vec<RelPath>, RepoError> {
    let fail = |error: std::io::Error| failed("cannot list", dir, &error);
    let root = Root::open(dir).map_err(fail)?;
    let walked = walk(&root, &mut All).map_err(fail)?;
    if let Some(closed) = walked.closed.first() {
        return Err(fail(std::io::Error::other(closed.why.clone())));
    }
    let entries = walked.entries.into_iter();
    let files = entries.filter(|entry| matches!(entry.kind, Kind::File | Kind::Link));
    let paths = files.map(|entry| entry.path);
    Ok(paths.filter(|path| all || !has_part(path)).collect())
}
