//! The city's directory, held open. A directory below it is made in it and nowhere else: neither the city's own
//! directory nor one above it is ever made, because a city that was moved away can be moved back, and what was made in
//! its place would be in the way.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::Errno;

struct CityRoot {
    path: PathBuf,
    dir: OwnedFd,
}

/// Set in the supervisor alone. A holder of sessions, a keeper and `hd` hold no city.
static ROOT: OnceLock<CityRoot> = OnceLock::new();

/// The mode of a directory, before the mask of the process.
const USUAL: u32 = 0o777;

/// Holds the directory of the city, by its canonical path.
pub fn hold(path: PathBuf, dir: OwnedFd) {
    // A process works for one city, so only the first call counts.
    let _first = ROOT.set(CityRoot { path, dir });
}

/// Makes a directory and those above it that are missing, below the city's.
///
/// # Errors
/// When the file system refuses, or the city's directory is not at its path.
pub(crate) fn make_dirs(dir: &Path) -> io::Result<()> {
    make_dirs_with(dir, USUAL)
}

/// As [`make_dirs`], with the mode of each directory that is made.
///
/// # Errors
/// As [`make_dirs`].
pub(crate) fn make_dirs_with(dir: &Path, mode: u32) -> io::Result<()> {
    let root = ROOT.get();
    match root.and_then(|root| Some((root, dir.strip_prefix(&root.path).ok()?))) {
        Some((root, below)) => root.make(below, mode),
        None => DirBuilder::new().recursive(true).mode(mode).create(dir),
    }
}

impl CityRoot {
    fn make(&self, below: &Path, mode: u32) -> io::Result<()> {
        self.is_at_its_path()?;
        let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(&self.dir, ".", way, Mode::empty())?;
        for part in below {
            match mkdirat(&at, part, Mode::from_raw_mode(mode)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            // An operator may keep a part of the city on another disk, behind a link.
            at = openat(at.as_fd(), part, way, Mode::empty())?;
        }
        Ok(())
    }

    fn is_at_its_path(&self) -> io::Result<()> {
        let ours = fstat(&self.dir)?;
        match fs::metadata(&self.path) {
            Ok(now) if (now.dev(), now.ino()) == (ours.st_dev, ours.st_ino) => Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(_) | Err(_) => {
                let path = self.path.display();
                let why =
                    format!("the city's directory is not at {path}: it was moved or replaced");
                Err(io::Error::new(ErrorKind::NotFound, why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn held(path: &Path) -> CityRoot {
        let how = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, how, Mode::empty()).unwrap();
        let path = path.to_owned();
        CityRoot { path, dir }
    }

    #[test]
    fn directories_are_made_below_the_city_with_their_mode() {
        let top = crate::testing::scratch();
        let city = top.path().join("city");
        fs::create_dir(&city).unwrap();
        let root = held(&city);
        for _ in 0..2 {
            root.make(Path::new("a/b"), 0o700).unwrap();
        }
        let mode = fs::metadata(city.join("a/b")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        root.make(Path::new(""), USUAL).unwrap();
        fs::create_dir(top.path().join("disk")).unwrap();
        symlink(top.path().join("disk"), city.join("link")).unwrap();
        root.make(Path::new("link/c"), USUAL).unwrap();
        assert!(top.path().join("disk/c").is_dir());
        fs::write(city.join("file"), "").unwrap();
        root.make(Path::new("file/d"), USUAL).unwrap_err();
    }

    /// A move takes seconds when a person does it, and less when a program does.
    #[test]
    fn nothing_is_made_at_the_path_of_a_city_that_was_moved_or_replaced() {
        let top = crate::testing::scratch();
        let (city, away) = (top.path().join("city"), top.path().join("away"));
        fs::create_dir(&city).unwrap();
        let root = held(&city);
        fs::rename(&city, &away).unwrap();
        let error = root.make(Path::new("a"), USUAL).unwrap_err();
        assert!(error.to_string().contains("was moved"), "{error}");
        assert!(!city.exists());
        fs::create_dir(&city).unwrap();
        root.make(Path::new("a"), USUAL).unwrap_err();
        assert_eq!(fs::read_dir(&city).unwrap().count(), 0);
        fs::remove_dir(&city).unwrap();
        fs::rename(&away, &city).unwrap();
        root.make(Path::new("a"), USUAL).unwrap();
        assert!(city.join("a").is_dir());
    }
}
