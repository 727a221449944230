//! Notes of the outcomes that the supervisor has moved into the task directory. A move changes the time of a file, and the
//! outcome that was declared last counts, also after a kill of the supervisor.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::text::{changed, from_above};
use crate::adapters::beneath;

/// The file of the notes, beside the outcome file.
const FILE: &str = "outcome.moved";
/// The number of notes that are kept: the present outcome file, and one that is just being moved, with some before.
const NOTES_MAX: usize = 4;
/// The largest file of notes that is read.
const LENGTH_MAX: u64 = 16 * 1024;
/// The number of levels above a file of a task that agents must not write to: rig, relic and incarnation.
const LEVELS: usize = 4;

/// A file that was moved. A session that writes into it changes its size or its time of writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Moved {
    inode: u64,
    length: u64,
    /// The time of the last write, in seconds and nanoseconds.
    written: (i64, i64),
    /// When it came to its place in the sandbox.
    came: Option<Timestamp>,
}

impl Moved {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            length: file.len(),
            written: (file.mtime(), file.mtime_nsec()),
            came: changed(file),
        }
    }

    fn is(&self, file: &Metadata) -> bool {
        let now = Self::of(file);
        (self.inode, self.length, self.written) == (now.inode, now.length, now.written)
    }
}

fn read(outcome: &Path) -> Vec<Moved> {
    let path = outcome.with_file_name(FILE);
    let (root, name) = from_above(&path, LEVELS);
    let found = beneath::read(root, name, LENGTH_MAX).ok().flatten();
    // An agent can write to it, and hides only its own outcomes by that.
    found
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// Notes a file of the sandbox that is about to become the outcome file, durably.
pub(super) fn note(outcome: &Path, file: &Metadata) -> io::Result<()> {
    let mut notes = read(outcome);
    notes.retain(|note| note.inode != file.ino());
    notes.push(Moved::of(file));
    let old = notes.len().saturating_sub(NOTES_MAX);
    let text = serde_json::to_vec(&notes[old..])?;
    let path = outcome.with_file_name(FILE);
    let (root, name) = from_above(&path, LEVELS);
    beneath::replace_durably(root, name, &text)
}

/// Returns when the session declared what is in the outcome file: a move by the supervisor does not count.
pub(super) fn declared(outcome: &Path, file: &Metadata) -> Option<Timestamp> {
    let notes = read(outcome);
    match notes.into_iter().find(|note| note.is(file)) {
        Some(note) => note.came,
        None => changed(file),
    }
}
