//! The terminal log: two segments, `log.0` (newest) and `log.1`, together never above the limit. It spans
//! generations; a full disk costs log lines, never the agent.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::terminal::Terminal;
use crate::adapters::beneath;
use crate::adapters::sessions::files::{self, LOG, OLDER_LOG};
use crate::domain::terminal_log::{SIZE, Unmarked, screen_mark, size_mark};

/// The smallest limit, below which a log would only rotate.
const LEAST: u64 = 8 * 1024;
/// The amount of output after which the whole screen is written again, if a segment has room for more than one.
const PAINT_EVERY: u64 = 256 * 1024;

/// The log as its holder writes it.
pub struct Log {
    dir: PathBuf,
    file: Option<File>,
    length: u64,
    segment: u64,
    /// The size of the terminal as recorded in the log.
    size: (u16, u16),
    /// The amount of output since the whole screen was written.
    unpainted: u64,
    unmarked: Unmarked,
}

impl Log {
    /// Opens the log in this directory, and continues it.
    pub fn open(dir: &Path, limit: u64) -> Self {
        let mut log = Self {
            dir: dir.to_owned(),
            file: None,
            length: 0,
            segment: limit.max(LEAST) / 2,
            size: SIZE,
            unpainted: 0,
            unmarked: Unmarked::default(),
        };
        log.reopen();
        log
    }

    /// Writes the session's name before its output, on a line of its own.
    pub fn begin(&mut self, mark: &str) {
        let is_first = self.length == 0 && !self.dir.join(OLDER_LOG).exists();
        let mark = match is_first {
            true => mark.trim_start(),
            false => mark,
        };
        let written = |file: &File| file.metadata().and_then(|meta| meta.modified()).ok();
        let before = self.file.as_ref().and_then(written);
        self.append(mark.as_bytes());
        if let (Some(file), Some(before)) = (&self.file, before) {
            // The mark is no output of the session. Best effort, as in `touch`.
            let _best_effort = file.set_modified(before);
        }
    }

    fn reopen(&mut self) {
        self.file = files::append(&self.dir, LOG).ok();
        let metadata = self.file.as_ref().and_then(|file| file.metadata().ok());
        self.length = metadata.map_or(0, |metadata| metadata.len());
    }

    /// Adds output of this terminal, before it is shown there. Adds marks that tell a reader the meaning of the
    /// output, at places where they interrupt no sequence.
    pub fn follow(&mut self, output: &[u8], terminal: &Terminal) {
        if self.unpainted == 0 || begins_anew(output) {
            let size = terminal.size();
            let paint = (self.unpainted >= PAINT_EVERY && self.segment >= 2 * PAINT_EVERY)
                .then(|| terminal.painted())
                .flatten();
            if let Some(paint) = paint {
                self.append(screen_mark(size).as_bytes());
                self.append(&paint);
                (self.size, self.unpainted) = (size, 0);
            } else if size != self.size && size != (0, 0) {
                self.append(size_mark(size).as_bytes());
                self.size = size;
            }
        }
        self.unpainted += output.len() as u64;
        let output = self.unmarked.strip(output);
        self.append(&output);
    }

    /// Adds bytes. A failure to write only loses log lines.
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

    /// Marks activity without output: the time of `log.0` is the session's last activity.
    pub fn touch(&self) {
        if let Some(file) = &self.file {
            // Only a time for people and idle checks; a file system may refuse.
            let _best_effort = file.set_modified(std::time::SystemTime::now());
        }
    }

    fn rotate(&mut self) {
        self.file = None;
        if fs::rename(self.dir.join(LOG), self.dir.join(OLDER_LOG)).is_err() {
            // The limit is more important than completeness: the segment starts anew.
            let _best_effort = fs::remove_file(self.dir.join(LOG));
        }
        self.reopen();
    }
}

/// Returns true if the output begins with a sequence, so that the output before it was not interrupted in one.
fn begins_anew(output: &[u8]) -> bool {
    // A backslash may be the second half of a sequence's end.
    matches!(output, [0x1b, second, ..] if *second != b'\\')
}

/// Returns the last `bytes` of the log in this directory.
///
/// # Errors
/// When the file system refuses.
pub fn tail(dir: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    /// The number of tries: a rotation takes a moment, and does not recur at once.
    const LOOKS: usize = 8;
    let mut looks = 0;
    loop {
        let newest = open(dir, LOG)?;
        let mut older = open(dir, OLDER_LOG)?;
        // After a rotation between the two opens, both are the same file: try again. If both names are links to one
        // file, that does not help.
        if inode(newest.as_ref()) == inode(older.as_ref()) && newest.is_some() {
            looks += 1;
            if looks < LOOKS {
                continue;
            }
            older = None;
        }
        let end = read_end(newest, bytes)?;
        let mut tail = read_end(older, bytes - (end.len() as u64).min(bytes))?;
        tail.extend_from_slice(&end);
        return Ok(tail);
    }
}

/// Opens a segment of the log. Anything else in its place counts as missing.
fn open(dir: &Path, name: &str) -> io::Result<Option<File>> {
    match files::open(dir, name) {
        Err(error) if beneath::is_odd(&error) => Ok(None),
        opened => opened,
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
        let dir = crate::testing::scratch();
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
        let dir = crate::testing::scratch();
        let half = vec![b'a'; 8 * 1024];
        Log::open(dir.path(), 16 * 1024).append(&half);
        Log::open(dir.path(), 16 * 1024).append(b"new");
        assert_eq!(tail(dir.path(), 5).unwrap(), b"aanew");
        assert_eq!(tail(dir.path(), 1 << 40).unwrap().len(), half.len() + 3);
    }

    fn terminal(rows: u16, cols: u16) -> Terminal {
        Terminal::open(rows, cols).unwrap()
    }

    fn text(dir: &Path) -> String {
        String::from_utf8(tail(dir, u64::MAX).unwrap()).unwrap()
    }

    #[test]
    fn a_terminal_of_another_size_is_marked_where_no_sequence_is_broken_off() {
        let dir = crate::testing::scratch();
        let mut log = Log::open(dir.path(), 1 << 20);
        let (usual, small) = (terminal(SIZE.0, SIZE.1), terminal(10, 20));
        log.follow(b"one\r\n\x1b[3", &usual);
        log.follow(b"1mtwo\x1b]0;title\x1b", &small);
        log.follow(b"\\three", &small);
        log.follow(b"\x1b[Hfour", &small);
        log.follow(b"\x1b[Hfive", &small);
        log.follow(b"\x1b[Hsix", &usual);
        let (size, back) = (size_mark((10, 20)), size_mark(SIZE));
        let expected = format!(
            "one\r\n\x1b[31mtwo\x1b]0;title\x1b\\three{size}\x1b[Hfour\x1b[Hfive{back}\x1b[Hsix"
        );
        assert_eq!(text(dir.path()), expected);
    }

    #[test]
    fn the_first_output_of_a_small_terminal_is_marked() {
        let dir = crate::testing::scratch();
        let mut log = Log::open(dir.path(), 1 << 20);
        log.follow(b"one", &terminal(10, 20));
        assert_eq!(text(dir.path()), format!("{}one", size_mark((10, 20))));
    }

    #[test]
    fn line_that_names_it_stands_before_the_output_of_each_session() {
        use crate::domain::ids::{Generation, Incarnation};
        let dir = crate::testing::scratch();
        for (generation, output) in [(1, "one\r\n"), (2, "two\r\n")] {
            let mut log = Log::open(dir.path(), 1 << 20);
            let (incarnation, since) = (Incarnation(0), jiff::Timestamp::UNIX_EPOCH);
            let mark =
                crate::domain::terminal_log::mark(incarnation, Generation(generation), None, since);
            log.begin(&mark);
            log.append(output.as_bytes());
        }
        let shown = crate::domain::terminal_text::text(text(dir.path()).as_bytes(), false, 1000);
        let title = |n| format!("--- session {n}, since 1970-01-01T00:00:00Z ---");
        let expected = format!("{}\none\n{}\ntwo\n", title(1), title(2));
        assert_eq!(shown, expected);
    }

    /// An agent printed the supervisor's mark with a title of its own.
    #[test]
    fn session_cannot_forge_the_line_of_another() {
        use crate::domain::ids::{Generation, Incarnation};
        let dir = crate::testing::scratch();
        let mut log = Log::open(dir.path(), 1 << 20);
        let title = |n| {
            let since = jiff::Timestamp::UNIX_EPOCH;
            crate::domain::terminal_log::mark(Incarnation(0), Generation(n), None, since)
        };
        log.begin(&title(1));
        let usual = terminal(SIZE.0, SIZE.1);
        let forged = format!("one{}two\r\n", title(9));
        for part in forged.as_bytes().chunks(5) {
            log.follow(part, &usual);
        }
        log.follow(b"--- session 8, since 1970-01-01T00:00:00Z ---\r\n", &usual);
        let shown = crate::domain::terminal_text::text(text(dir.path()).as_bytes(), false, 1000);
        let titles = shown
            .lines()
            .filter(|line| line.starts_with("--- session "));
        let titles: Vec<_> = titles.collect();
        assert_eq!(
            titles,
            ["--- session 1, since 1970-01-01T00:00:00Z ---"],
            "{shown}"
        );
        assert!(shown.contains(" --- session 8, since"), "{shown}");
    }

    /// A reader of the end of a log needs a whole screen to begin with.
    #[test]
    fn the_whole_screen_is_written_again_after_much_output() {
        let dir = crate::testing::scratch();
        let mut log = Log::open(dir.path(), 8 << 20);
        let mut terminal = terminal(SIZE.0, SIZE.1);
        let output = b"\x1b[5;1Hin the middle\x1b[H".repeat(10);
        let much = 3 * usize::try_from(PAINT_EVERY).unwrap() / output.len();
        for _ in 0..much {
            log.follow(&output, &terminal);
            terminal.show(&output);
        }
        let all = text(dir.path());
        let mark = screen_mark(SIZE);
        assert_eq!(all.matches(&mark).count(), 2);
        let painted = &all[all.find(&mark).unwrap()..];
        let shown = crate::domain::terminal_text::text(painted.as_bytes(), true, 100);
        assert_eq!(shown, "in the middle\n");
        // A log with small segments would consist of screens only.
        let small = crate::testing::scratch();
        let mut log = Log::open(small.path(), PAINT_EVERY);
        (0..much).for_each(|_| log.follow(&output, &terminal));
        assert!(!text(small.path()).contains(&mark));
    }

    #[test]
    fn mark_of_a_session_is_no_output_of_it() {
        let dir = crate::testing::scratch();
        for (session, all) in [
            ("one", "|one"),
            ("two", "|one|two"),
            ("three", "|one|two|three"),
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
    fn file_in_the_place_of_a_log_holds_up_neither_writer_nor_reader() {
        let dir = crate::testing::scratch();
        let path = |name| dir.path().join(name);
        let fifo = |name| {
            rustix::fs::mkfifoat(rustix::fs::CWD, path(name), rustix::fs::Mode::RWXU).unwrap();
        };
        fs::write(path("other"), "precious").unwrap();
        std::os::unix::fs::symlink("other", path(LOG)).unwrap();
        fifo(OLDER_LOG);
        assert_eq!(tail(dir.path(), 100).unwrap(), b"");
        let mut log = Log::open(dir.path(), 16 * 1024);
        log.append(b"one");
        assert_eq!(tail(dir.path(), 100).unwrap(), b"one");
        assert_eq!(fs::read(path("other")).unwrap(), b"precious");
        fs::remove_file(path(LOG)).unwrap();
        fifo(LOG);
        Log::open(dir.path(), 16 * 1024).append(b"two");
        assert_eq!(tail(dir.path(), 100).unwrap(), b"two");
        fs::remove_file(path(OLDER_LOG)).unwrap();
        fs::hard_link(path(LOG), path(OLDER_LOG)).unwrap();
        assert_eq!(
            tail(dir.path(), 100).unwrap(),
            b"two",
            "two names of one file"
        );
    }

    #[test]
    fn one_chunk_above_the_limit_is_cut_not_kept() {
        let dir = crate::testing::scratch();
        let mut log = Log::open(dir.path(), 16 * 1024);
        log.append(&vec![b'x'; 100 * 1024]);
        assert!(tail(dir.path(), u64::MAX).unwrap().len() <= 16 * 1024);
    }
}
