//! Lists every entry below a directory with its metadata. A sieve decides which directories are walked completely and
//! which are only searched for repositories: for build output, only names are read.

use std::io;
use std::path::Path;

use rustix::fs::Statx;

use super::super::admin::At;
use super::super::bytes::{self, RelPath};
use super::open::{Named, Root, is_nothing, stat_in};
use super::store::LARGE;
use crate::adapters::mounts;
use crate::ports::repo::RepoError;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Dir,
    /// A pipe, socket or device: it has no content.
    Other,
}

/// Metadata that changes with every write to a file. The owner cannot set the change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Stamp {
    pub(in super::super) inode: u64,
    pub(in super::super) size: u64,
    pub(in super::super) mode: u32,
    /// Seconds and nanoseconds, as [`Stamp::changed`].
    pub(in super::super) modified: (i64, u32),
    pub(in super::super) changed: (i64, u32),
}

/// An entry below the walked directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Entry {
    pub(in super::super) path: RelPath,
    pub(in super::super) kind: Kind,
    pub(in super::super) stamp: Stamp,
    /// The number of hard links of the file.
    pub(in super::super) links: u32,
    /// The bytes that its blocks take on the disk.
    pub(in super::super) taken: u64,
}

impl Entry {
    /// Makes the entry from the kernel's metadata.
    pub(in super::super) fn of(path: RelPath, found: &Statx) -> Self {
        Self {
            path,
            kind: kind(found),
            stamp: stamp(found),
            links: found.stx_nlink,
            taken: found.stx_blocks.saturating_mul(512),
        }
    }

    /// Returns the bytes that a copy of it takes: a large file takes its data, without its holes. The blocks of a small
    /// file may not be counted yet, or may be rounded up.
    pub(in super::super) fn weight(&self) -> u64 {
        // A file system that reports no blocks at all does not count them.
        match self.stamp.size > LARGE && self.taken > 0 {
            true => self.stamp.size.min(self.taken),
            false => self.stamp.size,
        }
    }

    /// Returns true if its owner may execute it.
    pub(in super::super) fn is_exec(&self) -> bool {
        self.stamp.mode & 0o100 != 0
    }

    /// Returns the mode that git gives to it; none if git does not store such an entry.
    pub(in super::super) fn git_mode(&self) -> Option<&'static str> {
        match self.kind {
            Kind::File if self.is_exec() => Some("100755"),
            Kind::File => Some("100644"),
            Kind::Link => Some("120000"),
            Kind::Dir | Kind::Other => None,
        }
    }
}

/// A directory that contains a repository (`.git`), or is a bare one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Repository {
    pub(in super::super) path: RelPath,
    /// Set when ignore rules hide it.
    pub(in super::super) hidden: bool,
}

/// A path that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Closed {
    pub(in super::super) path: RelPath,
    pub(in super::super) why: String,
    /// Set when ignore rules hide it.
    pub(in super::super) hidden: bool,
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(in super::super) struct Walked {
    /// Entries that no rule hides, sorted by path.
    pub(in super::super) entries: Vec<Entry>,
    /// Paths that rules hide; a hidden directory is one path that ends with `/`.
    pub(in super::super) hidden: Vec<RelPath>,
    pub(in super::super) repositories: Vec<Repository>,
    /// Mount points. Their content is unknown.
    pub(in super::super) mounts: Vec<RelPath>,
    pub(in super::super) closed: Vec<Closed>,
}

/// The treatment of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Pass {
    /// Taken: it is work, or may be.
    Take,
    /// Hidden by rules. A directory is searched for repositories.
    Hide,
    /// Treated as if it did not exist.
    Skip,
}

/// Decides which entries are taken.
pub(in super::super) trait Sieve {
    /// Learns the rules of a directory that is taken. Its entries are judged next, before another directory is
    /// entered.
    fn enter(&mut self, root: &Root, dir: &[u8], names: &[Named]);

    /// Decides on an entry.
    fn judge(&mut self, path: &[u8], is_dir: bool) -> Pass;
}

/// A sieve that takes everything.
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
/// When the root cannot be listed, or the kernel's mount table cannot be read.
pub(in super::super) fn walk(root: &Root, sieve: &mut impl Sieve) -> io::Result<Walked> {
    from(root, b"", sieve)
}

/// Returns everything below a directory of the root.
///
/// # Errors
/// As [`walk`], with the path of the root.
pub(in super::super) fn all_below(root: &Root, dir: &[u8]) -> Result<Vec<Entry>, RepoError> {
    let walked = from(root, dir, &mut All).at("cannot read", root.path())?;
    Ok(walked.entries)
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
    // An error of the root itself is returned; errors below the root become `closed` entries.
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
    /// Directories to read, each with a flag that rules hide it.
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
                // Repositories inside a git directory do not count.
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
        // The last directory is read first, therefore the results are nearly sorted.
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
        // A mount that appeared after the mount table was read.
        if error.kind() == io::ErrorKind::CrossesDevices {
            self.found.mounts.push(path);
            return;
        }
        let why = error.to_string();
        self.found.closed.push(Closed { path, why, hidden });
    }
}

/// Returns true if a directory has a repository's files: a `.git`, or those of a bare repository.
fn is_repository(dir: &[u8], names: &[Named]) -> bool {
    let has = |wanted: &str| names.iter().any(|(name, _)| name == wanted.as_bytes());
    let git = b"/.git";
    let inside = dir.ends_with(git) || dir == &git[1..] || has_part(dir);
    !inside && (has(".git") || (has("HEAD") && has("objects") && has("refs")))
}

/// Returns true if a path leads through a `.git`.
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

/// Makes the stamp from the kernel's metadata.
pub(in super::super) fn stamp(found: &Statx) -> Stamp {
    Stamp {
        inode: found.stx_ino,
        size: found.stx_size,
        mode: u32::from(found.stx_mode) & 0o7777,
        modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
    }
}

/// Returns the stamp of an entry of a directory, which is not followed. None if there is none.
pub(in super::super) fn stamp_in(dir: &Path, name: &str) -> Option<Stamp> {
    let found = Root::open(dir).and_then(|root| root.stat(name.as_bytes()));
    found.ok().flatten().as_ref().map(stamp)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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
