//! The end of all work by path. Once the directory of the city was removed, or has another directory in its place, work
//! that is under way must not go on: its next command, or the clean-up after one that was killed, would touch the other
//! directory. Its thread stops where it starts a process or has waited for one, and stays there: the supervisor is about
//! to exit.

use std::sync::OnceLock;
use std::thread;

type IsDisplaced = Box<dyn Fn() -> bool + Send + Sync>;

/// The look at the city's directory. It is asked at most twice for each process that is started.
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
