//! Reads files below a directory that agents write to: no link is followed, none but regular files are
//! opened, and none beyond a size.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

/// No part of the way may be a link, or lead out of the directory.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Returns what a regular file holds; none where there is no file of that name.
///
/// # Errors
/// It is something else than a regular file, it is larger than `max` bytes, a link is on the way to it, or
/// it cannot be read.
pub(super) fn read(root: &Path, name: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(root, name)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let what = format!("it is larger than {max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(Some(bytes))
}

/// Opens a regular file to be read; none where there is no file of that name.
///
/// # Errors
/// As [`read`].
pub(super) fn open(root: &Path, name: &Path) -> io::Result<Option<File>> {
    // Without O_NONBLOCK a pipe would be waited for.
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    let opened = openat(CWD, root, place, Mode::empty())
        .and_then(|dir| openat2(&dir, name, how, Mode::empty(), INSIDE));
    let file = match opened {
        Ok(file) => File::from(file),
        Err(error) => {
            let error = io::Error::from(error);
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
                _ => Err(error),
            };
        }
    };
    if !file.metadata()?.is_file() {
        let what = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_regular_files_beneath_the_directory_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(dir.path().join("secret"), "no").unwrap();
        fs::write(root.join("sub/plain"), "yes").unwrap();
        symlink(dir.path().join("secret"), root.join("link")).unwrap();
        symlink(dir.path(), root.join("out")).unwrap();
        nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let read = |name: &str| read(&root, Path::new(name), 3);
        assert_eq!(read("sub/plain").unwrap().as_deref(), Some(&b"yes"[..]));
        assert_eq!(read("absent").unwrap(), None);
        assert_eq!(read("sub/plain/below").unwrap(), None);
        for name in ["link", "out/secret", "../secret", "pipe", "sub"] {
            assert!(read(name).is_err(), "{name}");
        }
        fs::write(root.join("large"), "four").unwrap();
        assert!(read("large").is_err());
    }
}
