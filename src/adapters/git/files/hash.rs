//! Computes the ids that git gives to content, without git. A file whose SHA-1 shows a collision has no id: two files
//! would share it, and one would be lost.

use std::io::{self, Read};

use sha1_checked::{Digest as _, Sha1};
use sha2::{Digest as _, Sha256};

use crate::domain::ids::Oid;

/// The block size for reading a large file.
pub(in super::super) const READ_AT_ONCE: usize = 64 * 1024;

/// The hash that a repository names its objects with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Format {
    /// 40 digits.
    Sha1,
    /// 64 digits.
    Sha256,
}

impl Format {
    /// Returns the format of an id.
    pub(in super::super) fn of(id: &Oid) -> Self {
        match id.as_str().len() {
            40 => Self::Sha1,
            _ => Self::Sha256,
        }
    }

    /// Returns the format with this name in git.
    pub(in super::super) fn named(name: &str) -> Self {
        match name {
            "sha256" => Self::Sha256,
            _ => Self::Sha1,
        }
    }
}

/// A hash in progress.
enum Hasher {
    Sha1(Box<Sha1>),
    Sha256(Sha256),
}

impl Hasher {
    fn blob(format: Format, size: u64) -> Self {
        let mut hasher = match format {
            Format::Sha1 => Self::Sha1(Box::new(Sha1::new())),
            Format::Sha256 => Self::Sha256(Sha256::new()),
        };
        hasher.update(format!("blob {size}\0").as_bytes());
        hasher
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    fn id(self) -> io::Result<Oid> {
        let text = match self {
            Self::Sha1(hash) => {
                let found = hash.try_finalize();
                if found.has_collision() {
                    let what = "its SHA-1 is part of a known collision, so git cannot store it";
                    return Err(io::Error::other(what));
                }
                hex(found.hash())
            }
            Self::Sha256(hash) => hex(&hash.finalize()),
        };
        Oid::new(text).map_err(io::Error::other)
    }
}

/// Formats bytes as hexadecimal digits.
pub(in super::super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

/// Returns the id of these bytes.
///
/// # Errors
/// When they show a collision.
pub(in super::super) fn bytes(format: Format, bytes: &[u8]) -> io::Result<Oid> {
    let mut hasher = Hasher::blob(format, bytes.len() as u64);
    hasher.update(bytes);
    hasher.id()
}

/// Returns the id of the content of a file of this size. Reads it in blocks.
///
/// # Errors
/// When it cannot be read, its size has changed, or it shows a collision.
pub(in super::super) fn file(format: Format, file: &mut impl Read, size: u64) -> io::Result<Oid> {
    let mut hasher = Hasher::blob(format, size);
    // A read of one more byte shows that the file has grown.
    let room = usize::try_from(size.saturating_add(1)).unwrap_or(READ_AT_ONCE);
    let read = drain(file, room, |part| {
        hasher.update(part);
        Ok(())
    })?;
    if read != size {
        return Err(io::Error::other("it keeps changing while it is read"));
    }
    hasher.id()
}

/// Returns the SHA-256 and the size of a file's content.
///
/// # Errors
/// When it cannot be read.
pub(in super::super) fn sha256(file: &mut impl Read) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let size = drain(file, READ_AT_ONCE, |part| {
        hash.update(part);
        Ok(())
    })?;
    Ok((hex(&hash.finalize()), size))
}

/// Reads a file to its end, in blocks of at most `room` bytes, and returns its size.
///
/// # Errors
/// When it cannot be read, or `each` fails.
pub(in super::super) fn drain(
    file: &mut impl Read,
    room: usize,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut buffer = vec![0; room.min(READ_AT_ONCE)];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(read) => {
                each(&buffer[..read])?;
                total += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected ids are the output of `git hash-object`.
    #[test]
    fn ids_are_those_of_git() {
        let sha1 = bytes(Format::Sha1, b"hello\n").unwrap();
        assert_eq!(sha1.as_str(), "ce013625030ba8dba906f756967f9e9ca394464a");
        let sha256 = bytes(Format::Sha256, b"hello\n").unwrap();
        assert_eq!(
            sha256.as_str(),
            "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"
        );
        let read = file(Format::Sha1, &mut &b"hello\n"[..], 6).unwrap();
        assert_eq!(read, sha1);
        assert_eq!(
            (Format::of(&sha1), Format::of(&sha256)),
            (Format::Sha1, Format::Sha256)
        );
    }

    #[test]
    fn file_of_another_size_than_it_had_has_no_id() {
        for size in [5, 7] {
            assert!(file(Format::Sha1, &mut &b"hello\n"[..], size).is_err());
        }
    }
}
