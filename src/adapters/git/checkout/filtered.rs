//! The files of a checkout that a filter of the person writes, such as that of git-lfs. A filter may be slow, and may fail.

use std::collections::HashSet;
use std::fs::{self, File};
use std::time::Duration;

use super::super::admin::{At, remove_if_there};
use super::super::bytes;
use super::fast_forward::git;
use super::unfinished::Unfinished;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Returns those of the paths that a filter writes in this commit. The attributes are read from an index, because git reads none from a
/// commit before its version 2.41.
///
/// # Errors
/// When git cannot tell.
pub(super) fn filtered<'p>(
    landing: &Unfinished,
    commit: &Oid,
    paths: impl Iterator<Item = &'p [u8]>,
) -> Result<HashSet<Vec<u8>>, RepoError> {
    let list = paths.flat_map(|path| [path, b"\0"].concat());
    let index = landing.attributes_index();
    let git = || landing.git().env("GIT_INDEX_FILE", &index);
    let read = git().args(["read-tree", commit.as_str()]).run();
    let told = read.and_then(|_| {
        git()
            .args(["check-attr", "--cached", "-z", "--stdin", "filter"])
            .stdin(list.collect::<Vec<u8>>())
            .run()
    });
    remove_if_there(&index)?;
    // `<path> <attribute> <value>`
    let told = told?;
    let told: Vec<&[u8]> = told.stdout.split(|byte| *byte == 0).collect();
    let has_filter = |told: &&[&[u8]]| !matches!(told[2], b"unspecified" | b"unset");
    let filtered = told.chunks_exact(3).filter(has_filter);
    Ok(filtered.map(|told| told[0].to_vec()).collect())
}

/// Returns the paths that are in the index and not on the disk because of a flag: those outside of a sparse checkout.
///
/// # Errors
/// When git cannot list the index.
pub(super) fn not_checked_out(landing: &Unfinished) -> Result<HashSet<Vec<u8>>, RepoError> {
    let worktree = landing.worktree();
    let listed = git(worktree).args(["ls-files", "-t", "-z"]).run()?;
    // `<tag> <path>`
    let flagged = bytes::split(&listed.stdout).filter_map(|line| line.strip_prefix(b"S "));
    let absent = flagged.filter(|path| {
        let path = worktree.join(bytes::path(path));
        fs::symlink_metadata(path).is_err()
    });
    Ok(absent.map(<[u8]>::to_vec).collect())
}

/// Lets git filter the content that a landing gives to a path, and writes it nowhere. git removes a file before it asks the filter, so
/// one that fails must be found before.
///
/// # Errors
/// When a filter that is required fails, or takes longer than the limit.
pub(super) fn rehearse(
    landing: &Unfinished,
    path: &[u8],
    limit: Duration,
) -> Result<(), RepoError> {
    let commit = landing.commits().1;
    let mut name = format!("{commit}:").into_bytes();
    name.extend_from_slice(path);
    let nowhere = File::options().write(true).open("/dev/null");
    let nowhere = nowhere.at("cannot open", "/dev/null".as_ref())?;
    let git = landing
        .git()
        .env("GIT_ATTR_SOURCE", commit.as_str())
        .args(["cat-file", "--filters"])
        .arg(bytes::path(&name))
        .stdout_file(nowhere)
        .limit(limit);
    git.run().map(drop)
}
