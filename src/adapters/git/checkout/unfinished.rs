//! A landing in the user's checkout, from its first lock to its last: what it wrote is taken back unless its branch moved, also
//! when the supervisor or the machine went down.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::super::admin::{At, common_dir, failed, remove_if_there, write_whole};
use super::super::command::Git;
use super::super::digest::hex;
use super::super::object_copy::borrowing;
use super::super::ref_transaction::Prepared;
use super::super::rig::{GitRepo, oid};
use super::super::{bytes, repair};
use super::durable::{copy_index, sync, sync_dir};
use super::fast_forward::{at, git};
use super::writing::Writing;
use super::{INDEX_LOCK, any_path, busy, persons_git, restore};
use crate::adapters::city_root;
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The directory of the records in ours.
pub(super) const RECORDS: &str = "horde/landings";

/// The beginning of the content of its lock.
const MARK: &str = "a landing of horde-supervisor";

/// A landing under way. It holds git's lock of the index.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Unfinished {
    #[serde(with = "any_path")]
    worktree: PathBuf,
    #[serde(with = "any_path")]
    git_dir: PathBuf,
    target: String,
    old: Oid,
    new: Oid,
    /// The content of the lock: another process may make one in its place.
    mark: String,
    /// Set when a git that held locks of refs was killed.
    #[serde(skip)]
    may_leave_locks: Cell<bool>,
    #[serde(skip)]
    record: PathBuf,
    /// Our objects, among them those of the landing.
    #[serde(skip)]
    objects: PathBuf,
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
        city_root::make_dirs(&records).at("cannot make", &records)?;
        let it = Self {
            worktree: worktree.to_owned(),
            git_dir,
            target: target.to_owned(),
            old: old.clone(),
            new: new.clone(),
            mark: format!(
                "{MARK}, process {}, {}\n",
                std::process::id(),
                Timestamp::now()
            ),
            may_leave_locks: Cell::new(false),
            record: records.join(hex(&Sha256::digest(bytes::of(worktree)))),
            objects: repo.repo_dir().join("objects"),
        };
        let text = serde_json::to_vec(&it)
            .map_err(|error| RepoError::Failed(format!("the record of a landing: {error}")))?;
        // Before the lock, and durable: a lock without a record would stay.
        write_whole(&it.record, &text)?;
        if let Err(error) = sync_dir(&records).and_then(|()| it.lock()) {
            remove_if_there(&it.record)?;
            return Err(error);
        }
        Ok(it)
    }

    fn lock(&self) -> Result<(), RepoError> {
        let lock = self.lock_file();
        let made = match File::create_new(&lock) {
            Ok(mut made) => made
                .write_all(self.mark.as_bytes())
                .and_then(|()| made.sync_all()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let why = CheckoutBusy::Underway(holder_of(&lock));
                return Err(busy(&self.worktree, why));
            }
            Err(error) => return Err(failed("cannot make", &lock, &error)),
        };
        if let Err(error) = made {
            remove_if_there(&lock)?;
            return Err(failed("cannot write", &lock, &error));
        }
        Ok(())
    }

    fn lock_file(&self) -> PathBuf {
        self.git_dir.join(INDEX_LOCK.0)
    }

    /// Returns true if the lock is this landing's: a person may have removed it after a crash. An empty lock is the landing's if the
    /// landing did not go on, and no git made it: the supervisor went down before it wrote the lock, which is durable since then.
    ///
    /// # Errors
    /// When the lock cannot be read, or may be that of a git that works.
    fn is_locked(&self) -> Result<bool, RepoError> {
        let lock = self.lock_file();
        match fs::read(&lock) {
            Ok(mark) if mark == self.mark.as_bytes() => Ok(true),
            Ok(mark) if mark.is_empty() && !self.has_begun()? => self.is_left_behind(&lock),
            Ok(_) => Ok(false),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed("cannot read", &lock, &error)),
        }
    }

    /// Returns true if git may have written something.
    fn has_begun(&self) -> Result<bool, RepoError> {
        let before = self.old_index();
        before.try_exists().at("cannot read", &before)
    }

    /// Returns true if a lock was made since the landing began, and no process holds it.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] while one may: a git works there, or the lock is not old.
    fn is_left_behind(&self, lock: &Path) -> Result<bool, RepoError> {
        let made = |file: &Path| -> std::io::Result<SystemTime> { fs::metadata(file)?.modified() };
        let lock_made = made(lock).at("cannot read", lock)?;
        let begun = made(&self.record).at("cannot read", &self.record)?;
        // The clocks of two file systems may differ.
        if lock_made + Duration::from_secs(1) < begun {
            return Ok(false);
        }
        let age = lock_made.elapsed().unwrap_or_default();
        let places = [self.worktree.as_path(), self.git_dir.as_path()];
        let holder = match repair::is_stale(lock) {
            true => persons_git::lock_holder(&places, age, *lock == self.lock_file()),
            false => Some("a git command".to_owned()),
        };
        match holder {
            None => Ok(true),
            Some(holder) => {
                let what = format!("{holder}, which may hold {}", lock.display());
                Err(busy(&self.worktree, CheckoutBusy::Underway(what)))
            }
        }
    }

    pub(super) fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// Returns the commits between which the branch moves.
    pub(super) fn commits(&self) -> (&Oid, &Oid) {
        (&self.old, &self.new)
    }

    /// Returns a file of this landing and no other, beside the index.
    fn file(&self, name: &str) -> PathBuf {
        let own = hex(&Sha256::digest(&self.mark));
        self.git_dir
            .join(format!("horde-landing-{}.{name}", &own[..16]))
    }

    /// The index with which git writes the files.
    pub(super) fn own_index(&self) -> PathBuf {
        self.file("index")
    }

    /// The index from which attributes are read.
    pub(super) fn attributes_index(&self) -> PathBuf {
        self.file("attributes")
    }

    /// The index from before the landing.
    fn old_index(&self) -> PathBuf {
        self.file("before")
    }

    /// Returns the mark that tells whether git writes.
    pub(in super::super) fn writing(&self) -> Writing {
        Writing(self.file("writing"))
    }

    /// Keeps the present index, right before git writes the first file: the landing is taken back only with it.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] when the person removed the lock.
    pub(in super::super) fn keep_index(&self) -> Result<(), RepoError> {
        self.expect_lock()?;
        self.writing().make()?;
        let (copy, before) = (self.file("kept"), self.old_index());
        // A copy and no link: its time says when git began to write.
        copy_index(&self.git_dir.join("index"), &copy)?;
        fs::rename(&copy, &before).at("cannot write", &before)?;
        sync_dir(&self.git_dir)
    }

    /// Returns the time, in seconds, at which git began to write.
    pub(super) fn began(&self) -> i64 {
        fs::metadata(self.old_index()).map_or(0, |kept| kept.ctime())
    }

    /// Notes that git may have left locks of refs: the record stays until they are gone.
    pub(super) fn keep_for_locks(&self) {
        self.may_leave_locks.set(true);
    }

    /// Notes that git refused before it wrote anything.
    pub(in super::super) fn wrote_nothing(&self) -> Result<(), RepoError> {
        remove_if_there(&self.old_index())
    }

    /// Copies the present index, for git to write with. Returns the copy.
    pub(in super::super) fn copy_index_for_git(&self) -> Result<PathBuf, RepoError> {
        let own = self.own_index();
        copy_index(&self.git_dir.join("index"), &own)?;
        Ok(own)
    }

    /// Puts the index that git wrote in the place of the other.
    ///
    /// # Errors
    /// [`RepoError::CheckoutBusy`] when the person removed the lock: the other index may have something that this one lacks.
    pub(in super::super) fn use_index(&self) -> Result<(), RepoError> {
        self.expect_lock()?;
        let index = self.git_dir.join("index");
        let renamed = fs::rename(self.own_index(), &index);
        renamed.at("cannot write", &index)?;
        sync_dir(&self.git_dir)
    }

    fn expect_lock(&self) -> Result<(), RepoError> {
        if self.is_locked()? {
            return Ok(());
        }
        let what = format!("{} was removed during the landing", INDEX_LOCK.0);
        Err(busy(&self.worktree, CheckoutBusy::Underway(what)))
    }

    /// Returns a command that uses the copy of the index.
    pub(super) fn git(&self) -> Git {
        borrowing(git(&self.worktree), &self.objects)
            .env("GIT_INDEX_FILE", self.own_index())
            // An index that is split shares a part with the other one.
            .args(["-c", "splitIndex.sharedIndexExpire=never"])
    }

    /// Ends a landing that needs nothing more.
    pub(in super::super) fn end(self) -> Result<(), RepoError> {
        let is_locked = self.is_locked()?;
        let (own, before) = (self.own_index(), self.old_index());
        let (kept, writing) = (self.file("kept"), self.writing().0);
        let attributes = self.attributes_index();
        // The old index first: without it, nothing is taken back.
        for left in [
            &before,
            &own,
            &lock_of(&own),
            &kept,
            &writing,
            &attributes,
            &lock_of(&attributes),
        ] {
            remove_if_there(left)?;
        }
        if is_locked {
            remove_if_there(&self.lock_file())?;
            // After a loss of power there is no lock without a record.
            sync_dir(&self.git_dir)?;
        }
        remove_if_there(&self.record)
    }

    /// Takes back what was written unless the branch moved, and ends. The index is locked since before, so no git of a person changed
    /// it.
    ///
    /// # Errors
    /// When that is unknown, or something could not be taken back: the record stays, and so does the lock. It can be repeated.
    pub(in super::super) fn take_back(self) -> Result<Ended, RepoError> {
        if !self.has_begun()? {
            if self.may_leave_locks.get() {
                self.remove_ref_locks()?;
            }
            return self.end().map(|()| Ended::Unwritten);
        }
        // Without the lock, a person may have done anything since, and git need not find HEAD.
        if !self.is_locked()? {
            let has_moved = self.head().and_then(|tip| self.has_moved(&tip));
            let ended = match has_moved.unwrap_or(false) {
                true => Ended::Moved,
                false => Ended::Left,
            };
            return self.end().map(|()| ended);
        }
        if !self.worktree.is_dir() {
            return Err(busy(&self.worktree, CheckoutBusy::Gone));
        }
        let tip = self.head()?;
        // While git holds the locks of HEAD and its branch, a git that was left behind cannot move them either.
        let held = self.hold(&tip)?;
        let has_moved = self.has_moved(&tip)?;
        if !has_moved {
            remove_if_there(&lock_of(&self.own_index()))?;
            copy_index(&self.old_index(), &self.own_index())?;
            self.use_index()?;
            restore::files(&self).and_then(|()| sync(&self.worktree)).map_err(|why| {
                let worktree = self.worktree.display();
                RepoError::Failed(format!("a landing in {worktree} could not be taken back; the supervisor tries again, and the index stays locked: {why}"))
            })?;
        }
        drop(held);
        let ended = match has_moved {
            true => Ended::Moved,
            false => Ended::TakenBack,
        };
        self.end().map(|()| ended)
    }

    /// Returns true if a tip has the landing.
    fn has_moved(&self, tip: &Oid) -> Result<bool, RepoError> {
        if *tip == self.new || *tip == self.old {
            return Ok(*tip == self.new);
        }
        let contains = self
            .git()
            .args(["merge-base", "--is-ancestor"])
            .args([self.new.as_str(), tip.as_str()])
            .output()?;
        match contains.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(RepoError::Failed(format!(
                "git cannot tell whether {} has the landing {}: {}",
                tip.short(),
                self.new.short(),
                contains.stderr.trim()
            ))),
        }
    }

    /// Returns the commit of HEAD.
    pub(super) fn head(&self) -> Result<Oid, RepoError> {
        let found = git(&self.worktree)
            .args(["rev-parse", "--verify", "HEAD^{commit}"])
            .run()?;
        oid(found.text().trim())
    }

    /// Keeps HEAD and its branch as they are.
    fn hold(&self, tip: &Oid) -> Result<Prepared, RepoError> {
        Prepared::head(git(&self.worktree), tip, tip)?.map_err(|said| {
            let lock = said.lines().next().unwrap_or_default();
            let what = format!("a git command, or has a leftover lock ({lock})");
            busy(&self.worktree, CheckoutBusy::Underway(what))
        })
    }

    /// Removes the locks of HEAD and of the branch that the git of this landing left when it was killed.
    pub(super) fn remove_ref_locks(&self) -> Result<(), RepoError> {
        let common = common_dir(&self.git_dir);
        let branch = common.join("refs/heads").join(&self.target);
        for (lock, content) in [
            (self.git_dir.join("HEAD.lock"), ""),
            (lock_of(&branch), self.new.as_str()),
            (common.join("reftable/tables.list.lock"), ""),
            (self.git_dir.join("reftable/tables.list.lock"), ""),
        ] {
            // A lock of another process has another content, or is older.
            let is_own = fs::read(&lock).is_ok_and(|found| {
                let found = found.trim_ascii_end();
                found.is_empty() || found == content.as_bytes()
            });
            if is_own && self.is_left_behind(&lock)? {
                remove_if_there(&lock)?;
                tracing::warn!(lock = %lock.display(), "a landing that was interrupted left this lock of git; it is removed");
            }
        }
        Ok(())
    }

    /// Reads the record of a landing that did not end; none if it cannot be read.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn read(repo: &GitRepo, record: &Path) -> Result<Option<Self>, RepoError> {
        let text = fs::read(record).at("cannot read", record)?;
        let read = serde_json::from_slice(&text).map(|it| Self {
            record: record.to_owned(),
            objects: repo.repo_dir().join("objects"),
            ..it
        });
        let warn = |error: &serde_json::Error| {
            tracing::warn!(record = %record.display(), %error, "the record of an interrupted landing cannot be read; it is set aside");
        };
        Ok(read.inspect_err(warn).ok())
    }

    /// Forgets the landing, of whose repository nothing is left.
    pub(super) fn forget(self) -> Result<(), RepoError> {
        remove_if_there(&self.record)
    }

    /// Follows a linked worktree that was moved to where its repository knows it.
    pub(super) fn follow(&mut self) {
        if self.worktree.is_dir() {
            return;
        }
        let Ok(link) = fs::read(self.git_dir.join("gitdir")) else {
            return;
        };
        // The link may be relative.
        let link = self.git_dir.join(bytes::path(link.trim_ascii_end()));
        let now = link.parent().and_then(|dir| dir.canonicalize().ok());
        let real = self.git_dir.canonicalize().ok();
        if let Some(now) = now.filter(|now| at(now).git_dir() == real) {
            self.worktree = now;
        }
    }

    /// Returns true if the git directory of the worktree is there.
    pub(super) fn has_git_dir(&self) -> bool {
        self.git_dir.is_dir()
    }

    /// Returns true if the worktree was removed, and not only moved or unmounted: its repository has it no more.
    pub(super) fn is_worktree_gone(&self) -> bool {
        let linked = self.git_dir.parent().filter(|it| it.ends_with("worktrees"));
        let repository = linked.and_then(Path::parent);
        !self.git_dir.is_dir() && repository.is_some_and(Path::is_dir)
    }
}

/// The end of a landing that was interrupted or failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Ended {
    /// git had written nothing.
    Unwritten,
    /// The branch has moved all the same.
    Moved,
    /// The files are as before.
    TakenBack,
    /// The person removed the lock: the files stay as they are.
    Left,
}

/// Returns git's lock of a file.
pub(super) fn lock_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Tells, for a person, what holds an index.
fn holder_of(lock: &Path) -> String {
    let text = fs::read(lock).unwrap_or_default();
    match text.starts_with(MARK.as_bytes()) {
        true => format!(
            "{}, or its leftover {}",
            bytes::lossy(text.trim_ascii()),
            lock.display()
        ),
        false => INDEX_LOCK.1.to_owned(),
    }
}
