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
        RepoError::Failed(format!("{} {what}", path.display()))
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
                return Err(wrong(&path, "is not in the salvage"));
            }
            continue;
        };
        let stamp = &entry.stamp;
        if entry.kind != line.kind {
            return Err(wrong(&path, "is of another kind than in the salvage"));
        }
        if entry.kind != Kind::Link && stamp.mode != line.mode {
            return Err(wrong(&path, "has another mode than in the salvage"));
        }
        if stamp.modified != line.modified {
            return Err(wrong(&path, "has another time than in the salvage"));
        }
        let Some(id) = &line.id else { continue };
        let read = hashed(&root, entry, Format::of(id), &mut HashCache::default())?;
        if read.is_none_or(|(_, now)| now != *id) {
            return Err(wrong(&path, "has other bytes than in the salvage"));
        }
    }
    let gone = left.values().find(|line| line.kind != Kind::Other);
    gone.map_or(Ok(()), |line| {
        Err(wrong(&line.path, "is in the salvage and was not restored"))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::CWD;
    use tempfile::TempDir;

    use super::super::manifest::EntryRoot;
    use super::*;

    /// Makes a directory with entries of every kind, and the list that a salvage of it has.
    fn saved() -> (TempDir, Vec<Line>) {
        let dir = crate::testing::scratch();
        let at = |name: &str| dir.path().join(name);
        fs::write(at(".git"), "gitdir: elsewhere\n").unwrap();
        fs::create_dir(at("dir")).unwrap();
        for name in ["dir/below", "file", "other"] {
            fs::write(at(name), name).unwrap();
        }
        symlink("file", at("link")).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let lines = all_below(&root, b"").unwrap().into_iter();
        let lines = lines.filter(|entry| entry.path != b".git").map(|entry| {
            let stamp = entry.stamp;
            let (path, kind) = (entry.path.clone(), entry.kind);
            let read = hashed(&root, entry, Format::Sha1, &mut HashCache::default());
            Line {
                place: EntryRoot::Work,
                path,
                kind,
                mode: stamp.mode,
                size: stamp.size,
                modified: stamp.modified,
                id: (kind != Kind::Dir).then(|| read.unwrap().unwrap().1),
                file: None,
            }
        });
        let mut lines: Vec<_> = lines.collect();
        // A pipe is listed, and is not restored.
        lines.push(Line {
            path: b"pipe".to_vec(),
            kind: Kind::Other,
            id: None,
            ..lines[0].clone()
        });
        (dir, lines)
    }

    fn line<'l>(lines: &'l [Line], name: &str) -> &'l Line {
        let found = lines.iter().find(|line| line.path == name.as_bytes());
        found.unwrap()
    }

    /// Gives an entry its listed time again.
    fn set_back(dir: &Path, line: &Line) {
        let time = Timespec {
            tv_sec: line.modified.0,
            tv_nsec: line.modified.1.into(),
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let path = dir.join(bytes::path(&line.path));
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }

    /// A change of a restored directory, with the name of the entry and the words of the error.
    type Mismatch = (&'static str, &'static str, fn(&Path));

    /// Each of these leaves everything else as it is listed: the time of the entry is set back, except where a time is
    /// the difference.
    const MISMATCHES: [Mismatch; 11] = [
        ("file", "has other bytes", |at| {
            fs::write(at, "FILE").unwrap()
        }),
        ("file", "has other bytes", |at| {
            fs::write(at, "longer").unwrap()
        }),
        ("dir/below", "has other bytes", |at| {
            fs::write(at, "").unwrap()
        }),
        ("link", "has other bytes", |at| {
            fs::remove_file(at).unwrap();
            symlink("els", at).unwrap();
        }),
        ("file", "has another mode", |at| {
            fs::set_permissions(at, PermissionsExt::from_mode(0o4755)).unwrap();
        }),
        ("dir", "has another mode", |at| {
            fs::set_permissions(at, PermissionsExt::from_mode(0o2750)).unwrap();
        }),
        ("file", "is of another kind", |at| {
            fs::remove_file(at).unwrap();
            symlink("other", at).unwrap();
        }),
        ("link", "is of another kind", |at| {
            fs::remove_file(at).unwrap();
            fs::write(at, "file").unwrap();
        }),
        ("dir", "is of another kind", |at| {
            fs::remove_dir_all(at).unwrap();
            fs::write(at, "").unwrap();
        }),
        ("file", "is in the salvage and was not restored", |at| {
            fs::remove_file(at).unwrap()
        }),
        ("link", "is in the salvage and was not restored", |at| {
            fs::remove_file(at).unwrap()
        }),
    ];

    #[test]
    fn each_difference_from_the_salvage_is_an_error_of_its_own() {
        for (name, wanted, change) in MISMATCHES {
            let (dir, lines) = saved();
            prove(dir.path(), &lines, true).unwrap();
            let at = dir.path().join(name);
            change(&at);
            if fs::symlink_metadata(&at).is_ok() {
                set_back(dir.path(), line(&lines, name));
            }
            if name.starts_with("dir/") {
                set_back(dir.path(), line(&lines, "dir"));
            }
            for only in [true, false] {
                let why = prove(dir.path(), &lines, only).unwrap_err().to_string();
                let told = format!("{} {wanted}", at.display());
                assert!(why.contains(&told), "{why}, not {told}");
            }
        }
    }

    #[test]
    fn another_time_of_an_entry_is_an_error() {
        for name in ["file", "link", "dir", "dir/below"] {
            let (dir, lines) = saved();
            let mut later = line(&lines, name).clone();
            later.modified.1 = later.modified.1.wrapping_add(1) % 1_000_000_000;
            set_back(dir.path(), &later);
            let why = prove(dir.path(), &lines, true).unwrap_err().to_string();
            let told = format!("{} has another time", dir.path().join(name).display());
            assert!(why.contains(&told), "{why}, not {told}");
        }
    }

    /// An administrative directory has files of git, too; the worktree has none but its link.
    #[test]
    fn file_beside_the_saved_ones_is_an_error_only_in_the_worktree() {
        for name in ["more", "dir/more", "dir/.git"] {
            let (dir, lines) = saved();
            fs::write(dir.path().join(name), "").unwrap();
            set_back(dir.path(), line(&lines, "dir"));
            let why = prove(dir.path(), &lines, true).unwrap_err().to_string();
            let told = format!("{} is not in the salvage", dir.path().join(name).display());
            assert!(why.contains(&told), "{why}, not {told}");
            prove(dir.path(), &lines, false).unwrap();
        }
    }
}
