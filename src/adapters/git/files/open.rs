//! Opens paths below a directory that agents write to. Follows no link, enters no mount, never blocks, and takes
//! paths longer than the kernel's limit for one call.

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

/// Refuses a path with a link, out of the directory, or across a mount point.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// The number of path bytes for one call of the kernel, whose limit is 4096.
const PART: usize = 3_000;

/// The number of retries: a rename elsewhere in the tree makes the kernel give up a lookup.
const RACES: usize = 16;

/// File systems on a disk (by their numbers of `statfs`) that update a file's times on a write through any mapping.
/// Any other may be in memory (overlayfs may be over tmpfs).
const ON_DISK: [i128; 6] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0xca45_1a4e, // bcachefs
];

/// A directory below which paths are opened.
#[derive(Debug)]
pub(in super::super) struct Root {
    fd: OwnedFd,
    path: PathBuf,
    mount: u64,
}

/// The metadata that the kernel is asked for.
const ASKED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

impl Root {
    /// Opens the directory. The path itself must not be a link.
    ///
    /// # Errors
    /// When it is not a directory, or cannot be opened.
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

    /// Returns the path of the directory.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if it may be in memory only (tmpfs): there, a write through a mapping that was read before leaves
    /// all times as they were.
    pub(in super::super) fn is_in_memory(&self) -> bool {
        let kind = fstatfs(&self.fd).map(|found| found.f_type);
        !kind.is_ok_and(|kind| is_on_disk(i128::from(kind)))
    }

    /// Returns true if an entry is on the same mount.
    pub(in super::super) fn has(&self, found: &Statx) -> bool {
        found.stx_mnt_id == self.mount
    }

    /// Returns the names in a directory, each with a directory flag if the kernel tells.
    ///
    /// # Errors
    /// When it cannot be listed.
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

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// When it does not exist, is not a regular file, or cannot be opened.
    pub(in super::super) fn file(&self, path: &[u8]) -> io::Result<File> {
        Ok(self.sized(path)?.0)
    }

    /// Opens a regular file for reading. Returns its size, too.
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

    /// Returns the target of a link.
    ///
    /// # Errors
    /// When it is not a link, or cannot be read.
    pub(in super::super) fn link(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (dir, name) = split(path);
        let dir = self.at(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(readlinkat(&dir, bytes::path(name), Vec::new())?.into_bytes())
    }

    /// Returns the metadata of a path; none if it does not exist.
    ///
    /// # Errors
    /// When the kernel refuses.
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

    /// Opens a path below the directory, in parts if it is long. The empty path is the directory itself.
    ///
    /// # Errors
    /// The kernel's error.
    pub(in super::super) fn at(&self, path: &[u8], how: OFlags) -> io::Result<OwnedFd> {
        let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        // `O_PATH` excludes `O_NONBLOCK`.
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

/// A name in a directory, and true if it is a directory, if the kernel tells.
pub(in super::super) type Named = (Vec<u8>, Option<bool>);

/// Returns the metadata of a name in a directory. Does not follow a link.
///
/// # Errors
/// The kernel's error.
pub(in super::super) fn stat_in(dir: &OwnedFd, name: &[u8]) -> io::Result<Statx> {
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    Ok(statx(dir, OsStr::from_bytes(name), how, ASKED)?)
}

/// Masks the number: the kernel's value is negative where it has 32 bits and the first is set.
fn is_on_disk(kind: i128) -> bool {
    ON_DISK.contains(&(kind & 0xffff_ffff))
}

/// Returns true if the path does not exist.
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

/// Splits a path into its directory and its name.
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
