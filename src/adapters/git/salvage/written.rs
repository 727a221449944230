//! Writes salvaged entries into a directory, and verifies them: the same names, kinds, modes, times and bytes, and
//! nothing else.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, fchmod, linkat, mkdirat, openat};
use rustix::fs::{symlinkat, utimensat};

use super::super::admin::{At, failed};
use super::super::bytes;
use super::super::command::Git;
use super::super::files::compare::read as hashed;
use super::super::files::hash::Format;
use super::super::files::hash_cache::HashCache;
use super::super::files::holes;
use super::super::files::open::Root;
use super::super::files::store::{self, LARGE};
use super::super::files::walk::{Kind, all_below};
use super::manifest::Line;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Writes the entries below a directory, which must not exist there yet.
pub(super) fn write(git: impl Fn() -> Git, dir: &Path, lines: &[Line]) -> Result<(), RepoError> {
    let open = Root::open(dir).at("cannot open", dir)?;
    let writer = Writer { root: &open };
    for line in lines {
        let above = line
            .path
            .iter()
            .rposition(|byte| *byte == b'/')
            .unwrap_or(0);
        writer.directories(match line.kind {
            Kind::Dir => &line.path,
            _ => &line.path[..above],
        })?;
    }
    let mut wanted: HashMap<&Oid, Vec<&Line>> = HashMap::new();
    let (mut small, mut more) = (Vec::new(), Vec::new());
    let mut first: HashMap<usize, &Line> = HashMap::new();
    for line in lines {
        let Some(id) = &line.id else { continue };
        if let Some(number) = line.file {
            if first.contains_key(&number) {
                more.push((line, number));
                continue;
            }
            first.insert(number, line);
        }
        if line.size > LARGE && line.kind == Kind::File {
            let file = writer.create(line)?;
            store::stream(git(), id, line.size, file)?;
            writer.finish(line)?;
            continue;
        }
        let same = wanted.entry(id).or_default();
        if same.is_empty() {
            small.push((id.clone(), line.size));
        }
        same.push(line);
    }
    store::read(&git, &small, |id, text| {
        let lines = wanted.get(id).map_or(&[][..], Vec::as_slice);
        lines.iter().try_for_each(|line| writer.put(line, text))
    })?;
    for (line, number) in more {
        writer.link(first[&number], line)?;
    }
    // The deepest first: writing into a directory changes its time.
    let dirs = lines.iter().rev().filter(|line| line.kind == Kind::Dir);
    dirs.into_iter().try_for_each(|line| writer.finish(line))
}

struct Writer<'a> {
    root: &'a Root,
}

impl Writer<'_> {
    fn fail(&self, line: &[u8]) -> impl Fn(io::Error) -> RepoError {
        let path = self.root.path().join(bytes::path(line));
        move |error| failed("cannot write", &path, &error)
    }

    /// Opens the parent directory of an entry. Returns it with the entry's name.
    fn place<'p>(&self, path: &'p [u8]) -> io::Result<(OwnedFd, &'p OsStr)> {
        let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(cut) => (&path[..cut], &path[cut + 1..]),
            None => (&b""[..], path),
        };
        let fd = self.root.at(dir, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok((fd, OsStr::from_bytes(name)))
    }

    /// Makes a directory and its parents, as far as they are missing, with the modes that `mkdir` gives.
    fn directories(&self, path: &[u8]) -> Result<(), RepoError> {
        if path.is_empty() || self.root.at(path, OFlags::PATH | OFlags::DIRECTORY).is_ok() {
            return Ok(());
        }
        if let Some(cut) = path.iter().rposition(|byte| *byte == b'/') {
            self.directories(&path[..cut])?;
        }
        let made = self
            .place(path)
            .and_then(|(dir, name)| Ok(mkdirat(&dir, name, Mode::from_raw_mode(0o777))?));
        made.map_err(self.fail(path))
    }

    fn create(&self, line: &Line) -> Result<File, RepoError> {
        let how =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = self.place(&line.path).and_then(|(dir, name)| {
            let file = openat(&dir, name, how, Mode::RUSR | Mode::WUSR)?;
            Ok(File::from(file))
        });
        made.map_err(self.fail(&line.path))
    }

    fn put(&self, line: &Line, text: &[u8]) -> Result<(), RepoError> {
        let fail = self.fail(&line.path);
        if line.kind == Kind::Link {
            let made = self
                .place(&line.path)
                .and_then(|(dir, name)| Ok(symlinkat(OsStr::from_bytes(text), &dir, name)?));
            made.map_err(fail)?;
        } else {
            let mut text = text;
            holes::write(&mut text, &self.create(line)?).map_err(fail)?;
        }
        self.finish(line)
    }

    fn link(&self, first: &Line, line: &Line) -> Result<(), RepoError> {
        let linked = self.place(&first.path).and_then(|(from, old)| {
            let (to, new) = self.place(&line.path)?;
            Ok(linkat(&from, old, &to, new, AtFlags::empty())?)
        });
        linked.map_err(self.fail(&line.path))
    }

    /// Sets mode and time.
    fn finish(&self, line: &Line) -> Result<(), RepoError> {
        let set = || -> io::Result<()> {
            let (dir, name) = self.place(&line.path)?;
            if line.kind != Kind::Link {
                let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = openat(&dir, name, how, Mode::empty())?;
                fchmod(&file, Mode::from_raw_mode(line.mode))?;
            }
            let time = Timespec {
                tv_sec: line.modified.0,
                tv_nsec: line.modified.1.into(),
            };
            let times = Timestamps {
                last_access: time,
                last_modification: time,
            };
            Ok(utimensat(&dir, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
        };
        set().map_err(self.fail(&line.path))
    }
}

/// Reads the entries below a directory again. With `only`, the directory must contain nothing else but its `.git`.
pub(super) fn prove(dir: &Path, lines: &[Line], only: bool) -> Result<(), RepoError> {
    let wrong = |path: &[u8], what: &str| {
        let path = dir.join(bytes::path(path));
        let what = format!("{} {what}", path.display());
        RepoError::Failed(format!("{what} than in the salvage"))
    };
    let root = Root::open(dir).at("cannot read", dir)?;
    let mut left: HashMap<&[u8], &Line> = lines
        .iter()
        .map(|line| (line.path.as_slice(), line))
        .collect();
    for entry in all_below(&root, b"")? {
        let path = entry.path.clone();
        let Some(line) = left.remove(path.as_slice()) else {
            if only && entry.kind != Kind::Dir && path != b".git" {
                return Err(wrong(&path, "exists, unlike in the salvage"));
            }
            continue;
        };
        let stamp = &entry.stamp;
        if entry.kind != line.kind {
            return Err(wrong(&path, "is of another kind"));
        }
        if entry.kind != Kind::Link && stamp.mode != line.mode {
            return Err(wrong(&path, "has another mode"));
        }
        if stamp.modified != line.modified {
            return Err(wrong(&path, "has another time"));
        }
        let Some(id) = &line.id else { continue };
        let read = hashed(&root, entry, Format::of(id), &mut HashCache::default())?;
        if read.is_none_or(|(_, now)| now != *id) {
            return Err(wrong(&path, "has other bytes"));
        }
    }
    let gone = left.values().find(|line| line.kind != Kind::Other);
    gone.map_or(Ok(()), |line| {
        Err(wrong(&line.path, "is missing, unlike in the salvage"))
    })
}
