//! Paths as git prints them: bytes, separated by NUL.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path of a work tree, relative, in bytes: it need not be UTF-8.
pub(super) type RelPath = Vec<u8>;

/// The path that the bytes spell.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// The bytes of a path.
pub(super) fn of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path for people.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The records of a NUL-separated list.
pub(super) fn split(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

/// A NUL-terminated list of the records.
pub(super) fn join<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut list = Vec::new();
    for record in records {
        list.extend_from_slice(record);
        list.push(0);
    }
    list
}

/// The path below a directory.
pub(super) fn below(dir: &[u8], name: &[u8]) -> RelPath {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
