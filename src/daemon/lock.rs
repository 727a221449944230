//! The locks that allow a single supervisor per city: one on the city's directory itself, which no removal of a file
//! undoes, and one on a file in `.horde` that programs may look at. The pid in the file is for people.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use super::{DaemonError, failed_at};
use crate::regular;

/// The time that a lock may outlive a killed supervisor.
const MOMENT: Duration = Duration::from_millis(500);
/// The number of times that the list of locks is read for one.
const LOOKS: usize = 10;
/// The length of a file, in bytes, above which it is no lock.
const LOCK_MAX: u64 = 64;
/// The lock's file in the directory of the supervisor's state.
pub(super) const FILE: &str = "supervisor.lock";

/// Locks the city's directory for as long as the file is open; the kernel releases the lock however the process ends.
/// `city` is for messages.
pub(super) fn directory(dir: &File, city: &Path) -> Result<(), DaemonError> {
    match try_for_a_moment(dir) {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(DaemonError::Held {
            pid: holder(dir).map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()),
        }),
        // A network file system may only lock files: the lock on the file remains.
        Err(TryLockError::Error(error)) if cannot_lock(&error) => {
            tracing::warn!(%error, city = %city.display(), "the file system cannot lock the city's directory; its lock file alone keeps out a second supervisor");
            Ok(())
        }
        Err(TryLockError::Error(error)) => Err(failed_at(city, "cannot be locked")(error)),
    }
}

fn cannot_lock(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let unable = [
        Errno::BADF,
        Errno::INVAL,
        Errno::NOLCK,
        Errno::NOSYS,
        Errno::OPNOTSUPP,
    ];
    let number = error.raw_os_error();
    unable
        .iter()
        .any(|unable| number == Some(unable.raw_os_error()))
}

/// Takes the lock of the file in this directory, or fails with the pid of the holder.
pub(super) fn file(state: impl AsFd, shown: &Path) -> Result<File, DaemonError> {
    let path = shown.join(FILE);
    let at = near(&state).join(FILE);
    let file = open(&at).map_err(failed_at(&path, "cannot be opened"))?;
    match try_for_a_moment(&file) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let said = || {
                let said = regular::read(&at, regular::Links::Refuse, 64).unwrap_or_default();
                String::from_utf8_lossy(&said).trim().to_owned()
            };
            // Any program may have written a pid into the file.
            let pid = holder(&file).map_or_else(said, |pid| pid.to_string());
            return Err(DaemonError::Held { pid });
        }
        Err(TryLockError::Error(error)) => return Err(failed_at(&path, "cannot be locked")(error)),
    }
    sign(&file).map_err(failed_at(&path, "cannot be written"))?;
    Ok(file)
}

/// Takes the lock of the file again, after the file was removed or replaced. None if another process holds it.
///
/// # Errors
/// The system refuses, or the object there is no file.
pub(super) fn again(state: impl AsFd) -> io::Result<Option<File>> {
    let file = open(&near(&state).join(FILE))?;
    match file.try_lock() {
        Ok(()) => sign(&file).map(|()| Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Writes the pid into the lock again if it has another content. Returns whether it had.
///
/// # Errors
/// The system refuses, or the lock got another name and another content: a file must not lose what was written to it by that
/// name.
pub(super) fn sign_again(lock: &File) -> io::Result<bool> {
    let (pid, mut content) = (signature(), vec![0; LOCK_MAX as usize]);
    let length = lock.read_at(&mut content, 0)?;
    content.truncate(length);
    if content == pid.as_bytes() {
        return Ok(false);
    }
    match lock.metadata()?.nlink() {
        0 | 1 => sign(lock).map(|()| true),
        _ => Err(other("it is a hard link to another file")),
    }
}

/// Returns a path of an open directory that stays valid when the directory moves.
pub(super) fn near(dir: impl AsFd) -> PathBuf {
    use std::os::fd::AsRawFd;
    let number = dir.as_fd().as_raw_fd();
    PathBuf::from(format!("/proc/self/fd/{number}"))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    regular::regular(&file.metadata()?)?;
    refuse_other(&file)?;
    Ok(file)
}

/// Refuses a file whose content is not that of a lock: the pid is written over it.
fn refuse_other(file: &File) -> io::Result<()> {
    refuse_linked(file)?;
    match file.metadata()?.len() > LOCK_MAX {
        true => Err(other("it is too long for a lock")),
        false => Ok(()),
    }
}

fn refuse_linked(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    match found.nlink() > 1 && (found.len() > LOCK_MAX || !is_pid(file)?) {
        true => Err(other("it is a hard link to another file")),
        false => Ok(()),
    }
}

fn other(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Returns true for a lock of a supervisor: a backup by hard links has it, too.
fn is_pid(file: &File) -> io::Result<bool> {
    let mut content = [0; LOCK_MAX as usize];
    let length = file.read_at(&mut content, 0)?;
    let digits = content[..length].trim_ascii();
    Ok(!digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// Returns the content of a lock.
fn signature() -> String {
    format!("{}\n", std::process::id())
}

fn sign(file: &File) -> io::Result<()> {
    let pid = signature();
    // Overwrites in place: a full disk has no room for a new file.
    file.write_all_at(pid.as_bytes(), 0)?;
    file.set_len(pid.len() as u64)
}

/// Returns the process that holds a lock on this file, as the kernel lists it. A list that other processes change while it is
/// read may lack locks.
fn holder(locked: &File) -> Option<u32> {
    (0..LOOKS).find_map(|_| listed_holder(locked))
}

fn listed_holder(locked: &File) -> Option<u32> {
    // Several file systems have files of the same number.
    let found = locked.metadata().ok()?;
    let (major, minor) = (
        rustix::fs::major(found.dev()),
        rustix::fs::minor(found.dev()),
    );
    let (device, inode) = (
        format!(" {major:02x}:{minor:02x}"),
        format!(":{} ", found.ino()),
    );
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let lines = locks.lines().filter(|line| line.contains(" FLOCK "));
    let lines: Vec<_> = lines.filter(|line| line.contains(&inode)).collect();
    let of_device = format!("{device}{inode}");
    let line = match lines.iter().find(|line| line.contains(&of_device)) {
        Some(line) => line,
        // btrfs tells another device than the kernel lists.
        None if lines.len() == 1 => lines.first()?,
        None => return None,
    };
    line.split_ascii_whitespace().nth(4)?.parse().ok()
}

/// Tries to lock for a moment: if a supervisor was killed while it started a process, that process has the lock until
/// its `exec` closes it. A successor that starts at this moment must not be refused.
#[expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in real time"
)]
fn try_for_a_moment(file: &File) -> Result<(), TryLockError> {
    let deadline = Instant::now() + MOMENT;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(dir: &Path) -> Result<File, DaemonError> {
        file(File::open(dir).unwrap(), dir)
    }

    #[test]
    fn a_lock_that_is_about_to_go_is_waited_for() {
        let dir = crate::testing::scratch();
        let first = take(dir.path()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(|| take(dir.path()).is_ok());
            drop(first);
            assert!(second.join().unwrap());
        });
    }

    #[test]
    fn a_second_holder_is_refused_and_the_first_left_alone() {
        let dir = crate::testing::scratch();
        let first = take(dir.path()).unwrap();
        let own = std::process::id().to_string();
        assert!(matches!(take(dir.path()), Err(DaemonError::Held { pid }) if pid == own));
        drop(first);
        assert!(take(dir.path()).is_ok());
    }

    #[test]
    fn the_lock_of_the_directory_holds_whatever_is_removed_in_it() {
        let dir = crate::testing::scratch();
        let open = || File::open(dir.path()).unwrap();
        let first = open();
        directory(&first, dir.path()).unwrap();
        fs::write(dir.path().join(FILE), "").unwrap();
        fs::remove_file(dir.path().join(FILE)).unwrap();
        let own = std::process::id().to_string();
        let second = directory(&open(), dir.path());
        assert!(matches!(second, Err(DaemonError::Held { pid }) if pid == own));
        drop(first);
        directory(&open(), dir.path()).unwrap();
    }

    #[test]
    fn irregular_file_is_no_lock_and_is_left_alone() {
        let dir = crate::testing::scratch();
        let (lock, other) = (dir.path().join(FILE), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink("other", &lock).unwrap();
        assert!(matches!(take(dir.path()), Err(DaemonError::Failed(_))));
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        fs::remove_file(&lock).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &lock, rustix::fs::Mode::RWXU).unwrap();
        assert!(matches!(take(dir.path()), Err(DaemonError::Failed(_))));
    }

    #[test]
    fn file_that_is_linked_elsewhere_or_too_long_is_no_lock_and_keeps_its_content() {
        let dir = crate::testing::scratch();
        let (lock, other) = (dir.path().join(FILE), dir.path().join("other"));
        fs::write(&other, "precious").unwrap();
        fs::hard_link(&other, &lock).unwrap();
        let why = |refused: Result<File, DaemonError>| refused.unwrap_err().to_string();
        assert!(why(take(dir.path())).contains("hard link"));
        fs::write(&other, "12\n").unwrap();
        drop(take(dir.path()).unwrap());
        fs::write(&other, "precious").unwrap();
        assert!(again(File::open(dir.path()).unwrap()).is_err());
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        fs::remove_file(&lock).unwrap();
        let long = "precious ".repeat(10);
        fs::write(&lock, &long).unwrap();
        assert!(why(take(dir.path())).contains("too long"));
        assert_eq!(fs::read_to_string(&lock).unwrap(), long);
        fs::write(&lock, "garbled").unwrap();
        drop(take(dir.path()).unwrap());
        assert_eq!(fs::read_to_string(&lock).unwrap(), signature());
    }

    #[test]
    fn holder_of_a_lock_is_named_by_the_kernel_and_not_by_its_content() {
        let dir = crate::testing::scratch();
        let _lock = take(dir.path()).unwrap();
        fs::write(dir.path().join(FILE), "1\n").unwrap();
        let held = take(dir.path()).unwrap_err();
        let own = std::process::id().to_string();
        assert!(matches!(held, DaemonError::Held { pid } if pid == own));
    }

    #[test]
    fn content_that_came_by_another_name_of_the_lock_is_kept() {
        let dir = crate::testing::scratch();
        let lock = take(dir.path()).unwrap();
        let notes = dir.path().join("notes.txt");
        fs::hard_link(dir.path().join(FILE), &notes).unwrap();
        assert!(!sign_again(&lock).unwrap());
        for content in ["precious", "42\n"] {
            fs::write(&notes, content).unwrap();
            let why = sign_again(&lock).unwrap_err().to_string();
            assert!(why.contains("hard link"), "{why}");
            assert_eq!(fs::read_to_string(&notes).unwrap(), content);
        }
        fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(sign_again(&lock).unwrap(), "it has a single name");
    }
}
