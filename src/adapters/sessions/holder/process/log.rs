//! The terminal log: two segments, `log.0` (newest) and `log.1`, together never above the limit.
//! It goes on across generations; a disk that is full costs log lines, never the agent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::adapters::sessions::files::{LOG, OLDER_LOG};

/// Below this a log would be all rotation.
const LEAST: u64 = 8 * 1024;

/// The log as its holder writes it.
pub struct Log {
    dir: PathBuf,
    file: Option<File>,
    length: u64,
    segment: u64,
}

impl Log {
    /// Opens the log in this directory, going on where it ended.
    pub fn open(dir: &Path, limit: u64) -> Self {
        let mut log = Self {
            dir: dir.to_owned(),
            file: None,
            length: 0,
            segment: limit.max(LEAST) / 2,
        };
        log.reopen();
        log
    }

    /// Tells what comes from what an earlier session left, if one did.
    pub fn begin(&mut self, mark: &str) {
        if self.length > 0 || self.dir.join(OLDER_LOG).exists() {
            let written = |file: &File| file.metadata().and_then(|meta| meta.modified()).ok();
            let before = self.file.as_ref().and_then(written);
            self.append(mark.as_bytes());
            if let (Some(file), Some(before)) = (&self.file, before) {
                // It is nothing that the session wrote. As in `touch`.
                let _best_effort = file.set_modified(before);
            }
        }
    }

    fn reopen(&mut self) {
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(self.dir.join(LOG));
        self.file = opened.ok();
        let metadata = self.file.as_ref().and_then(|file| file.metadata().ok());
        self.length = metadata.map_or(0, |metadata| metadata.len());
    }

    /// Adds output. What cannot be written is lost to the log alone.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.length >= self.segment {
                self.rotate();
            }
            let room = usize::try_from(self.segment.saturating_sub(self.length));
            let (now, later) = bytes.split_at(bytes.len().min(room.unwrap_or(usize::MAX)));
            let Some(file) = self.file.as_mut() else {
                self.reopen();
                return;
            };
            if file.write_all(now).is_err() {
                self.touch();
                return;
            }
            self.length += now.len() as u64;
            bytes = later;
        }
    }

    /// Marks activity that writes nothing: the time of `log.0` is the session's last activity.
    pub fn touch(&self) {
        if let Some(file) = &self.file {
            // Only a time for people and idle checks; a file system that refuses loses that.
            let _best_effort = file.set_modified(std::time::SystemTime::now());
        }
    }

    fn rotate(&mut self) {
        self.file = None;
        if fs::rename(self.dir.join(LOG), self.dir.join(OLDER_LOG)).is_err() {
            // Bounded comes before complete: start the segment anew.
            let _best_effort = fs::remove_file(self.dir.join(LOG));
        }
        self.reopen();
    }
}

/// The last `bytes` of the log in this directory.
///
/// # Errors
/// The file system refuses.
pub fn tail(dir: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    loop {
        let newest = open(dir, LOG)?;
        let older = open(dir, OLDER_LOG)?;
        // A rotation between the two looks: the newest has become the older one. Look again.
        if inode(newest.as_ref()) == inode(older.as_ref()) && newest.is_some() {
            continue;
        }
        let end = read_end(newest, bytes)?;
        let mut tail = read_end(older, bytes - (end.len() as u64).min(bytes))?;
        tail.extend_from_slice(&end);
        return Ok(tail);
    }
}

fn open(dir: &Path, name: &str) -> io::Result<Option<File>> {
    match File::open(dir.join(name)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn inode(file: Option<&File>) -> Option<u64> {
    Some(file?.metadata().ok()?.ino())
}

fn read_end(file: Option<File>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut read = Vec::new();
    if let Some(mut file) = file {
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
        file.take(bytes).read_to_end(&mut read)?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_newest_output_within_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), 16 * 1024);
        let line = |n: usize| format!("line {n:05}\n");
        for n in 0..10_000 {
            log.append(line(n).as_bytes());
        }
        let size = |name| fs::metadata(dir.path().join(name)).unwrap().len();
        assert!(size(LOG) + size(OLDER_LOG) <= 16 * 1024);
        let tail = String::from_utf8(tail(dir.path(), 44).unwrap()).unwrap();
        let expected: String = (9996..10_000).map(line).collect();
        assert_eq!(tail, expected);
    }

    #[test]
    fn a_tail_reaches_back_over_the_rotation_and_over_generations() {
        let dir = tempfile::tempdir().unwrap();
        let half = vec![b'a'; 8 * 1024];
        Log::open(dir.path(), 16 * 1024).append(&half);
        Log::open(dir.path(), 16 * 1024).append(b"new");
        assert_eq!(tail(dir.path(), 5).unwrap(), b"aanew");
        assert_eq!(tail(dir.path(), 1 << 40).unwrap().len(), half.len() + 3);
    }

    #[test]
    fn only_what_comes_after_another_sessions_output_is_marked() {
        let dir = tempfile::tempdir().unwrap();
        for (session, all) in [
            ("one", "one"),
            ("two", "one|two"),
            ("three", "one|two|three"),
        ] {
            let mut log = Log::open(dir.path(), 16 * 1024);
            let written = || fs::metadata(dir.path().join(LOG)).unwrap().modified();
            let before = written().unwrap();
            log.begin("|");
            assert_eq!(written().unwrap(), before, "a mark is no output");
            log.append(session.as_bytes());
            assert_eq!(tail(dir.path(), 100).unwrap(), all.as_bytes());
        }
    }

    #[test]
    fn one_chunk_above_the_limit_is_cut_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::open(dir.path(), 16 * 1024);
        log.append(&vec![b'x'; 100 * 1024]);
        assert!(tail(dir.path(), u64::MAX).unwrap().len() <= 16 * 1024);
    }
}
