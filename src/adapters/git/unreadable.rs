//! Objects that exist and cannot be opened: their mode or the disk is the cause. git has the same words for them as for
//! damaged and missing ones, so their files are opened here before an object counts as lost.

use std::ffi::OsStr;
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
/// to all closed files of this user, so that a retry can read them.
///
/// # Errors
/// A file exists and could not be read.
pub(super) fn check(repo: &GitRepo, ids: &[Oid], told: &str) -> Result<(), RepoError> {
    let objects = repo.theirs().join("objects");
    let named = told.split(|c: char| !c.is_ascii_hexdigit());
    let named = named.filter_map(|word| Oid::new(word).ok());
    let loose = named.chain(ids.iter().cloned()).map(|id| file(&id));
    let files: Vec<PathBuf> = loose.chain(packs(&objects)).collect();
    match first_closed(&objects, &files) {
        None => Ok(()),
        Some((path, error)) => Err(failed("cannot read", &objects.join(path), &error)),
    }
}

/// Returns the names of the packs and of their indexes: an agent may put any other file beside them.
fn packs(objects: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(objects.join("pack")).into_iter().flatten();
    let names = listed
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()));
    let is_pack = |name: &PathBuf| {
        let extension = name.extension().and_then(OsStr::to_str);
        matches!(extension, Some("pack" | "idx"))
    };
    let packs = names.filter(is_pack);
    packs.map(|name| Path::new("pack").join(name)).collect()
}

/// Returns the name of a loose object's file.
fn file(id: &Oid) -> PathBuf {
    let (fan, rest) = id.as_str().split_at(2);
    Path::new(fan).join(rest)
}

/// Opens these files to the owner where needed, all of them, and returns the first that could not be read before.
fn first_closed(objects: &Path, files: &[PathBuf]) -> Option<(PathBuf, io::Error)> {
    let read = |name: &Path| {
        let read = beneath::open(objects, name).and_then(|file| match file {
            Some(mut file) => file.read(&mut [0]).map(drop),
            None => Ok(()),
        });
        read.err().filter(is_of_the_machine)
    };
    let mut first = None;
    for name in files {
        let Some(error) = read(name) else { continue };
        let _opened = beneath::open_way(objects, name);
        first.get_or_insert_with(|| (name.clone(), error));
    }
    first
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
        assert!(first_closed(objects, &names[1..]).is_none());
        assert!(first_closed(objects, &[file(&Oid::new("c".repeat(40)).unwrap())]).is_none());
        // The superuser opens every file: this thread reads as another user.
        let as_root = geteuid().is_root();
        if as_root {
            setfsuid(Uid::from_raw(65534));
        }
        let found = first_closed(objects, &names);
        if as_root {
            setfsuid(Uid::from_raw(0));
        }
        let (path, error) = found.expect("the closed file is found");
        assert_eq!(
            (path, error.kind()),
            (names[0].clone(), ErrorKind::PermissionDenied)
        );
    }

    /// An agent can close any number of files; each attempt had opened one.
    #[test]
    fn files_of_this_user_are_opened_in_one_pass_and_other_files_than_packs_are_ignored() {
        let dir = crate::testing::scratch();
        let objects = dir.path();
        let pack = objects.join("pack");
        fs::create_dir(&pack).unwrap();
        for name in ["a.pack", "a.idx", "b.pack", "tmp_pack_1", "x1"] {
            fs::write(pack.join(name), "x").unwrap();
            let mode = fs::Permissions::from_mode(0o000);
            fs::set_permissions(pack.join(name), mode).unwrap();
        }
        let mut found = packs(objects);
        found.sort();
        let names = ["pack/a.idx", "pack/a.pack", "pack/b.pack"].map(PathBuf::from);
        assert_eq!(found, names);
        // The superuser reads a closed file.
        assert_eq!(first_closed(objects, &found).is_none(), geteuid().is_root());
        assert!(
            first_closed(objects, &found).is_none(),
            "all of them are open now"
        );
    }
}
