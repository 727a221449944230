//! A gate's output: all of it in a file up to a limit, and its end in memory.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::adapters::beneath;
use crate::adapters::commands::tail::Tail;

/// The largest size of the file.
const FILE_MAX: u64 = 64 * 1024 * 1024;
/// The number of bytes at the end that are kept for reports.
const TAIL_MAX: usize = 16 * 1024;

/// The collected output of a gate.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    left: u64,
    /// The number of bytes that did not fit into the file.
    cut: u64,
    broken: Option<std::io::Error>,
    tail: Tail,
}

impl Log {
    /// Makes a new log file.
    pub(super) fn create(path: &Path) -> std::io::Result<Self> {
        let (dir, name) = (path.parent(), path.file_name());
        let (dir, name) = (dir.unwrap_or(Path::new("/")), name.unwrap_or_default());
        Ok(Self {
            file: beneath::create_anew(dir, Path::new(name))?,
            left: FILE_MAX,
            cut: 0,
            broken: None,
            tail: Tail::new(TAIL_MAX),
        })
    }

    /// Adds output. A failure to write does not change the gate's result.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let room = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        if self.broken.is_none()
            && let Err(error) = self.file.write_all(&bytes[..room])
        {
            self.broken = Some(error);
        }
        self.left -= room as u64;
        self.cut += (bytes.len() - room) as u64;
        self.tail.add(bytes);
    }

    /// Notes the missing bytes in the file, and returns the end of the output.
    pub(super) fn finish(mut self) -> String {
        let mut text = self.tail.text();
        if self.cut > 0 {
            let note = format!("\n[the log is cut: {} more bytes were printed]\n", self.cut);
            if let Err(error) = self.file.write_all(note.as_bytes()) {
                self.broken.get_or_insert(error);
            }
        }
        if let Some(error) = self.broken {
            text.push_str(&format!("\n[the log file is incomplete: {error}]\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_bounded_and_the_tail_is_the_end() {
        let dir = crate::testing::scratch();
        let path = dir.path().join("log");
        let mut log = Log::create(&path).unwrap();
        log.left = 10;
        log.add(b"12345678");
        log.add(b"9abcdef");
        assert_eq!(log.finish(), "123456789abcdef");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("123456789a\n[the log is cut: 5 more"),
            "{text}"
        );
    }

    #[test]
    fn a_long_output_keeps_its_last_bytes() {
        let dir = crate::testing::scratch();
        let mut log = Log::create(&dir.path().join("log")).unwrap();
        for line in 0..10_000 {
            log.add(format!("line {line}\n").as_bytes());
        }
        let tail = log.finish();
        assert_eq!(tail.len(), TAIL_MAX);
        assert!(tail.ends_with("line 9999\n"));
    }
}
