//! The end of all work by path. Once the directory of the city was removed, or has another directory in its place, work
//! that is under way must not go on: its next command, or the clean-up after one that was killed, would touch the other
//! directory. Its thread stops where it starts a process, has waited for one, or renames a sandbox, and stays there: the
//! supervisor is about to exit.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::thread;

use rustix::fs::{CWD, Mode, OFlags, openat};

type IsDisplaced = Box<dyn Fn() -> bool + Send + Sync>;

/// The look at the city's directory. It is asked a few times for each process that is started.
static IS_DISPLACED: OnceLock<IsDisplaced> = OnceLock::new();

/// Sets the look that decides whether work by path may go on. A holder of sessions, a keeper and `hd` have none.
pub fn watch(is_displaced: impl Fn() -> bool + Send + Sync + 'static) {
    // A process works for one city, so only the first call counts.
    let _first = IS_DISPLACED.set(Box::new(is_displaced));
}

/// Returns at once while work by path may go on, and never once it must not. No lock that the end of the supervisor
/// needs may be held.
pub(crate) fn pass() {
    if IS_DISPLACED
        .get()
        .is_some_and(|is_displaced| is_displaced())
    {
        loop {
            thread::park();
        }
    }
}

/// Opens the parent directory of a path, and returns it with the name in it. Work with these two is done in the city's
/// own directory, even if another directory takes its place meanwhile. Returns only while work by path may go on, so what
/// is said of locks at [`pass`] holds here, too.
///
/// # Errors
/// When the directory cannot be opened.
pub(crate) fn hold(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    let dir = openat(CWD, above, how, Mode::empty())?;
    pass();
    Ok((dir, path.file_name().unwrap_or_default()))
}
