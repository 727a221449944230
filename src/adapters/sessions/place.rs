//! The directory of all sessions, held open: it is found wherever it was moved to, made again when it was
//! removed, and no session is started in something else that is in its place.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::regular;

/// The directory.
pub struct Place {
    /// Where it belongs.
    home: PathBuf,
    held: Mutex<File>,
}

impl Place {
    /// Opens it, made where it is not there, mode 0700.
    ///
    /// # Errors
    /// The file system refuses, or something else is in its place.
    pub fn open(dir: &Path) -> io::Result<Self> {
        super::files::make_dir(dir)?;
        let home = fs::canonicalize(dir)?;
        let held = Mutex::new(open(dir)?);
        Ok(Self { home, held })
    }

    fn held(&self) -> MutexGuard<'_, File> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it belongs.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Where it is now.
    pub fn path(&self) -> PathBuf {
        let mut held = self.held();
        match held.metadata() {
            Ok(found) if found.nlink() > 0 => {}
            // It was removed. It is made again only in the directory that it was in.
            _ => match make_again(&self.home) {
                Ok(made) => *held = made,
                Err(_) => return self.home.clone(),
            },
        }
        let link = format!("/proc/self/fd/{}", held.as_raw_fd());
        fs::read_link(link).unwrap_or_else(|_| self.home.clone())
    }

    /// Says why no session may be started: the directory is not where it belongs.
    ///
    /// # Errors
    /// It is not.
    pub fn check(&self) -> io::Result<()> {
        let now = self.path();
        let ours = self.held().metadata()?;
        let same = |found: Metadata| (found.dev(), found.ino()) == (ours.dev(), ours.ino());
        if fs::symlink_metadata(&self.home).is_ok_and(same) {
            return Ok(());
        }
        let (home, now) = (self.home.display(), now.display());
        let message = format!("the directory of the sessions, {home}, was moved to {now}");
        Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, message))
    }
}

fn open(dir: &Path) -> io::Result<File> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() {
        let message = format!("it is {}, and no directory", regular::kind(&found));
        return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut options = fs::OpenOptions::new();
    let options = options.read(true);
    options.custom_flags(flags.bits().cast_signed()).open(dir)
}

fn make_again(dir: &Path) -> io::Result<File> {
    match rustix::fs::mkdir(dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => open(dir),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_found_where_it_was_moved_and_made_again_where_it_was_removed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (home, away) = (root.join("sessions"), root.join("away"));
        let place = Place::open(&home).unwrap();
        fs::rename(&home, &away).unwrap();
        assert_eq!(place.path(), away);
        fs::create_dir(&home).unwrap();
        assert!(place.check().is_err(), "another is in its place");
        fs::remove_dir(&home).unwrap();
        fs::rename(&away, &home).unwrap();
        place.check().unwrap();
        fs::remove_dir(&home).unwrap();
        assert_eq!(place.path(), home);
        assert!(home.is_dir());
        place.check().unwrap();
    }
}
