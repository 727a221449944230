//! Reads regular files only, up to a limit. A FIFO would block for ever, a device may have no end, and a file of
//! gigabytes would fill the memory: each is an error here.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The maximum length of a configuration file, a prompt or an automation.
pub const TEXT_MAX: u64 = 4 * 1024 * 1024;

/// The treatment of a link as the last name of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Followed: a person put it there.
    Follow,
    /// Refused: agents write in that directory.
    Refuse,
}

/// Returns the error of making a temporary file without the path of that: a person knows the file that it was to become.
#[must_use]
pub fn of_temporary(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.rsplit_once(" at path ") {
        Some((cause, _)) => io::Error::new(error.kind(), cause.to_owned()),
        None => error,
    }
}

/// Opens a regular file for reading, without blocking.
///
/// # Errors
/// [`ErrorKind::InvalidData`] where the path is no regular file; otherwise the error of the system.
pub fn open(path: &Path, links: Links) -> io::Result<File> {
    let look = match links {
        Links::Follow => fs::metadata(path),
        Links::Refuse => fs::symlink_metadata(path),
    };
    // Checked first, because opening a device can have effects.
    regular(&look?)?;
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, links == Links::Refuse);
    let mut options = OpenOptions::new();
    let options = options.read(true);
    let file = options
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    // The file may have been replaced meanwhile.
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole regular file.
///
/// # Errors
/// As [`open`]; [`ErrorKind::FileTooLarge`] above the limit.
pub fn read(path: &Path, links: Links, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Reads a byte more than the limit: an endless file (in /proc) reports length 0.
    open(path, links)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it is longer than {limit} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Reads a whole text that a person wrote, of at most [`TEXT_MAX`].
///
/// # Errors
/// As [`read`], and when it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path, Links::Follow, TEXT_MAX)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Checks that this is a regular file.
///
/// # Errors
/// It is another kind of file, which the error names.
pub fn regular(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let message = format!("it is {}, not a regular file", kind(found));
    Err(io::Error::new(ErrorKind::InvalidData, message))
}

/// Returns the kind of a file, in a word.
#[must_use]
pub fn kind(found: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_symlink() => "a link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_file() => "a file",
        () => "a device",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(path: &Path, links: Links) -> ErrorKind {
        read(path, links, 10).unwrap_err().kind()
    }

    #[test]
    fn irregular_file_is_refused_at_once() {
        let dir = crate::testing::scratch();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        for path in [&fifo, Path::new("/dev/zero"), dir.path()] {
            assert_eq!(
                kind_of(path, Links::Follow),
                ErrorKind::InvalidData,
                "{path:?}"
            );
        }
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "text").unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(read(&link, Links::Follow, 10).unwrap(), b"text");
        assert_eq!(kind_of(&link, Links::Refuse), ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_is_read_up_to_the_limit_and_not_beyond() {
        let dir = crate::testing::scratch();
        let path = dir.path().join("file");
        fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, Links::Follow, 10).unwrap().len(), 10);
        fs::write(&path, "0123456789a").unwrap();
        assert_eq!(kind_of(&path, Links::Follow), ErrorKind::FileTooLarge);
    }

    #[test]
    fn error_of_a_temporary_file_names_no_file() {
        let nowhere = Path::new("/nowhere");
        let error = tempfile::NamedTempFile::new_in(nowhere).unwrap_err();
        assert!(error.to_string().contains("/nowhere"), "{error}");
        let told = of_temporary(error);
        assert_eq!(told.kind(), ErrorKind::NotFound);
        assert_eq!(told.to_string(), "No such file or directory (os error 2)");
    }
}
