//! Access to files below a directory that agents can write to. Follows no link, opens only regular files, and reads
//! none beyond a size limit. A new version is written beside the old file and renamed over it, so that a link, a hard
//! link or a pipe that was put in its place is replaced and never written to.

mod lease;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, chmod, fstat, mkdirat,
    openat, openat2, renameat_with, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

pub use self::lease::Lease;
use crate::adapters::city_root;

/// The path must not contain a link, or lead out of the directory.
const INSIDE: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
/// Without `NONBLOCK`, opening a pipe would block.
const SAFELY: OFlags = OFlags::NONBLOCK
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
/// The number of tries to open a leased file, and the pause before each.
const LEASE_TRIES: u32 = 20;
const LEASE_PAUSE: Duration = Duration::from_millis(50);
/// The mode of new files.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Returns the content of a regular file; none if there is no file of that name.
///
/// # Errors
/// When it is not a regular file ([`is_odd`]), is larger than `max` bytes, has a link on its path, or cannot be read.
pub fn read(root: &Path, name: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
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

/// Calls `each` with every line of a regular file, without its end; of a line, `max` bytes at most. Returns false if there is no
/// file of that name.
///
/// # Errors
/// As [`read`], whatever the size is.
pub fn each_line(
    root: &Path,
    name: &Path,
    max: usize,
    each: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    let Some(file) = open(root, name)? else {
        return Ok(false);
    };
    let mut file = io::BufReader::with_capacity(1 << 16, file);
    let mut line = Vec::new();
    loop {
        let read = file.fill_buf()?;
        if read.is_empty() {
            break;
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let part = &read[..end.unwrap_or(read.len())];
        line.extend_from_slice(&part[..part.len().min(max - line.len())]);
        let used = part.len() + usize::from(end.is_some());
        file.consume(used);
        if end.is_some() {
            each(&line);
            line.clear();
        }
    }
    if !line.is_empty() {
        each(&line);
    }
    Ok(true)
}

/// Returns the text of a regular file, like [`read`]; replaces invalid UTF-8.
///
/// # Errors
/// As [`read`].
pub fn read_text(root: &Path, name: &Path, max: u64) -> io::Result<Option<String>> {
    let bytes = read(root, name, max)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// Opens a regular file for reading; none if there is no file of that name.
///
/// # Errors
/// As [`read`].
pub fn open(root: &Path, name: &Path) -> io::Result<Option<File>> {
    match open_with(root, name, OFlags::RDONLY) {
        Ok(file) => regular(file).map(Some),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            io::ErrorKind::WouldBlock => open_leased(root, name).map(Some),
            _ => Err(error),
        },
    }
}

/// Opens a regular file on which another process has a lease (`fcntl`, `F_SETLEASE`). The first try has the kernel end the lease
/// within a limited time (`fs.lease-break-time`, 45 s by default); waits for a moment, as its holder may give it up, and leaves the
/// rest to the next look.
fn open_leased(root: &Path, name: &Path) -> io::Result<File> {
    for _ in 0..LEASE_TRIES {
        std::thread::sleep(LEASE_PAUSE);
        match open_with(root, name, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            opened => return opened.and_then(regular),
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}

/// Returns true if there is anything of that name. A link is not followed.
#[must_use]
pub fn exists(root: &Path, name: &Path) -> bool {
    let found = parent(root, name)
        .and_then(|(dir, name)| Ok(rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?));
    found.is_ok()
}

/// Opens a regular file for appending, and makes it if needed. First removes anything in its place that is not a
/// regular file, or has another hard link.
///
/// # Errors
/// When the file system refuses, or a link is on its path.
pub fn append(root: &Path, name: &Path) -> io::Result<File> {
    let how = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    let alone = |file: File| -> io::Result<File> {
        let meta = file.metadata()?;
        match meta.is_file() && meta.nlink() == 1 {
            true => Ok(file),
            false => Err(odd("it is not a regular file with exactly one name")),
        }
    };
    match open_with(root, name, how).and_then(alone) {
        Err(error) if is_odd(&error) => {
            remove(root, name)?;
            open_with(root, name, how | OFlags::EXCL)
        }
        opened => opened,
    }
}

/// Opens a regular file for locking, and makes it if needed.
///
/// # Errors
/// When it is something else, a link is on its path, or the file system refuses.
pub fn open_lock(root: &Path, name: &Path) -> io::Result<File> {
    open_with(root, name, OFlags::RDWR | OFlags::CREATE).and_then(regular)
}

/// Makes a new file for writing.
///
/// # Errors
/// When it exists, the file system refuses, or a link is on its path.
pub fn create(root: &Path, name: &Path) -> io::Result<File> {
    open_with(root, name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
}

/// Makes a file anew for writing. Removes anything of that name, without writing to it.
///
/// # Errors
/// As [`create`].
pub fn create_anew(root: &Path, name: &Path) -> io::Result<File> {
    remove(root, name)?;
    create(root, name)
}

/// Writes a file atomically: a reader sees the old version or the new one. Returns the new one.
///
/// # Errors
/// When the file system refuses, or a link is on its path.
pub fn replace(root: &Path, name: &Path, bytes: &[u8]) -> io::Result<File> {
    let part = beside(name)?;
    let mut file = create_anew(root, Path::new(&part))?;
    file.write_all(bytes)?;
    rename(root, Path::new(&part), name)?;
    Ok(file)
}

/// Like [`replace`], and syncs the file to the disk before it returns.
///
/// # Errors
/// As [`replace`].
pub fn replace_durably(root: &Path, name: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = beside(name)?;
    let mut file = create_anew(root, Path::new(&part))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename(root, Path::new(&part), name)?;
    let parent = name.parent().unwrap_or(Path::new(""));
    let dir = openat2(
        dir(root)?,
        or_itself(parent),
        OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
        INSIDE,
    )?;
    File::from(dir).sync_all()
}

/// Renames a file, replacing anything of the new name.
///
/// # Errors
/// When the file system refuses, or a link is on one of the paths.
pub fn rename(root: &Path, from: &Path, to: &Path) -> io::Result<()> {
    rename_between((root, from), (root, to), RenameFlags::empty())
}

/// Renames a file below one root to a name below another.
///
/// # Errors
/// As [`rename`]; with [`RenameFlags::NOREPLACE`], when the name is taken.
pub fn rename_between(
    (from_root, from): (&Path, &Path),
    (to_root, to): (&Path, &Path),
    how: RenameFlags,
) -> io::Result<()> {
    let (from_dir, from) = parent(from_root, from)?;
    let (to_dir, to) = parent(to_root, to)?;
    Ok(renameat_with(from_dir, from, to_dir, to, how)?)
}

/// Makes a symbolic link to a path that is not looked at.
///
/// # Errors
/// When the name is taken, the file system refuses, or a link is on its path.
pub fn symlink(root: &Path, name: &Path, target: &Path) -> io::Result<()> {
    let (dir, name) = parent(root, name)?;
    Ok(symlinkat(target, dir, name)?)
}

/// Removes anything but a directory. Succeeds if it does not exist.
///
/// # Errors
/// When the file system refuses, or a link is on its path.
pub fn remove(root: &Path, name: &Path) -> io::Result<()> {
    let removed =
        parent(root, name).and_then(|(dir, name)| Ok(unlinkat(dir, name, AtFlags::empty())?));
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes a directory below the root, with its parents.
///
/// # Errors
/// When the file system refuses, or a link or file is on its path.
pub fn make_dirs(root: &Path, name: &Path) -> io::Result<()> {
    make_dirs_with(root, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

fn make_dirs_with(root: &Path, name: &Path, mode: Mode) -> io::Result<()> {
    let mut made = std::path::PathBuf::new();
    for part in name.components() {
        made.push(part);
        let (within, name) = parent(root, &made)?;
        match mkdirat(within, name, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // An existing entry may be something else than a directory.
    let found = open_dir(root, name);
    found.map(drop).map_err(named)
}

/// Like [`make_dirs`], and removes a link or file of that name.
///
/// # Errors
/// As [`make_dirs`].
pub fn make_dir_anew(root: &Path, name: &Path) -> io::Result<()> {
    make_anew(root, name, Mode::RWXU | Mode::RWXG | Mode::RWXO)
}

fn make_anew(root: &Path, name: &Path, mode: Mode) -> io::Result<()> {
    match make_dirs_with(root, name, mode) {
        Err(error) if is_odd(&error) || error.kind() == io::ErrorKind::NotADirectory => {
            remove(root, name)?;
            make_dirs_with(root, name, mode)
        }
        made => made,
    }
}

/// Opens a directory for listing and for removing its entries. Neither the directory nor its parent may be a link,
/// because the target of a link is not the supervisor's.
///
/// # Errors
/// When it does not exist, or is something else.
pub fn open_room(room: &Path) -> io::Result<OwnedFd> {
    let (root, name) = of_room(room);
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat2(dir(root)?, name, how, Mode::empty(), INSIDE);
    opened.map_err(|error| named(error.into()))
}

/// Like [`open_room`], and makes the directory with mode 0700 if needed. Removes a link or file of that name.
///
/// # Errors
/// When the file system refuses, or its parent is something else.
pub fn make_room(room: &Path) -> io::Result<OwnedFd> {
    let (root, name) = of_room(room);
    city_root::make_dirs(root)?;
    make_anew(root, name, Mode::RWXU)?;
    open_room(room)
}

/// Splits a path into the city and a directory of its `.horde`.
fn of_room(room: &Path) -> (&Path, &Path) {
    let root = room.ancestors().nth(2).unwrap_or(Path::new("/"));
    (root, room.strip_prefix(root).unwrap_or(room))
}

/// Returns the names in a directory, sorted.
///
/// # Errors
/// When it cannot be listed.
pub fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Gives the owner access to a directory or file of this user's that an agent closed by permissions. Returns true if
/// the mode was changed.
///
/// # Errors
/// When it does not exist, a link is on its path, or the file system refuses.
pub fn open_up(root: &Path, name: &Path) -> io::Result<bool> {
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match name.as_os_str().is_empty() {
        // A closed directory permits no lookup inside.
        true => dir(root)?,
        false => openat2(dir(root)?, name, how, Mode::empty(), INSIDE)?,
    };
    let meta = fstat(&found)?;
    let wanted = match FileType::from_raw_mode(meta.st_mode) {
        FileType::Directory => Mode::RWXU,
        FileType::RegularFile => Mode::RUSR | Mode::WUSR,
        _ => return Ok(false),
    };
    let mode = Mode::from_raw_mode(meta.st_mode);
    if mode.contains(wanted) || meta.st_uid != geteuid().as_raw() {
        return Ok(false);
    }
    // `chmod` needs this name for a descriptor opened with `O_PATH`.
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    chmod(itself, mode | wanted)?;
    Ok(true)
}

/// Does the same as [`open_up`] for a file and each directory on the way to it.
///
/// # Errors
/// As [`open_up`]'s, but for a name that does not exist.
pub fn open_way(root: &Path, name: &Path) -> io::Result<()> {
    let mut above = PathBuf::new();
    for part in name {
        above.push(part);
        match open_up(root, &above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            opened => opened?,
        };
    }
    Ok(())
}

/// Returns true if the error means that something other than a plain file was found, and not that the system failed.
#[must_use]
pub fn is_odd(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge
    )
}

fn odd(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Converts the error of a lookup: a link on the path is told from other failures.
fn named(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::LOOP | Errno::XDEV) => odd("a symbolic link is in its path"),
        // A socket, or a pipe without a reader.
        Some(Errno::NXIO) => odd("it is not a regular file"),
        Some(Errno::ISDIR) => odd("it is a directory"),
        _ => error,
    }
}

fn regular(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(odd("it is not a regular file")),
    }
}

fn dir(root: &Path) -> io::Result<OwnedFd> {
    let place = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat(CWD, root, place, Mode::empty())?)
}

fn open_dir(root: &Path, name: &Path) -> io::Result<OwnedFd> {
    let place = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat2(
        dir(root)?,
        or_itself(name),
        place,
        Mode::empty(),
        INSIDE,
    )?)
}

fn open_with(root: &Path, name: &Path, how: OFlags) -> io::Result<File> {
    let mode = match how.contains(OFlags::CREATE) {
        true => PRIVATE,
        false => Mode::empty(),
    };
    let opened = dir(root)
        .and_then(|dir| Ok(openat2(&dir, name, how | SAFELY, mode, INSIDE)?))
        .map_err(named)?;
    Ok(File::from(opened))
}

/// Opens the parent directory of a name. Returns it with the last part of the name.
fn parent<'a>(root: &Path, name: &'a Path) -> io::Result<(OwnedFd, &'a std::ffi::OsStr)> {
    let last = name
        .file_name()
        .ok_or_else(|| odd("it is not the path of a file"))?;
    let above = name.parent().unwrap_or(Path::new(""));
    Ok((open_dir(root, above).map_err(named)?, last))
}

fn or_itself(dir: &Path) -> &Path {
    match dir.as_os_str().is_empty() {
        true => Path::new("."),
        false => dir,
    }
}

/// Returns the path at which the new version of a file is written.
fn beside(name: &Path) -> io::Result<OsString> {
    let last = name
        .file_name()
        .ok_or_else(|| odd("it is not the path of a file"))?;
    let mut part = last.to_owned();
    part.push(".new");
    Ok(name.with_file_name(part).into_os_string())
}

#[cfg(test)]
mod tests;
