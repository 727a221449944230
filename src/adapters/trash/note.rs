//! Notes on entries of the trash. A note is written before its entry comes into the trash, and tells later writes from
//! earlier content: by the change time, which the owner of a file cannot set. Where that time is no evidence, the note lists
//! the content.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use sha2::{Digest as _, Sha256};

use super::Stamp;
use crate::adapters::beneath;
use crate::adapters::proc::FileId;
use crate::adapters::removal::{self, Closed};

/// The largest size of a note.
const MAX: usize = 256 << 20;
/// The block size for reading a file.
const READ_AT_ONCE: usize = 64 << 10;
/// Seconds that a change time may be after the clock; one further ahead is from before a clock was set back.
const SLACK: i64 = 2;

/// A note on an entry of the trash, or on a directory that will be one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The time after which nothing was measured.
    since: Stamp,
    /// The directories in it by inode: each removal of an entry changes their times.
    dirs: BTreeSet<u64>,
    /// The files in it, by inode, whose change time may be later without a write: a hard link that is made or removed
    /// elsewhere changes it, and it may be from before a clock was set back.
    files: BTreeMap<u64, Content>,
    /// The digests of the mapped files in it, by inode: writes to a mapping may change no time.
    mapped: BTreeMap<u64, String>,
}

/// The size and the modification time of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    size: i64,
    modified: Stamp,
}

impl Content {
    fn of(found: &Stat) -> Self {
        let modified = (
            found.st_mtime,
            i64::try_from(found.st_mtime_nsec).unwrap_or_default(),
        );
        Self {
            size: found.st_size,
            modified,
        }
    }
}

impl Note {
    /// Makes the note on a directory as it is now. `since` is earlier, and so is the look at the mapped files.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn of(place: &Path, since: Stamp, mapped: &HashSet<FileId>) -> io::Result<Self> {
        let how = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let top = openat(CWD, place, how, Mode::empty())?;
        let device = fstat(&top)?.st_dev;
        let note = RefCell::new(Self {
            since,
            ..Self::default()
        });
        let see = |path: &Path, found: &Stat| {
            // A file system inside, as a subvolume, has inodes of its own.
            if found.st_dev != device {
                return;
            }
            let mut note = note.borrow_mut();
            if is_dir(found) {
                note.dirs.insert(found.st_ino);
            } else if found.st_nlink > 1 || changed(found).0 > since.0 + SLACK {
                note.files.insert(found.st_ino, Content::of(found));
            }
            if mapped.contains(&(found.st_dev, found.st_ino)) {
                // Without a digest, it counts as written.
                let digest = digest(place, path).unwrap_or_else(|| "-".to_owned());
                note.mapped.insert(found.st_ino, digest);
            }
        };
        // A file that is not listed counts as written if it changes.
        if let Err(error) = removal::visit(top, Closed::Leave, &see) {
            tracing::debug!(%error, "{} was not listed completely", place.display());
        }
        Ok(note.into_inner())
    }

    /// Makes a note that no write is later than.
    pub(super) fn without_time() -> Self {
        Self {
            since: (i64::MAX, 0),
            ..Self::default()
        }
    }

    /// Reads the note on an entry; none if there is none. A garbled note counts as the earliest time.
    pub(super) fn read(place: &Path) -> io::Result<Option<Self>> {
        let (trash, name) = file_of(place);
        let text = beneath::read_text(trash, Path::new(&name), MAX as u64)?;
        Ok(text.map(|text| Self::parse(&text).unwrap_or_default()))
    }

    /// Writes the note on an entry to the disk.
    pub(super) fn write(&self, place: &Path) -> io::Result<()> {
        let (trash, name) = file_of(place);
        beneath::replace_durably(trash, Path::new(&name), self.text().as_bytes())
    }

    /// Adds directories that a look opened, and writes the note: that they were opened is not a later write.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn with_opened(mut self, opened: BTreeSet<u64>, place: &Path) -> io::Result<Self> {
        let known = self.dirs.len();
        self.dirs.extend(opened);
        if self.dirs.len() > known {
            self.write(place)?;
        }
        Ok(self)
    }

    /// Looks for a later write, and for a use, in a directory. Opens closed directories.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn look(
        &self,
        top: OwnedFd,
        place: &Path,
        used: &HashSet<FileId>,
    ) -> io::Result<Found> {
        let own = fstat(&top)?;
        let is_used = |found: &Stat| used.contains(&(found.st_dev, found.st_ino));
        let found = RefCell::new(Found {
            written: None,
            opened: BTreeSet::new(),
            used: is_used(&own).then(|| place.to_owned()),
        });
        let doubted = RefCell::new(Vec::new());
        let see = |path: &Path, entry: &Stat| {
            let mut found = found.borrow_mut();
            if found.used.is_none() && is_used(entry) {
                found.used = Some(place.join(path));
            }
            let is_own = entry.st_dev == own.st_dev;
            if found.written.is_none() && self.is_late(entry, is_own) {
                found.written = Some(place.join(path));
            }
            if is_own && is_dir(entry) && removal::is_closed(entry) {
                found.opened.insert(entry.st_ino);
            }
            if is_own && let Some(digest) = self.mapped.get(&entry.st_ino) {
                doubted.borrow_mut().push((path.to_owned(), digest));
            }
        };
        removal::visit(top, Closed::Open, &see)?;
        let mut found = found.into_inner();
        if found.written.is_none() && found.used.is_none() {
            for (path, known) in doubted.into_inner() {
                if digest(place, &path).as_ref() != Some(known) {
                    found.written = Some(place.join(path));
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Returns true if an entry was written, made or moved there later.
    fn is_late(&self, entry: &Stat, is_own: bool) -> bool {
        if changed(entry) < self.since {
            return false;
        }
        let is_known = match is_dir(entry) {
            true => self.dirs.contains(&entry.st_ino),
            false => self.files.get(&entry.st_ino) == Some(&Content::of(entry)),
        };
        !(is_own && is_known)
    }

    /// Formats the note. A list that is too long is left out: its files count as written if they change.
    fn text(&self) -> String {
        let first = format!("{} {}\n", self.since.0, self.since.1);
        let mut text = first.clone();
        // Writing to a string cannot fail.
        for inode in &self.dirs {
            let _written = writeln!(text, "d {inode}");
        }
        for (inode, Content { size, modified }) in &self.files {
            let (at, ns) = modified;
            let _written = writeln!(text, "f {inode} {size} {at} {ns}");
        }
        for (inode, digest) in &self.mapped {
            let _written = writeln!(text, "m {inode} {digest}");
        }
        match text.len() <= MAX {
            true => text,
            false => first,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (at, ns) = lines.next()?.split_once(' ')?;
        let mut note = Self {
            since: (at.parse().ok()?, ns.parse().ok()?),
            ..Self::default()
        };
        for line in lines {
            let mut fields = line.split(' ');
            let (kind, inode) = (fields.next()?, fields.next()?.parse().ok()?);
            match kind {
                "d" => drop(note.dirs.insert(inode)),
                "f" => {
                    let mut number = || fields.next()?.parse().ok();
                    let (size, at, ns) = (number()?, number()?, number()?);
                    let modified = (at, ns);
                    note.files.insert(inode, Content { size, modified });
                }
                "m" => drop(note.mapped.insert(inode, fields.next()?.to_owned())),
                _ => return None,
            }
        }
        Some(note)
    }
}

/// The result of a look.
#[derive(Debug)]
pub(super) struct Found {
    /// The first path that was written later.
    pub(super) written: Option<PathBuf>,
    /// The first path that is in use.
    pub(super) used: Option<PathBuf>,
    /// The closed directories, by inode, which the look has opened.
    pub(super) opened: BTreeSet<u64>,
}

/// Returns the directory and the name of the note on an entry.
pub(super) fn file_of(place: &Path) -> (&Path, OsString) {
    let name = place.file_name().unwrap_or_default();
    (place.parent().unwrap_or(place), super::note_of(name))
}

fn is_dir(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::Directory
}

fn changed(found: &Stat) -> Stamp {
    (
        found.st_ctime,
        i64::try_from(found.st_ctime_nsec).unwrap_or_default(),
    )
}

/// Returns the digest of a file's bytes, if it can be read.
fn digest(place: &Path, path: &Path) -> Option<String> {
    let mut file = beneath::open(place, path).ok()??;
    let mut hasher = Sha256::new();
    let mut part = vec![0; READ_AT_ONCE];
    loop {
        match file.read(&mut part).ok()? {
            0 => break,
            read => hasher.update(&part[..read]),
        }
    }
    let mut text = String::new();
    for byte in hasher.finalize() {
        let _written = write!(text, "{byte:02x}");
    }
    Some(text)
}
