//! Notes of the outcomes that the supervisor has moved into the task directory. A move changes the time of a file, and the
//! outcome that was declared last counts, also after a kill of the supervisor.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::text::{IN_TASKS, changed, from_above};
use crate::adapters::beneath;

/// The file of the notes, beside the outcome file.
const FILE: &str = "outcome.moved";
/// The number of notes that are kept: the present outcome file, and one that is just being moved, with some before.
const NOTES_MAX: usize = 4;
/// The largest file of notes that is read.
const LENGTH_MAX: u64 = 16 * 1024;

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
    let (root, name) = from_above(&path, IN_TASKS);
    let found = beneath::read(root, name, LENGTH_MAX).ok().flatten();
    // An agent can write to it, and hides only its own outcomes by that.
    found
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// Notes a file of the sandbox that is about to become the outcome file, durably.
pub(super) fn note(outcome: &Path, file: &Metadata) -> io::Result<()> {
    let (mut notes, moved) = (read(outcome), Moved::of(file));
    // A move that fails each time (between two mounts of one disk) is tried by each repair.
    if notes.contains(&moved) {
        return Ok(());
    }
    notes.retain(|note| note.inode != moved.inode);
    notes.push(moved);
    let old = notes.len().saturating_sub(NOTES_MAX);
    let text = serde_json::to_vec(&notes[old..])?;
    let path = outcome.with_file_name(FILE);
    let (root, name) = from_above(&path, IN_TASKS);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn move_that_is_tried_again_is_noted_once() {
        let top = crate::testing::scratch();
        let dir = top.path().join("tasks/rig/gt-1/Toast-1");
        fs::create_dir_all(&dir).unwrap();
        let (outcome, file) = (dir.join("outcome"), top.path().join("file"));
        let noted = || {
            note(&outcome, &file.metadata().unwrap()).unwrap();
            (dir.join(FILE).metadata().unwrap().ino(), read(&outcome))
        };
        fs::write(&file, "passed").unwrap();
        let first = noted();
        assert_eq!(noted(), first);
        fs::write(&file, "passed anew").unwrap();
        let second = noted();
        assert_ne!(second, first);
        assert_eq!(second.1.len(), 1, "one note of a file");
    }
}
