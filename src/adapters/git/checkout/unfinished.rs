//! A landing in the user's checkout, from its first lock to its last: what it wrote is taken back unless its branch moved, also
//! when the supervisor or the machine went down. A file counts as written by the landing only if git finds the landing's content in
//! it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::admin::{failed, write_whole};
use super::super::bytes;
use super::super::digest::hex;
use super::super::files::hash;
use super::super::rig::GitRepo;
use super::fast_forward::{at, git};
use super::{INDEX_LOCK, busy};
use crate::adapters::proc;
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The directory of the records in ours.
const RECORDS: &str = "horde/landings";
/// The index with which git writes the files, beside the other.
const OWN_INDEX: &str = "horde-landing.index";
/// The index from before the landing.
const OLD_INDEX: &str = "horde-landing.before";

/// A landing under way. It holds git's lock of the index.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Unfinished {
    worktree: PathBuf,
    git_dir: PathBuf,
    target: String,
    old: Oid,
    new: Oid,
    /// The device and inode of the lock: another process may make one in its place.
    lock: (u64, u64),
    #[serde(skip)]
    record: PathBuf,
}

impl Unfinished {
    /// Locks the index, and records that a landing begins.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] while it is locked; [`RepoError::Failed`] when it could not be recorded.
    pub(in super::super) fn begin(
        repo: &GitRepo,
        worktree: &Path,
        target: &str,
        (old, new): (&Oid, &Oid),
    ) -> Result<Self, RepoError> {
        let Some(git_dir) = at(worktree).git_dir() else {
            return Err(busy(worktree, CheckoutBusy::Gone));
        };
        let records = repo.repo_dir().join(RECORDS);
        fs::create_dir_all(&records).map_err(|error| failed("cannot make", &records, &error))?;
        let name = hex(&Sha256::digest(bytes::of(worktree)));
        let path = git_dir.join(INDEX_LOCK.0);
        let made = File::create_new(&path).and_then(|lock| lock.metadata());
        let lock = match made {
            Ok(made) => (made.dev(), made.ino()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(busy(
                    worktree,
                    CheckoutBusy::Underway(INDEX_LOCK.1.to_owned()),
                ));
            }
            Err(error) => return Err(failed("cannot make", &path, &error)),
        };
        let it = Self {
            worktree: worktree.to_owned(),
            git_dir,
            target: target.to_owned(),
            old: old.clone(),
            new: new.clone(),
            lock,
            record: records.join(name),
        };
        let recorded = serde_json::to_vec(&it)
            .map_err(|error| RepoError::Failed(format!("the record of a landing: {error}")))
            .and_then(|text| write_whole(&it.record, &text));
        if let Err(error) = recorded {
            it.unlock()?;
            return Err(error);
        }
        Ok(it)
    }

    pub(super) fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Copies the index, for git to write with. Returns the copy.
    pub(in super::super) fn copy_index(&self) -> Result<PathBuf, RepoError> {
        let index = self.git_dir.join("index");
        for copy in [OLD_INDEX, OWN_INDEX] {
            let copy = self.git_dir.join(copy);
            fs::copy(&index, &copy).map_err(|error| failed("cannot write", &copy, &error))?;
        }
        Ok(self.git_dir.join(OWN_INDEX))
    }

    /// Puts the index that git wrote in the place of the other.
    pub(in super::super) fn use_index(&self) -> Result<(), RepoError> {
        self.rename(OWN_INDEX, "index")
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), RepoError> {
        let to = self.git_dir.join(to);
        let renamed = fs::rename(self.git_dir.join(from), &to);
        renamed.map_err(|error| failed("cannot write", &to, &error))
    }

    /// Returns true if the branch is at the landing.
    pub(super) fn has_moved(&self) -> Result<bool, RepoError> {
        let name = format!("refs/heads/{}", self.target);
        let found = git(&self.worktree)
            .args(["rev-parse", "--verify", &name])
            .run()?;
        Ok(found.text().trim() == self.new.as_str())
    }

    /// Ends a landing whose branch moved.
    pub(in super::super) fn end(self) -> Result<(), RepoError> {
        for left in [OWN_INDEX, OLD_INDEX] {
            remove(&self.git_dir.join(left))?;
        }
        self.unlock()?;
        remove(&self.record)
    }

    fn unlock(&self) -> Result<(), RepoError> {
        let lock = self.git_dir.join(INDEX_LOCK.0);
        let found = fs::symlink_metadata(&lock).map(|found| (found.dev(), found.ino()));
        match found.is_ok_and(|found| found == self.lock) {
            true => remove(&lock),
            false => Ok(()),
        }
    }

    /// Takes back what was written, and ends. The index is locked since before, so no git of a person changed it.
    ///
    /// # Errors
    /// When it could not be taken back: the record stays, and so does the lock.
    pub(in super::super) fn take_back(self) -> Result<(), RepoError> {
        if self.git_dir.join(OLD_INDEX).exists() {
            self.rename(OLD_INDEX, "index")?;
            self.restore_files()?;
        }
        self.end()
    }

    fn restore_files(&self) -> Result<(), RepoError> {
        let mut changes = changes(&self.worktree, &self.old, &self.new)?;
        let sparse = skipped(&self.worktree)?;
        changes.retain(|change| !sparse.contains(&change.path));
        let (before, added): (Vec<Change>, _) = changes.into_iter().partition(|it| it.before);
        // First, because a file may be in the place of a directory, or the reverse.
        for change in landed(&self.worktree, &added)? {
            let file = self.worktree.join(bytes::path(&change.path));
            remove(&file)?;
            let above = file.ancestors().skip(1);
            let above = above.take_while(|dir| *dir != self.worktree);
            // A directory with anything in it stays.
            let _rest = above.map_while(|dir| fs::remove_dir(dir).ok()).count();
        }
        let before = landed(&self.worktree, &before)?;
        let list = before
            .iter()
            .map(|change| [change.path.as_slice(), b"\0"].concat());
        let list: Vec<u8> = list.flatten().collect();
        if list.is_empty() {
            return Ok(());
        }
        // With an index of its own: the other one is locked. Its times are refreshed by the next command of git.
        let index = self.git_dir.join(OWN_INDEX);
        fs::copy(self.git_dir.join("index"), &index)
            .map_err(|error| failed("cannot write", &index, &error))?;
        git(&self.worktree)
            .env("GIT_INDEX_FILE", &index)
            .args(["checkout-index", "-f", "-u", "-z", "--stdin"])
            .stdin(list)
            .run()?;
        self.use_index()
    }

    /// Returns true while the git of an interrupted landing writes.
    fn is_written(&self) -> bool {
        let index = self.git_dir.join(OWN_INDEX);
        let Ok(all) = proc::all() else { return true };
        let is_it = |pid: &u32| {
            let used = proc::environment_value(*pid, "GIT_INDEX_FILE");
            used.is_some_and(|used| Path::new(&used) == index)
        };
        all.iter().any(|(pid, stat)| stat.lives() && is_it(pid))
    }
}

fn remove(file: &Path) -> Result<(), RepoError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(failed("cannot remove", file, &error))
        }
        _ => Ok(()),
    }
}

/// Takes back the landings that did not end, unless their branches moved all the same.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while their git still writes; when a record or a checkout cannot be read or written.
pub(in super::super) fn recover(repo: &GitRepo) -> Result<(), RepoError> {
    let records = repo.repo_dir().join(RECORDS);
    let listed = match fs::read_dir(&records) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("cannot read", &records, &error)),
    };
    for entry in listed {
        let record = entry
            .map_err(|error| failed("cannot read", &records, &error))?
            .path();
        // A record that was being written has another name.
        if record
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
        {
            continue;
        }
        let text = fs::read(&record).map_err(|error| failed("cannot read", &record, &error))?;
        let read = serde_json::from_slice::<Unfinished>(&text);
        let mut it =
            read.map_err(|error| RepoError::Failed(format!("{}: {error}", record.display())))?;
        it.record = record;
        if !it.git_dir.is_dir() {
            // The worktree is gone.
            remove(&it.record)?;
            continue;
        }
        if it.is_written() {
            let what = "a landing that was interrupted".to_owned();
            return Err(busy(&it.worktree, CheckoutBusy::Underway(what)));
        }
        match it.has_moved()? {
            true => it.end()?,
            false => {
                tracing::warn!(worktree = %it.worktree.display(), "a landing was interrupted; what it had written into the checkout is taken back");
                it.take_back()?;
            }
        }
    }
    Ok(())
}

/// A path that a landing changes.
struct Change {
    path: Vec<u8>,
    /// Set if it is there without the landing.
    before: bool,
    /// Its content in the landing, and true for a link.
    after: Option<(Oid, bool)>,
}

/// Lists the files and links that a landing changes. Submodules are left as they are.
fn changes(worktree: &Path, old: &Oid, new: &Oid) -> Result<Vec<Change>, RepoError> {
    let diff = git(worktree)
        .args(["diff-tree", "-r", "-z", "--no-renames"])
        .args([old.as_str(), new.as_str()])
        .run()?;
    let mut fields = bytes::split(&diff.stdout);
    let mut found = Vec::new();
    // `:<mode> <mode> <id> <id> <status>`, then the path.
    while let (Some(what), Some(path)) = (fields.next(), fields.next()) {
        let text = bytes::lossy(what);
        let words: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
        let [before, after, _, id, _] = words[..] else {
            continue;
        };
        if [before, after].contains(&"160000") {
            continue;
        }
        let content = Oid::new(id).ok().map(|id| (id, after == "120000"));
        found.push(Change {
            path: path.to_vec(),
            before: before != "000000",
            after: content.filter(|_| after != "000000"),
        });
    }
    Ok(found)
}

/// Returns the paths that are not checked out.
fn skipped(worktree: &Path) -> Result<BTreeSet<Vec<u8>>, RepoError> {
    let listed = git(worktree).args(["ls-files", "-t", "-z"]).run()?;
    let skipped = bytes::split(&listed.stdout).filter_map(|line| line.strip_prefix(b"S "));
    Ok(skipped.map(<[u8]>::to_vec).collect())
}

/// Returns the changes whose paths are as the landing leaves them; a file that it replaces may be absent.
fn landed<'c>(worktree: &Path, changes: &'c [Change]) -> Result<Vec<&'c Change>, RepoError> {
    let (mut found, mut files) = (Vec::new(), Vec::new());
    for change in changes {
        let path = worktree.join(bytes::path(&change.path));
        let is_real = |dir: &Path| fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir());
        let mut above = path.ancestors().skip(1);
        let mut above = above.by_ref().take_while(|dir| *dir != worktree);
        match (fs::symlink_metadata(&path), &change.after) {
            (Err(error), _) if change.before && error.kind() == ErrorKind::NotFound => {
                found.push(change);
            }
            (Ok(_), _) if !above.all(is_real) => {}
            (Ok(meta), Some((id, true))) if meta.is_symlink() => {
                let link = fs::read_link(&path);
                let link = link.map_err(|error| failed("cannot read", &path, &error))?;
                let hashed = hash::bytes(hash::Format::of(id), bytes::of(&link));
                if hashed.is_ok_and(|hashed| hashed == *id) {
                    found.push(change);
                }
            }
            (Ok(meta), Some((_, false))) if meta.is_file() && !change.path.contains(&b'\n') => {
                files.push(change);
            }
            _ => {}
        }
    }
    let list = files
        .iter()
        .map(|change| [change.path.as_slice(), b"\n"].concat());
    let list: Vec<u8> = list.flatten().collect();
    let hashed = git(worktree)
        .args([OsStr::new("hash-object"), OsStr::new("--stdin-paths")])
        .stdin(list)
        .run()?;
    let text = hashed.text();
    let same = files.iter().zip(text.lines()).filter(|(change, id)| {
        let after = change.after.as_ref().map(|(after, _)| after.as_str());
        after == Some(*id)
    });
    found.extend(same.map(|(change, _)| *change));
    Ok(found)
}
