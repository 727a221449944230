//! The moments at which the city's directory may have been moved, removed or replaced. A supervisor at rest is not woken
//! by looking for that: the kernel reports a move of the directory, or of one above it, and each removal of one of its
//! entries. Replacements that it reports in no such way, as a mount on the path, are found by the patrol.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The pause between two looks while something changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The number of looks after a change: a directory goes after its last entry.
const LOOKS: u32 = 10;

/// The watches on the city's directory and on those above it.
pub(super) struct Moves {
    /// None where the kernel has no watch left.
    events: Option<AsyncFd<OwnedFd>>,
    /// The number of further looks after the last change.
    looks: u32,
}

impl Moves {
    /// Watches the path of a city, which is canonical. Without watches there is a look each second.
    pub(super) fn of(city: &Path) -> Self {
        let events = watch(city).inspect_err(|error| {
            tracing::warn!(%error, city = %city.display(), "the directory of the city cannot be watched; the supervisor looks at it each second");
        });
        Self {
            events: events.ok(),
            // A change before the watches were set was not reported.
            looks: 1,
        }
    }

    /// Waits for the time of the next look. `is_away`: the directory is not at its path now, and what comes there is not
    /// reported.
    pub(super) async fn next(&mut self, is_away: bool) {
        let Some(events) = &self.events else {
            return tokio::time::sleep(LOOK_EVERY).await;
        };
        if self.looks > 0 || is_away {
            self.looks = self.looks.saturating_sub(1);
            tokio::time::sleep(LOOK_EVERY).await;
        } else if let Ok(mut ready) = events.readable().await {
            ready.clear_ready();
        } else {
            self.events = None;
            return;
        }
        if is_read(events.get_ref()) {
            self.looks = LOOKS;
        }
    }
}

fn watch(city: &Path) -> std::io::Result<AsyncFd<OwnedFd>> {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    let moved = WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
    // The root directory cannot be moved.
    let above = city
        .ancestors()
        .skip(1)
        .filter(|dir| dir.parent().is_some());
    for dir in above {
        inotify::add_watch(&events, dir, moved)?;
    }
    inotify::add_watch(
        &events,
        city,
        moved | WatchFlags::DELETE | WatchFlags::MOVED_FROM,
    )?;
    // SAFETY: the result owns the descriptor, which stays open until then.
    Ok(unsafe { AsyncFd::register_with_interest(events, Interest::READABLE) }?)
}

/// Reads what was reported. Returns whether there was anything.
fn is_read(events: &OwnedFd) -> bool {
    let (mut part, mut any) = ([0; 4096], false);
    loop {
        match rustix::io::read(events, &mut part) {
            Ok(1..) => any = true,
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return any,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns whether a look is due without a change.
    async fn is_due(moves: &mut Moves) -> bool {
        let soon = Duration::from_millis(50);
        tokio::time::timeout(soon, moves.next(false)).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn look_is_due_after_a_change_and_never_at_rest() {
        let dir = crate::testing::scratch();
        let above = dir.path().canonicalize().unwrap();
        let city = above.join("a/city");
        fs::create_dir_all(city.join("rig/.git")).unwrap();
        let changes: [&dyn Fn(); 4] = [
            &|| fs::rename(&city, above.join("a/away")).unwrap(),
            &|| fs::rename(above.join("a"), above.join("b")).unwrap(),
            &|| fs::remove_dir_all(city.join("rig")).unwrap(),
            &|| fs::rename(city.join("rig"), above.join("rig")).unwrap(),
        ];
        for change in changes {
            let mut moves = Moves::of(&city);
            assert!(moves.events.is_some());
            moves.next(false).await;
            assert!(!is_due(&mut moves).await, "at rest");
            fs::write(city.join("rig/file"), "").unwrap();
            fs::write(above.join("file"), "").unwrap();
            assert!(!is_due(&mut moves).await, "by work in the city");
            change();
            for _ in 0..=LOOKS {
                moves.next(false).await;
            }
            assert!(!is_due(&mut moves).await, "at rest again");
            let _mended = [
                fs::rename(above.join("b"), above.join("a")),
                fs::rename(above.join("a/away"), &city),
                fs::rename(above.join("rig"), city.join("rig")),
                fs::create_dir_all(city.join("rig")),
            ];
        }
    }
}
