//! Reads a transcript incrementally. Its path is a claim of a process of a session: only a regular file below the
//! directory of such transcripts is read, links followed.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::adapters::beneath;
use crate::ports::tasks::Part;

/// Reads the part after `from`, at most `limit` bytes. None if there is no such file, or it is elsewhere.
pub(super) fn read(path: &Path, root: &Path, from: u64, limit: usize) -> io::Result<Option<Part>> {
    let missing = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound);
    let (path, root) = match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => (path, root),
        (Err(error), _) | (_, Err(error)) if missing(&error) => return Ok(None),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let Ok(name) = path.strip_prefix(&root) else {
        return Ok(None);
    };
    // Reads only a file, and no link that took the place of a path component meanwhile.
    let file = match beneath::open(&root, name) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(None),
        Err(error) if beneath::is_odd(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    let wanted = usize::try_from(length.saturating_sub(from)).unwrap_or(limit);
    let mut bytes = vec![0; wanted.min(limit)];
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], from + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    bytes.truncate(read);
    Ok(Some(Part { bytes, length }))
}

/// Returns the newest file with this suffix in a directory.
pub(super) fn newest(dir: &Path, ending: &str) -> io::Result<Option<std::path::PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut newest = None;
    for entry in entries {
        let entry = entry?;
        let meta = entry.metadata()?;
        if meta.is_file() && entry.file_name().to_string_lossy().ends_with(ending) {
            newest = newest.max(Some((meta.modified()?, entry.path())));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(path: &Path, root: &Path, from: u64, limit: usize) -> Option<Vec<u8>> {
        read(path, root, from, limit)
            .unwrap()
            .map(|part| part.bytes)
    }

    #[test]
    fn file_is_read_on_in_parts() {
        let temp = crate::testing::scratch();
        let path = temp.path().join("a.jsonl");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(bytes(&path, temp.path(), 0, 4).unwrap(), b"0123");
        assert_eq!(bytes(&path, temp.path(), 8, 4).unwrap(), b"89");
        assert_eq!(bytes(&path, temp.path(), 20, 4).unwrap(), b"");
        assert_eq!(read(&path, temp.path(), 20, 4).unwrap().unwrap().length, 10);
    }

    #[test]
    fn transcript_elsewhere_or_no_file_is_not_read() {
        let temp = crate::testing::scratch();
        let root = temp.path().join("root");
        fs::create_dir_all(root.join("dir")).unwrap();
        fs::write(temp.path().join("secret"), "s").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
        for path in ["link", "../secret", "dir", "missing", "dir/../../secret"] {
            assert_eq!(bytes(&root.join(path), &root, 0, 9), None, "{path}");
        }
        let fifo = root.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(bytes(&fifo, &root, 0, 9), None);
        fs::write(temp.path().join("real"), "r").unwrap();
        fs::create_dir(temp.path().join("real-root")).unwrap();
        fs::write(temp.path().join("real-root/a"), "r").unwrap();
        let linked = temp.path().join("linked-root");
        std::os::unix::fs::symlink("real-root", &linked).unwrap();
        assert_eq!(bytes(&linked.join("a"), &linked, 0, 9).unwrap(), b"r");
    }

    #[test]
    fn newest_of_an_ending_is_found() {
        let temp = crate::testing::scratch();
        assert_eq!(newest(&temp.path().join("none"), ".jsonl").unwrap(), None);
        let old = temp.path().join("b.jsonl");
        fs::write(&old, "").unwrap();
        let long_ago = std::time::UNIX_EPOCH;
        fs::File::open(&old)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        fs::write(temp.path().join("a.jsonl"), "").unwrap();
        fs::write(temp.path().join("c.txt"), "").unwrap();
        let found = newest(temp.path(), ".jsonl").unwrap();
        assert_eq!(found, Some(temp.path().join("a.jsonl")));
    }
}
