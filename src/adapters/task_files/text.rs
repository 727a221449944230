//! Text files in directories that agents write to as well: anything may be in their place.

use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;

use crate::adapters::beneath;
use crate::ports::tasks::{OutcomeText, TaskError};

/// More than this of an outcome file or an intent is not read: neither is ever longer.
const FILE_MAX: u64 = 64 * 1024;

/// What the system says of this path.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> TaskError + '_ {
    move |error| TaskError {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// So far above a task's file is what agents have no business in (rig, relic, incarnation).
const OURS: usize = 4;

/// Writes a file so that a reader, or a crash, sees the old one or the new one whole. What is in its
/// place is replaced, and never written to.
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

/// Reads the beginning of a regular file below a directory of ours, with no link on the way; none where
/// there is none. What is something else is an error that [`beneath::is_odd`] knows.
pub(super) fn read_some(root: &Path, name: &Path) -> io::Result<Option<OutcomeText>> {
    let Some(file) = beneath::open(root, name)? else {
        return Ok(None);
    };
    let written = file.metadata()?.modified().ok();
    let written = written.and_then(|at| Timestamp::try_from(at).ok());
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(OutcomeText {
        text,
        written,
        odd: None,
    }))
}

/// The directory so many levels above, and the way down from it: an agent may put a link in the place of any
/// directory that it can write to.
pub(super) fn from_above(path: &Path, levels: usize) -> (&Path, &Path) {
    let root = path.ancestors().nth(levels).unwrap_or(Path::new("/"));
    (root, path.strip_prefix(root).unwrap_or(path))
}

/// When whatever is there was put there or changed.
pub(super) fn written(path: &Path) -> Option<Timestamp> {
    let changed = path
        .symlink_metadata()
        .and_then(|meta| meta.modified())
        .ok()?;
    Timestamp::try_from(changed).ok()
}
