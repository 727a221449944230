//! Writes bytes into ours as blobs, and reads them back. Small ones share a command; large ones are streamed from and
//! to their files, so that none is ever whole in memory.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use super::super::admin::failed;
use super::super::bytes;
use super::super::command::{CHECKOUT, Git};
use super::super::rig::oid;
use super::hash::{self, Format};
use super::holes::{self, Sparse};
use super::open::Root;
use super::walk::{Entry, Kind};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The size above which a file is streamed by a command of its own.
pub(in super::super) const LARGE: u64 = 8 * 1024 * 1024;
/// The number of bytes per command.
const TOGETHER: usize = 32 * 1024 * 1024;

/// The reason why something was not stored.
#[derive(Debug)]
pub(in super::super) enum Unstored {
    /// The file was changed meanwhile.
    Changed,
    /// The file cannot be read, or the blob cannot be written.
    Failed(RepoError),
}

impl From<RepoError> for Unstored {
    fn from(error: RepoError) -> Self {
        Self::Failed(error)
    }
}

/// A buffer of blobs for a repository.
pub(in super::super) struct Store<F> {
    git: F,
    format: Format,
    pending: Vec<u8>,
    /// The blobs that were stored.
    stored: HashSet<Oid>,
}

impl<F: Fn() -> Git> Store<F> {
    /// Makes an empty buffer.
    pub(in super::super) fn new(git: F, format: Format) -> Self {
        Self {
            git,
            format,
            pending: Vec::new(),
            stored: HashSet::new(),
        }
    }

    /// Stores bytes.
    ///
    /// # Errors
    /// When git fails, or the bytes have no id.
    pub(in super::super) fn bytes(&mut self, text: &[u8]) -> Result<Oid, RepoError> {
        let id = hash::bytes(self.format, text);
        let id = id.map_err(|error| RepoError::Failed(error.to_string()))?;
        if self.stored.insert(id.clone()) {
            let head = format!("blob\ndata {}\n", text.len());
            self.pending.extend_from_slice(head.as_bytes());
            self.pending.extend_from_slice(text);
            self.pending.push(b'\n');
            if self.pending.len() >= TOGETHER {
                self.flush()?;
            }
        }
        Ok(id)
    }

    /// Stores a file or a link that has this id.
    ///
    /// # Errors
    /// [`Unstored`].
    pub(in super::super) fn entry(
        &mut self,
        root: &Root,
        entry: &Entry,
        id: &Oid,
    ) -> Result<(), Unstored> {
        if self.stored.contains(id) {
            return Ok(());
        }
        let path = root.path().join(bytes::path(&entry.path));
        let fail = |error: io::Error| match super::open::is_nothing(&error) {
            true => Unstored::Changed,
            false => Unstored::Failed(failed("cannot read", &path, &error)),
        };
        if entry.kind == Kind::File && entry.stamp.size > LARGE {
            let file = root.file(&entry.path).map_err(fail)?;
            return self.large(file, entry.stamp.size, id);
        }
        let mut text = Vec::new();
        match entry.kind {
            Kind::Link => text = root.link(&entry.path).map_err(fail)?,
            _ => {
                let file = root.file(&entry.path).map_err(fail)?;
                file.take(LARGE + 1).read_to_end(&mut text).map_err(fail)?;
            }
        }
        match self.bytes(&text)? == *id {
            true => Ok(()),
            false => Err(Unstored::Changed),
        }
    }

    /// Streams a file into git. Its holes are not read.
    fn large(&mut self, file: File, size: u64, id: &Oid) -> Result<(), Unstored> {
        let pipe = |error: io::Error| RepoError::Failed(format!("a pipe to git: {error}"));
        let (from, into) = io::pipe().map_err(pipe)?;
        let git = (self.git)()
            // A single object is kept in a pack, as it was written: unpacked, it would be whole in memory.
            .args(["-c", "core.bigFileThreshold=1m"])
            .args(["-c", "fastimport.unpackLimit=0"])
            .args(["fast-import", "--quiet", "--done", "--depth=0"])
            .stdin_file(File::from(OwnedFd::from(from)))
            .limit(CHECKOUT + time_for(size));
        let (stored, fed) = thread::scope(|scope| {
            let feeder = scope.spawn(move || feed(file, size, into));
            let stored = git.run();
            // The command has closed its end of the pipe, so the feeder ends, too.
            (stored, feeder.join())
        });
        let stored = oid(&stored?.text())?;
        let is_whole = fed.is_ok_and(|fed| fed.is_ok());
        match is_whole && stored == *id {
            true => {
                self.stored.insert(id.clone());
                Ok(())
            }
            false => Err(Unstored::Changed),
        }
    }

    /// Writes the buffered blobs.
    ///
    /// # Errors
    /// When git fails.
    pub(in super::super) fn flush(&mut self) -> Result<(), RepoError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let stream = std::mem::take(&mut self.pending);
        (self.git)()
            .args(["fast-import", "--quiet", "--done", "--depth=0"])
            .stdin([&stream[..], b"done\n"].concat())
            .limit(CHECKOUT)
            .run()
            .map(drop)
    }
}

/// Reads blobs, in parts that fit into memory, and passes each to `take`. For large ones use [`stream`].
///
/// # Errors
/// When a blob is missing, or `take` fails.
pub(in super::super) fn read(
    git: impl Fn() -> Git,
    wanted: &[(Oid, u64)],
    mut take: impl FnMut(&Oid, &[u8]) -> Result<(), RepoError>,
) -> Result<(), RepoError> {
    let mut rest = wanted;
    while !rest.is_empty() {
        let mut size = 0;
        let fits = |(_, own): &&(Oid, u64)| {
            let first = size == 0;
            size += usize::try_from(*own).unwrap_or(usize::MAX) + 1;
            first || size <= TOGETHER
        };
        let (part, after) = rest.split_at(rest.iter().take_while(fits).count());
        let list: String = part.iter().map(|(id, _)| format!("{id}\n")).collect();
        let git = git().args(["cat-file", "--batch"]).stdin(list);
        let output = git.limit(CHECKOUT).run()?;
        let mut text = output.stdout.as_slice();
        for (id, _) in part {
            let gone = || RepoError::Failed(format!("the blob {id} is missing"));
            let end = text
                .iter()
                .position(|byte| *byte == b'\n')
                .ok_or_else(gone)?;
            let head = String::from_utf8_lossy(&text[..end]);
            let size = head.strip_prefix(&format!("{id} blob "));
            let size: usize = size.and_then(|it| it.parse().ok()).ok_or_else(gone)?;
            let content = text.get(end + 1..end + 1 + size).ok_or_else(gone)?;
            take(id, content)?;
            text = text.get(end + 1 + size + 1..).unwrap_or_default();
        }
        rest = after;
    }
    Ok(())
}

/// Returns the time that git may need for this number of bytes, on a slow disk: 16 MiB a second.
fn time_for(size: u64) -> Duration {
    Duration::from_secs(size >> 24)
}

/// Writes a blob of this size for `git fast-import`, which then prints its id. Git waits for as many bytes as were
/// announced: what a file lacks is filled up with zeros, which have another id.
fn feed(file: File, size: u64, into: PipeWriter) -> io::Result<()> {
    let mut into = io::BufWriter::with_capacity(hash::READ_AT_ONCE, into);
    write!(into, "blob\nmark :1\ndata {size}\n")?;
    let mut file = Sparse::of(file)?.take(size);
    let whole = hash::drain(&mut file, hash::READ_AT_ONCE, |part| into.write_all(part));
    let lacks = file.limit();
    io::copy(&mut io::repeat(0).take(lacks), &mut into)?;
    into.write_all(b"\nget-mark :1\ndone\n")?;
    into.flush()?;
    whole.map(drop)
}

/// Writes a blob of this size into a file. Blocks of zeros become holes.
///
/// # Errors
/// When git fails, or the file cannot be written.
pub(in super::super) fn stream(git: Git, id: &Oid, size: u64, to: File) -> Result<(), RepoError> {
    let failed = |error: io::Error| RepoError::Failed(format!("the blob {id}: {error}"));
    let (mut from, into) = io::pipe().map_err(failed)?;
    let git = git
        .args(["cat-file", "blob", id.as_str()])
        .stdout_file(File::from(OwnedFd::from(into)))
        .limit(CHECKOUT + time_for(size));
    let (read, written) = thread::scope(|scope| {
        let writer = scope.spawn(move || holes::write(&mut from, &to));
        (git.run(), writer.join())
    });
    let written = written.unwrap_or_else(|_| Err(io::Error::other("its writer has panicked")));
    written.map_err(failed)?;
    read.map(drop)
}
