//! The trash: directories that were removed and contain nothing that would be lost. A process may still work in such
//! a directory (a shell that a person left there) or have a file of it open for writing. That directory is kept as
//! long as it is in use, with a note of the time; if it was written to since then, it stays for a person to check.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::time::{ClockId, clock_gettime};

use super::{beneath, proc};

/// The suffix of a note's name.
const NOTE: &str = ".used";
/// The largest size of a note.
const NOTE_MAX: u64 = 64;

/// The reason why an entry of the trash stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// This path in it is in use.
    Used(PathBuf),
    /// This path was written after it was thrown away.
    Written(PathBuf),
}

/// The paths in the trash that are in use.
#[derive(Debug)]
pub struct Uses(Vec<PathBuf>);

impl Uses {
    /// Reads all processes.
    ///
    /// # Errors
    /// When the processes cannot be read.
    pub fn of(trash: &Path) -> io::Result<Self> {
        proc::used_below(trash).map(Self)
    }

    fn within(&self, place: &Path) -> Option<&PathBuf> {
        let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        self.0.iter().find(|used| used.starts_with(&place))
    }
}

/// Returns the time of the clock that the kernel stamps files with: no later write has an earlier change time.
#[must_use]
pub fn stamp_now() -> (i64, i64) {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    (now.tv_sec, now.tv_nsec)
}

/// Notes that a thrown-away directory is in use, if so: later writes were not measured.
///
/// # Errors
/// When the processes cannot be read, or the file system refuses.
pub fn note_use(place: &Path, since: (i64, i64)) -> io::Result<()> {
    match Uses::of(place)?.within(place) {
        Some(_) => write_stamp(place, since),
        None => Ok(()),
    }
}

/// Returns the reason why an entry of the trash must stay; none if it may be removed.
///
/// # Errors
/// When that cannot be decided.
pub fn stays(place: &Path, uses: &Uses) -> io::Result<Option<Stays>> {
    let since = noted(place)?;
    let used = uses.within(place);
    if let Some(since) = since {
        // A person may be looking at what was written: that is said for as long as it is there.
        let written = written(place, since)?.map(Stays::Written);
        return Ok(written.or_else(|| used.cloned().map(Stays::Used)));
    }
    let Some(used) = used else { return Ok(None) };
    write_stamp(place, stamp_now())?;
    Ok(Some(Stays::Used(used.clone())))
}

/// Returns true if this is a note, and not an entry itself.
#[must_use]
pub fn is_note(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(NOTE.as_bytes())
}

/// Returns the name of an entry's note.
#[must_use]
pub fn note_of(name: &OsStr) -> OsString {
    let mut note = name.to_owned();
    note.push(NOTE);
    note
}

/// Removes a note whose entry no longer exists.
///
/// # Errors
/// When the file system refuses.
pub fn tidy(note: &Path) -> io::Result<()> {
    let entry = note.with_extension("");
    match fs::symlink_metadata(entry) {
        Ok(_) => Ok(()),
        Err(_) => fs::remove_file(note),
    }
}

fn parts(place: &Path) -> (&Path, OsString) {
    let name = place.file_name().unwrap_or_default();
    (place.parent().unwrap_or(place), note_of(name))
}

fn write_stamp(place: &Path, since: (i64, i64)) -> io::Result<()> {
    let text = format!("{} {}\n", since.0, since.1);
    let (trash, name) = parts(place);
    beneath::replace(trash, Path::new(&name), text.as_bytes()).map(drop)
}

/// Returns the time since which an entry was in use. A garbled note counts as the earliest time.
fn noted(place: &Path) -> io::Result<Option<(i64, i64)>> {
    let (trash, name) = parts(place);
    let text = beneath::read_text(trash, Path::new(&name), NOTE_MAX)?;
    Ok(text.map(|text| {
        let since = text.trim().split_once(' ');
        let since = since.and_then(|(at, ns)| Some((at.parse().ok()?, ns.parse().ok()?)));
        since.unwrap_or_default()
    }))
}

/// Returns the first file or link in a directory that was changed since then.
fn written(place: &Path, since: (i64, i64)) -> io::Result<Option<PathBuf>> {
    let mut left = vec![place.to_owned()];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path)?;
        if found.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        } else if (found.ctime(), found.ctime_nsec()) >= since {
            return Ok(Some(path));
        }
    }
    Ok(None)
}
