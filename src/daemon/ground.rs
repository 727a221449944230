//! The ground that the supervisor stands on: the city's directory, `.horde` and the lock. All of them are held open, so
//! that the next patrol notices a removal, move or replacement at runtime, and puts things back where that harms
//! nothing.
//!
//! | What | Found | Done |
//! |---|---|---|
//! | city's directory | moved, and no directory is in its place | said: its paths are everywhere |
//! | city's directory | removed, or another directory is in its place | the supervisor ends (`displaced.rs`) |
//! | `.horde` | moved | moved back, if no directory is in its place; what else is there changes places with it |
//! | `.horde` | removed | made again; the store is refused, not begun anew |
//! | `.horde` | another directory is there | said, and left alone |
//! | directory of the sessions | moved, removed, something else is there | as `.horde` |
//! | lock file | removed, another file | made and locked again |
//! | lock file | something else is there | said, and left alone |
//!
//! There are never two supervisors: one lock is on the city's directory itself, and the seats (`seat.rs`) hold its path
//! and its id, whatever directory is there.

use std::convert::Infallible;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{Mode, OFlags, RenameFlags};
use tokio::sync::Notify;

use super::lock::{self, near};
use super::seat::{self, Seat};
use super::{DaemonError, city_identity, failed_at};
use crate::domain::ground::{Look, Part};
use crate::regular;

/// The directory of the supervisor's state, below the city's.
pub(super) const STATE: &str = ".horde";
/// The directory of the sessions, below that.
const SESSIONS: &str = "sessions";
/// The directories that are made in it again after it was removed: other parts expect them.
const ROOMS: [&str; 3] = [SESSIONS, "outbox", "trash"];

/// The open files by which a supervisor holds its city, for as long as it lives.
pub(super) struct Ground {
    city: PathBuf,
    /// The city's directory, locked.
    root: File,
    identity: city_identity::Verified,
    seats: [Seat; 2],
    held: Mutex<Handles>,
    /// The first result of [`Ground::displaced`]: the supervisor ends then, whatever is at the path later.
    displaced: OnceLock<String>,
    /// Wakes the task that ends the supervisor then.
    found: Notify,
}

struct Handles {
    state: File,
    lock: File,
    /// None before the first look: it is created with the first session.
    sessions: Option<File>,
}

impl Ground {
    /// Takes a city, and creates its `.horde` if it is missing. Changes nothing if another supervisor holds the city,
    /// if `.horde` is something else than a directory, or if this is a copy of another city.
    pub(super) fn take(city: &Path) -> Result<Self, DaemonError> {
        let root = open_dir(city).map_err(failed_at(city, "cannot be opened"))?;
        lock::directory(&root, city)?;
        let place = seat::of_path(city)?;
        let path = city.join(STATE);
        let state = private_dir(&root, &path).map_err(failed_at(&path, "cannot be prepared"))?;
        let lock = lock::file(&state, &path)?;
        let identity = city_identity::verify(city, &path, &root)?;
        let seats = [place, seat::of_id(identity.id(), city)?];
        identity.record(&path);
        let held = Mutex::new(Handles {
            state,
            lock,
            sessions: None,
        });
        Ok(Self {
            city: city.to_owned(),
            root,
            identity,
            seats,
            held,
            displaced: OnceLock::new(),
            found: Notify::new(),
        })
    }

    /// Returns the canonical path of the city.
    pub(super) fn city(&self) -> &Path {
        &self.city
    }

    /// Returns one more descriptor of the city's directory.
    pub(super) fn held_root(&self) -> io::Result<OwnedFd> {
        Ok(self.root.try_clone()?.into())
    }

    /// Answers processes that ask which process holds the seats, for ever.
    pub(super) async fn answer(&self) -> Infallible {
        let [place, id] = &self.seats;
        tokio::select! {
            never = place.answer() => never,
            never = id.answer() => never,
        }
    }

    /// Returns once [`Ground::displaced`] has found a reason.
    pub(super) async fn found_displaced(&self) {
        self.found.notified().await;
    }

    /// Returns true if the directory is known to be elsewhere than at its path.
    pub(super) fn is_away(&self) -> bool {
        let is_ours =
            || Ok::<_, io::Error>(same(&fs::metadata(&self.city)?, &self.root.metadata()?));
        // A disk that does not answer tells nothing.
        is_ours().map_or_else(
            |error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
            |is_ours| !is_ours,
        )
    }

    /// Returns the reason why the path of the city must not be used any more, if there is one: its directory cannot
    /// come back, or another one is there. A directory that was only moved can come back. If nothing can be seen there,
    /// nothing is concluded. Once there was a reason, it stays.
    pub(super) fn displaced(&self) -> Option<String> {
        if let Some(why) = self.displaced.get() {
            return Some(why.clone());
        }
        let why = self.is_displaced()?;
        let first = || {
            self.found.notify_one();
            why
        };
        Some(self.displaced.get_or_init(first).clone())
    }

    fn is_displaced(&self) -> Option<String> {
        let ours = self.root.metadata().ok()?;
        let city = self.city.display();
        let moved = match place(&self.root, &ours).ok()? {
            Some(moved) => format!("was moved to {}", moved.display()),
            None => "was removed".to_owned(),
        };
        let is_other = |now: &Metadata| now.is_dir() && !same(now, &ours);
        match fs::metadata(&self.city)
            .ok()
            .is_some_and(|now| is_other(&now))
        {
            true => Some(format!(
                "the directory of this supervisor's city {moved}, and another directory is at {city}"
            )),
            false if ours.nlink() == 0 => Some(format!("the city's directory {city} was removed")),
            false => None,
        }
    }

    /// Checks all of it, and puts back what can be put back.
    pub(super) fn check(&self) -> Look {
        let mut look = Look::default();
        if let Some(why) = self.displaced() {
            look.leave(Part::City, &self.city, why, "this supervisor ends");
            return look;
        }
        // No code panics while it holds the lock.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.look_at_city(&mut look) {
            look.leave(
                Part::City,
                &self.city,
                format!("it cannot be checked: {error}"),
                "",
            );
        }
        let state = self.city.join(STATE);
        match self.look_at_state(&mut held, &state, &mut look) {
            Ok(true) => {}
            Ok(false) => return look,
            Err(error) => {
                look.leave(
                    Part::State,
                    state,
                    format!("it cannot be checked: {error}"),
                    "",
                );
                return look;
            }
        }
        let sessions = state.join(SESSIONS);
        if let Err(error) = look_at_sessions(&mut held, &sessions, &mut look) {
            let says = format!("it is not the directory of the sessions: {error}");
            look.leave(Part::Sessions, sessions, says, "move it away");
        }
        let lock = state.join(lock::FILE);
        if let Err(error) = look_at_lock(&mut held, &lock, &mut look) {
            let hint = "move it away; then the lock is recreated";
            look.leave(
                Part::Lock,
                lock,
                format!("it is not the lock: {error}"),
                hint,
            );
        }
        look
    }

    fn look_at_city(&self, look: &mut Look) -> io::Result<()> {
        let ours = self.root.metadata()?;
        let now = found(&self.city)?;
        if now.is_some_and(|now| same(&now, &ours)) {
            return Ok(());
        }
        let Some(moved) = place(&self.root, &ours)? else {
            // It was removed since the beginning of this check; the supervisor ends.
            return Ok(());
        };
        let moved = moved.display();
        let says = format!("the city's directory was moved to {moved}");
        let hint = format!(
            "move it back; or end this supervisor with `hd --city {moved} stop` and start another one there"
        );
        look.leave(Part::City, &self.city, says, hint);
        Ok(())
    }

    /// Checks `.horde`. Returns whether the directory there is ours.
    fn look_at_state(&self, held: &mut Handles, path: &Path, look: &mut Look) -> io::Result<bool> {
        let ours = held.state.metadata()?;
        let place_of = near(&self.root).join(STATE);
        match found(&place_of)? {
            Some(now) if same(&now, &ours) => {
                if private(&held.state)? {
                    look.mend(Part::State, path, "other users can read it");
                }
                Ok(true)
            }
            // Our directory was removed, and another part of the supervisor made it again.
            Some(now) if ours.nlink() == 0 && now.is_dir() => self.make_again(held, path, look),
            Some(now) if ours.nlink() > 0 && !now.is_dir() => {
                let moved = back(&held.state, &ours, &self.root, STATE, Some(&now))?;
                look.mend(Part::State, path, moved.unwrap_or_default());
                Ok(true)
            }
            Some(now) => {
                let kind = regular::kind(&now);
                let hint = match place(&held.state, &ours)? {
                    Some(moved) => format!(
                        "move away {kind} that is in its place; then {} is moved back",
                        moved.display()
                    ),
                    None => format!("move away {kind} that is in its place"),
                };
                look.leave(Part::State, path, "it was replaced", hint);
                Ok(false)
            }
            None => self.put_back(held, path, &ours, look),
        }
    }

    /// Makes `.horde` with all directories that other parts expect, or takes the existing one.
    fn make_again(&self, held: &mut Handles, path: &Path, look: &mut Look) -> io::Result<bool> {
        held.state = private_dir(&self.root, path)?;
        for room in ROOMS {
            make_private(&near(&held.state).join(room))?;
        }
        held.sessions = Some(room(&held.state, SESSIONS)?);
        held.lock = match lock::again(&held.state)? {
            Some(lock) => lock,
            None => return Ok(false),
        };
        self.identity.write(path);
        look.mend(Part::State, path, "it was removed, and was recreated");
        Ok(true)
    }

    fn put_back(
        &self,
        held: &mut Handles,
        path: &Path,
        ours: &Metadata,
        look: &mut Look,
    ) -> io::Result<bool> {
        match back(&held.state, ours, &self.root, STATE, None) {
            Ok(Some(moved)) => {
                look.mend(Part::State, path, moved);
                Ok(true)
            }
            // The city is gone with it.
            Ok(None) if self.root.metadata()?.nlink() == 0 => Ok(false),
            Ok(None) => self.make_again(held, path, look),
            Err(error) => {
                look.leave(Part::State, path, error.to_string(), "move it back");
                Ok(false)
            }
        }
    }
}

/// Moves a moved directory back to its name. An object in its place that is no directory gets the name that the
/// directory was moved to. Returns the action in words; none if the directory was removed.
fn back(
    dir: &File,
    ours: &Metadata,
    parent: &File,
    name: &str,
    instead: Option<&Metadata>,
) -> io::Result<Option<String>> {
    let Some(moved) = place(dir, ours)? else {
        return Ok(None);
    };
    let how = match instead {
        Some(_) => RenameFlags::EXCHANGE,
        None => RenameFlags::NOREPLACE,
    };
    let shown = moved.display();
    match rustix::fs::renameat_with(rustix::fs::CWD, &moved, parent, name, how) {
        Ok(()) => {
            let aside = instead.map(|found| {
                let kind = regular::kind(found);
                format!("; {kind} that was in its place is {shown} now")
            });
            let aside = aside.unwrap_or_default();
            Ok(Some(format!(
                "it was moved to {shown}, and is moved back{aside}"
            )))
        }
        Err(error) => Err(io::Error::other(format!(
            "it was moved to {shown} and cannot be moved back: {error}"
        ))),
    }
}

/// Checks the directory of the sessions. While another directory is in its place, no session is started.
fn look_at_sessions(held: &mut Handles, path: &Path, look: &mut Look) -> io::Result<()> {
    let Some(dir) = &held.sessions else {
        held.sessions = Some(room(&held.state, SESSIONS)?);
        return Ok(());
    };
    let ours = dir.metadata()?;
    let now = found(&near(&held.state).join(SESSIONS))?;
    match now {
        Some(now) if same(&now, &ours) => {}
        _ if ours.nlink() == 0 => {
            held.sessions = Some(room(&held.state, SESSIONS)?);
            look.mend(Part::Sessions, path, "it was removed, and was recreated");
        }
        Some(now) if now.is_dir() => {
            let moved = place(dir, &ours)?.unwrap_or_default();
            let says = format!("it was moved to {}", moved.display());
            let hint =
                "move away the directory that is in its place; then the original is moved back";
            look.leave(Part::Sessions, path, says, hint);
        }
        instead => {
            let moved = back(dir, &ours, &held.state, SESSIONS, instead.as_ref())?;
            look.mend(Part::Sessions, path, moved.unwrap_or_default());
        }
    }
    Ok(())
}

fn look_at_lock(held: &mut Handles, path: &Path, look: &mut Look) -> io::Result<()> {
    let ours = held.lock.metadata()?;
    if found(&near(&held.state).join(lock::FILE))?.is_some_and(|now| same(&now, &ours)) {
        if lock::sign_again(&held.lock)? {
            let says = "it did not hold the pid of this supervisor, which was written again";
            look.mend(Part::Lock, path, says);
        }
        return Ok(());
    }
    match lock::again(&held.state)? {
        Some(lock) => {
            held.lock = lock;
            look.mend(
                Part::Lock,
                path,
                "it was removed or replaced, and was locked again",
            );
        }
        None => {
            let hint = "find and end the process that holds it; the city itself is locked";
            look.leave(
                Part::Lock,
                path,
                "another process has locked a file in its place",
                hint,
            );
        }
    }
    Ok(())
}

fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Returns the present path of an open directory; none when it was removed.
fn place(dir: &File, seen: &Metadata) -> io::Result<Option<PathBuf>> {
    match seen.nlink() {
        0 => Ok(None),
        _ => fs::read_link(near(dir)).map(Some),
    }
}

fn open_dir(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut options = fs::OpenOptions::new();
    let options = options.read(true);
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// Opens a directory below `.horde`, and creates it if it is missing.
fn room(state: &File, name: &str) -> io::Result<File> {
    let path = near(state).join(name);
    make_private(&path)?;
    open_dir(&path)
}

fn make_private(path: &Path) -> io::Result<()> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens `.horde` below the city's directory, and creates it if it is missing, closed to other users. A link is not
/// followed, and the mode of another user's directory is not changed.
fn private_dir(root: &File, shown: &Path) -> io::Result<File> {
    let path = near(root).join(STATE);
    make_private(&path)?;
    let seen = fs::symlink_metadata(&path)?;
    if !seen.is_dir() {
        let message = format!("it is {}, not a directory", regular::kind(&seen));
        return Err(io::Error::new(ErrorKind::NotADirectory, message));
    }
    let dir = open_dir(&path)?;
    if private(&dir)? {
        tracing::warn!(path = %shown.display(), "the directory was open to other users; its mode is 0700 now");
    }
    Ok(dir)
}

/// Closes a directory of ours to other users. Returns whether it was open to them.
fn private(dir: &File) -> io::Result<bool> {
    let seen = dir.metadata()?;
    if seen.uid() != rustix::process::geteuid().as_raw() {
        let message = "it belongs to another user";
        return Err(io::Error::new(ErrorKind::PermissionDenied, message));
    }
    let open = seen.mode() & 0o7777 != 0o700;
    if open {
        rustix::fs::fchmod(dir, Mode::RWXU)?;
    }
    Ok(open && seen.mode() & 0o077 != 0)
}

#[cfg(test)]
mod tests;
