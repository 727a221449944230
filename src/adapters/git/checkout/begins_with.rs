//! Compares the output of git with the beginning of a file, block by block: it may be larger than the memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::{ChildStdout, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use super::super::command::Git;

const BLOCK: usize = 64 * 1024;
/// The longest wait for a block: a filter may hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns true if the output of a command begins with the content of a file. A command that fails or hangs has no output.
///
/// # Errors
/// When the file cannot be read, or the command cannot be run.
pub(super) fn begins_with(git: Git, path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut command = git.command();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take().map(Patient);
    let same = output.map(|mut output| starts_with(&mut output, &mut file));
    let _ended_before = child.kill();
    let ended = child.wait()?;
    let is_failure = ended.code().is_some_and(|code| code != 0);
    match same.transpose() {
        Ok(same) => Ok(!is_failure && same.unwrap_or(false)),
        Err(error) if error.kind() == ErrorKind::TimedOut => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true if a stream begins with the content of a file, and has anything at all.
fn starts_with(stream: &mut impl Read, file: &mut impl Read) -> io::Result<bool> {
    let (mut ours, mut theirs) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut count = read_block(file, &mut ours)?;
    // An empty file is the beginning of anything.
    if count == 0 {
        return Ok(read_block(stream, &mut theirs[..1])? > 0);
    }
    while count > 0 {
        let found = read_block(stream, &mut theirs[..count])?;
        if theirs[..found] != ours[..count] {
            return Ok(false);
        }
        count = read_block(file, &mut ours)?;
    }
    Ok(true)
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
struct Patient(ChildStdout);

impl Read for Patient {
    fn read(&mut self, block: &mut [u8]) -> io::Result<usize> {
        let limit = rustix::time::Timespec::try_from(PATIENCE).ok();
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut ready, limit.as_ref())? {
            0 => Err(ErrorKind::TimedOut.into()),
            _ => self.0.read(block),
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
            (&long[..BLOCK + 1], &long[..], true),
            (&long, &long, true),
            (&long, &long[..BLOCK], false),
            (&other, &long, false),
            (&[], &[1], true),
            (&[], &[], false),
        ] {
            let found = starts_with(&mut { stream }, &mut { file }).unwrap();
            assert_eq!(found, expected, "{} of {}", file.len(), stream.len());
        }
    }
}
