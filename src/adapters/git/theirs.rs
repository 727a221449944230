//! Reads and writes refs of the repository that agents write to, as files. git is not used, because it would read
//! that repository's configuration. A ref is only a claim: it decides nothing before ours has the object.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::admin::{At, failed, write_whole};
use super::ref_lock::RefLock;
use super::rig::{GitRepo, locked};
use super::share;
use crate::adapters::beneath;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// A ref, a HEAD or a link file is one line.
const LINE_MAX: u64 = 64 * 1024;
/// The part of a line of a reflog that is read: its message has any length.
const LOG_LINE_MAX: usize = 4096;
/// `packed-refs` and reflogs grow with the repository.
pub(super) const LIST_MAX: u64 = 256 * 1024 * 1024;
/// The prefix of the branches of raiders. A symbolic one would get the commits of another branch.
const RAIDERS: &str = "refs/heads/raider/";
/// The number of symbolic refs that are followed, as in git.
const DEPTH: usize = 5;

/// The target of a HEAD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// A ref, by its full name.
    Ref(String),
    /// A commit: HEAD is detached.
    Commit(Oid),
}

/// Unreadable refs that were logged; each is logged once.
pub(super) type LoggedRefs = Mutex<BTreeSet<String>>;

/// The refs of `repo.git`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Theirs<'r> {
    dir: &'r Path,
    logged: &'r LoggedRefs,
}

impl GitRepo {
    /// The refs of the repository that agents write to.
    pub(super) fn their_refs(&self) -> Theirs<'_> {
        Theirs {
            dir: self.theirs(),
            logged: &self.state.logged,
        }
    }
}

/// Reads the HEAD of an administrative directory; none if it is missing or garbled.
pub(super) fn head(admin: &Path) -> Result<Option<Head>, RepoError> {
    let text = beneath::read(admin, Path::new("HEAD"), LINE_MAX);
    let text = text.at("cannot read the HEAD of", admin)?;
    Ok(text.and_then(|text| parse(&text)))
}

fn parse(text: &[u8]) -> Option<Head> {
    let text = std::str::from_utf8(text).ok()?.trim_end();
    match text.strip_prefix("ref:") {
        Some(name) => Some(name.trim_start())
            .filter(|name| is_ref(name))
            .map(|name| Head::Ref(name.to_owned())),
        None => Oid::new(text).ok().map(Head::Commit),
    }
}

/// Returns true if the name is a full ref name, and does not lead elsewhere as a path.
pub(super) fn is_ref(name: &str) -> bool {
    name.starts_with("refs/") && git2::Reference::is_valid_name(name)
}

impl Theirs<'_> {
    /// Resolves a full ref name to an object id; none if there is no such ref.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when that cannot be read, as where an agent put a link or a pipe in its place, or emptied it, or
    /// made a raider's branch symbolic.
    pub(super) fn resolve(&self, name: &str) -> Result<Option<Oid>, RepoError> {
        let mut name = name.to_owned();
        for _ in 0..DEPTH {
            if !is_ref(&name) {
                return Ok(None);
            }
            match self.loose(&name)? {
                Some(Head::Commit(id)) => return Ok(Some(id)),
                Some(Head::Ref(next)) if name.starts_with(RAIDERS) => {
                    let what = format!("{name} is a symbolic ref to {next}, and no branch");
                    return Err(RepoError::Failed(what));
                }
                Some(Head::Ref(next)) => name = next,
                None => return Ok(self.packed()?.remove(&name)),
            }
        }
        Ok(None)
    }

    /// Returns the ref that a symbolic ref leads to.
    pub(super) fn target(&self, name: &str) -> Option<String> {
        match self.loose(name) {
            Ok(Some(Head::Ref(next))) => Some(next),
            _ => None,
        }
    }

    /// Returns the refs below a prefix that ends with `/`, by their full names, with their object ids. Leaves out an
    /// unreadable ref: only the sandbox that owns it is concerned.
    ///
    /// # Errors
    /// When a directory, or `packed-refs`, cannot be read.
    pub(super) fn list(&self, prefix: &str) -> Result<BTreeMap<String, Oid>, RepoError> {
        let mut found = self.packed()?;
        found.retain(|name, _| name.starts_with(prefix));
        let mut open = vec![prefix.trim_end_matches('/').to_owned()];
        while let Some(dir) = open.pop() {
            let path = self.dir.join(&dir);
            let fail = |error: std::io::Error| failed("cannot list", &path, &error);
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
            let entries = match fs::read_dir(&path) {
                _ if !is_dir => continue,
                Ok(entries) => entries,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    // An unreadable directory of one raider's branches must not stop the others.
                    match beneath::open_up(self.dir, Path::new(&dir)) {
                        Ok(true) => open.push(dir),
                        _ => self.warn_once(&dir, &fail(error)),
                    }
                    continue;
                }
                Err(error) => return Err(fail(error)),
            };
            for entry in entries {
                let entry = entry.map_err(fail)?;
                let Some(name) = entry.file_name().to_str().map(|it| format!("{dir}/{it}")) else {
                    continue;
                };
                let kind = entry.file_type().map_err(fail)?;
                if kind.is_dir() {
                    open.push(name);
                } else if is_ref(&name) {
                    match self.resolve(&name) {
                        Ok(Some(id)) => drop(found.insert(name, id)),
                        Ok(None) => {}
                        Err(why) => {
                            // The packed value under this name may be outdated.
                            found.remove(&name);
                            self.warn_once(&name, &why);
                        }
                    }
                }
            }
        }
        Ok(found)
    }

    /// Returns the reflog of a ref; empty if there is none.
    ///
    /// # Errors
    /// As [`Theirs::resolve`].
    pub(super) fn reflog(&self, name: &str) -> Result<Vec<u8>, RepoError> {
        let log = Path::new("logs").join(name);
        self.read(&log)
    }

    /// Calls `each` with the lines of a reflog, the oldest first, and true at the first: an attempt before may have ended.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when it cannot be read.
    pub(super) fn each_reflog_line(
        &self,
        name: &str,
        each: &mut dyn FnMut(&[u8], bool),
    ) -> Result<(), RepoError> {
        let log = Path::new("logs").join(name);
        let each = RefCell::new(each);
        let read = || {
            let mut is_first = true;
            let found = beneath::each_line(self.dir, &log, LOG_LINE_MAX, &mut |line| {
                (each.borrow_mut())(line, std::mem::take(&mut is_first));
            });
            found.map(|_| None)
        };
        self.read_by(&log, &read).map(drop)
    }

    /// Removes the lines from a reflog for which `stays` is false, and points the ref at the last remaining one.
    /// Returns the number of removed lines; 0 if git holds the lock.
    ///
    /// # Errors
    /// As [`Theirs::create`].
    pub(super) fn thin_log(
        &self,
        name: &str,
        stays: impl Fn(&str) -> bool,
    ) -> Result<usize, RepoError> {
        let all_stay = |log: &[u8]| String::from_utf8_lossy(log).lines().all(&stays);
        if all_stay(&self.reflog(name)?) {
            return Ok(0);
        }
        let path = self.dir.join(name);
        let Some(lock) = RefLock::take(self.dir, &path)? else {
            return Ok(0);
        };
        let log = self.reflog(name)?;
        // A message may be no text, and is written back as it is.
        let lines = log
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::trim_ascii_end);
        let lines: Vec<&[u8]> = lines.collect();
        let stays = |line: &&&[u8]| stays(&String::from_utf8_lossy(line));
        let kept: Vec<&[u8]> = lines.iter().filter(stays).copied().collect();
        let gone = lines.len() - kept.len();
        if gone == 0 {
            return Ok(0);
        }
        let last = |line: Option<&&[u8]>| {
            let id = line.and_then(|line| line.split(|byte| *byte == b' ').nth(1));
            id.and_then(|id| Oid::new(super::bytes::lossy(id)).ok())
        };
        // One that names nothing is written over.
        let now = self.resolve(name).ok().flatten();
        match (last(kept.last()), now) {
            (Some(tip), _) => {
                let log = Path::new("logs").join(name);
                self.make_dir(&self.dir.join(log.parent().unwrap_or(Path::new("logs"))))?;
                write_whole(&self.dir.join(log), &chained(&kept))?;
                self.create(name, &tip)?;
                Ok(gone)
            }
            (None, Some(tip)) => {
                drop(lock);
                Ok(if self.delete(name, &tip)? { gone } else { 0 })
            }
            (None, None) => Ok(0),
        }
    }

    /// Makes a ref, or overwrites an existing one.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when it cannot be written, or something is in its place.
    pub(super) fn create(&self, name: &str, at: &Oid) -> Result<(), RepoError> {
        self.write(name, &format!("{at}\n"))
    }

    /// Makes a symbolic ref.
    ///
    /// # Errors
    /// As [`Theirs::create`].
    pub(super) fn create_symbolic(&self, name: &str, target: &str) -> Result<(), RepoError> {
        self.write(name, &format!("ref: {target}\n"))
    }

    /// Writes many refs into `packed-refs` at once. Returns false if git holds the lock.
    ///
    /// # Errors
    /// As [`Theirs::create`].
    pub(super) fn pack(&self, refs: &[(String, Oid)]) -> Result<bool, RepoError> {
        let path = self.packed_file();
        let Some(_lock) = RefLock::take(self.dir, &path)? else {
            return Ok(false);
        };
        let gone: BTreeSet<&str> = refs.iter().map(|(name, _)| name.as_str()).collect();
        // Without the header: the lines are not sorted any more.
        let mut lines = self.packed_without(|name| gone.contains(name))?;
        lines.retain(|line| !line.starts_with(b"#"));
        let new = refs.iter().map(|(name, id)| format!("{id} {name}\n"));
        lines.extend(new.map(String::into_bytes));
        write_whole(&path, &lines.concat())?;
        for (name, _) in refs {
            let loose = self.dir.join(name);
            if is_dir(&loose) {
                continue;
            }
            match fs::remove_file(&loose) {
                Err(error) if !is_absent(&error) => {
                    return Err(failed("cannot remove", &loose, &error));
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), RepoError> {
        if !is_ref(name) {
            return Err(RepoError::Failed(format!("{name} is not a ref name")));
        }
        if !is_dir(self.dir) {
            // A link may lead to a repository of a person.
            let what = format!("{} is not a directory", self.dir.display());
            return Err(RepoError::Failed(what));
        }
        let path = self.dir.join(name);
        self.make_dir(path.parent().unwrap_or(self.dir))?;
        if is_dir(&path) {
            drop_empty(&path);
        }
        write_whole(&path, text.as_bytes())
    }

    /// Deletes a ref if it still has this value. Returns false if git holds its lock: the ref stays then.
    ///
    /// # Errors
    /// [`RepoError::Failed`] when it cannot be written.
    pub(super) fn delete(&self, name: &str, at: &Oid) -> Result<bool, RepoError> {
        let path = self.dir.join(name);
        let Some(lock) = RefLock::take(self.dir, &path)? else {
            return Ok(false);
        };
        if self.resolve(name)?.as_ref() != Some(at) {
            return Ok(false);
        }
        // The packed ref is deleted first: it would reappear when the loose one is gone.
        if !self.drop_packed(name)? {
            return Ok(false);
        }
        let loose = lock.is_of_file().then_some(path);
        for file in loose.into_iter().chain([self.dir.join("logs").join(name)]) {
            match fs::remove_file(&file) {
                // What is in the place of the reflog concerns a new branch of the name, which sets it aside.
                Err(error) if !is_absent(&error) && !is_dir(&file) => {
                    return Err(failed("cannot remove", &file, &error));
                }
                _ => {}
            }
        }
        Ok(true)
    }

    fn warn_once(&self, name: &str, why: &RepoError) {
        if locked(self.logged).insert(name.to_owned()) {
            tracing::warn!(repository = %self.dir.display(), name, %why, "a ref of the agents' repository cannot be read and is ignored");
        }
    }

    fn loose(&self, name: &str) -> Result<Option<Head>, RepoError> {
        let path = self.dir.join(name);
        // A directory of refs may have the name of a ref that is packed or gone.
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            return Ok(None);
        }
        let read = || beneath::read(self.dir, Path::new(name), LINE_MAX);
        let text = match read() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                beneath::open_way(self.dir, Path::new(name)).and_then(|()| read())
            }
            text => text,
        };
        let text = text.at("cannot read", &path)?;
        let Some(text) = text else { return Ok(None) };
        // It hides what is packed under its name, which is older.
        let garbled =
            || RepoError::Failed(format!("{} names no object and no ref", path.display()));
        parse(&text).map(Some).ok_or_else(garbled)
    }

    /// Reads a list that all sandboxes of the rig need; empty if there is none. Anything but a regular file in its
    /// place is set aside: one agent could stop all others with it.
    fn read(&self, name: &Path) -> Result<Vec<u8>, RepoError> {
        self.read_by(name, &|| beneath::read(self.dir, name, LIST_MAX))
    }

    fn read_by(
        &self,
        name: &Path,
        read: &dyn Fn() -> std::io::Result<Option<Vec<u8>>>,
    ) -> Result<Vec<u8>, RepoError> {
        let text = match read() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                beneath::open_way(self.dir, name).and_then(|()| read())
            }
            Err(error) if error.kind() == ErrorKind::InvalidInput => {
                share::set_aside(self.dir, name)?;
                read()
            }
            read => read,
        };
        let text = text.at("cannot read", &self.dir.join(name))?;
        Ok(text.unwrap_or_default())
    }

    fn packed(&self) -> Result<BTreeMap<String, Oid>, RepoError> {
        let text = self.read(Path::new("packed-refs"))?;
        let lines = text.split(|byte| *byte == b'\n');
        Ok(lines.filter_map(packed_line).collect())
    }

    fn packed_file(&self) -> PathBuf {
        self.dir.join("packed-refs")
    }

    /// Returns false if git holds the lock.
    fn drop_packed(&self, name: &str) -> Result<bool, RepoError> {
        if !self.packed()?.contains_key(name) {
            return Ok(true);
        }
        let path = self.packed_file();
        let Some(_lock) = RefLock::take(self.dir, &path)? else {
            return Ok(false);
        };
        let kept = self.packed_without(|found| found == name)?;
        write_whole(&path, &kept.concat())?;
        Ok(true)
    }

    /// Returns the raw lines of `packed-refs` without those of some refs: names may not be text.
    fn packed_without(&self, gone: impl Fn(&str) -> bool) -> Result<Vec<Vec<u8>>, RepoError> {
        let text = self.read(Path::new("packed-refs"))?;
        let mut kept = Vec::new();
        let mut dropping = false;
        for line in text.split(|byte| *byte == b'\n') {
            // `^<oid>` is the object that the tag on the line above points to.
            dropping = match line.first() {
                None => continue,
                Some(b'^') => dropping,
                _ => packed_line(line).is_some_and(|(found, _)| gone(&found)),
            };
            if !dropping {
                kept.push([line, b"\n"].concat());
            }
        }
        Ok(kept)
    }

    /// Makes a directory of refs, through real directories only.
    fn make_dir(&self, dir: &Path) -> Result<(), RepoError> {
        let below = dir.strip_prefix(self.dir).unwrap_or(dir);
        let mut at = self.dir.to_owned();
        for part in below {
            at.push(part);
            match fs::create_dir(&at) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(failed("cannot make", &at, &error));
                }
                _ => {}
            }
            if !fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir()) {
                let what = format!("{} is not a directory", at.display());
                return Err(RepoError::Failed(what));
            }
        }
        Ok(())
    }
}

/// Links the lines of a reflog: each begins with the id that ends the one before it.
fn chained(lines: &[&[u8]]) -> Vec<u8> {
    let mut before: Option<&[u8]> = None;
    let mut text = Vec::new();
    for line in lines {
        let end = line.iter().position(|byte| *byte == b' ');
        let (old, rest) = line.split_at(end.unwrap_or(line.len()));
        let zero = b"0".repeat(old.len());
        text.extend_from_slice(before.unwrap_or(&zero));
        text.extend_from_slice(rest);
        text.push(b'\n');
        before = rest.split(|byte| *byte == b' ').nth(1);
    }
    text
}

pub(super) fn packed_line(line: &[u8]) -> Option<(String, Oid)> {
    let line = std::str::from_utf8(line).ok()?;
    let (id, name) = line.split_once(' ')?;
    let id = Oid::new(id).ok()?;
    is_ref(name).then(|| (name.to_owned(), id))
}

fn is_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir())
}

/// Removes a directory that contains only directories, as git does before it makes a ref of that name.
pub(super) fn drop_empty(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            drop_empty(&entry.path());
        }
    }
    // A directory with refs stays, and the write that follows fails.
    let _held = fs::remove_dir(dir);
}

pub(super) fn is_absent(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;
