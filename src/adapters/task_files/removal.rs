//! Removes what was thrown away, whatever its agent has closed and however deep it is.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Dir, Mode, OFlags, chmod, openat};
use rustix::io::Errno;

use super::super::mounts;

/// Removes a file, link or tree, read-only directories included (module caches are often
/// read-only). Links are not followed, and nothing is removed where something is mounted below.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match mounts::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(&open_dir(CWD, path)?)?;
            mounts::remove_dir_all(path)
        }
        other => other,
    }
}

/// Names a directory that may be closed. A link is not followed.
fn open_dir(at: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, how, Mode::empty())
}

/// Lets its owner into a directory and all that is below it, whose paths may be longer than the kernel takes.
fn unlock(dir: &OwnedFd) -> io::Result<()> {
    chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::RWXU)?;
    let listed = openat(dir, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let names = Dir::read_from(&listed)?.map(|entry| Ok(entry?.file_name().to_owned()));
    let names = names.collect::<io::Result<Vec<_>>>()?;
    drop(listed);
    for name in names
        .iter()
        .filter(|name| ![&b"."[..], b".."].contains(&name.to_bytes()))
    {
        match open_dir(dir, name) {
            Ok(below) => unlock(&below)?,
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
