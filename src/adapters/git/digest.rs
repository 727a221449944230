//! A digest of a sandbox's state: two measurements with the same digest saw the same content.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::admin::{At, failed};
use super::bytes;
use super::files::compare::Item;
use super::files::hash::{READ_AT_ONCE, drain};
use super::files::list::list;
use super::files::open::Root;
use super::files::walk::{Entry, Kind};
use super::inner::Home;
use super::measure::Measured;
use super::other_work::IN_PROGRESS;
use crate::adapters::beneath;
use crate::ports::repo::RepoError;

/// Returns the digest of a measurement and of the content that it refers to.
pub(super) fn of(measured: &Measured) -> Result<String, RepoError> {
    let mut hash = Sha256::new();
    let ground = &measured.ground;
    let head = ground.head.as_ref().map_or("", |head| head.as_str());
    part(&mut hash, head.as_bytes());
    part(
        &mut hash,
        ground.branch.as_deref().unwrap_or_default().as_bytes(),
    );
    part(&mut hash, &measured.index.digest);
    for stash in &measured.stashes {
        part(&mut hash, stash.commit.as_str().as_bytes());
    }
    for commit in &measured.dropped {
        part(&mut hash, commit.as_str().as_bytes());
    }
    for line in &measured.other_work {
        part(&mut hash, line.as_bytes());
    }
    let changed = measured.dirty().chain(measured.untracked());
    let beside = measured.files.converted.iter().chain(&measured.inner.shown);
    for path in changed.chain(beside) {
        part(&mut hash, path);
        let items = &measured.files.items;
        match items.binary_search_by(|item| item.entry.path.cmp(path)) {
            Ok(at) => item(&mut hash, &items[at]),
            Err(_) => part(&mut hash, b"absent"),
        }
    }
    for (home, more) in &measured.inner.more {
        part(&mut hash, &more.entry.path);
        let is_git = super::files::walk::has_part(&more.entry.path);
        let own = *home == Home::Sandbox && !is_git;
        part(&mut hash, if own { b"file" } else { b"git" });
        item(&mut hash, more);
    }
    if let Some(admin) = &ground.admin {
        for (name, _) in IN_PROGRESS {
            in_progress(&mut hash, admin, name)?;
        }
    }
    Ok(hex(&hash.finalize()))
}

fn item(hash: &mut Sha256, item: &Item) {
    let kind: &[u8] = match item.entry.kind {
        Kind::File => b"file",
        Kind::Link => b"link",
        Kind::Dir => b"directory",
        Kind::Other => b"other",
    };
    part(hash, kind);
    part(hash, &item.entry.stamp.mode.to_le_bytes());
    let id = item.id.as_ref().map_or("", |id| id.as_str());
    part(hash, id.as_bytes());
}

/// Returns the digest of a file's mode and bytes, or of a link's target.
pub(super) fn of_file(path: &Path) -> Result<String, RepoError> {
    let fail = |error: io::Error| failed("cannot read", path, &error);
    let meta = fs::symlink_metadata(path).map_err(fail)?;
    if meta.is_symlink() {
        return Ok(of_link(bytes::of(&fs::read_link(path).map_err(fail)?)));
    }
    // An agent may have put a pipe there, which must not block.
    let (dir, name) = (path.parent(), path.file_name());
    let name = Path::new(name.unwrap_or_default());
    let file = beneath::open(dir.unwrap_or(Path::new("/")), name).map_err(fail)?;
    let file = file.ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    content(file, meta.mode() & 0o111 != 0).map_err(fail)
}

/// Returns the same digest for an entry of a sandbox.
pub(super) fn of_entry(root: &Root, entry: &Entry) -> io::Result<String> {
    match entry.kind {
        Kind::Link => Ok(of_link(&root.link(&entry.path)?)),
        _ => content(root.file(&entry.path)?, entry.stamp.mode & 0o111 != 0),
    }
}

fn of_link(to: &[u8]) -> String {
    let mut hash = Sha256::new();
    part(&mut hash, b"link");
    part(&mut hash, to);
    hex(&hash.finalize())
}

fn content(mut file: fs::File, exec: bool) -> io::Result<String> {
    let mut hash = Sha256::new();
    part(&mut hash, if exec { b"exec" } else { b"file" });
    let total = drain(&mut file, READ_AT_ONCE, |part| {
        hash.update(part);
        Ok(())
    })?;
    hash.update(total.to_le_bytes());
    Ok(hex(&hash.finalize()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    super::files::hash::hex(bytes)
}

/// Adds one part with its length, so that parts cannot run into each other.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// Adds the state of an operation in progress, a file or a directory.
fn in_progress(hash: &mut Sha256, admin: &Path, name: &str) -> Result<(), RepoError> {
    let root = Root::open(admin).at("cannot read", &admin.join(name))?;
    let Ok(meta) = fs::symlink_metadata(admin.join(name)) else {
        return Ok(());
    };
    let files = match meta.is_dir() {
        true => list(&admin.join(name), true)?,
        false => vec![Vec::new()],
    };
    for file in files {
        part(hash, &file);
        let path = match file.is_empty() {
            true => name.as_bytes().to_vec(),
            false => bytes::below(name.as_bytes(), &file),
        };
        match root.file(&path).and_then(|file| content(file, false)) {
            Ok(digest) => part(hash, digest.as_bytes()),
            Err(_) => part(hash, b"other"),
        }
    }
    Ok(())
}
