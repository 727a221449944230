//! Every entry below a directory, with what the kernel says of it. A sieve decides which directories are
//! walked whole and which are only looked through for repositories: of what a build makes nothing is asked
//! but the names.

use std::io;

use rustix::fs::Statx;

use super::super::bytes::{self, RelPath};
use super::open::{Named, Root, is_nothing, stat_in};
use crate::adapters::mounts;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Dir,
    /// A pipe, socket or device: it holds nothing.
    Other,
}

/// What changes with every write to a file. The change time cannot be set by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Stamp {
    pub(in super::super) inode: u64,
    pub(in super::super) size: u64,
    pub(in super::super) mode: u32,
    /// Seconds and nanoseconds, as [`Stamp::changed`].
    pub(in super::super) modified: (i64, u32),
    pub(in super::super) changed: (i64, u32),
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) path: RelPath,
    pub(in super::super) kind: Kind,
    pub(in super::super) stamp: Stamp,
    /// How many names the file has.
    pub(in super::super) links: u32,
}

impl Entry {
    /// The entry that the kernel's answer tells of.
    pub(in super::super) fn of(path: RelPath, found: &Statx) -> Self {
        Self {
            path,
            kind: kind(found),
            stamp: stamp(found),
            links: found.stx_nlink,
        }
    }

    /// Whether its owner may execute it.
    pub(in super::super) fn is_exec(&self) -> bool {
        self.stamp.mode & 0o100 != 0
    }

    /// The mode that git gives to it; none for what git does not hold.
    pub(in super::super) fn git_mode(&self) -> Option<&'static str> {
        match self.kind {
            Kind::File if self.is_exec() => Some("100755"),
            Kind::File => Some("100644"),
            Kind::Link => Some("120000"),
            Kind::Dir | Kind::Other => None,
        }
    }
}

/// A directory with a repository in it, or one that is a repository without files.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Repository {
    pub(in super::super) path: RelPath,
    /// Whether ignore rules hide it.
    pub(in super::super) hidden: bool,
}

/// What cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Closed {
    pub(in super::super) path: RelPath,
    pub(in super::super) why: String,
    /// Whether ignore rules hide it.
    pub(in super::super) hidden: bool,
}

/// What was found.
#[derive(Debug, Default)]
pub(in super::super) struct Walked {
    /// Entries that no rule hides, sorted by path.
    pub(in super::super) entries: Vec<Entry>,
    /// Paths that rules hide, a directory as one and with a `/` at its end.
    pub(in super::super) hidden: Vec<RelPath>,
    pub(in super::super) repositories: Vec<Repository>,
    /// Mount points. Nothing is known of what is behind them.
    pub(in super::super) mounts: Vec<RelPath>,
    pub(in super::super) closed: Vec<Closed>,
}

/// What is done with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Pass {
    /// It is work, or may be.
    Take,
    /// Rules hide it. A directory is looked through for repositories.
    Hide,
    /// It is as if it were not there.
    Skip,
}

/// Decides what is taken.
pub(in super::super) trait Sieve {
    /// Learns what a directory that is taken has to say. Its entries are judged then, before another is entered.
    fn enter(&mut self, root: &Root, dir: &[u8], names: &[Named]);

    /// Decides on an entry.
    fn judge(&mut self, path: &[u8], is_dir: bool) -> Pass;
}

/// Takes everything.
pub(in super::super) struct All;

impl Sieve for All {
    fn enter(&mut self, _root: &Root, _dir: &[u8], _names: &[Named]) {}

    fn judge(&mut self, _path: &[u8], _is_dir: bool) -> Pass {
        Pass::Take
    }
}

/// Walks what is below the root.
///
/// # Errors
/// The root cannot be listed, or the kernel's table of mounts not be read.
pub(in super::super) fn walk(root: &Root, sieve: &mut impl Sieve) -> io::Result<Walked> {
    from(root, b"", sieve)
}

/// Walks what is below a directory of the root.
///
/// # Errors
/// As [`walk`].
pub(in super::super) fn from(
    root: &Root,
    dir: &[u8],
    sieve: &mut impl Sieve,
) -> io::Result<Walked> {
    let top = std::fs::canonicalize(root.path())?;
    let mounts = mounts::below(&top)?.into_iter();
    let mounts = mounts.filter_map(|at| Some(bytes::of(at.strip_prefix(&top).ok()?).to_vec()));
    let mut walk = Walk {
        root,
        sieve,
        known: mounts.collect(),
        open: vec![(dir.to_vec(), false)],
        found: Walked::default(),
    };
    // What the root itself refuses is the caller's to tell; of what is below it all is told that is seen.
    root.list(dir)?;
    while let Some((dir, hidden)) = walk.open.pop() {
        let read = walk.directory(&dir, hidden);
        match read {
            Err(error) if is_nothing(&error) => {}
            Err(error) => walk.refused(dir, hidden, &error),
            Ok(()) => {}
        }
    }
    let mut found = walk.found;
    found.entries.sort_by(|a, b| a.path.cmp(&b.path));
    found.hidden.sort();
    found.repositories.sort();
    found.mounts.sort();
    found.closed.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

struct Walk<'a, S> {
    root: &'a Root,
    sieve: &'a mut S,
    /// Mount points, as the kernel lists them.
    known: Vec<RelPath>,
    /// Directories to be read, and whether rules hide them.
    open: Vec<(RelPath, bool)>,
    found: Walked,
}

impl<S: Sieve> Walk<'_, S> {
    fn directory(&mut self, dir: &[u8], hidden: bool) -> io::Result<()> {
        let (fd, names) = self.root.list(dir)?;
        if !hidden {
            self.sieve.enter(self.root, dir, &names);
        }
        let first = self.open.len();
        if !dir.is_empty() && is_repository(dir, &names) {
            let path = dir.to_vec();
            self.found.repositories.push(Repository { path, hidden });
        }
        for (name, is_dir) in names {
            let path = bytes::below(dir, &name);
            if self.known.contains(&path) {
                self.found.mounts.push(path);
                continue;
            }
            if hidden {
                // What a repository keeps in its git directory is no further repository.
                let is_dir = match is_dir {
                    Some(is_dir) => is_dir,
                    None => is_directory(&stat_in(&fd, &name)?),
                };
                if is_dir && name != b".git" {
                    self.open.push((path, true));
                }
                continue;
            }
            match stat_in(&fd, &name) {
                Ok(found) if !self.root.has(&found) => self.found.mounts.push(path),
                Ok(found) => self.entry(path, &found),
                Err(error) if is_nothing(&error) => {}
                Err(error) => self.refused(path, false, &error),
            }
        }
        // The last is read first: so what is found is nearly sorted.
        self.open[first..].reverse();
        Ok(())
    }

    fn entry(&mut self, path: RelPath, found: &Statx) {
        let is_dir = is_directory(found);
        match self.sieve.judge(&path, is_dir) {
            Pass::Skip => return,
            Pass::Hide if is_dir => {
                let mut name = path.clone();
                name.push(b'/');
                self.found.hidden.push(name);
                self.open.push((path, true));
                return;
            }
            Pass::Hide => {
                self.found.hidden.push(path);
                return;
            }
            Pass::Take => {}
        }
        if is_dir {
            self.open.push((path.clone(), false));
        }
        self.found.entries.push(Entry::of(path, found));
    }

    fn refused(&mut self, path: RelPath, hidden: bool, error: &io::Error) {
        // One that appeared since the kernel was asked.
        if error.kind() == io::ErrorKind::CrossesDevices {
            self.found.mounts.push(path);
            return;
        }
        let why = error.to_string();
        self.found.closed.push(Closed { path, why, hidden });
    }
}

/// Whether a directory has a repository's files: its `.git`, or, without files, those of a bare one.
fn is_repository(dir: &[u8], names: &[Named]) -> bool {
    let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted.as_bytes());
    let git = b"/.git";
    let inside = dir.ends_with(git) || dir == &git[1..] || has_part(dir);
    !inside && (has(".git") || (has("HEAD") && has("objects") && has("refs")))
}

/// Whether a path leads through a `.git`.
pub(in super::super) fn has_part(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".git")
}

fn is_directory(found: &Statx) -> bool {
    kind(found) == Kind::Dir
}

fn kind(found: &Statx) -> Kind {
    use rustix::fs::FileType;
    match FileType::from_raw_mode(found.stx_mode.into()) {
        FileType::RegularFile => Kind::File,
        FileType::Symlink => Kind::Link,
        FileType::Directory => Kind::Dir,
        _ => Kind::Other,
    }
}

/// The stamp that the kernel's answer holds.
pub(in super::super) fn stamp(found: &Statx) -> Stamp {
    Stamp {
        inode: found.stx_ino,
        size: found.stx_size,
        mode: u32::from(found.stx_mode) & 0o7777,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    struct Hiding(&'static [u8]);

    impl Sieve for Hiding {
        fn enter(&mut self, _root: &Root, _dir: &[u8], _names: &[Named]) {}

        fn judge(&mut self, path: &[u8], _is_dir: bool) -> Pass {
            match path == self.0 {
                true => Pass::Hide,
                false => Pass::Take,
            }
        }
    }

    fn make(root: &Path, names: &[&str]) {
        for name in names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
    }

    fn walked(root: &Path, sieve: &mut impl Sieve) -> Walked {
        walk(&Root::open(root).unwrap(), sieve).unwrap()
    }

    #[test]
    fn every_entry_is_found_and_no_link_is_followed() {
        let dir = crate::testing::scratch();
        make(dir.path(), &["a/b", ".GIT/notes", "inner/.git/HEAD"]);
        fs::create_dir(dir.path().join("empty")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let found = walked(dir.path(), &mut All);
        let seen: Vec<_> = found
            .entries
            .iter()
            .map(|entry| (std::str::from_utf8(&entry.path).unwrap(), entry.kind))
            .collect();
        let wanted = [
            (".GIT", Kind::Dir),
            (".GIT/notes", Kind::File),
            ("a", Kind::Dir),
            ("a/b", Kind::File),
            ("empty", Kind::Dir),
            ("inner", Kind::Dir),
            ("inner/.git", Kind::Dir),
            ("inner/.git/HEAD", Kind::File),
            ("link", Kind::Link),
            ("pipe", Kind::Other),
        ];
        assert_eq!(seen, wanted);
        assert_eq!(found.repositories.len(), 1);
    }

    #[test]
    fn repositories_in_a_hidden_directory_are_found_at_any_depth() {
        let dir = crate::testing::scratch();
        let bare = ["HEAD", "objects/x", "refs/x"].map(|name| format!("target/bare/{name}"));
        make(dir.path(), &bare.each_ref().map(String::as_str));
        let names = [
            "src/x",
            "target/a/b/c/d/e/.git/HEAD",
            "target/worktree/.git",
        ];
        make(dir.path(), &names);
        let found = walked(dir.path(), &mut Hiding(b"target"));
        let paths: Vec<_> = found.entries.iter().map(|it| it.path.as_slice()).collect();
        assert_eq!(paths, [&b"src"[..], b"src/x"]);
        assert_eq!(found.hidden, [b"target/"]);
        let hidden = |path: &[u8]| Repository {
            path: path.to_vec(),
            hidden: true,
        };
        let wanted: [&[u8]; 3] = [b"target/a/b/c/d/e", b"target/bare", b"target/worktree"];
        assert_eq!(found.repositories, wanted.map(hidden));
    }

    #[test]
    fn stamp_changes_with_every_write() {
        let dir = crate::testing::scratch();
        make(dir.path(), &["a"]);
        let of = || walked(dir.path(), &mut All).entries.remove(0).stamp;
        let before = of();
        assert_eq!(of(), before);
        fs::set_permissions(
            dir.path().join("a"),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        assert_ne!(of(), before);
    }
}
