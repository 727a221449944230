//! The moments at which the city's directory may have been moved, removed or replaced. A supervisor at rest is not woken
//! by looking for that: the kernel reports a move of the directory, or of one above it, and each removal of one of its
//! entries. Replacements that it reports in no such way, as a mount on the path or a move of a directory that this user may
//! not read, are found by the patrol.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
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
    city: PathBuf,
    /// None where the kernel has no watch left.
    events: Option<AsyncFd<OwnedFd>>,
    /// The number of further looks after the last change.
    looks: u32,
    /// Set when other directories may be above the city than those that are watched.
    is_changed: bool,
    /// Set while the watches fail, which is logged once.
    is_told: bool,
}

impl Moves {
    /// Watches the path of a city, which is canonical. Without watches there is a look each second.
    pub(super) fn of(city: &Path) -> Self {
        let mut moves = Self {
            city: city.to_owned(),
            events: None,
            looks: 0,
            is_changed: false,
            is_told: false,
        };
        moves.watch_anew();
        moves
    }

    /// Without watches the next look tries again: what failed may have been a watch limit, or a move of that moment.
    fn watch_anew(&mut self) {
        // The old watches first: their number is limited.
        self.events = None;
        let events = watch(&self.city).inspect_err(|error| {
            if !std::mem::replace(&mut self.is_told, true) {
                tracing::warn!(%error, city = %self.city.display(), "the directory of the city cannot be watched; the supervisor looks at it each second");
            }
        });
        self.events = events.ok();
        self.is_changed = self.events.is_none();
        self.is_told &= self.is_changed;
        // A change before the watches were set was not reported.
        self.looks = 1;
    }

    /// Waits for the time of the next look. `is_away`: the directory is not at its path now, and what comes there is not
    /// reported.
    pub(super) async fn next(&mut self, is_away: bool) {
        self.is_changed |= is_away;
        if self.is_changed && !is_away && self.looks == 0 {
            self.watch_anew();
        }
        let Some(events) = &self.events else {
            self.looks = 0;
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
            self.is_changed = true;
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
        match inotify::add_watch(&events, dir, moved) {
            // A directory that may only be passed through (`/home` with mode 0711) cannot be watched.
            Ok(_) | Err(Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use nix::unistd::{Uid, setfsuid};
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    /// Longer than all looks after a change.
    const LONG: Duration = Duration::from_secs(60);

    /// Waits until nothing wakes it any more.
    async fn at_rest(moves: &mut Moves) {
        while timeout(LONG, moves.next(false)).await.is_ok() {}
    }

    /// The watches had stayed on the directory that was above the city before.
    #[tokio::test(start_paused = true)]
    async fn city_that_came_back_below_another_directory_is_watched_there() {
        let temp = crate::testing::scratch();
        let place = temp.path().canonicalize().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| place.join(name));
        fs::create_dir_all(a.join("city")).unwrap();
        let mut moves = Moves::of(&a.join("city"));
        at_rest(&mut moves).await;
        fs::rename(&a, &b).unwrap();
        moves.next(false).await;
        fs::create_dir(&a).unwrap();
        moves.next(true).await;
        fs::rename(b.join("city"), a.join("city")).unwrap();
        at_rest(&mut moves).await;
        fs::rename(&a, &c).unwrap();
        let noticed = timeout(LONG, moves.next(false)).await;
        assert!(noticed.is_ok(), "the directory above it was moved");
    }

    /// Without read permission for one directory above the city, the supervisor had woken each second for ever.
    #[test]
    fn city_below_a_directory_that_cannot_be_read_is_watched() {
        let temp = crate::testing::scratch();
        let closed = temp.path().canonicalize().unwrap().join("closed");
        let city = closed.join("city");
        fs::create_dir_all(&city).unwrap();
        let mode = |dir: &Path, mode| fs::set_permissions(dir, Permissions::from_mode(mode));
        mode(temp.path(), 0o755).unwrap();
        mode(&city, 0o755).unwrap();
        mode(&closed, 0o311).unwrap();
        let looked = std::thread::spawn(move || {
            if Uid::effective().is_root() {
                // Modes do not bind root. This thread has another user for files, and ends.
                setfsuid(Uid::from_raw(65534));
            }
            assert!(fs::read_dir(&closed).is_err());
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let moves = runtime.block_on(async { Moves::of(&city) });
            mode(&closed, 0o755).unwrap_or_default();
            moves.events.is_some()
        });
        assert!(looked.join().unwrap());
    }
}
