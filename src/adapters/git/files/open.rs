//! Opens what lies below a directory that agents write to. No link is followed on the way, no mount is
//! entered, nothing is waited for, and paths may be longer than the kernel takes in one call.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, Statx, StatxFlags, fstatfs, openat, openat2,
    readlinkat, statx,
};
use rustix::io::Errno;

use super::super::bytes;

/// No part of the way is a link, leads out of the directory, or is a mount point.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// So much of a path is given to the kernel at once; it takes 4096 bytes.
const PART: usize = 3_000;

/// A rename elsewhere in the tree has the kernel give up a lookup; so often it is asked again.
const RACES: usize = 16;

/// File systems that are on a disk and change a file's times with a write through any mapping, as `statfs` names them. What
/// is not known (overlayfs may be over tmpfs) may be in memory.
const ON_DISK: [i128; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
];

/// A directory below which things are opened.
#[derive(Debug)]
pub(in super::super) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    mount: u64,
}

/// What the kernel is asked of an entry.
const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

impl Root {
    /// Opens it. A link in its own place is not followed.
    ///
    /// # Errors
    /// It is no directory, or cannot be opened.
    pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(CWD, path, how, Mode::empty())?;
        let found = statx(&fd, "", AtFlags::EMPTY_PATH, ASKED)?;
        Ok(Self {
            fd,
            path: path.to_owned(),
            mount: found.stx_mnt_id,
        })
    }

    /// Where it is.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it may be in memory only (tmpfs): a write through a mapping that was read before leaves all times as they
    /// were.
    pub(in super::super) fn is_in_memory(&self) -> bool {
        let kind = fstatfs(&self.fd).map(|found| found.f_type);
        !kind.is_ok_and(|kind| is_on_disk(i128::from(kind)))
    }

    /// Whether an entry is on the same mount.
    pub(in super::super) fn has(&self, found: &Statx) -> bool {
        found.stx_mnt_id == self.mount
    }

    /// The names in a directory, with whether the directory says that they are directories.
    ///
    /// # Errors
    /// It cannot be listed.
    pub(in super::super) fn list(&self, dir: &[u8]) -> io::Result<(OwnedFd, Vec<Named>)> {
        let how = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = self.at(dir, how)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                use rustix::fs::FileType;
                let is_dir = match entry.file_type() {
                    FileType::Unknown => None,
                    kind => Some(kind == FileType::Directory),
                };
                names.push((name.to_vec(), is_dir));
            }
        }
        names.sort_unstable();
        Ok((fd, names))
    }

    /// Opens a regular file to be read.
    ///
    /// # Errors
    /// There is none, it is something else, or it cannot be opened.
    pub(in super::super) fn file(&self, path: &[u8]) -> io::Result<File> {
        Ok(self.sized(path)?.0)
    }

    /// Opens a regular file to be read. Returns its size, too.
    ///
    /// # Errors
    /// As [`Root::file`].
    pub(in super::super) fn sized(&self, path: &[u8]) -> io::Result<(File, u64)> {
        let file = File::from(self.at(path, OFlags::RDONLY)?);
        let found = file.metadata()?;
        if !found.is_file() {
            let what = "it is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok((file, found.len()))
    }

    /// Where a link leads.
    ///
    /// # Errors
    /// It is no link, or cannot be read.
    pub(in super::super) fn link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = split(path);
        let dir = self.at(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(readlinkat(&dir, bytes::path(name), Vec::new())?.into_bytes())
    }

    /// What the kernel says of a path; none where there is nothing.
    ///
    /// # Errors
    /// It cannot be asked.
    pub(in super::super) fn stat(&self, path: &[u8]) -> io::Result<Option<Statx>> {
        let (dir, name) = split(path);
        let found = self
            .at(dir, OFlags::PATH | OFlags::DIRECTORY)
            .and_then(|dir| stat_in(&dir, name));
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a path below it, part by part where it is long. The empty path is the directory itself.
    ///
    /// # Errors
    /// The kernel's.
    pub(in super::super) fn at(&self, path: &[u8], how: OFlags) -> io::Result<OwnedFd> {
        let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // Neither is understood together with O_PATH.
        let how = match how.contains(OFlags::PATH) {
            true => how - OFlags::NONBLOCK,
            false => how,
        };
        let mut held: Option<OwnedFd> = None;
        let mut rest = if path.is_empty() { b"." } else { path };
        loop {
            let at = held.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
            let cut = match rest.len() > PART {
                true => rest[..PART].iter().rposition(|byte| *byte == b'/'),
                false => None,
            };
            let Some(cut) = cut else {
                return beneath(at, rest, how);
            };
            let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            held = Some(beneath(at, &rest[..cut], way)?);
            rest = &rest[cut + 1..];
        }
    }
}

/// A name in a directory, and whether it is a directory, where the directory tells.
pub(in super::super) type Named = (Vec<u8>, Option<bool>);

/// What the kernel says of a name in a directory. A link is itself.
///
/// # Errors
/// The kernel's.
pub(in super::super) fn stat_in(dir: &OwnedFd, name: &[u8]) -> io::Result<Statx> {
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(statx(dir, OsStr::from_bytes(name), how, ASKED)?)
}

/// The kernel's number is negative where it has 32 bits and the first is set.
fn is_on_disk(kind: i128) -> bool {
    ON_DISK.contains(&(kind & 0xffff_ffff))
}

/// Whether there is nothing of that name.
pub(in super::super) fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
}

fn beneath(at: BorrowedFd<'_>, path: &[u8], how: OFlags) -> io::Result<OwnedFd> {
    let mut races = 0;
    loop {
        match openat2(at, OsStr::from_bytes(path), how, Mode::empty(), INSIDE) {
            Err(Errno::AGAIN) if races < RACES => races += 1,
            opened => return Ok(opened?),
        }
    }
}

/// The directory of a path, and its name there.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(cut) => (&path[..cut], &path[cut + 1..]),
        None => (b"", path),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_and_pipes_are_not_opened() {
        let dir = crate::testing::scratch();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(dir.path().join("secret"), "no").unwrap();
        fs::write(root.join("sub/plain"), "yes").unwrap();
        symlink("../secret", root.join("link")).unwrap();
        symlink("..", root.join("out")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let root = Root::open(&root).unwrap();
        let mut text = String::new();
        let mut file = root.file(b"sub/plain").unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "yes");
        for name in ["link", "out/secret", "../secret", "pipe", "sub", "absent"] {
            assert!(root.file(name.as_bytes()).is_err(), "{name}");
        }
        assert_eq!(root.link(b"link").unwrap(), b"../secret");
        assert!(root.stat(b"link").unwrap().is_some());
        assert!(root.stat(b"sub/plain/below").unwrap().is_none());
        assert!(Root::open(&dir.path().join("root/out")).is_err());
    }

    /// Overlayfs says nothing of what it is over, as FUSE does not; the others are tmpfs and ramfs.
    #[test]
    fn only_a_file_system_that_is_known_is_taken_for_one_on_a_disk() {
        for other in [0x794c_7630, 0x6573_5546, 0x0102_1994, 0x8584_58f6, 0] {
            assert!(!is_on_disk(other), "{other:x}");
        }
        assert!(is_on_disk(0xef53) && is_on_disk(i128::from(0x9123_683e_u32.cast_signed())));
    }

    #[test]
    fn paths_longer_than_the_kernel_takes_are_opened() {
        let dir = crate::testing::scratch();
        let root = Root::open(dir.path()).unwrap();
        let mut path = Vec::new();
        for _ in 0..60 {
            let name = [b'x'; 120];
            let at = root.at(&path, OFlags::RDONLY | OFlags::DIRECTORY).unwrap();
            rustix::fs::mkdirat(&at, OsStr::from_bytes(&name), Mode::RWXU).unwrap();
            path = bytes::below(&path, &name);
        }
        assert!(path.len() > 4096);
        assert!(root.stat(&path).unwrap().is_some());
        let (_, names) = root.list(&path).unwrap();
        assert!(names.is_empty());
    }
}
