//! Objects that exist and cannot be opened: their mode or the disk is the cause. git has the same words for them as for
//! damaged and missing ones, so their files are opened here before an object counts as lost.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::admin::failed;
use super::rig::GitRepo;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Checks the files of these objects of theirs, of those that git's message names, and all packs. Gives the owner access
/// to closed files of this user, so that a retry can read them.
///
/// # Errors
/// A file exists and cannot be read.
pub(super) fn check(repo: &GitRepo, ids: &[Oid], told: &str) -> Result<(), RepoError> {
    let objects = repo.theirs().join("objects");
    let named = told.split(|c: char| !c.is_ascii_hexdigit());
    let named = named.filter_map(|word| Oid::new(word).ok());
    let loose: Vec<PathBuf> = named
        .chain(ids.iter().cloned())
        .map(|id| file(&id))
        .collect();
    match first(&objects, &loose) {
        None => Ok(()),
        Some((path, error)) => Err(failed("cannot read", &objects.join(path), &error)),
    }
}

/// Returns the name of a loose object's file.
fn file(id: &Oid) -> PathBuf {
    let (fan, rest) = id.as_str().split_at(2);
    Path::new(fan).join(rest)
}

/// Returns the first of these files, or of the packs, that exists and cannot be read.
fn first(objects: &Path, loose: &[PathBuf]) -> Option<(PathBuf, io::Error)> {
    let listed = fs::read_dir(objects.join("pack")).into_iter().flatten();
    let packs = listed
        .flatten()
        .map(|it| Path::new("pack").join(it.file_name()));
    loose.iter().cloned().chain(packs).find_map(|name| {
        let read = beneath::open(objects, &name).and_then(|file| match file {
            Some(mut file) => file.read(&mut [0]).map(drop),
            None => Ok(()),
        });
        match read {
            Err(error) if is_of_the_machine(&error) => {
                let _opened = beneath::open_up(objects, &name);
                Some((name, error))
            }
            Ok(()) | Err(_) => None,
        }
    })
}

/// Returns false if no file is there, or an object of another type is in the place of the file or of its directory:
/// `share_integrity` sets that aside.
fn is_of_the_machine(error: &io::Error) -> bool {
    let is_link = error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
    let is_absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    !is_link && !is_absent && !beneath::is_odd(error)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use nix::unistd::{Uid, geteuid, setfsuid};

    use super::*;

    /// A container or a `sudo` may write an object that its owner alone can read.
    #[test]
    fn object_that_exists_and_cannot_be_opened_is_not_missing() {
        let dir = crate::testing::scratch();
        let objects = dir.path();
        let (closed, whole) = ("a".repeat(40), "b".repeat(40));
        let names = [&closed, &whole].map(|id| file(&Oid::new(id.clone()).unwrap()));
        fs::set_permissions(objects, fs::Permissions::from_mode(0o755)).unwrap();
        for name in &names {
            fs::create_dir_all(objects.join(name).parent().unwrap()).unwrap();
            fs::write(objects.join(name), "x").unwrap();
        }
        let mode = fs::Permissions::from_mode(0o000);
        fs::set_permissions(objects.join(&names[0]), mode).unwrap();
        assert!(first(objects, &names[1..]).is_none());
        assert!(first(objects, &[file(&Oid::new("c".repeat(40)).unwrap())]).is_none());
        // The superuser opens every file: this thread reads as another user.
        let as_root = geteuid().is_root();
        if as_root {
            setfsuid(Uid::from_raw(65534));
        }
        let found = first(objects, &names);
        if as_root {
            setfsuid(Uid::from_raw(0));
        }
        let (path, error) = found.expect("the closed file is found");
        assert_eq!(
            (path, error.kind()),
            (names[0].clone(), ErrorKind::PermissionDenied)
        );
    }
}
