//! The gate's work tree: used again and again, brought to exactly one commit's tree, made anew when it is broken. It
//! belongs to the forge alone and holds no work.
//!
//! A gate runs code that an agent may have written. The gate gets a repository of its own (`own`), made anew for each
//! run, which no decision depends on: the work tree is written with the supervisor's repository and an index in
//! there, and compared by its bytes ([`proof`]).

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::proof::{self, FileIds, Made};
use super::{failed, gate_repo, own_dir};
use crate::adapters::git::admin::remove_if_there;
use crate::adapters::git::bytes;
use crate::adapters::git::command::{CHECKOUT, Git};
use crate::adapters::git::files::compare::Tree;
use crate::adapters::git::rig::{GitRepo, oid};
use crate::adapters::git::settings;
use crate::adapters::{beneath, city_root, mounts};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Settings that override the user's: every byte and mode of a work tree counts.
const EXACT: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.sparseCheckout=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.ignoreStat=false",
    "core.ignoreCase=false",
    "core.fileMode=true",
    "core.symlinks=true",
];

/// The paths of the work tree.
pub(super) struct Worktree<'r> {
    repo: &'r GitRepo,
    path: PathBuf,
    /// The directory of the index and the caches of the checked-out files.
    custody: PathBuf,
    /// The index of the checked-out files.
    index: PathBuf,
}

/// A verified checkout.
pub(super) struct Proved {
    /// The commit's tree.
    pub(super) tree: Oid,
    files: Arc<Tree>,
    state: FileIds,
}

impl<'r> Worktree<'r> {
    /// Makes the work tree at that path.
    pub(super) fn new(repo: &'r GitRepo, path: &Path) -> Self {
        let custody = own_dir(repo);
        let name = path.file_name().unwrap_or_default();
        Self {
            repo,
            path: path.to_owned(),
            index: custody.join(name).with_extension("index"),
            custody,
        }
    }

    /// Returns its directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Brings the work tree to exactly the commit's tree. If that fails, makes it anew, once. Refuses while something
    /// is mounted in it, because a removal would delete files of the mount.
    pub(super) fn check_out(&self, commit: &Oid) -> Result<Proved, RepoError> {
        mounts::none_in(&self.path).map_err(|error| failed("the gate worktree", &error))?;
        if self.index.is_file() && self.is_dir() {
            match self.bring(commit) {
                Ok(proved) => return Ok(proved),
                Err(error) => {
                    tracing::warn!(
                        path = %self.path.display(),
                        %error,
                        "the gate worktree could not be set to the commit; it is recreated"
                    );
                }
            }
        }
        self.set_aside()?;
        city_root::make_dirs(&self.path)
            .map_err(|error| failed(&self.path.display().to_string(), &error))?;
        self.bring(commit)
    }

    /// Returns true if the work tree is a directory. A gate may have replaced it by a link to files outside of the
    /// city.
    fn is_dir(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_dir())
    }

    /// Moves the work tree out of the way and removes it. A rename works even if a gate left directories that cannot
    /// be emptied.
    fn set_aside(&self) -> Result<(), RepoError> {
        remove_if_there(&self.index)?;
        let Some(aside) = self.free_place() else {
            return Ok(());
        };
        match fs::rename(&self.path, &aside) {
            Ok(()) => remove_all(&aside),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&self.path.display().to_string(), &error)),
        }
        Ok(())
    }

    /// Returns an unused name beside it.
    fn free_place(&self) -> Option<PathBuf> {
        let mut places = (0..).map(|n: u32| self.path.with_extension(format!("discarded-{n}")));
        places.find(|place| {
            remove_all(place);
            fs::symlink_metadata(place).is_err()
        })
    }

    /// Returns git for this work tree only, with the supervisor's repository and index.
    fn git(&self) -> Git {
        let mut git = Git::in_dir(&self.path)
            .besides(settings::of_user_file(self.repo.repo_dir()))
            .env("GIT_DIR", self.repo.repo_dir())
            .env("GIT_WORK_TREE", &self.path)
            .env("GIT_INDEX_FILE", &self.index)
            .limit(CHECKOUT);
        for setting in EXACT {
            git = git.args(["-c", setting]);
        }
        git
    }

    /// Writes the commit's tree and verifies it: index and commit name the same tree, and the files are its blobs or
    /// git's conversions of them.
    fn bring(&self, commit: &Oid) -> Result<Proved, RepoError> {
        if !self.is_dir() {
            let what = format!("{} is no longer a directory", self.path.display());
            return Err(RepoError::Failed(what));
        }
        // Left by a git that was killed. No other git works here.
        remove_if_there(&self.index.with_extension("index.lock"))?;
        self.drop_repositories(commit)?;
        self.git()
            .args(["read-tree", "--reset", "-u", commit.as_str()])
            .run()?;
        // Ignored files stay: they are the build caches.
        self.git().args(["clean", "-ffdq"]).run()?;
        let wanted = self
            .git()
            .arg("rev-parse")
            .arg(format!("{commit}^{{tree}}"))
            .run()?;
        let (found, wanted) = (
            oid(&self.git().arg("write-tree").run()?.text())?,
            oid(&wanted.text())?,
        );
        if found != wanted {
            return Err(RepoError::Failed(format!(
                "the gate worktree has tree {found} instead of the tree of {commit}"
            )));
        }
        let files = self.repo.files_of(commit)?;
        let state = self.prove(commit, &files)?;
        gate_repo::make(self.repo, &self.path, &self.index, commit)?;
        Ok(Proved {
            tree: found,
            files,
            state,
        })
    }

    /// Reads the files, and writes those again that a gate may have changed.
    fn prove(&self, commit: &Oid, files: &Tree) -> Result<FileIds, RepoError> {
        let mut made = Made::read(&self.custody.join("made"));
        let state = self.state(files)?;
        let wrong = made.wrong(files, &state);
        if wrong.is_empty() {
            return Ok(state);
        }
        for path in &wrong {
            self.take_away(bytes::path(path))?;
        }
        // An index without flags, and without cached file metadata.
        remove_if_there(&self.index)?;
        self.git().args(["read-tree", commit.as_str()]).run()?;
        self.git()
            .args(["checkout-index", "-f", "-z", "--stdin"])
            .stdin(bytes::join(wrong.iter().map(Vec::as_slice)))
            .run()?;
        // Ends with 1 if a filter makes a file that differs from its blob.
        self.git()
            .args(["update-index", "-q", "--refresh"])
            .output()?;
        let state = self.state(files)?;
        made.record(&wrong, files, &state)?;
        match made.wrong(files, &state).first() {
            None => Ok(state),
            Some(path) => Err(RepoError::Failed(format!(
                "{} of the gate worktree differs from the commit",
                bytes::lossy(path)
            ))),
        }
    }

    fn state(&self, files: &Tree) -> Result<FileIds, RepoError> {
        let seen = self.custody.join("seen");
        proof::state(&self.path, files, &seen, &self.repo.recent)
    }

    /// Removes repositories that a gate made where the commit has files: git would take the files below for another
    /// repository's. Repositories of submodules stay.
    fn drop_repositories(&self, commit: &Oid) -> Result<(), RepoError> {
        let list = self
            .git()
            .args(["ls-tree", "-r", "-d", "-z", "--full-tree", commit.as_str()])
            .run()?;
        for line in bytes::split(&list.stdout) {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else {
                continue;
            };
            if line.starts_with(b"040000 ") {
                self.take_away(&bytes::path(&line[tab + 1..]).join(".git"))?;
            }
        }
        Ok(())
    }

    /// Removes a file or directory of the work tree. Does nothing if a link is on the way: the target lies outside,
    /// and git replaces the link by the directory of the commit.
    fn take_away(&self, name: &Path) -> Result<(), RepoError> {
        let Some(aside) = self.free_place() else {
            return Ok(());
        };
        let forge = self.path.parent().unwrap_or(Path::new("/"));
        let from = Path::new(self.path.file_name().unwrap_or_default()).join(name);
        let to = Path::new(aside.file_name().unwrap_or_default());
        match beneath::rename(forge, &from, to) {
            Ok(()) => remove_all(&aside),
            Err(error) if is_elsewhere(&error) => {}
            Err(error) => return Err(failed(&from.display().to_string(), &error)),
        }
        Ok(())
    }

    /// Returns the tracked paths that changed since the checkout, after a gate ran.
    pub(super) fn changed(&self, proved: &Proved) -> Result<Vec<String>, RepoError> {
        if !self.is_dir() {
            // A gate that moved the work tree away leaves nothing to compare.
            return Ok(vec![".".to_owned()]);
        }
        let now = self.state(&proved.files)?;
        let changed = proof::changed(&proved.files, &proved.state, &now);
        Ok(changed.iter().map(|path| bytes::lossy(path)).collect())
    }
}

/// Returns true if the path does not exist, or a symbolic link is in its path.
fn is_elsewhere(error: &std::io::Error) -> bool {
    let absent = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
    absent || beneath::is_odd(error)
}

/// Removes a directory as far as possible; the rest is tried again the next time.
pub(super) fn remove_all(path: &Path) {
    if let Err(error) = mounts::remove_dir_all(path)
        && path.is_dir()
    {
        tracing::warn!(path = %path.display(), %error, "the remains of a gate could not be removed; the next gate tries again");
    }
}
