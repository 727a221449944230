//! Mount points below a directory: a sandbox may contain a person's directory (`mount --bind`) or a disk, which the
//! supervisor must neither read nor delete.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::removal;

/// The kernel's mount table for this process.
const TABLE: &str = "/proc/self/mountinfo";

/// Returns the mount points below a directory, sorted. A mount at the directory itself does not count.
///
/// # Errors
/// When the directory or the mount table cannot be read.
pub fn below(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let dir = fs::canonicalize(dir)?;
    Ok(listed(&fs::read(TABLE)?, &dir))
}

/// Checks that nothing is mounted at or below a directory, so that it may be emptied or removed.
///
/// # Errors
/// When something is mounted, or that is unknown.
pub fn none_in(dir: &Path) -> io::Result<()> {
    let real = match fs::symlink_metadata(dir) {
        Ok(found) if found.is_dir() => fs::canonicalize(dir)?,
        // Nothing can be mounted in a missing directory, and the target of a link is not entered.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let parent = real.parent().unwrap_or(&real);
    let table = fs::read(TABLE)?;
    let beside = listed(&table, parent).into_iter();
    match beside.into_iter().find(|point| point.starts_with(&real)) {
        None => Ok(()),
        Some(mount) => {
            let what = format!("{} is a mount point: run `umount` first", mount.display());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
        }
    }
}

/// Removes a directory with its content, including read-only directories (module caches often are), unless something
/// is mounted in it. Removes a link itself.
///
/// # Errors
/// When something is mounted in it, or the file system refuses.
pub fn remove_dir_all(dir: &Path) -> io::Result<()> {
    none_in(dir)?;
    let kind = fs::symlink_metadata(dir)?.file_type();
    let (Some(above), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if !kind.is_dir() && !kind.is_symlink() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let above = match above.as_os_str().is_empty() {
        true => Path::new("."),
        false => above,
    };
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    removal::remove_at(openat(CWD, above, how, Mode::empty())?, name)
}

fn listed(table: &[u8], dir: &Path) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let points = points.map(|point| PathBuf::from(OsString::from_vec(plain(point))));
    let mut found: Vec<_> = points
        .filter(|point| point != dir && point.starts_with(dir))
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Decodes a path: the kernel writes space, tab, newline and backslash as `\` and three octal digits.
fn plain(point: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(point.len());
    let mut rest = point;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match text.and_then(|text| u8::from_str_radix(text, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_a_directory_are_listed_with_their_odd_names() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
            30 22 0:5 / /city/rig/Toast rw - tmpfs x rw\n\
            31 22 0:5 / /city/rig/Toast/data rw - tmpfs x rw\n\
            32 22 0:5 / /city/rig/Toast/with\\040space rw - tmpfs x rw\n\
            33 22 0:5 / /city/rig/Toaster rw - tmpfs x rw\n";
        let found = listed(table, Path::new("/city/rig/Toast"));
        let names = ["/city/rig/Toast/data", "/city/rig/Toast/with space"];
        assert_eq!(found, names.map(PathBuf::from));
    }

    #[test]
    fn the_kernels_own_table_is_understood() {
        let all = below(Path::new("/")).unwrap();
        assert!(all.contains(&PathBuf::from("/proc")), "{all:?}");
    }
}
