//! A landing in the user's checkout, from its first lock to its last: what it wrote is taken back unless its branch moved, also
//! when the supervisor or the machine went down. A file counts as written by the landing only if git finds the landing's content in
//! it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::admin::{failed, write_whole};
use super::super::bytes;
use super::super::command::Git;
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
/// The lock before it has its name.
const OWN_LOCK: &str = "horde-landing.lock";
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
    /// The content of the lock: another process may make one in its place.
    mark: String,
    #[serde(skip)]
    record: PathBuf,
}

impl Unfinished {
    /// Records that a landing begins, and locks the index.
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
        let it = Self {
            worktree: worktree.to_owned(),
            git_dir,
            target: target.to_owned(),
            old: old.clone(),
            new: new.clone(),
            mark: format!(
                "a landing of horde-supervisor, process {}, {}\n",
                std::process::id(),
                Timestamp::now()
            ),
            record: records.join(hex(&Sha256::digest(bytes::of(worktree)))),
        };
        let text = serde_json::to_vec(&it)
            .map_err(|error| RepoError::Failed(format!("the record of a landing: {error}")))?;
        // Before the lock: a lock without a record would stay.
        write_whole(&it.record, &text)?;
        if let Err(error) = it.lock() {
            remove(&it.record)?;
            return Err(error);
        }
        // Of a landing whose lock a person removed.
        it.remove_copies()?;
        Ok(it)
    }

    /// Makes the lock with its content at once.
    fn lock(&self) -> Result<(), RepoError> {
        let (lock, made) = (self.lock_file(), self.git_dir.join(OWN_LOCK));
        fs::write(&made, &self.mark).map_err(|error| failed("cannot write", &made, &error))?;
        let linked = fs::hard_link(&made, &lock);
        remove(&made)?;
        let locked = match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                // The file system has no hard links.
                File::create_new(&lock).and_then(|mut lock| lock.write_all(self.mark.as_bytes()))
            }
            linked => linked,
        };
        match locked {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let why = CheckoutBusy::Underway(INDEX_LOCK.1.to_owned());
                Err(busy(&self.worktree, why))
            }
            Err(error) => Err(failed("cannot make", &lock, &error)),
        }
    }

    fn lock_file(&self) -> PathBuf {
        self.git_dir.join(INDEX_LOCK.0)
    }

    /// Returns true if the lock is this landing's: a person may have removed it after a crash.
    fn is_locked(&self) -> bool {
        fs::read(self.lock_file()).is_ok_and(|mark| mark == self.mark.as_bytes())
    }

    pub(super) fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Copies the index, for git to write with. Returns the copy.
    pub(in super::super) fn copy_index(&self) -> Result<PathBuf, RepoError> {
        let (index, before) = (self.git_dir.join("index"), self.git_dir.join(OLD_INDEX));
        let fail = |error| failed("cannot write", &before, &error);
        // The other one is replaced and never written to.
        if fs::hard_link(&index, &before).is_err() {
            // The file system has no hard links: a copy gets its name when it is whole.
            fs::rename(self.copy_for_git(&index)?, &before).map_err(fail)?;
        }
        self.copy_for_git(&index)
    }

    /// Copies an index with its time, by which git knows which files it must read.
    fn copy_for_git(&self, index: &Path) -> Result<PathBuf, RepoError> {
        let own = self.git_dir.join(OWN_INDEX);
        let copied = fs::copy(index, &own).and_then(|_| {
            let at = fs::metadata(index)?.modified()?;
            let copy = File::options().write(true).open(&own)?;
            copy.set_modified(at)?;
            copy.sync_all()
        });
        copied.map_err(|error| failed("cannot write", &own, &error))?;
        Ok(own)
    }

    /// Puts the index that git wrote in the place of the other.
    pub(in super::super) fn use_index(&self) -> Result<(), RepoError> {
        let index = self.git_dir.join("index");
        let renamed = fs::rename(self.git_dir.join(OWN_INDEX), &index);
        renamed.map_err(|error| failed("cannot write", &index, &error))
    }

    /// Returns a command that uses the copy of the index.
    pub(super) fn git(&self) -> Git {
        git(&self.worktree)
            .env("GIT_INDEX_FILE", self.git_dir.join(OWN_INDEX))
            // An index that is split shares a part with the other one.
            .args(["-c", "splitIndex.sharedIndexExpire=never"])
    }

    /// Returns true if the branch has the landing.
    fn has_moved(&self) -> Result<bool, RepoError> {
        let name = format!("refs/heads/{}", self.target);
        let dir = &self.git_dir;
        let found = git(dir)
            .args(["rev-parse", "-q", "--verify", &name])
            .output()?;
        if found.code.is_none() {
            return Err(RepoError::Failed("git rev-parse was ended".to_owned()));
        }
        let tip = found.text().trim().to_owned();
        if tip.is_empty() || tip == self.old.as_str() {
            return Ok(false);
        }
        let within = ["merge-base", "--is-ancestor", self.new.as_str(), &tip];
        let within = git(dir).args(within).output()?;
        match within.code {
            Some(code) => Ok(code == 0),
            None => Err(RepoError::Failed("git merge-base was ended".to_owned())),
        }
    }

    /// Ends a landing that needs nothing more.
    pub(in super::super) fn end(self) -> Result<(), RepoError> {
        if self.is_locked() {
            self.remove_copies()?;
            remove(&self.lock_file())?;
        }
        remove(&self.record)
    }

    fn remove_copies(&self) -> Result<(), RepoError> {
        let lock = format!("{OWN_INDEX}.lock");
        for left in [OWN_INDEX, &lock, OLD_INDEX] {
            remove(&self.git_dir.join(left))?;
        }
        Ok(())
    }

    /// Takes back what was written unless the branch moved, and ends. Returns true if it moved. The index is locked since before, so
    /// no git of a person changed it.
    ///
    /// # Errors
    /// When that is unknown: the record stays, and so does the lock.
    pub(in super::super) fn take_back(self) -> Result<bool, RepoError> {
        // Without the lock, a person may have done anything since.
        if !self.is_locked() || !self.worktree.is_dir() {
            return self.end().map(|()| false);
        }
        if self.has_moved()? {
            return self.end().map(|()| true);
        }
        let before = self.git_dir.join(OLD_INDEX);
        if before.exists() {
            remove(&self.git_dir.join(format!("{OWN_INDEX}.lock")))?;
            self.copy_for_git(&before)?;
            self.use_index()?;
            if let Err(why) = self.restore_files() {
                let worktree = self.worktree.display();
                tracing::warn!(%worktree, %why, "not all files of a landing could be taken back; `git status` shows them");
            }
        }
        self.end().map(|()| false)
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
        // With an index of its own: the other one is locked.
        self.copy_for_git(&self.git_dir.join("index"))?;
        self.git()
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

/// Returns true if a landing of this rig did not end.
pub(in super::super) fn is_interrupted(repo: &GitRepo) -> bool {
    fs::read_dir(repo.repo_dir().join(RECORDS)).is_ok_and(|mut listed| listed.next().is_some())
}

/// Takes back the landings that did not end, unless their branches moved all the same. To be called in the turn to land.
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
    let mut first = None;
    for entry in listed {
        let record = entry.map_err(|error| failed("cannot read", &records, &error))?;
        let name = record.file_name();
        // A record that was being written has another name.
        let is_whole = name.as_encoded_bytes().iter().all(u8::is_ascii_hexdigit);
        if let Some(why) = is_whole
            .then(|| recover_one(record.path()))
            .and_then(Result::err)
        {
            first.get_or_insert(why);
        }
    }
    first.map_or(Ok(()), Err)
}

fn recover_one(record: PathBuf) -> Result<(), RepoError> {
    let text = fs::read(&record).map_err(|error| failed("cannot read", &record, &error))?;
    let read = serde_json::from_slice::<Unfinished>(&text);
    let mut it =
        read.map_err(|error| RepoError::Failed(format!("{}: {error}", record.display())))?;
    it.record = record;
    if !it.git_dir.is_dir() {
        // The worktree is gone.
        return remove(&it.record);
    }
    if it.is_written() {
        let what = "a landing that was interrupted".to_owned();
        return Err(busy(&it.worktree, CheckoutBusy::Underway(what)));
    }
    let worktree = it.worktree.clone();
    if !it.take_back()? {
        tracing::warn!(worktree = %worktree.display(), "a landing was interrupted; what it had written into the checkout is taken back");
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
