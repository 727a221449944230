//! A digest of a sandbox's state: two measurements with the same digest saw the same content.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::admin::failed;
use super::bytes;
use super::measure::Measured;
use super::nested::{Kind, Nested, walk};
use super::special::IN_PROGRESS;
use crate::ports::repo::RepoError;

/// The digest of what was measured and of the content behind it.
pub(super) fn of(measured: &Measured) -> Result<String, RepoError> {
    let mut hash = Sha256::new();
    let status = &measured.status;
    let head = status.head.as_ref().map_or("", |head| head.as_str());
    part(&mut hash, head.as_bytes());
    part(
        &mut hash,
        status.branch.as_deref().unwrap_or_default().as_bytes(),
    );
    part(&mut hash, &status.raw);
    for entry in &measured.index {
        part(&mut hash, &entry.record(&entry.path, entry.stage));
        part(&mut hash, &[u8::from(entry.skip), u8::from(entry.assume)]);
    }
    for stash in &measured.stashes {
        part(&mut hash, stash.commit.as_str().as_bytes());
    }
    for line in &measured.special {
        part(&mut hash, line.as_bytes());
    }
    let root = &measured.place.sandbox;
    for path in measured.dirty().chain(measured.untracked()) {
        part(&mut hash, path);
        content(&mut hash, &root.join(bytes::path(path)))?;
    }
    for nested in &measured.nested {
        match repository(&mut hash, root, nested) {
            // It holds up nothing but its removal: what cannot be read cannot be saved either.
            Err(error) if nested.kind == Kind::Ignored => {
                part(&mut hash, error.to_string().as_bytes());
            }
            read => read?,
        }
    }
    for (name, _) in IN_PROGRESS {
        in_progress(&mut hash, &measured.place.admin.join(name))?;
    }
    Ok(hex(&hash.finalize()))
}

fn repository(hash: &mut Sha256, root: &Path, nested: &Nested) -> Result<(), RepoError> {
    part(hash, &nested.path);
    for file in &nested.files {
        part(hash, file);
        content(hash, &root.join(bytes::path(file)))?;
    }
    match &nested.git_dir {
        Some(git_dir) => stamps(hash, git_dir),
        None => Ok(()),
    }
}

/// The digest of one file's mode and bytes, or of a link's target.
pub(super) fn of_file(path: &Path) -> Result<String, RepoError> {
    let mut hash = Sha256::new();
    content(&mut hash, path)?;
    Ok(hex(&hash.finalize()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds one part, with its length, so that parts cannot run into each other.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// Adds what lies at the path: nothing, a link's target, a file's mode and bytes.
fn content(hash: &mut Sha256, path: &Path) -> Result<(), RepoError> {
    let fail = |error: std::io::Error| failed("cannot read", path, &error);
    let meta = match fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            part(hash, b"absent");
            return Ok(());
        }
        // A file took the place of one of its directories.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            part(hash, b"absent");
            return Ok(());
        }
        Err(error) => return Err(fail(error)),
    };
    if meta.is_symlink() {
        part(hash, b"link");
        part(hash, bytes::of(&fs::read_link(path).map_err(fail)?));
    } else if meta.is_file() {
        part(
            hash,
            if meta.mode() & 0o111 == 0 {
                b"file"
            } else {
                b"exec"
            },
        );
        let mut file = fs::File::open(path).map_err(fail)?;
        let mut buffer = vec![0; 64 * 1024];
        let mut total = 0_u64;
        loop {
            let read = file.read(&mut buffer).map_err(fail)?;
            if read == 0 {
                break;
            }
            total += read as u64;
            hash.update(&buffer[..read]);
        }
        hash.update(total.to_le_bytes());
    } else {
        part(hash, b"other");
    }
    Ok(())
}

/// Adds name, size and time of every file: enough to notice a change in a git directory, whose
/// content may be large.
fn stamps(hash: &mut Sha256, dir: &Path) -> Result<(), RepoError> {
    for file in walk(dir, true)? {
        part(hash, &file);
        if let Ok(meta) = fs::symlink_metadata(dir.join(bytes::path(&file))) {
            part(
                hash,
                format!("{} {}.{}", meta.len(), meta.mtime(), meta.mtime_nsec()).as_bytes(),
            );
        }
    }
    Ok(())
}

/// Adds the state of an operation in progress, a file or a directory.
fn in_progress(hash: &mut Sha256, path: &Path) -> Result<(), RepoError> {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    if !is_dir {
        return content(hash, path);
    }
    for file in walk(path, true)? {
        part(hash, &file);
        content(hash, &path.join(bytes::path(&file)))?;
    }
    Ok(())
}
