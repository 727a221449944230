//! A sandbox's administrative directory in `repo.git/worktrees`, and our note in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use rustix::fs::renameat;
use serde::{Deserialize, Serialize};

use super::bytes;
use super::rig::GitRepo;
use super::share;
use crate::adapters::{beneath, city_root, standstill};
use crate::domain::ids::{Incarnation, Oid, RaiderId};
use crate::ports::repo::{RepoError, SandboxSpec};
use crate::regular::{self, Links};

/// The largest file of ours that is read.
const OWN_MAX: u64 = 1 << 30;
/// The largest link file that is read: a link is one line.
const LINE_MAX: u64 = 64 * 1024;

/// The supervisor's note about a sandbox, written when it was made. It lies in ours, where no agent writes, and says
/// against which base the sandbox is compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The raider that owns the sandbox.
    pub(super) raider: RaiderId,
    /// The incarnation of that raider.
    pub(super) incarnation: Incarnation,
    /// The branch that the sandbox was made with.
    pub(super) branch: String,
    /// The commit that the branch started from.
    pub(super) base: Oid,
    /// The time when it was made, in seconds since 1970.
    pub(super) created: i64,
    /// Set when all files are there. Before that no agent was in the sandbox.
    pub(super) complete: bool,
    /// The number of the first stash entry that may be of this sandbox's agent ([`super::stash_first_seen`]).
    pub(super) stashes_from: u64,
    /// Set while files that were lost are being written again.
    pub(super) unfilled: bool,
    /// Files copied from the rig's checkout, with the digest of what was copied.
    pub(super) copied: BTreeMap<String, String>,
}

impl Note {
    /// The note of a sandbox that is being made.
    pub(super) fn of(spec: &SandboxSpec) -> Self {
        Self {
            raider: spec.raider.clone(),
            incarnation: spec.incarnation,
            branch: spec.branch.clone(),
            base: spec.base.clone(),
            created: jiff::Timestamp::now().as_second(),
            complete: false,
            stashes_from: 0,
            unfilled: false,
            copied: BTreeMap::new(),
        }
    }

    /// Marks the sandbox as complete and writes the note.
    ///
    /// # Errors
    /// When the note cannot be written.
    pub(super) fn completed(mut self, repo: &GitRepo, sandbox: &Path) -> Result<(), RepoError> {
        self.complete = true;
        self.write(repo, sandbox)
    }

    /// Reads the note of a sandbox; none if there is no note or it is torn.
    pub(super) fn read(repo: &GitRepo, sandbox: &Path) -> Option<Self> {
        let text = fs::read(note_file(repo, sandbox)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Returns true if this incarnation's note was removed. A note that cannot be read is there.
    pub(super) fn is_gone(repo: &GitRepo, sandbox: &Path, incarnation: Incarnation) -> bool {
        match fs::read(note_file(repo, sandbox)) {
            Err(error) => is_nothing(&error),
            Ok(text) => serde_json::from_slice::<Self>(&text)
                .is_ok_and(|note| note.incarnation != incarnation),
        }
    }

    /// Returns the notes of all sandboxes that were made and not forgotten, even if their directories are gone.
    pub(super) fn all(repo: &GitRepo) -> Result<Vec<Self>, RepoError> {
        let dir = notes(repo);
        let fail = |error: std::io::Error| failed("cannot read", &dir, &error);
        let listed = match fs::read_dir(&dir) {
            Err(error) if is_nothing(&error) => return Ok(Vec::new()),
            listed => listed.map_err(fail)?,
        };
        let mut found = Vec::new();
        for entry in listed {
            let path = entry.map_err(fail)?.path();
            if path.extension().is_some_and(|ending| ending == "json") {
                let text = fs::read(&path).map_err(fail)?;
                found.push(serde_json::from_slice(&text).map_err(|error| fail(error.into()))?);
            }
        }
        Ok(found)
    }

    /// Reads the note of a sandbox whose creation was begun earlier.
    pub(super) fn begun(repo: &GitRepo, spec: &SandboxSpec) -> Option<Self> {
        Self::read(repo, &spec.path).filter(|note| note.is_of(spec))
    }

    /// Returns true if the note is of this incarnation.
    pub(super) fn is_of(&self, spec: &SandboxSpec) -> bool {
        self.raider == spec.raider && self.incarnation == spec.incarnation
    }

    /// Writes the note whole or not at all.
    pub(super) fn write(&self, repo: &GitRepo, sandbox: &Path) -> Result<(), RepoError> {
        let text = serde_json::to_vec(self)
            .map_err(|error| RepoError::Failed(format!("the note cannot be written: {error}")))?;
        let dir = notes(repo);
        city_root::make_dirs(&dir).at("cannot make", &dir)?;
        write_whole(&note_file(repo, sandbox), &text)
    }

    /// Removes the note of a sandbox that is gone, and the cache of its files.
    pub(super) fn remove(repo: &GitRepo, sandbox: &Path) -> Result<(), RepoError> {
        for file in [
            note_file(repo, sandbox),
            super::ground::seen_file(repo, sandbox),
        ] {
            match fs::remove_file(&file) {
                Err(error) if !is_nothing(&error) => {
                    return Err(failed("cannot remove", &file, &error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The directory of the notes.
pub(super) fn notes(repo: &GitRepo) -> PathBuf {
    repo.repo_dir().join("horde").join("notes")
}

fn note_file(repo: &GitRepo, sandbox: &Path) -> PathBuf {
    let mut name = sandbox.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    notes(repo).join(name)
}

/// Returns a stamp that changes with every write to a file; none if there is no file.
pub(super) fn stamp(file: &Path) -> Option<String> {
    let found = fs::symlink_metadata(file).ok()?;
    let (written, changed) = (
        (found.mtime(), found.mtime_nsec()),
        (found.ctime(), found.ctime_nsec()),
    );
    Some(format!(
        "{} {} {written:?} {changed:?}",
        found.ino(),
        found.len()
    ))
}

/// Writes a file atomically: writes a temporary file and renames it.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> Result<(), RepoError> {
    write_whole_by(path.parent().unwrap_or(Path::new(".")), path, content)
}

/// As [`write_whole`], with the temporary file in this directory, on the same file system. A kill leaves it there: in a
/// sandbox it would count as work that is not committed.
pub(super) fn write_whole_by(dir: &Path, path: &Path, content: &[u8]) -> Result<(), RepoError> {
    let fail = |error: std::io::Error| failed("cannot write", path, &error);
    let new = tempfile::NamedTempFile::new_in(dir);
    let mut file = new.map_err(regular::of_temporary).map_err(fail)?;
    std::io::Write::write_all(&mut file, content).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    file.persist(path).map_err(|error| fail(error.error))?;
    Ok(())
}

/// Unlocks the entries of worktrees that a killed supervisor was making. Only while no other is made.
pub(super) fn unlock_leftovers(repo: &GitRepo) -> Result<(), RepoError> {
    let dir = repo.theirs().join("worktrees");
    let listed = match fs::read_dir(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed.at("cannot list", &dir)?,
    };
    let unlock = |entry: io::Result<fs::DirEntry>| unlock(&entry.at("cannot list", &dir)?.path());
    // One that fails holds up no other.
    let all: Vec<_> = listed.map(unlock).collect();
    all.into_iter().collect()
}

/// An error that names the file.
pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> RepoError {
    RepoError::Failed(format!("{what} {}: {error}", path.display()))
}

/// Names the file in the error of an operation on it.
pub(super) trait At<T> {
    /// Returns the value, or the error with the reason and the path.
    fn at(self, what: &str, path: &Path) -> Result<T, RepoError>;
}

impl<T> At<T> for io::Result<T> {
    fn at(self, what: &str, path: &Path) -> Result<T, RepoError> {
        self.map_err(|error| failed(what, path, &error))
    }
}

/// Removes a file or link, if it exists.
pub(super) fn remove_if_there(file: &Path) -> Result<(), RepoError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.at("cannot remove", file),
    }
}

/// Reads a regular file; none if it does not exist.
pub(super) fn read_if_there(file: &Path) -> Result<Option<Vec<u8>>, RepoError> {
    match regular::read(file, Links::Follow, OWN_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).at("cannot read", file),
    }
}

/// Lists the entries of a directory; none if it does not exist.
pub(super) fn entries_in(dir: &Path) -> Result<Vec<fs::DirEntry>, RepoError> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.and_then(Iterator::collect).at("cannot list", dir),
    }
}

/// The real `repo.git/worktrees`; none if there is no such directory, or a link in its place that leads elsewhere.
pub(super) fn home(repo: &GitRepo) -> Option<PathBuf> {
    let home = fs::canonicalize(repo.theirs()).ok()?.join("worktrees");
    let is_dir = fs::symlink_metadata(&home).is_ok_and(|meta| meta.is_dir());
    is_dir.then_some(home)
}

/// `repo.git/worktrees`.
pub(super) fn worktrees(repo: &GitRepo) -> PathBuf {
    repo.theirs().join("worktrees")
}

/// Returns the directory with the refs, objects and settings of a git directory, which all its worktrees share.
pub(super) fn common_dir(git_dir: &Path) -> PathBuf {
    match line(git_dir, Path::new("commondir")) {
        Ok(Some(text)) => git_dir.join(bytes::path(text.trim_ascii_end())),
        _ => git_dir.to_owned(),
    }
}

/// Reads a file of one line that an agent may have replaced by anything. Returns none if it is not a regular file of
/// a sane size, so that a replaced file cannot block the other sandboxes.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn line(dir: &Path, name: &Path) -> io::Result<Option<Vec<u8>>> {
    match beneath::read(dir, name, LINE_MAX) {
        Err(error) if is_strange(&error) => Ok(None),
        read => read,
    }
}

/// Returns true if the path is, or leads through, something that an agent put there instead of a regular file of a
/// sane size.
pub(super) fn is_strange(error: &io::Error) -> bool {
    let loops = error.raw_os_error() == Some(nix::errno::Errno::ELOOP as i32);
    loops || beneath::is_odd(error)
}

/// Returns true if the system, and not an entry of an agent, is the cause of an error: it may succeed later.
pub(super) fn is_passing(error: &io::Error) -> bool {
    let passing = [
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::ENOMEM,
        Errno::EAGAIN,
        Errno::ENOSPC,
        Errno::EDQUOT,
        Errno::EIO,
        Errno::ESTALE,
        Errno::ETIMEDOUT,
    ];
    let code = error.raw_os_error().map(Errno::from_raw);
    code.is_some_and(|code| passing.contains(&code))
}

/// Returns true if access was refused although the directory, or the nearest one above it that exists, is this
/// user's: an agent's work may be in it.
pub(super) fn is_closed(dir: &Path, error: &io::Error) -> bool {
    let closed = dir
        .ancestors()
        .find_map(|dir| fs::symlink_metadata(dir).ok());
    let own = rustix::process::geteuid().as_raw();
    error.kind() == ErrorKind::PermissionDenied
        && closed.is_some_and(|meta| meta.is_dir() && meta.uid() == own)
}

/// Returns true if there is nothing, or nothing that this user's agent can have made: files that a container writes
/// as root cannot be read.
pub(super) fn is_nothing(error: &io::Error) -> bool {
    use ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Every administrative directory of `repo.git`.
pub(super) fn entries(repo: &GitRepo) -> Result<Vec<PathBuf>, RepoError> {
    let dir = worktrees(repo);
    let mut found = Vec::new();
    // A link in place of the directory is not followed.
    if fs::symlink_metadata(&dir).is_ok_and(|meta| !meta.is_dir()) {
        return Ok(found);
    }
    match fs::read_dir(&dir) {
        Ok(list) => {
            for entry in list {
                found.push(entry.at("cannot list", &dir)?.path());
            }
        }
        Err(error) if is_nothing(&error) => {}
        Err(error) => return Err(failed("cannot list", &dir, &error)),
    }
    found.sort();
    Ok(found)
}

/// The directory to which administrative directories are moved by [`retire`].
pub(super) fn retired(repo: &GitRepo) -> PathBuf {
    repo.theirs().join("horde").join("retired")
}

/// Moves an administrative directory out of git's sight without destroying it: its reflog may be the last name of a
/// commit.
pub(super) fn retire(repo: &GitRepo, admin: &Path) -> Result<PathBuf, RepoError> {
    let retired = share::own_dir(repo, Path::new("horde/retired"))?;
    let name = admin.file_name().unwrap_or_default().to_string_lossy();
    let to = free_name(&retired, &name);
    let (room, free) = standstill::hold(&to).at("cannot open", &retired)?;
    let (dir, entry) = standstill::hold(admin).at("cannot move", admin)?;
    let moved = renameat(dir, entry, room, free).map_err(io::Error::from);
    moved.at("cannot move", admin)?;
    Ok(to)
}

/// Returns a free name in the directory: `<name>`, `<name>.2` ...
pub(super) fn free_name(dir: &Path, name: &str) -> PathBuf {
    let mut path = dir.join(name);
    let mut n = 2_u64;
    while fs::symlink_metadata(&path).is_ok() {
        path = dir.join(format!("{name}.{n}"));
        n += 1;
    }
    path
}

/// The file that keeps an administrative directory from `git worktree prune`.
const LOCKED: &str = "locked";
/// The content of that file while a work tree is made.
const BEING_MADE: &[u8] = b"the supervisor makes its work tree\n";

/// Makes the administrative directory of a work tree atomically: an agent's `git gc` would remove one that does not
/// name its work tree yet. It is locked until [`unlock`], because `git gc` also removes one whose work tree has no link to it.
pub(super) fn make(
    repo: &GitRepo,
    name: &str,
    head: &[u8],
    work_tree: &Path,
) -> Result<PathBuf, RepoError> {
    let dir = share::own_dir(repo, Path::new("worktrees"))?;
    let dir = fs::canonicalize(&dir).at("cannot make a directory in", &dir)?;
    let fresh = tempfile::Builder::new()
        .prefix("horde-new-")
        .permissions(fs::Permissions::from_mode(0o755))
        .tempdir_in(repo.theirs())
        .at("cannot make a directory in", &dir)?;
    let back = [bytes::of(&work_tree.join(".git")), b"\n"].concat();
    write_whole(&fresh.path().join("gitdir"), &back)?;
    write_whole(&fresh.path().join("commondir"), b"../..\n")?;
    write_whole(&fresh.path().join("HEAD"), head)?;
    write_whole(&fresh.path().join(LOCKED), BEING_MADE)?;
    let admin = free_name(&dir, name);
    fs::rename(fresh.path(), &admin).at("cannot make a directory in", &dir)?;
    let _moved = fresh.keep();
    Ok(admin)
}

/// Ends the lock of [`make`], after the work tree got its link. The lock of an agent stays.
pub(super) fn unlock(admin: &Path) -> Result<(), RepoError> {
    match beneath::read(admin, Path::new(LOCKED), BEING_MADE.len() as u64) {
        Ok(Some(text)) if text == BEING_MADE => {}
        // An agent put its own in that place, or took it away.
        Ok(_) => return Ok(()),
        Err(error) if beneath::is_odd(&error) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        Err(error) => return Err(failed("cannot unlock", admin, &error)),
    }
    let removed = beneath::remove(admin, Path::new(LOCKED));
    removed.at("cannot unlock", admin)
}

/// Makes a private directory in ours, removed when dropped.
pub(super) fn scratch(repo: &GitRepo) -> Result<tempfile::TempDir, RepoError> {
    let dir = repo.repo_dir().join("horde").join("tmp");
    city_root::make_dirs(&dir).at("cannot make", &dir)?;
    tempfile::Builder::new()
        .tempdir_in(&dir)
        .at("cannot make a directory in", &dir)
}

#[cfg(test)]
mod tests {
    use super::super::command::Git;
    use super::super::testing::Rigged;
    use super::*;

    /// Every `git gc` of an agent does this, and takes an entry whose work tree has no link yet for one that is gone.
    #[test]
    fn prune_of_an_agent_leaves_an_entry_whose_work_tree_is_being_made() {
        let rigged = Rigged::new();
        let repo = &rigged.repo;
        let head = format!("{}\n", rigged.base);
        let prune = || {
            let git = Git::in_dir(repo.theirs()).args(["worktree", "prune", "--expire=now"]);
            git.run().unwrap();
        };
        let tree = rigged.path("tree");
        let admin = make(repo, "Toast", head.as_bytes(), &tree).unwrap();
        prune();
        assert!(admin.is_dir());
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", admin.display())).unwrap();
        unlock(&admin).unwrap();
        assert!(!admin.join(LOCKED).exists());
        prune();
        assert!(admin.is_dir());
        // The lock of an agent is not ours.
        fs::write(admin.join(LOCKED), "mine").unwrap();
        unlock(&admin).unwrap();
        assert!(admin.join(LOCKED).exists());
        // A kill left another one.
        let left = make(repo, "Nux", head.as_bytes(), &rigged.path("left")).unwrap();
        unlock_leftovers(repo).unwrap();
        prune();
        assert!(admin.join(LOCKED).exists() && !left.exists());
        fs::remove_file(admin.join(LOCKED)).unwrap();
        fs::remove_file(tree.join(".git")).unwrap();
        prune();
        assert!(!admin.exists(), "it is what git removes");
    }
}
