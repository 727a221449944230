//! Paths by their text alone.

use std::path::{Component, Path, PathBuf};

/// Returns a path without its `.` and `..`, as if no directory in it were a link. The file system is not read.
#[must_use]
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => plain.push(part),
        }
    }
    plain
}
