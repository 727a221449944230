//! The sink of log lines: a thread that writes them to standard error, so that logging never waits. While standard
//! error takes nothing (a full pipe without a reader, or closed), lines above a bound are dropped, and the next line
//! that is taken reports their number.
//!
//! ```text
//!  any thread ─ push ─► queue (at most MOST bytes) ─► the writer's thread ─► descriptor 2
//!                 └ no room: counted                        ▲
//!  SIGUSR1 ─ reopen ────────────────────────────────────────┘ the file of that name, opened anew
//! ```

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::OFlags;

use crate::regular;

/// The limit of queued lines in bytes.
const MOST: usize = 4 * 1024 * 1024;

/// The queue of lines; clones share it.
#[derive(Clone)]
pub struct Sink(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    /// The file that standard error was when the process began, if it was a file.
    file: Option<PathBuf>,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines dropped since the last report of that.
    dropped: u64,
    /// Set while the writer has lines that it has taken.
    writing: bool,
}

impl Sink {
    /// Starts the thread that writes to standard error.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub fn to_stderr() -> io::Result<Self> {
        let sink = Self::new(stderr_file());
        let own = sink.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(128 * 1024)
            .spawn(move || own.write_to(|bytes| io::stderr().lock().write_all(bytes)))?;
        Ok(sink)
    }

    fn new(file: Option<PathBuf>) -> Self {
        Self(Arc::new(Shared {
            waiting: Mutex::default(),
            changed: Condvar::new(),
            file,
        }))
    }

    /// Makes a sink that keeps its lines.
    #[cfg(test)]
    pub(super) fn in_memory() -> Self {
        Self::new(None)
    }

    /// Waits for lines, returns them and forgets them.
    #[cfg(test)]
    pub(super) fn kept(&self) -> Vec<Vec<u8>> {
        self.take().0
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // No code panics while it holds the lock.
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a line, or counts it as dropped. Never waits.
    pub fn push(&self, line: Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.bytes + line.len() > MOST {
            waiting.dropped += 1;
            return;
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        drop(waiting);
        self.0.changed.notify_all();
    }

    /// Waits until all that is queued was written, at most this long.
    #[expect(
        clippy::disallowed_methods,
        reason = "the log is written by a thread, in real time"
    )]
    pub fn flush(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut waiting = self.waiting();
        while waiting.writing || !waiting.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reopens the log's file by its name, after a log rotation has renamed it. Returns its path; none if standard
    /// error is no file.
    ///
    /// # Errors
    /// The system refuses, or the name belongs to something else than a file: the log stays where it is.
    pub fn reopen(&self) -> io::Result<Option<&Path>> {
        let Some(path) = &self.0.file else {
            return Ok(None);
        };
        let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true).mode(0o600);
        let file = options
            .custom_flags(flags.bits().cast_signed())
            .open(path)?;
        regular::regular(&file.metadata()?)?;
        rustix::stdio::dup2_stderr(&file)?;
        Ok(Some(path))
    }

    /// Writes queued lines, for ever.
    fn write_to(&self, mut write: impl FnMut(&[u8]) -> io::Result<()>) {
        loop {
            let (lines, dropped) = self.take();
            let mut lost = 0;
            if dropped > 0 && write(&dropped_line(dropped)).is_err() {
                lost += dropped;
            }
            for line in lines {
                // Standard error is closed, or its disk is full: there is no other place to report that.
                lost += u64::from(write(&line).is_err());
            }
            let mut waiting = self.waiting();
            waiting.writing = false;
            waiting.dropped += lost;
            drop(waiting);
            self.0.changed.notify_all();
        }
    }

    /// Waits for lines. Takes all of them, with the number of dropped ones.
    fn take(&self) -> (Vec<Vec<u8>>, u64) {
        let mut waiting = self.waiting();
        while waiting.lines.is_empty() {
            let woken = self.0.changed.wait(waiting);
            waiting = woken.unwrap_or_else(PoisonError::into_inner);
        }
        waiting.writing = true;
        waiting.bytes = 0;
        let dropped = std::mem::take(&mut waiting.dropped);
        (std::mem::take(&mut waiting.lines).into(), dropped)
    }
}

/// Returns the line that reports missing lines, in the format of all others.
#[expect(
    clippy::disallowed_methods,
    reason = "the log is written by a thread, in real time"
)]
fn dropped_line(dropped: u64) -> Vec<u8> {
    let line = serde_json::json!({
        "ts": Timestamp::now().to_string(), "level": "warn", "target": module_path!(),
        "message": "log lines were dropped: standard error was blocked", "dropped": dropped,
    });
    format!("{line}\n").into_bytes()
}

/// Returns the path of the file that standard error leads to, if it is a regular file that still has this name.
fn stderr_file() -> Option<PathBuf> {
    let path = std::fs::read_link("/proc/self/fd/2").ok()?;
    let own = File::open("/proc/self/fd/2").ok()?.metadata().ok()?;
    let named = std::fs::symlink_metadata(&path).ok()?;
    let same = (own.dev(), own.ino()) == (named.dev(), named.ino());
    (same && own.is_file()).then_some(path)
}

/// An event of the layer that writes for people, passed to the sink as one line.
pub struct Lines {
    sink: Sink,
    text: Vec<u8>,
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.sink.push(std::mem::take(&mut self.text));
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for Sink {
    type Writer = Lines;

    fn make_writer(&'a self) -> Lines {
        Lines {
            sink: self.clone(),
            text: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn stuck_writer_delays_no_caller_and_dropped_lines_are_reported() {
        let sink = Sink::new(None);
        let (taken, takes) = mpsc::sync_channel::<Vec<u8>>(0);
        let own = sink.clone();
        std::thread::spawn(move || {
            own.write_to(|bytes| taken.send(bytes.to_vec()).map_err(io::Error::other));
        });
        let line = vec![b'x'; 1024];
        for _ in 0..10_000 {
            sink.push(line.clone());
        }
        assert!(sink.waiting().bytes <= MOST);
        sink.flush(Duration::from_millis(1));
        let mut lines = 0;
        let said = loop {
            match takes.recv().unwrap() {
                text if text == line => lines += 1,
                text => break text,
            }
            // The next line reports that others are missing.
            if lines == 1 {
                sink.push(line.clone());
            }
        };
        let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
        let dropped = said["dropped"].as_u64().unwrap();
        assert!(dropped > 0 && lines + dropped <= 10_001, "{lines} {said}");
    }

    #[test]
    fn a_writer_that_fails_is_tried_again_with_the_next_line() {
        let sink = Sink::new(None);
        let (taken, takes) = mpsc::channel::<Vec<u8>>();
        let own = sink.clone();
        let mut fails = 3;
        std::thread::spawn(move || {
            own.write_to(|bytes| {
                fails -= 1;
                if fails >= 0 {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                taken.send(bytes.to_vec()).map_err(io::Error::other)
            });
        });
        for line in ["one", "two", "three"] {
            sink.push(line.into());
            sink.flush(Duration::from_secs(60));
        }
        let told = takes.recv().unwrap();
        assert!(
            String::from_utf8_lossy(&told).contains("dropped"),
            "{told:?}"
        );
        assert_eq!(takes.recv().unwrap(), b"three");
    }
}
