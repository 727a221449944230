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
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, renameat};
use rustix::time::{ClockId, clock_gettime};

pub use self::note::Note;
use super::proc::{self, UsedFiles};
use super::removal;

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

/// Writes the note, and renames a directory into the trash, which is held open: a link may have taken its place.
///
/// # Errors
/// When the file system refuses; then nothing was renamed.
pub fn throw(from: &Path, trash: &OwnedFd, to: &Path, note: &Note) -> io::Result<()> {
    let _coming = COMING.lock().unwrap_or_else(PoisonError::into_inner);
    note.write(to)?;
    let name = to.file_name().unwrap_or_default();
    Ok(renameat(CWD, from, trash, name)?)
}

/// Returns the reason why an entry of the trash must stay; none if it may be removed.
///
/// # Errors
/// When that cannot be decided.
pub fn stays(trash: impl AsFd, place: &Path, uses: &Uses) -> io::Result<Option<Stays>> {
    let name = place.file_name().unwrap_or_default();
    let open = || removal::open_at(&trash, name);
    let Some(top) = open()? else {
        let found = fs::symlink_metadata(place)?;
        let is_used = uses.read()?.all.contains(&(found.dev(), found.ino()));
        return Ok(is_used.then(|| Stays::Used(place.to_owned())));
    };
    let Some(note) = Note::read(place)? else {
        return without_note(top, place, uses.read()?);
    };
    // An entry that a person has to look at may be there for weeks: the processes are not read for it.
    let first = note.look(top, place, &HashSet::new())?;
    if first.written.is_some() {
        return Ok(first.written.map(Stays::Written));
    }
    let note = note.with_opened(first.opened, place)?;
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
fn without_note(top: OwnedFd, place: &Path, used: &UsedFiles) -> io::Result<Option<Stays>> {
    let found = Note::without_time().look(top, place, &used.all)?;
    if found.used.is_some() {
        Note::of(place, stamp_now(), &used.mapped)?.write(place)?;
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
pub fn tidy(trash: impl AsFd, note: &Path) -> io::Result<()> {
    let _coming = COMING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_part = note.extension() == Some(OsStr::new("new"));
    match fs::symlink_metadata(note.with_extension("")) {
        Ok(_) if !is_part => Ok(()),
        Ok(_) | Err(_) => removal::remove_at(trash, note.file_name().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
