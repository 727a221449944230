//! Compares the output of git with the beginning of a file, block by block: it may be larger than the memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};

use super::super::command::Git;
use crate::adapters::standstill;

const BLOCK: usize = 64 * 1024;
/// The longest wait for a block: a filter may hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The longest comparison of one file: a filter may be slow at each block.
const IN_ALL: Duration = Duration::from_secs(10 * 60);

/// The relation of a file to a stream of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shared {
    /// It has other bytes, or more.
    Other,
    /// It is a beginning of the stream, which has more.
    Part,
    /// It has the bytes of the stream.
    Whole,
    /// The command failed.
    Unknown,
    /// It hangs.
    Hangs,
}

/// Compares a file with the output of a command.
///
/// # Errors
/// When the file cannot be read, or the command cannot be run.
pub(super) fn begins_with(git: Git, path: &Path) -> io::Result<Shared> {
    let mut file = File::open(path)?;
    let mut command = git.command();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().map(Patient::new);
    let same = output.map(|mut output| compare(&mut output, &mut file));
    // After its whole output it ends by itself, and its status tells whether that is all. What it wrote before counts.
    let is_whole_output = matches!(same, Some(Ok((_, true))));
    if !is_whole_output {
        // With its filters.
        let group = i32::try_from(child.id()).map(Pid::from_raw);
        let _ended_before = group.map(|group| killpg(group, Signal::SIGKILL));
    }
    let ended = child.wait();
    standstill::pass();
    let ended = ended?;
    let is_failure = match is_whole_output {
        true => !ended.success(),
        false => ended.code().is_some_and(|code| code != 0),
    };
    match same.transpose() {
        Ok(Some((same, _))) if !is_failure => Ok(same),
        Ok(_) => Ok(Shared::Unknown),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(Shared::Hangs),
        Err(error) => Err(error),
    }
}

/// Compares a file with a stream. Returns true, too, if the stream was read to its end.
fn compare(stream: &mut impl Read, file: &mut impl Read) -> io::Result<(Shared, bool)> {
    let (mut ours, mut theirs) = (vec![0; BLOCK], vec![0; BLOCK]);
    loop {
        let count = read_block(file, &mut ours)?;
        if count == 0 {
            return Ok(match read_block(stream, &mut theirs[..1])? {
                0 => (Shared::Whole, true),
                _ => (Shared::Part, false),
            });
        }
        let found = read_block(stream, &mut theirs[..count])?;
        if theirs[..found] != ours[..count] {
            return Ok((Shared::Other, found < count));
        }
    }
}

/// Fills the block as far as there is anything.
fn read_block(from: &mut impl Read, block: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < block.len() {
        match from.read(&mut block[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// An output that is waited for only so long.
struct Patient {
    output: ChildStdout,
    deadline: Instant,
}

impl Patient {
    #[expect(clippy::disallowed_methods, reason = "a process answers in real time")]
    fn new(output: ChildStdout) -> Self {
        let deadline = Instant::now() + IN_ALL;
        Self { output, deadline }
    }

    #[expect(clippy::disallowed_methods, reason = "a process answers in real time")]
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

impl Read for Patient {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let left = self.left().min(PATIENCE);
        let limit = rustix::time::Timespec::try_from(left).ok();
        let mut ready = [PollFd::new(&self.output, PollFlags::IN)];
        match poll(&mut ready, limit.as_ref())? {
            0 => Err(ErrorKind::TimedOut.into()),
            _ => self.output.read(block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_the_beginning_of_a_stream_across_blocks() {
        let long = vec![7; BLOCK + 10];
        let mut other = long.clone();
        other[BLOCK + 5] = 8;
        for (file, stream, expected) in [
            (&long[..BLOCK + 1], &long[..], Shared::Part),
            (&long[..BLOCK], &long, Shared::Part),
            (&long, &long, Shared::Whole),
            (&long[..BLOCK], &long[..BLOCK], Shared::Whole),
            (&long, &long[..BLOCK], Shared::Other),
            (&other, &long, Shared::Other),
            (&[], &[1], Shared::Part),
            (&[], &[], Shared::Whole),
        ] {
            let (found, _) = compare(&mut { stream }, &mut { file }).unwrap();
            assert_eq!(found, expected, "{} of {}", file.len(), stream.len());
        }
    }

    #[test]
    fn stream_that_ends_before_the_file_is_known_to_be_at_its_end() {
        for (file, stream, expected) in [
            (&[1, 2][..], &[1][..], true),
            (&[1, 2], &[], true),
            (&[1, 2], &[1, 3], false),
            (&[1], &[1, 2], false),
            (&[1], &[1], true),
        ] {
            let (_, is_at_end) = compare(&mut { stream }, &mut { file }).unwrap();
            assert_eq!(is_at_end, expected, "{file:?} of {stream:?}");
        }
    }
}
