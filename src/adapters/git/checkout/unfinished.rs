//! A landing in the user's checkout that did not end: the supervisor or the machine went down, or git could not write a file.
//! What it wrote is taken back, and nothing else: a file counts only if it has exactly the bytes of the landing.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::super::admin::{failed, write_whole};
use super::super::bytes;
use super::super::rig::GitRepo;
use super::fast_forward::git;
use super::{INDEX_LOCK, Worktree};
use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;
use crate::ports::repo::RepoError;

/// The record of a landing that is under way, in ours.
const RECORD: &str = "horde/landing.json";

/// A landing under way.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct Unfinished {
    worktree: PathBuf,
    target: String,
    old: Oid,
    new: Oid,
    #[serde(skip)]
    record: PathBuf,
}

impl Unfinished {
    /// Records that a landing begins to write files.
    pub(in super::super) fn record(
        repo: &GitRepo,
        worktree: &Path,
        target: &str,
        (old, new): (&Oid, &Oid),
    ) -> Result<Self, RepoError> {
        let it = Self {
            worktree: worktree.to_owned(),
            target: target.to_owned(),
            old: old.clone(),
            new: new.clone(),
            record: repo.repo_dir().join(RECORD),
        };
        let text = serde_json::to_vec(&it)
            .map_err(|error| RepoError::Failed(format!("the record of a landing: {error}")))?;
        let dir = it.record.parent().unwrap_or(repo.repo_dir());
        fs::create_dir_all(dir).map_err(|error| failed("cannot make", dir, &error))?;
        write_whole(&it.record, &text)?;
        Ok(it)
    }

    /// Removes the record: the landing ended, or was taken back.
    pub(super) fn forget(self) -> Result<(), RepoError> {
        match fs::remove_file(&self.record) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(failed("cannot remove", &self.record, &error))
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the branch is where it was before, and is checked out there.
    fn is_to_be_taken_back(&self) -> Result<bool, RepoError> {
        let at = |args: &[&str]| {
            let found = git(&self.worktree).args(args).output()?;
            Ok::<_, RepoError>(found.text().trim().to_owned())
        };
        let branch = at(&["symbolic-ref", "-q", "HEAD"])?;
        let head = at(&["rev-parse", "-q", "--verify", "HEAD"])?;
        Ok(branch == format!("refs/heads/{}", self.target) && head == self.old.as_str())
    }
}

/// Takes back what a landing wrote that did not end, unless its branch moved all the same.
///
/// # Errors
/// [`RepoError::CheckoutBusy`] while its git still writes; when the record or the checkout cannot be read.
pub(in super::super) fn recover(repo: &GitRepo) -> Result<(), RepoError> {
    let record = repo.repo_dir().join(RECORD);
    let text = match fs::read(&record) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("cannot read", &record, &error)),
    };
    let read = serde_json::from_slice::<Unfinished>(&text);
    let mut it =
        read.map_err(|error| RepoError::Failed(format!("{}: {error}", record.display())))?;
    it.record = record;
    let place = Worktree {
        path: it.worktree.clone(),
        branch: None,
    };
    let Some(git_dir) = place.git_dir() else {
        // The worktree is gone.
        return it.forget();
    };
    if fs::symlink_metadata(git_dir.join(INDEX_LOCK.0)).is_ok() {
        return Err(RepoError::CheckoutBusy {
            path: it.worktree,
            why: CheckoutBusy::Underway(INDEX_LOCK.1.to_owned()),
        });
    }
    if it.is_to_be_taken_back()? {
        take_back(&it.worktree, &it.old, &it.new)?;
        tracing::warn!(worktree = %it.worktree.display(), "a landing was interrupted; what it had written into the checkout is taken back, and it is repeated");
    }
    it.forget()
}

/// Takes the files and the index of a landing back whose branch did not move.
pub(super) fn take_back(worktree: &Path, old: &Oid, new: &Oid) -> Result<(), RepoError> {
    let back = git(worktree)
        .args(["read-tree", "-m", "-u", new.as_str(), old.as_str()])
        .output()?;
    if !back.ok() && back.stderr.contains(INDEX_LOCK.0) {
        return Err(RepoError::CheckoutBusy {
            path: worktree.to_owned(),
            why: CheckoutBusy::Underway(INDEX_LOCK.1.to_owned()),
        });
    }
    let staged = git(worktree)
        .args([
            "diff-index",
            "--cached",
            "--name-only",
            "--no-renames",
            "-z",
        ])
        .arg(old.as_str())
        .run()?;
    let staged: BTreeSet<&[u8]> = bytes::split(&staged.stdout).collect();
    // git writes the index last: files may be there without it.
    let (mut restored, mut added) = (Vec::new(), Vec::new());
    for change in changes(worktree, old, new)? {
        // The index differs from before: a person changed it, or what git wrote there could not be taken back.
        if staged.contains(change.path.as_slice()) {
            continue;
        }
        let is_landed = is_landed(worktree, &change)?;
        match change.before {
            true if is_landed => restored.push(change.path),
            false if is_landed && change.after.is_some() => added.push(change.path),
            _ => {}
        }
    }
    let list = restored
        .iter()
        .flat_map(|path| [path.as_slice(), b"\0"].concat());
    let list: Vec<u8> = list.collect();
    if !list.is_empty() {
        git(worktree)
            .args(["checkout-index", "-f", "-q", "-u", "-z", "--stdin"])
            .stdin(list)
            .run()?;
    }
    for path in added {
        let file = worktree.join(bytes::path(&path));
        fs::remove_file(&file).map_err(|error| failed("cannot remove", &file, &error))?;
        let above = file.ancestors().skip(1).take_while(|dir| *dir != worktree);
        // A directory with anything in it stays.
        let _rest = above.map_while(|dir| fs::remove_dir(dir).ok()).count();
    }
    Ok(())
}

/// A path that a landing changes.
struct Change {
    path: Vec<u8>,
    /// Set if it is there without the landing.
    before: bool,
    /// Its file in the landing.
    after: Option<Oid>,
}

/// Lists the regular files that a landing changes. Links and submodules are left as they are.
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
        let is_plain = |mode: &str| mode.starts_with("100") || mode == "000000";
        if is_plain(before) && is_plain(after) {
            found.push(Change {
                path: path.to_vec(),
                before: before != "000000",
                after: (after != "000000").then(|| Oid::new(id).ok()).flatten(),
            });
        }
    }
    Ok(found)
}

/// Returns true if the file is as the landing leaves it; a file that it replaces may be absent.
fn is_landed(worktree: &Path, change: &Change) -> Result<bool, RepoError> {
    let file = worktree.join(bytes::path(&change.path));
    match fs::symlink_metadata(&file) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Ok(false),
        Err(_) => return Ok(change.before),
    }
    let Some(after) = &change.after else {
        return Ok(false);
    };
    let hashed = git(worktree)
        .arg("hash-object")
        .arg("--")
        .arg(bytes::path(&change.path))
        .output()?;
    Ok(hashed.text().trim() == after.as_str())
}
