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
    /// The time of its last change after the move. None until that was noted: a supervisor that is killed between the move and this
    /// cannot tell a later write of the same length and the same time.
    #[serde(default)]
    moved: Option<Timestamp>,
}

impl Moved {
    fn of(file: &Metadata) -> Self {
        Self {
            inode: file.ino(),
            length: file.len(),
            written: (file.mtime(), file.mtime_nsec()),
            came: changed(file),
            moved: None,
        }
    }

    fn is(&self, file: &Metadata) -> bool {
        let now = Self::of(file);
        let is_same =
            (self.inode, self.length, self.written) == (now.inode, now.length, now.written);
        is_same && self.moved.is_none_or(|moved| Some(moved) == now.came)
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

/// Notes a file that is about to become the outcome file, or is that and is about to be moved aside, with the time at which
/// it was declared. Durable.
pub(super) fn note(outcome: &Path, file: &Metadata) -> io::Result<()> {
    let note = Moved {
        came: declared(outcome, file),
        ..Moved::of(file)
    };
    write(outcome, note)
}

/// Notes the time of a file after its move. Until its next change, it was declared when its note says.
pub(super) fn settle(outcome: &Path, file: &Metadata) -> io::Result<()> {
    let note = Moved {
        came: declared(outcome, file),
        moved: changed(file),
        ..Moved::of(file)
    };
    write(outcome, note)
}

fn write(outcome: &Path, note: Moved) -> io::Result<()> {
    let mut notes = read(outcome);
    // A move that fails each time (between two mounts of one disk) is tried by each repair.
    if notes.contains(&note) {
        return Ok(());
    }
    notes.retain(|other| other.inode != note.inode);
    notes.push(note);
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
    use std::time::Duration;

    use super::*;
    use crate::testing::poll::poll;

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

    #[test]
    fn later_write_of_the_same_length_and_time_is_a_later_declaration() {
        let top = crate::testing::scratch();
        let dir = top.path().join("tasks/rig/gt-1/Toast-1");
        fs::create_dir_all(&dir).unwrap();
        let (outcome, file) = (dir.join("outcome"), top.path().join("file"));
        let write = |text: &str| {
            let file = fs::File::create(&file).unwrap();
            io::Write::write_all(&mut &file, text.as_bytes()).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        };
        let now = || file.metadata().unwrap();
        write("passed A");
        // Acts until the clock of the file system has moved on.
        let later = |act: &dyn Fn()| {
            let before = changed(&now());
            let acted = poll(Duration::from_secs(10), || {
                act();
                (changed(&now()) > before).then_some(())
            });
            acted.unwrap();
        };
        let came = changed(&now());
        note(&outcome, &now()).unwrap();
        // A move changes nothing but this time.
        later(&|| fs::set_permissions(&file, now().permissions()).unwrap());
        assert_eq!(
            declared(&outcome, &now()),
            came,
            "the supervisor was killed after the move"
        );
        settle(&outcome, &now()).unwrap();
        assert_eq!(declared(&outcome, &now()), came);
        later(&|| write("passed B"));
        assert_eq!(declared(&outcome, &now()), changed(&now()));
    }
}
