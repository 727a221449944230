//! Files that git-lfs keeps beside the repository. A push uploads them from there, so the files that an agent
//! committed are copied along, each only if digest and length match its pointer.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::admin::At;
use super::command::Git;
use super::digest::hex;
use super::files::hash::{READ_AT_ONCE, drain};
use super::object_copy::looked_up;
use super::rig::GitRepo;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The largest size of a pointer.
const POINTER_MAX: usize = 1024;
/// The store in a repository.
const STORE: &str = "lfs/objects";
const VERSION: &str = "version https://git-lfs.github.com/spec/v1\n";

/// The file that a pointer names.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Pointer {
    /// Its SHA-256.
    pub(super) digest: String,
    pub(super) size: u64,
}

/// Copies the files that commits of `head` point to, and that no remote has, from one repository's store to
/// another's. A missing file was uploaded before, or the upload will report it.
///
/// # Errors
/// When git cannot list the objects of `head`, or a file cannot be written.
pub(super) fn bring(theirs: &Path, ours: &Path, head: &Oid) -> Result<(), RepoError> {
    let store = theirs.join(STORE);
    if theirs == ours || !store.is_dir() {
        return Ok(());
    }
    carry(&store, ours, &pointers(ours, head)?)
}

/// Copies the files that commits of `head` point to, and that no remote has, from the store of a person's checkout to the
/// repository of sandboxes, where git-lfs takes them from. Files that the checkout lacks are fetched from the remote.
///
/// # Errors
/// As [`bring`].
pub(super) fn lend(store: &Path, repo: &GitRepo, head: &Oid) -> Result<(), RepoError> {
    match store.is_dir() {
        true => carry(store, repo.theirs(), &pointers(repo.repo_dir(), head)?),
        false => Ok(()),
    }
}

/// Copies the files that are missing from a store to that of a repository. Agents can write to it, so no link is followed.
fn carry(store: &Path, to: &Path, pointers: &HashSet<Pointer>) -> Result<(), RepoError> {
    for pointer in pointers {
        let name = Path::new(STORE).join(below(&pointer.digest));
        let place = to.join(&name);
        if fs::symlink_metadata(&place).is_err() {
            let from = store.join(below(&pointer.digest));
            copy(&from, to, &name, pointer).at("cannot copy", &place)?;
        }
    }
    Ok(())
}

/// Returns the path of a digest's file in a store.
fn below(digest: &str) -> PathBuf {
    Path::new(&digest[..2]).join(&digest[2..4]).join(digest)
}

/// Returns true if the store of ours has the file. Its digest was verified when it was copied.
pub(super) fn is_stored(ours: &Path, pointer: &Pointer) -> bool {
    let found = fs::symlink_metadata(ours.join(STORE).join(below(&pointer.digest)));
    found.is_ok_and(|found| found.is_file() && found.len() == pointer.size)
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the names of the objects of a commit that others (`--remotes`, or a commit) lack.
///
/// # Errors
/// When git cannot list them.
pub(super) fn beyond(git: Git, head: &Oid, others: &str) -> Result<HashSet<String>, RepoError> {
    let list = git
        .args(["rev-list", "--objects", "--no-object-names", head.as_str()])
        .args(["--not", others])
        .run()?;
    Ok(list.text().lines().map(str::to_owned).collect())
}

/// Returns every pointer in objects that `head` has and no remote.
fn pointers(ours: &Path, head: &Oid) -> Result<HashSet<Pointer>, RepoError> {
    let git = || Git::in_dir(ours);
    let below = beyond(git(), head, "--remotes")?.into_iter();
    let ids: Vec<Oid> = below.filter_map(|name| Oid::new(name).ok()).collect();
    let sized = looked_up(git(), "%(objecttype) %(objectsize)", &ids)?;
    let is_small = |told: &str| {
        let size = told.strip_prefix("blob ").map(str::parse::<usize>);
        matches!(size, Some(Ok(size)) if size <= POINTER_MAX)
    };
    let small = sized
        .iter()
        .filter(|it| it.1.as_deref().is_some_and(is_small));
    let small: String = small.map(|(id, _)| format!("{id}\n")).collect();
    let read = git().args(["cat-file", "--batch"]).stdin(small).run()?;
    let text = String::from_utf8_lossy(&read.stdout);
    Ok(text.split(VERSION).skip(1).filter_map(parse).collect())
}

/// Parses a blob that is a pointer.
pub(super) fn pointer(blob: &[u8]) -> Option<Pointer> {
    let text = std::str::from_utf8(blob).ok()?;
    let text = text.strip_prefix(VERSION)?;
    (blob.len() <= POINTER_MAX).then(|| parse(text)).flatten()
}

/// Parses the lines after the version, in any order.
fn parse(text: &str) -> Option<Pointer> {
    let value = |key: &str| {
        let mut lines = text.lines().take(8);
        lines.find_map(|line| line.strip_prefix(key))
    };
    let digest = value("oid sha256:")?;
    Some(Pointer {
        digest: is_digest(digest).then(|| digest.to_owned())?,
        size: value("size ")?.parse().ok()?,
    })
}

/// Copies a regular file of that length and digest; skips any other, and a missing one.
fn copy(from: &Path, root: &Path, name: &Path, pointer: &Pointer) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(from);
    let Ok(file) = opened else { return Ok(()) };
    let found = file.metadata()?;
    if !found.is_file() || found.len() != pointer.size {
        return Ok(());
    }
    beneath::make_dirs(root, name.parent().unwrap_or(name))?;
    let part = name.with_extension("part");
    let written = write(file.take(pointer.size), beneath::create_anew(root, &part)?)?;
    match written == pointer.digest {
        true => beneath::rename(root, &part, name),
        false => beneath::remove(root, &part),
    }
}

/// Writes the file and returns its digest.
fn write(mut from: impl Read, mut file: File) -> io::Result<String> {
    let mut digest = Sha256::new();
    drain(&mut from, READ_AT_ONCE, |part| {
        digest.update(part);
        file.write_all(part)
    })?;
    file.sync_all()?;
    Ok(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::git::rig::oid;

    fn pointing(content: &str) -> (Pointer, String) {
        let digest = hex(&Sha256::digest(content));
        let size = content.len() as u64;
        let text = format!("{VERSION}oid sha256:{digest}\nsize {size}\n");
        (Pointer { digest, size }, text)
    }

    #[test]
    fn pointer_names_its_file() {
        let (file, text) = pointing("picture");
        assert_eq!(pointer(text.as_bytes()), Some(file));
        let long = text + &" ".repeat(POINTER_MAX);
        for other in ["version 1\noid sha256:1\nsize 2\n", &long] {
            assert_eq!(pointer(other.as_bytes()), None);
        }
        assert_eq!(pointer(b"\xff"), None);
    }

    #[test]
    fn files_that_a_commit_points_to_are_copied_as_their_pointers_say() {
        let dir = crate::testing::scratch();
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        fs::create_dir(&ours).unwrap();
        let git = |args: &[&str]| Git::in_dir(&ours).args(args).run().unwrap().text();
        git(&["init", "-q"]);
        let put = |pointer: &Pointer, content: &str| {
            let (one, two) = (&pointer.digest[..2], &pointer.digest[2..4]);
            let place = theirs.join("lfs/objects").join(one).join(two);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join(&pointer.digest), content).unwrap();
            ours.join("lfs/objects")
                .join(one)
                .join(two)
                .join(&pointer.digest)
        };
        let (good, text) = pointing("picture");
        let copied = put(&good, "picture");
        fs::write(ours.join("good"), text).unwrap();
        let (forged, text) = pointing("painting");
        let refused = put(&forged, "paintinG");
        fs::write(ours.join("forged"), text).unwrap();
        let (absent, text) = pointing("elsewhere");
        fs::write(ours.join("absent"), text).unwrap();
        let (link, text) = pointing("secret");
        let linked = put(&link, "secret");
        let place = theirs
            .join("lfs/objects")
            .join(linked.strip_prefix(ours.join("lfs/objects")).unwrap());
        fs::rename(&place, theirs.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(theirs.join("elsewhere"), &place).unwrap();
        fs::write(ours.join("link"), text).unwrap();
        git(&["add", "-A"]);
        let names = ["-c", "user.name=A", "-c", "user.email=a@x"];
        git(&[
            &names[..],
            &["-c", "commit.gpgsign=false", "commit", "-qm", "x"],
        ]
        .concat());
        let head = oid(&git(&["rev-parse", "HEAD"])).unwrap();
        let known = pointers(&ours, &head).unwrap();
        assert_eq!(known, HashSet::from([good, forged, absent, link]));
        bring(&theirs, &ours, &head).unwrap();
        assert_eq!(fs::read(copied).unwrap(), b"picture");
        assert!(!refused.exists() && !linked.exists());
        // A second call changes nothing.
        bring(&theirs, &ours, &head).unwrap();
    }
}
