//! Text files in directories that agents write to as well: anything may be in their place.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use jiff::Timestamp;

use crate::ports::tasks::{OutcomeText, TaskError};
use crate::regular::{self, Links};

/// More than this of an outcome file or an intent is not read: neither is ever longer.
const FILE_MAX: u64 = 64 * 1024;

/// What the system says of this path.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> TaskError + '_ {
    move |error| TaskError {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// Writes a file so that a reader, or a crash, sees the old one or the new one whole. What is in its
/// place is replaced, and never written to.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), TaskError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        fs::File::open(dir)?.sync_all()
    };
    write().map_err(at(path))
}

/// Reads the beginning of a regular file. What is none (a FIFO would be waited for for ever) is an
/// error of the kind [`io::ErrorKind::InvalidData`].
pub(super) fn read_some(path: &Path) -> io::Result<OutcomeText> {
    let file = regular::open(path, Links::Follow)?;
    let written = file.metadata()?.modified().ok();
    let written = written.and_then(|at| Timestamp::try_from(at).ok());
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(OutcomeText {
        text,
        written,
        odd: None,
    })
}

/// When whatever is there was put there or changed.
pub(super) fn written(path: &Path) -> Option<Timestamp> {
    let changed = path
        .symlink_metadata()
        .and_then(|meta| meta.modified())
        .ok()?;
    Timestamp::try_from(changed).ok()
}
