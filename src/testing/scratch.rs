//! Directories of tests. They are in memory if there is room: tests make and remove hundreds of repositories, and a
//! file system on a disk takes longer for that than git does. In the long tier, and with `TMPDIR` set, they are in the
//! usual place.

use std::io;
use std::path::Path;
use std::sync::LazyLock;

use rustix::fs::StatVfsMountFlags;
use tempfile::TempDir;

use super::tier::is_long;
use super::watchdog;

const MEMORY: &str = "/dev/shm";
/// The bytes that all tests together never need.
const ENOUGH: u64 = 3 << 30;

/// Makes a directory for a test, removed when this is dropped.
///
/// # Panics
/// The directory cannot be made.
#[must_use]
pub fn scratch() -> TempDir {
    watched(tempfile::tempdir_in(place()))
}

/// As [`scratch`], on the disk: for tests of behaviour that file systems in memory do not have.
///
/// # Panics
/// The directory cannot be made.
#[must_use]
pub fn scratch_on_disk() -> TempDir {
    watched(tempfile::tempdir())
}

/// Returns the directory of a test that must end within the limit of the watchdog.
fn watched(dir: io::Result<TempDir>) -> TempDir {
    let dir = dir.expect("a directory for a test");
    watchdog::watch(dir.path());
    dir
}

/// Returns where [`scratch`] makes directories.
#[must_use]
pub fn place() -> &'static Path {
    static PLACE: LazyLock<&Path> = LazyLock::new(|| {
        let elsewhere = is_long() || std::env::var_os("TMPDIR").is_some();
        match !elsewhere && has_room() {
            true => Path::new(MEMORY),
            false => Box::leak(std::env::temp_dir().into_boxed_path()),
        }
    });
    &PLACE
}

/// Returns whether memory has room, for programs too.
fn has_room() -> bool {
    rustix::fs::statvfs(MEMORY).is_ok_and(|disk| {
        disk.f_bavail * disk.f_frsize >= ENOUGH
            && !disk.f_flag.contains(StatVfsMountFlags::NOEXEC)
            && tempfile::tempdir_in(MEMORY).is_ok()
    })
}
