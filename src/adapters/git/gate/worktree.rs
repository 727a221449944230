//! The gate's worktree: used again and again, brought to exactly one commit's tree, made anew when
//! it is found broken. It belongs to the forge alone and holds nothing of anybody's.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::failed;
use crate::adapters::git::command::{CHECKOUT, Git};
use crate::adapters::git::rig::{GitRepo, oid};
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// Where it is, or should be.
pub(super) struct Worktree<'r> {
    repo: &'r GitRepo,
    path: PathBuf,
}

/// It is there, and its administrative directory belongs to it.
pub(super) struct Sound<'w> {
    worktree: &'w Worktree<'w>,
    admin: PathBuf,
}

impl<'r> Worktree<'r> {
    /// The worktree at that path.
    pub(super) fn new(repo: &'r GitRepo, path: &Path) -> Self {
        Self {
            repo,
            path: path.to_owned(),
        }
    }

    /// Its directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Brings it to exactly the commit's tree. What cannot be mended is made anew, once.
    pub(super) fn check_out(&self, commit: &Oid) -> Result<Sound<'_>, RepoError> {
        if let Some(admin) = self.admin() {
            let sound = Sound {
                worktree: self,
                admin,
            };
            match sound.bring(commit) {
                Ok(()) => return Ok(sound),
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the gate worktree is made anew");
                }
            }
        }
        self.make(commit)?;
        let admin = self.admin().ok_or_else(|| {
            RepoError::Failed(format!("git made no worktree at {}", self.path.display()))
        })?;
        let sound = Sound {
            worktree: self,
            admin,
        };
        sound.bring(commit)?;
        Ok(sound)
    }

    /// Its administrative directory, when both point at each other: a gate may have done anything
    /// to the `.git` file, and git must never act on another repository from here.
    fn admin(&self) -> Option<PathBuf> {
        let link = fs::read_to_string(self.path.join(".git")).ok()?;
        let admin = PathBuf::from(link.strip_prefix("gitdir: ")?.trim_end());
        let admin = self.path.join(admin).canonicalize().ok()?;
        let home = self.repo.repo_dir().join("worktrees").canonicalize().ok()?;
        let back = fs::read_to_string(admin.join("gitdir")).ok()?;
        let back = admin.join(back.trim_end()).canonicalize().ok()?;
        let own = self.path.join(".git").canonicalize().ok()?;
        (admin.parent() == Some(home.as_path()) && back == own).then_some(admin)
    }

    fn make(&self, commit: &Oid) -> Result<(), RepoError> {
        self.set_aside()?;
        let _worktrees = self.repo.worktrees();
        // Forced twice: an entry of a worktree that is gone may be left, even a locked one.
        self.repo
            .git()
            .args(["-c", "core.hooksPath=/dev/null", "worktree", "add"])
            .args(["--force", "--force", "--detach", "--no-checkout"])
            .arg(&self.path)
            .arg(commit.as_str())
            .limit(CHECKOUT)
            .run()
            .map(drop)
    }

    /// Moves what is there out of the way and removes it. A rename works also where a gate left
    /// directories that cannot be emptied.
    fn set_aside(&self) -> Result<(), RepoError> {
        let mut places = (0..).map(|n: u32| self.path.with_extension(format!("discarded-{n}")));
        let free = places.find(|place| {
            remove_all(place);
            !place.exists()
        });
        let Some(aside) = free else {
            return Ok(());
        };
        match fs::rename(&self.path, &aside) {
            Ok(()) => remove_all(&aside),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&self.path.display().to_string(), &error)),
        }
        Ok(())
    }
}

impl Sound<'_> {
    /// git on this worktree and no other, without hooks, with all paths checked out.
    fn git(&self) -> Git {
        Git::in_dir(&self.worktree.path)
            .env("GIT_DIR", &self.admin)
            .env("GIT_WORK_TREE", &self.worktree.path)
            .args(["-c", "core.hooksPath=/dev/null"])
            .args(["-c", "core.sparseCheckout=false"])
            .limit(CHECKOUT)
    }

    fn bring(&self, commit: &Oid) -> Result<(), RepoError> {
        self.remove_locks()?;
        self.git()
            .args(["update-ref", "--no-deref", "HEAD", commit.as_str()])
            .run()?;
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
        let found = oid(&self.git().arg("write-tree").run()?.text())?;
        if found != oid(&wanted.text())? {
            return Err(RepoError::Failed(format!(
                "the gate worktree has tree {found} instead of that of {commit}"
            )));
        }
        Ok(())
    }

    /// Lock files of git processes that were killed. Nobody else works here.
    fn remove_locks(&self) -> Result<(), RepoError> {
        let broken = |error| failed(&self.admin.display().to_string(), &error);
        for entry in fs::read_dir(&self.admin).map_err(broken)? {
            let path = entry.map_err(broken)?.path();
            if path
                .extension()
                .is_some_and(|extension| extension == "lock")
            {
                fs::remove_file(&path).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Tracked paths that are not as the commit has them. Paths that differ right after a checkout
    /// too (line ends that a filter rewrites) are nobody's change.
    pub(super) fn changed(&mut self, commit: &Oid) -> Result<Vec<String>, RepoError> {
        let Some(admin) = self.worktree.admin() else {
            return Ok(vec![".git".to_owned()]);
        };
        self.admin = admin;
        let mut changed = self.differing(commit)?;
        if !changed.is_empty() {
            self.bring(commit)?;
            let always = self.differing(commit)?;
            changed.retain(|path| !always.contains(path));
        }
        Ok(changed)
    }

    fn differing(&self, commit: &Oid) -> Result<Vec<String>, RepoError> {
        let output = self
            .git()
            .args(["diff", "--name-only", "-z", "--no-ext-diff", "--no-renames"])
            .args(["--ignore-submodules=untracked", commit.as_str(), "--"])
            .run()?;
        let paths = output.stdout.split(|byte| *byte == 0);
        Ok(paths
            .filter(|path| !path.is_empty())
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect())
    }
}

/// Removes a directory as far as that is possible; the rest is tried again the next time.
fn remove_all(path: &Path) {
    if fs::remove_dir_all(path).is_ok() || !path.exists() {
        return;
    }
    open_up(path);
    if let Err(error) = fs::remove_dir_all(path) {
        tracing::warn!(path = %path.display(), %error, "a discarded gate worktree is left");
    }
}

/// Makes directories writable, as far as they are ours.
fn open_up(path: &Path) {
    // What cannot be opened up is reported by the removal that follows.
    let _denied = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
