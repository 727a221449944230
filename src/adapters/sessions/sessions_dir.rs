//! The directory of all sessions, held open. It is found after a move and made again after a removal, and no session
//! is started in anything else that is in its place.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::regular;

/// The directory of all sessions.
pub struct SessionsDir {
    /// The configured path.
    home: PathBuf,
    held: Mutex<File>,
}

impl SessionsDir {
    /// Opens the directory, making it with mode 0700 if needed.
    ///
    /// # Errors
    /// When the file system refuses, or something else is in its place.
    pub fn open(dir: &Path) -> io::Result<Self> {
        super::files::make_dir(dir)?;
        let home = fs::canonicalize(dir)?;
        let held = Mutex::new(open(dir)?);
        Ok(Self { home, held })
    }

    fn held(&self) -> MutexGuard<'_, File> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the configured path.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the current path.
    pub fn path(&self) -> PathBuf {
        let mut held = self.held();
        match held.metadata() {
            Ok(found) if found.nlink() > 0 => {}
            // The directory was removed. It is made again only if its parent still exists.
            _ => match make_again(&self.home) {
                Ok(made) => *held = made,
                Err(_) => return self.home.clone(),
            },
        }
        let link = format!("/proc/self/fd/{}", held.as_raw_fd());
        fs::read_link(link).unwrap_or_else(|_| self.home.clone())
    }

    /// Checks that sessions may be started: the directory must be at its configured path.
    ///
    /// # Errors
    /// When it is not.
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

/// Moves the directory of a session back, found as its holder's working directory. A file, link or other directory in
/// its place is swapped to the other path. If the directory was removed, a file or link is set aside, and another
/// directory takes its place.
///
/// # Errors
/// When the file system refuses, or the path that it was moved to is unknown.
pub fn put_back(dir: &Path, holder: u32) -> io::Result<()> {
    put_back_from(dir, Path::new(&format!("/proc/{holder}/cwd")))
}

fn put_back_from(dir: &Path, cwd: &Path) -> io::Result<()> {
    let id = |found: Metadata| (found.dev(), found.ino(), found.nlink() > 0);
    let ours = fs::metadata(cwd).map(id)?;
    let there = match fs::symlink_metadata(dir) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let how = match there {
        Some(found) if found.is_dir() && (!ours.2 || id(found.clone()) == ours) => return Ok(()),
        _ if !ours.2 => return set_aside(dir),
        Some(_) => RenameFlags::EXCHANGE,
        None => RenameFlags::NOREPLACE,
    };
    let mut moved = fs::read_link(cwd)?;
    if fs::symlink_metadata(&moved).map(id)? != ours {
        return Err(io::Error::other("its new place is unknown"));
    }
    if moved.starts_with(dir) {
        // A directory cannot be swapped with one that it is in.
        let beside = free_name(dir, "moved")?;
        rustix::fs::renameat_with(CWD, &moved, CWD, &beside, RenameFlags::NOREPLACE)?;
        moved = beside;
    }
    rustix::fs::renameat_with(CWD, &moved, CWD, dir, how)?;
    let (dir, moved) = (dir.display(), moved.display());
    tracing::warn!(%dir, %moved, "the directory of a session was moved; it is moved back");
    Ok(())
}

/// Renames anything but a directory in the place of a directory to `NAME.aside`.
///
/// # Errors
/// When the file system refuses.
pub fn set_aside(dir: &Path) -> io::Result<()> {
    if super::files::is_private_dir(dir) {
        return Ok(());
    }
    let found = fs::symlink_metadata(dir)?;
    let aside = free_name(dir, "aside")?;
    rustix::fs::renameat_with(CWD, dir, CWD, &aside, RenameFlags::NOREPLACE)?;
    let (kind, dir, aside) = (regular::kind(&found), dir.display(), aside.display());
    tracing::warn!(%dir, %aside, "{kind} was in place of a session's directory; it is set aside");
    Ok(())
}

/// Returns an unused path beside the directory: `DIR.SUFFIX`, or one with a number.
fn free_name(dir: &Path, suffix: &str) -> io::Result<PathBuf> {
    let mut places = (0_u32..).map(|count| match count {
        0 => dir.with_added_extension(suffix),
        _ => dir.with_added_extension(format!("{suffix}-{count}")),
    });
    let free = places.find(|place| fs::symlink_metadata(place).is_err());
    free.ok_or_else(|| io::Error::other("no free name was found"))
}

fn open(dir: &Path) -> io::Result<File> {
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() {
        let message = format!("it is {}, not a directory", regular::kind(&found));
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
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let (home, away) = (root.join("sessions"), root.join("away"));
        let place = SessionsDir::open(&home).unwrap();
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

    /// A record of the session would be written into the other directory otherwise.
    #[test]
    fn directory_of_a_session_is_moved_back_whatever_took_its_place() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let (dir, away, cwd) = (root.join("s1"), root.join("away"), root.join("cwd"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("ours"), "").unwrap();
        for in_its_place in ["directory", "file", "nothing"] {
            fs::rename(&dir, &away).unwrap();
            match in_its_place {
                "directory" => fs::create_dir(&dir).unwrap(),
                "file" => fs::write(&dir, "").unwrap(),
                _ => {}
            }
            std::os::unix::fs::symlink(&away, &cwd).unwrap();
            put_back_from(&dir, &cwd).unwrap();
            assert!(dir.join("ours").exists(), "{in_its_place}");
            fs::remove_file(&cwd).unwrap();
            std::os::unix::fs::symlink(&dir, &cwd).unwrap();
            put_back_from(&dir, &cwd).unwrap();
            assert!(dir.join("ours").exists(), "it is in its place");
            fs::remove_file(&cwd).unwrap();
            let _none = fs::remove_dir(&away).or_else(|_| fs::remove_file(&away));
        }
    }

    /// `mkdir n; mv s1 n/; mv n s1`: two directories of which one is in the other cannot be swapped.
    #[test]
    fn directory_of_a_session_is_moved_back_out_of_the_one_that_took_its_place() {
        let temp = crate::testing::scratch();
        let root = temp.path().canonicalize().unwrap();
        let (dir, other, cwd) = (root.join("s1"), root.join("n"), root.join("cwd"));
        fs::create_dir_all(other.join("more")).unwrap();
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("ours"), "").unwrap();
        fs::rename(&dir, other.join("s1")).unwrap();
        fs::rename(&other, &dir).unwrap();
        std::os::unix::fs::symlink(dir.join("s1"), &cwd).unwrap();
        put_back_from(&dir, &cwd).unwrap();
        assert!(dir.join("ours").exists());
        assert!(root.join("s1.moved/more").exists(), "nothing is deleted");
    }
}
