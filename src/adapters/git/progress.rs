//! Marks of activity in a sandbox, to compare with earlier ones. They show that work goes on, but not which; nothing
//! is ever removed because of them.

use std::fmt::Write as _;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::admin::{At, failed, line};
use super::digest::hex;
use super::entry_links::locate;
use super::files::text::encode;
use super::rig::GitRepo;
use super::{bytes, measure};
use crate::ports::repo::RepoError;

/// The files that git writes when HEAD moves, or when something is staged.
const WRITTEN: &[&str] = &["HEAD", "logs/HEAD", "index"];

/// Returns a mark of HEAD, reflog and index: their paths, lengths and times.
pub(super) fn progress(repo: &GitRepo, sandbox: &Path) -> Result<String, RepoError> {
    // Every patrol calls this.
    super::settings::keep(repo);
    super::revive::check(repo, sandbox);
    super::ref_lock::clear_shared(repo);
    super::stash_watch::watch(repo);
    super::stash::keep(repo);
    let place = locate(repo, sandbox)?;
    let mut mark = String::new();
    for name in WRITTEN {
        stamp(&mut mark, &place.admin.join(name))?;
    }
    // A repository may keep no reflogs: then only the branch itself shows an empty commit.
    let head = line(&place.admin, Path::new("HEAD"));
    let head = head.at("cannot read the HEAD of", &place.admin)?;
    let head = String::from_utf8(head.unwrap_or_default()).unwrap_or_default();
    if let Some(branch) = head.trim_end().strip_prefix("ref: ") {
        stamp(&mut mark, &repo.theirs().join(branch))?;
    }
    Ok(mark)
}

/// Returns a mark of the uncommitted changes, with the stamps of the changed files, so that a further edit is seen.
pub(super) fn changes(repo: &GitRepo, sandbox: &Path) -> Result<String, RepoError> {
    let (_, files) = measure::glance(repo, sandbox)?;
    let mut mark = String::new();
    for path in files.dirty.iter().chain(&files.untracked) {
        // Writing to a string cannot fail.
        let _written = writeln!(mark, "{}", encode(path));
        stamp(&mut mark, &sandbox.join(bytes::path(path)))?;
    }
    for path in &files.staged {
        let _written = writeln!(mark, "staged {}", encode(path));
    }
    Ok(hex(&Sha256::digest(mark)))
}

fn stamp(mark: &mut String, path: &Path) -> Result<(), RepoError> {
    let text = match fs::symlink_metadata(path) {
        Ok(found) => fingerprint(&found),
        Err(error) if error.kind() == ErrorKind::NotFound => "-".to_owned(),
        Err(error) => return Err(failed("cannot inspect", path, &error)),
    };
    // Writing to a string cannot fail.
    let _written = writeln!(mark, "{text}");
    Ok(())
}

fn fingerprint(found: &Metadata) -> String {
    let (inode, length) = (found.ino(), found.len());
    format!("{inode} {length} {}.{}", found.mtime(), found.mtime_nsec())
}
