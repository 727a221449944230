//! Text files in directories that agents write to, too: anything may be in their place.

use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use jiff::Timestamp;

use crate::adapters::beneath;
use crate::adapters::city_root;
use crate::ports::tasks::{OutcomeText, TaskError};
use crate::regular;

/// The largest outcome file or intent that is read: neither is ever longer.
const FILE_MAX: u64 = 64 * 1024;

/// Returns a function that makes the error for this path.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> TaskError + '_ {
    move |error| TaskError {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// The number of levels from the directory of all tasks to a file of one: rig, relic and incarnation. Agents can write to
/// each, but not to the first.
pub(super) const IN_TASKS: usize = 4;
/// The number of levels from the directory of a rig's sandboxes to an entry of one.
pub(super) const IN_SANDBOX: usize = 2;

/// Writes a file atomically: after a crash, and for a reader, it is the old one or the new one. Anything in its place
/// is replaced, and never written to.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<(), TaskError> {
    let (root, name) = from_above(path, IN_TASKS);
    is_no_link(root)?;
    if let Ok(found) = path.symlink_metadata()
        && !found.is_file()
    {
        let (path, kind) = (path.display(), regular::kind(&found));
        tracing::warn!(%path, "{kind} is in the place of a file of the supervisor; it is replaced by the file");
    }
    beneath::replace_durably(root, name, text.as_bytes()).map_err(at(path))
}

/// Refuses a link in the place of the directory of all tasks, above the directory of one: an agent may have put it there.
pub(super) fn no_link(dir: &Path) -> Result<(), TaskError> {
    is_no_link(from_above(dir, IN_TASKS - 1).0)
}

fn is_no_link(root: &Path) -> Result<(), TaskError> {
    match root.symlink_metadata() {
        Ok(found) if found.is_symlink() => {
            let why =
                "it is a link, and tasks are written into the city's own directory only; remove it";
            Err(at(root)(io::Error::other(why)))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Makes a directory for such files.
pub(super) fn make_dir(dir: &Path) -> Result<(), TaskError> {
    let (root, name) = from_above(dir, IN_TASKS - 1);
    is_no_link(root)?;
    city_root::make_dirs(root)
        .and_then(|()| beneath::make_dirs(root, name))
        .map_err(at(dir))
}

/// As [`read_bytes`], the text; replaces invalid UTF-8.
pub(super) fn read_some(root: &Path, name: &Path) -> io::Result<Option<OutcomeText>> {
    let found = read_bytes(root, name)?;
    Ok(found.map(|(bytes, written)| OutcomeText {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        written,
        ..OutcomeText::default()
    }))
}

/// Reads a small regular file below a directory of ours, without a link on its path, and the time of its last change; none if
/// it does not exist. Anything else is an error that [`beneath::is_odd`] recognises.
pub(super) fn read_bytes(
    root: &Path,
    name: &Path,
) -> io::Result<Option<(Vec<u8>, Option<Timestamp>)>> {
    let Some(file) = beneath::open(root, name)? else {
        return Ok(None);
    };
    let written = changed(&file.metadata()?);
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        let what = format!("it is larger than {FILE_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(Some((bytes, written)))
}

/// Splits a path at the directory this many levels above: an agent may put a link in place of any directory that it
/// can write to.
pub(super) fn from_above(path: &Path, levels: usize) -> (&Path, &Path) {
    let root = path.ancestors().nth(levels).unwrap_or(Path::new("/"));
    (root, path.strip_prefix(root).unwrap_or(path))
}

/// Returns the time of the last change of the path.
pub(super) fn written(path: &Path) -> Option<Timestamp> {
    changed(&path.symlink_metadata().ok()?)
}

/// Returns when a file was last written, moved or changed in another way. The time of the last write alone tells no two
/// writings apart: a program may set it to any, and a rename keeps it.
pub(super) fn changed(file: &Metadata) -> Option<Timestamp> {
    let nanosecond = file.ctime_nsec().try_into().ok()?;
    Timestamp::new(file.ctime(), nanosecond).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The lines that were logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn of(act: impl FnOnce()) -> String {
            let log = Self::default();
            let writer = {
                let log = log.clone();
                move || log.clone()
            };
            let lines = tracing_subscriber::fmt().json().with_writer(writer);
            tracing::subscriber::with_default(lines.finish(), || {
                // Another test may have met this log line first, without a subscriber.
                tracing::callsite::rebuild_interest_cache();
                act();
            });
            String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_in_the_place_of_the_tasks() {
        let city = crate::testing::scratch();
        let (tasks, elsewhere) = (city.path().join("tasks"), city.path().join("elsewhere"));
        fs::create_dir_all(elsewhere.join("rig/gt-1/1")).unwrap();
        symlink(&elsewhere, &tasks).unwrap();
        let dir = tasks.join("rig/gt-1/1");
        assert!(make_dir(&tasks.join("rig/gt-2/1")).is_err());
        let refused = write_whole(&dir.join("TASK.md"), "ours").unwrap_err();
        assert!(refused.why.contains("it is a link"), "{refused}");
        assert!(!elsewhere.join("rig/gt-2").exists());
        assert!(!elsewhere.join("rig/gt-1/1/TASK.md").exists());
    }

    #[test]
    fn link_in_the_place_of_a_file_of_ours_is_replaced_and_said_once() {
        let city = crate::testing::scratch();
        let dir = city.path().join("tasks/rig/gt-1/1");
        fs::create_dir_all(&dir).unwrap();
        fs::write(city.path().join("other"), "precious").unwrap();
        for name in ["TASK.md", "outcome", "prompt.md"] {
            let path = dir.join(name);
            let write = || Log::of(|| write_whole(&path, "ours").unwrap());
            assert_eq!(write(), "", "a new file");
            fs::remove_file(&path).unwrap();
            symlink(city.path().join("other"), &path).unwrap();
            let said = write();
            assert!(
                said.contains("WARN") && said.contains("a link is in the place of a file"),
                "{said}"
            );
            assert!(said.contains(name) && said.lines().count() == 1, "{said}");
            assert!(path.symlink_metadata().unwrap().is_file());
            assert_eq!(write(), "", "once per change");
        }
        let other = fs::read_to_string(city.path().join("other")).unwrap();
        assert_eq!(other, "precious");
    }
}
