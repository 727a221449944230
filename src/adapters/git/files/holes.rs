//! Reads files without their holes, and writes files with holes: a sparse file costs its data, not its length.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};

use rustix::fs::{SeekFrom, fstatfs, seek};
use rustix::io::Errno;

use super::hash::READ_AT_ONCE;

/// The size of a hole, at least: the block of common file systems.
const BLOCK: usize = 4096;
/// A block without data.
const ZEROS: [u8; BLOCK] = [0; BLOCK];
/// The types of file systems that report holes truly: ext4, XFS, Btrfs, tmpfs, F2FS. ZFS has reported fresh data as a hole, also
/// from below another file system.
const TRUE: &[u64] = &[0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0xf2f5_2010];

/// A file that is read from its beginning. Its holes are given as zeros, without a read.
pub(in super::super) struct Sparse {
    file: File,
    at: u64,
    /// The end of the part that `at` is in.
    until: u64,
    is_hole: bool,
    /// False if every byte must be read.
    has_holes: bool,
}

impl Sparse {
    /// Makes a reader of a file. Only a file that takes less than its length can have holes.
    ///
    /// # Errors
    /// When the file cannot be inspected.
    pub(in super::super) fn of(file: File) -> io::Result<Self> {
        let found = file.metadata()?;
        let has_holes = found.blocks().saturating_mul(512) < found.len() && tells_holes(&file)?;
        Ok(Self {
            file,
            at: 0,
            until: 0,
            is_hole: false,
            has_holes,
        })
    }

    /// Finds the part that begins here: its end, and whether it is a hole.
    fn part(&self) -> io::Result<(u64, bool)> {
        let everything = (u64::MAX, false);
        if !self.has_holes {
            return Ok(everything);
        }
        match seek(&self.file, SeekFrom::Data(self.at)) {
            Ok(data) if data > self.at => Ok((data, true)),
            Ok(data) => match seek(&self.file, SeekFrom::Hole(data)) {
                Ok(hole) if hole > data => Ok((hole, false)),
                _ => Ok(everything),
            },
            // No data follows.
            Err(Errno::NXIO) => match self.file.metadata()?.len() {
                end if end > self.at => Ok((end, true)),
                _ => Ok(everything),
            },
            Err(_) => Ok(everything),
        }
    }
}

fn tells_holes(file: &File) -> io::Result<bool> {
    let found = fstatfs(file)?.f_type;
    Ok(u64::try_from(found).is_ok_and(|found| TRUE.contains(&found)))
}

impl Read for Sparse {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.until {
            (self.until, self.is_hole) = self.part()?;
        }
        let left = usize::try_from(self.until - self.at).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let buffer = &mut buffer[..most];
        let read = match self.is_hole {
            true => {
                buffer.fill(0);
                buffer.len()
            }
            false => self.file.read_at(buffer, self.at)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

/// Writes everything into an empty file. Blocks of zeros become holes.
///
/// # Errors
/// When one of them fails.
pub(in super::super) fn write(from: &mut impl Read, to: &File) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(READ_AT_ONCE);
    let mut at = 0;
    loop {
        buffer.clear();
        from.take(READ_AT_ONCE as u64).read_to_end(&mut buffer)?;
        if buffer.is_empty() {
            // A hole at the end is made by the length alone.
            return to.set_len(at);
        }
        let blocks: Vec<&[u8]> = buffer.chunks(BLOCK).collect();
        let is_zero = |block: &[u8]| *block == ZEROS[..block.len()];
        let mut begin = 0;
        for run in blocks.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
            let end = begin + run.iter().map(|block| block.len()).sum::<usize>();
            if !is_zero(run[0]) {
                to.write_all_at(&buffer[begin..end], at + begin as u64)?;
            }
            begin = end;
        }
        at += buffer.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: u64 = 1 << 20;

    /// Makes a file: a hole, data, a hole.
    fn sparse(dir: &std::path::Path) -> (std::path::PathBuf, Vec<u8>) {
        let path = dir.join("sparse");
        let file = File::create(&path).unwrap();
        file.write_all_at(&[b'x'; 9000], PART).unwrap();
        file.set_len(3 * PART).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    }

    #[test]
    fn holes_are_found_and_given_as_zeros() {
        let dir = crate::testing::scratch();
        let (path, bytes) = sparse(dir.path());
        let mut file = Sparse::of(File::open(path).unwrap()).unwrap();
        let (mut parts, mut read) = (Vec::new(), Vec::new());
        let mut buffer = [1; 7000];
        loop {
            let length = file.read(&mut buffer).unwrap();
            if length == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..length]);
            if parts.last() != Some(&(file.until, file.is_hole)) {
                parts.push((file.until, file.is_hole));
            }
        }
        assert!(read == bytes);
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        assert_eq!((first, last), ((PART, true), (3 * PART, true)));
        let data = parts.iter().filter(|(_, is_hole)| !is_hole).count();
        assert_eq!((parts.len(), data), (3, 1), "{parts:?}");
    }

    #[test]
    fn file_is_written_with_holes() {
        let dir = crate::testing::scratch();
        let (path, mut bytes) = sparse(dir.path());
        bytes.extend_from_slice(b"end");
        let copy = dir.path().join("copy");
        write(&mut &bytes[..], &File::create(&copy).unwrap()).unwrap();
        assert!(std::fs::read(&copy).unwrap() == bytes);
        let takes = |path: &std::path::Path| path.metadata().unwrap().blocks() * 512;
        assert!(takes(&path) < PART / 4 && takes(&copy) < PART / 4);
    }

    #[test]
    fn file_without_holes_is_read_to_its_end() {
        let dir = crate::testing::scratch();
        let path = dir.path().join("full");
        std::fs::write(&path, [b'y'; 100_000]).unwrap();
        let mut read = Vec::new();
        let mut file = Sparse::of(File::open(path).unwrap()).unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == [b'y'; 100_000]);
    }
}
