//! Text files in directories that agents write to, too: anything may be in their place.

use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;

use crate::adapters::beneath;
use crate::ports::tasks::{OutcomeText, TaskError};

/// The largest outcome file or intent that is read: neither is ever longer.
const FILE_MAX: u64 = 64 * 1024;

/// Returns a function that makes the error for this path.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> TaskError + '_ {
    move |error| TaskError {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// The number of levels above a task's file that agents must not write to (rig, relic, incarnation).
const OURS: usize = 4;

/// Writes a file atomically: after a crash, and for a reader, it is the old one or the new one. Anything in its place
/// is replaced, and never written to.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), TaskError> {
    let (root, name) = from_above(path, OURS);
    beneath::replace_durably(root, name, text.as_bytes()).map_err(at(path))
}

/// Makes a directory for such files.
pub(super) fn make_dir(dir: &Path) -> Result<(), TaskError> {
    let (root, name) = from_above(dir, OURS - 1);
    std::fs::create_dir_all(root)
        .and_then(|()| beneath::make_dirs(root, name))
        .map_err(at(dir))
}

/// Reads a small regular file below a directory of ours, without a link on its path; none if it does not exist.
/// Anything else is an error that [`beneath::is_odd`] recognises.
pub(super) fn read_some(root: &Path, name: &Path) -> io::Result<Option<OutcomeText>> {
    let Some(file) = beneath::open(root, name)? else {
        return Ok(None);
    };
    let written = file.metadata()?.modified().ok();
    let written = written.and_then(|at| Timestamp::try_from(at).ok());
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        let what = format!("it is larger than {FILE_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(OutcomeText {
        text,
        written,
        odd: None,
    }))
}

/// Splits a path at the directory this many levels above: an agent may put a link in place of any directory that it
/// can write to.
pub(super) fn from_above(path: &Path, levels: usize) -> (&Path, &Path) {
    let root = path.ancestors().nth(levels).unwrap_or(Path::new("/"));
    (root, path.strip_prefix(root).unwrap_or(path))
}

/// Returns the time of the last change of the path.
pub(super) fn written(path: &Path) -> Option<Timestamp> {
    let changed = path
        .symlink_metadata()
        .and_then(|meta| meta.modified())
        .ok()?;
    Timestamp::try_from(changed).ok()
}
