//! Paths in git's output: bytes, separated by NUL.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A relative path of a work tree in bytes, which may not be UTF-8.
pub(super) type RelPath = Vec<u8>;

/// Converts bytes to a path.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Converts a path to bytes.
pub(super) fn of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Formats the path for people.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Splits a NUL-separated list into records.
pub(super) fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

/// Joins records into a NUL-terminated list.
pub(super) fn join<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    for record in records {
        list.extend_from_slice(record);
        list.push(0);
    }
    list
}

/// Joins a directory and a name.
pub(super) fn below(dir: &[u8], name: &[u8]) -> RelPath {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
