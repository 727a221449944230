//! Removes trees that agents made: of any depth, with closed directories in them, and nothing beyond them. A
//! directory is held open and the next one is opened in it, so that no link is followed and no mount entered. The way
//! back is a list in memory, so that neither the stack of a thread nor its descriptors limit the depth. A visit walks a
//! tree in the same way, and removes nothing.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, chmod, fstat, openat, openat2,
    statat, unlinkat,
};
use rustix::io::Errno;

/// The flags for a directory that is only passed through, even if it is closed.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The treatment of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Removed; a directory only if nothing stays in it.
    Goes,
    /// Kept; the entries of a directory are decided one by one.
    Stays,
    /// Kept with its content.
    Apart,
}

/// Removes an entry of a directory by name: a file, a link, or a tree.
///
/// # Errors
/// When the file system refuses, something is mounted there, or another process keeps adding entries.
pub fn remove_at(dir: impl AsFd, name: &OsStr) -> io::Result<()> {
    match open_at(&dir, name)? {
        Some(top) => {
            sweep(top, &|_, _| Fate::Goes)?;
            Ok(unlinkat(dir, name, AtFlags::REMOVEDIR)?)
        }
        None => Ok(unlinkat(dir, name, AtFlags::empty())?),
    }
}

/// Returns true if a sweep, or a visit with [`Closed::Open`], changes the permissions of this directory.
#[must_use]
pub fn is_closed(dir: &Stat) -> bool {
    !Mode::from_raw_mode(dir.st_mode).contains(Mode::RWXU)
}

/// Opens a directory in another one for a sweep or a visit; none if it is a file or a link.
///
/// # Errors
/// When the file system refuses, or something is mounted there.
pub fn open_at(dir: impl AsFd, name: &OsStr) -> io::Result<Option<OwnedFd>> {
    match enter(dir, name) {
        Ok(top) => Ok(Some(top)),
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The treatment of directories that their owner closed by permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// Opened for good, as by a removal.
    Open,
    /// Left as they are; what is in them is not visited.
    Leave,
}

/// Visits the entries below a directory, by their path below it and their metadata. What cannot be opened is not
/// visited, and no [`sweep`] could remove it.
///
/// # Errors
/// The first other error of the file system.
pub fn visit(top: OwnedFd, closed: Closed, seen: &dyn Fn(&Path, &Stat)) -> io::Result<()> {
    let fate = |path: &Path, found: &Stat| {
        seen(path, found);
        Fate::Stays
    };
    run(top, &fate, Some(closed)).map(drop)
}

/// Removes the entries of a directory that `fate` selects, by their path below it and their metadata. Returns the
/// number of removed files. A failure does not stop the removal of the others.
///
/// # Errors
/// The first error of the file system.
pub fn sweep(top: OwnedFd, fate: &dyn Fn(&Path, &Stat) -> Fate) -> io::Result<usize> {
    run(top, fate, None)
}

fn run(
    top: OwnedFd,
    fate: &dyn Fn(&Path, &Stat) -> Fate,
    visits: Option<Closed>,
) -> io::Result<usize> {
    let mut sweep = Sweep {
        fate,
        visits,
        path: PathBuf::new(),
        removed: 0,
        failed: None,
    };
    let mut at = top;
    let mut levels = vec![sweep.open_level(&at, CString::default(), false)?];
    while let Some(level) = levels.last_mut() {
        if let Some((name, goes)) = level.below.pop() {
            match sweep.descend(&at, name, goes) {
                Ok((dir, found)) => {
                    at = dir;
                    levels.push(found);
                }
                Err(error) => sweep.record_error(error),
            }
            continue;
        }
        let done = levels.pop();
        let (Some(done), Some(above)) = (done, levels.last()) else {
            break;
        };
        at = ascend(&at, above.id)?;
        sweep.path.pop();
        if done.goes {
            match unlinkat(&at, &done.name, AtFlags::REMOVEDIR) {
                // Something stays in it, or was added meanwhile.
                Ok(()) | Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(error) => sweep.record_error(error.into()),
            }
        }
    }
    sweep.failed.map_or(Ok(sweep.removed), Err)
}

/// A directory on the way down.
struct Level {
    name: CString,
    goes: bool,
    /// Device and inode.
    id: (u64, u64),
    /// The directories in it that are still to be entered, each with a flag to remove it.
    below: Vec<(CString, bool)>,
}

struct Sweep<'f> {
    fate: &'f dyn Fn(&Path, &Stat) -> Fate,
    /// Set if it only visits.
    visits: Option<Closed>,
    path: PathBuf,
    removed: usize,
    failed: Option<io::Error>,
}

impl Sweep<'_> {
    /// Notes an error; an entry that is gone needs no removal.
    fn record_error(&mut self, error: io::Error) {
        let is_closed = error.kind() == io::ErrorKind::PermissionDenied;
        if error.kind() != io::ErrorKind::NotFound && !(is_closed && self.visits.is_some()) {
            self.failed.get_or_insert(error);
        }
    }

    fn descend(&mut self, at: &OwnedFd, name: CString, goes: bool) -> io::Result<(OwnedFd, Level)> {
        let dir = enter(at, &name)?;
        self.path.push(OsStr::from_bytes(name.as_bytes()));
        match self.open_level(&dir, name, goes) {
            Ok(level) => Ok((dir, level)),
            Err(error) => {
                self.path.pop();
                Err(error)
            }
        }
    }

    /// Removes the selected files of a directory, and lists the directories in it.
    fn open_level(&mut self, dir: &OwnedFd, name: CString, goes: bool) -> io::Result<Level> {
        let found = fstat(dir)?;
        if is_closed(&found) && self.visits != Some(Closed::Leave) {
            // `chmod` needs this name for a descriptor opened with `O_PATH`. A directory of another user stays
            // closed, which shows below.
            let _denied = chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU);
        }
        let mut below = Vec::new();
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(dir, ".", how, Mode::empty())?)? {
            let name = entry?.file_name().to_owned();
            if ![&b"."[..], b".."].contains(&name.as_bytes())
                && let Err(error) = self.look_at(dir, name, &mut below)
            {
                self.record_error(error.into());
            }
        }
        let id = id(&found);
        Ok(Level {
            name,
            goes,
            id,
            below,
        })
    }

    fn look_at(
        &mut self,
        dir: &OwnedFd,
        name: CString,
        below: &mut Vec<(CString, bool)>,
    ) -> rustix::io::Result<()> {
        let found = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        self.path.push(OsStr::from_bytes(name.as_bytes()));
        let fate = (self.fate)(&self.path, &found);
        self.path.pop();
        let is_dir = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        match (is_dir, fate) {
            (true, Fate::Goes | Fate::Stays) => below.push((name, fate == Fate::Goes)),
            (false, Fate::Goes) => {
                unlinkat(dir, &name, AtFlags::empty())?;
                self.removed += 1;
            }
            (true, Fate::Apart) | (false, Fate::Stays | Fate::Apart) => {}
        }
        Ok(())
    }
}

/// Opens a directory in another one, even if it is closed. Follows no link, and enters no mount.
fn enter(at: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(at, name, WAY | OFlags::NOFOLLOW, Mode::empty(), how)
}

/// Returns to the directory that this one was found in.
fn ascend(from: &OwnedFd, to: (u64, u64)) -> io::Result<OwnedFd> {
    let above = openat(from, "..", WAY, Mode::empty())?;
    match id(&fstat(&above)?) == to {
        true => Ok(above),
        false => Err(io::Error::other("it was moved while it was removed")),
    }
}

fn id(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, mkdirat};

    use super::*;

    /// Makes a tree of this many levels.
    fn deep(top: &Path, levels: usize) {
        let mut at = openat(CWD, top, WAY, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = openat(&at, "d", WAY, Mode::empty()).unwrap();
        }
        openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
    }

    /// With a stack frame or a descriptor for each level, the program would end.
    #[test]
    fn tree_is_removed_however_deep_it_is() {
        let dir = crate::testing::scratch();
        let top = dir.path().join("top");
        fs::create_dir(&top).unwrap();
        deep(&top, 5_000);
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let gone = top.clone();
        let removal = move || crate::adapters::mounts::remove_dir_all(&gone).unwrap();
        small.spawn(removal).unwrap().join().unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn files_moved_away_or_behind_a_link_stay() {
        let dir = crate::testing::scratch();
        let (top, away) = (dir.path().join("top"), dir.path().join("away"));
        for made in ["sub/deeper", "kept"] {
            fs::create_dir_all(top.join(made)).unwrap();
        }
        fs::create_dir(&away).unwrap();
        fs::write(away.join("precious"), "x").unwrap();
        fs::write(top.join("kept/file"), "x").unwrap();
        std::os::unix::fs::symlink(&away, top.join("link")).unwrap();
        let open = || openat(CWD, &top, WAY, Mode::empty()).unwrap();
        let fate = |path: &Path, _: &Stat| {
            if path == Path::new("sub/deeper") {
                fs::rename(top.join("sub"), away.join("sub")).unwrap();
            }
            match path == Path::new("kept") {
                true => Fate::Apart,
                false => Fate::Goes,
            }
        };
        assert!(sweep(open(), &fate).is_err(), "it was moved");
        assert_eq!(fs::read(away.join("precious")).unwrap(), b"x");
        sweep(open(), &|_, _| Fate::Goes).unwrap();
        remove_at(open(), OsStr::new("kept")).unwrap_err();
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        assert_eq!(fs::read(away.join("precious")).unwrap(), b"x");
    }
}
