//! The trash: directories that were removed and contain nothing that would be lost. A process may still work in such
//! a directory (a shell that a person left there), have a file of it open for writing or mapped, or have written to it
//! while it was removed.
//!
//! An entry is deleted only if no process uses it, and nothing in it was written, made or moved there since a time
//! before its removal. Its note tells that time, and is on the disk before the entry is in the trash. A written entry
//! stays for a person to check.

mod note;

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, renameat, statat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

pub use self::note::Note;
use super::proc::{self, UsedFiles};
use super::{removal, standstill};

/// The suffix of a note's name.
const NOTE: &str = ".used";
/// The suffix of a note that is being written.
const PART: &str = ".used.new";

/// A time of the clock that the kernel stamps files with: seconds and nanoseconds.
pub type Stamp = (i64, i64);

/// Held while an entry comes into the trash: its note comes first, and is no note without an entry.
static COMING: Mutex<()> = Mutex::new(());

/// The reason why an entry of the trash stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// This path in it is in use.
    Used(PathBuf),
    /// This path was written, or moved there, after it was thrown away.
    Written(PathBuf),
}

/// The files that are in use. They are read when they are first asked for: each file of each process is looked at.
#[derive(Debug, Default)]
pub struct Uses(OnceCell<UsedFiles>);

impl Uses {
    /// Reads all processes. Only entries that were in the trash before may be judged by it.
    ///
    /// # Errors
    /// When the processes cannot be read.
    fn read(&self) -> io::Result<&UsedFiles> {
        match self.0.get() {
            Some(used) => Ok(used),
            None => proc::used_files().map(|used| self.0.get_or_init(|| used)),
        }
    }
}

/// Returns the time of the clock that the kernel stamps files with: no later write has an earlier change time.
#[must_use]
pub fn stamp_now() -> Stamp {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// Writes the note, and renames a directory into the trash, which is held open: a link may have taken its place, or
/// another directory that of the city.
///
/// # Errors
/// When the file system refuses; then nothing was renamed.
pub fn throw(from: &Path, trash: &OwnedFd, to: &Path, note: &Note) -> io::Result<()> {
    let (dir, from) = standstill::hold(from)?;
    let _coming = COMING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = to.file_name().unwrap_or_default();
    note.write(&held(trash).join(name))?;
    Ok(renameat(dir, from, trash, name)?)
}

/// Returns a path to the trash that leads there wherever it is now.
fn held(trash: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", trash.as_raw_fd()).into()
}

/// Returns the reason why an entry of the trash must stay; none if it may be removed.
///
/// # Errors
/// When that cannot be decided.
pub fn stays(trash: &OwnedFd, place: &Path, uses: &Uses) -> io::Result<Option<Stays>> {
    let name = place.file_name().unwrap_or_default();
    let open = || removal::open_at(trash, name);
    let Some(top) = open()? else {
        let found = statat(trash, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_used = uses.read()?.all.contains(&(found.st_dev, found.st_ino));
        return Ok(is_used.then(|| Stays::Used(place.to_owned())));
    };
    // The trash may be moved meanwhile, with the city: what its path leads to then has no note.
    let held = held(trash).join(name);
    let Some(note) = Note::read(&held)? else {
        return without_note(top, (place, &held), uses.read()?);
    };
    // An entry that a person has to look at may be there for weeks: the processes are not read for it.
    let first = note.look(top, place, &HashSet::new())?;
    if first.written.is_some() {
        return Ok(first.written.map(Stays::Written));
    }
    let note = note.with_opened(first.opened, &held)?;
    // A process that closed the file before its uses were read has written to it before this second look.
    let used = uses.read()?;
    let Some(top) = open()? else {
        return Err(io::Error::other("another entry took its place"));
    };
    let found = note.look(top, place, &used.all)?;
    // A person may be looking at what was written: that is said for as long as it is there.
    let written = found.written.map(Stays::Written);
    Ok(written.or_else(|| found.used.map(Stays::Used)))
}

/// As [`stays`], but for an entry without a note: it is not the supervisor's, or an earlier version's that was not in use.
fn without_note(
    top: OwnedFd,
    (place, held): (&Path, &Path),
    used: &UsedFiles,
) -> io::Result<Option<Stays>> {
    let found = Note::without_time().look(top, place, &used.all)?;
    if found.used.is_some() {
        Note::of(held, stamp_now(), &used.mapped)?.write(held)?;
    }
    Ok(found.used.map(Stays::Used))
}

/// Returns true if this is a note, and not an entry itself.
#[must_use]
pub fn is_note(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.ends_with(NOTE.as_bytes()) || name.ends_with(PART.as_bytes())
}

/// Returns the name of an entry's note.
#[must_use]
pub fn note_of(name: &OsStr) -> OsString {
    let mut note = name.to_owned();
    note.push(NOTE);
    note
}

/// Removes a note whose entry no longer exists, or that was not finished.
///
/// # Errors
/// When the file system refuses.
pub fn tidy(trash: &OwnedFd, note: &OsStr) -> io::Result<()> {
    let _coming = COMING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_part = Path::new(note).extension() == Some(OsStr::new("new"));
    let entry = Path::new(note).with_extension("");
    match statat(trash, &entry, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) if !is_part => Ok(()),
        Ok(_) | Err(Errno::NOENT) => removal::remove_at(trash, note),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;
