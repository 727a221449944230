//! Repositories inside a sandbox that git passes over, and sandboxes that git refuses to look at.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::ends::Dice;
use super::super::look::{PIPES, SandboxState};
use super::{Agent, Form};
use crate::support::git::try_git;

/// The files that a killed git leaves.
pub(super) const LOCKS: [&str; 2] = ["HEAD.lock", "index.lock"];

/// Returns the locks of refs that a killed process leaves: in theirs, and one of the supervisor's own in ours.
pub(super) fn ref_locks(dir: &Path) -> [PathBuf; 5] {
    let city = dir.ancestors().nth(3).expect("a city");
    let theirs = city.join("horde/repo.git");
    let head = fs::read_to_string(SandboxState::admin(dir).join("HEAD")).unwrap_or_default();
    let own = head
        .trim()
        .strip_prefix("ref: ")
        .unwrap_or("refs/heads/own");
    [
        theirs.join("packed-refs.lock"),
        theirs.join(format!("{own}.lock")),
        theirs.join("refs/stash.lock"),
        theirs.join("refs/remotes/origin/main.lock"),
        city.join(".horde/custody/horde.git/packed-refs.lock"),
    ]
}

/// Makes a pipe, at which a reader blocks for ever.
fn pipe(path: &Path) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    drop(fs::remove_file(path));
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
}

impl Agent<'_> {
    /// Makes a repository with a commit of its own.
    fn repository(&self, name: &str, more: &[&str]) {
        let init = ["init", "-q", "-b", "main", "--template="];
        self.run(&[&init[..], more, &[name]].concat());
        let home = self.dir.join(name);
        self.within(&home).commit("only-here", "only here\n");
    }

    /// Makes forms that only look like a repository, or are one where git does not look.
    pub(super) fn hide(&self, form: Form) {
        let dir = self.dir;
        match form {
            Form::GitCase => {
                self.write(".GIT/notes", "1\n");
                self.write("x/.Git/notes", "2\n");
                self.write("git~1", "3\n");
            }
            Form::GitmodulesLink => {
                // git takes no link of this name in, and reports it as untracked.
                let list = dir.join(".gitmodules");
                drop(fs::remove_file(&list));
                symlink("elsewhere", list).expect("linked");
                self.write("elsewhere", "behind the link\n");
            }
            Form::OnlyLooks => {
                self.write("fixtures/repo/.git/notes", "in a directory\n");
                self.write("fixtures/file/.git", "a plain file\n");
                self.write("src/.git/config", "beside tracked files\n");
                fs::create_dir_all(dir.join("fixtures/empty/.git")).expect("made");
            }
            Form::BrokenClone => {
                self.repository("broken", &[]);
                self.remove("broken/.git/HEAD");
                self.remove("broken/only-here");
            }
            Form::BareInside => {
                let url = self.library.display().to_string();
                self.run(&["clone", "-q", "--bare", "--template=", &url, "bare.git"]);
                self.write("bare.git/more", "more\n");
            }
            Form::Separate => {
                let own = format!("--separate-git-dir={}", dir.join("apart").display());
                self.repository("sep", &[&own]);
            }
            Form::SeparateHidden => {
                let apart = dir.join("target/apart");
                fs::create_dir_all(dir.join("target")).expect("made");
                let own = format!("--separate-git-dir={}", apart.display());
                self.repository("target/sep", &[&own]);
            }
            Form::DeepHidden => self.repository("target/a/b/c/d/e", &[]),
            Form::HiddenInNested => {
                self.repository("outer", &[]);
                self.write("outer/.gitignore", "\nbuild/\n");
                self.repository("outer/build/inner", &[]);
            }
            Form::CopiedLink => {
                self.write("copied/file", "beside a copy of the link\n");
                drop(fs::copy(dir.join(".git"), dir.join("copied/.git")));
            }
            Form::TooDeep => crate::support::deep::write(dir, &self.text),
            _ => {
                pipe(&dir.join("src/.gitignore"));
                pipe(&dir.join("pipes/.gitattributes"));
                self.write("pipes/new", "beside a pipe\n");
            }
        }
    }

    /// Leaves the locks of processes that were killed while they wrote refs. The branches are packed, so that each
    /// deletion needs the lock of the list.
    pub(super) fn lock_refs(&self) {
        let locks = ref_locks(self.dir);
        for lock in [&locks[0], &locks[4]] {
            drop(try_git(
                lock.parent().expect("a repository"),
                &["pack-refs", "--all"],
            ));
        }
        for lock in &locks {
            fs::create_dir_all(lock.parent().expect("a parent")).expect("made");
            let lock = fs::File::create(lock).expect("a lock");
            // Only a lock in ours that is older than any command runs was left by a killed process.
            lock.set_modified(SystemTime::UNIX_EPOCH).expect("set");
        }
        for lock in &locks[..4] {
            if Dice::of(&self.text).below(2) == 0 {
                fs::write(lock, "").expect("a fresh lock");
            }
        }
    }

    /// Makes forms in which git can no longer work.
    pub(super) fn ruin(&self, form: Form) {
        let (dir, link) = (self.dir, self.dir.join(".git"));
        self.write("ruined", "untracked\n");
        self.write("src/stat", "edited\n");
        match form {
            Form::StaleLocks => {
                for name in LOCKS {
                    fs::write(SandboxState::admin(dir).join(name), "").expect("written");
                }
            }
            Form::BareConfig => {
                self.run(&["config", "core.worktree", "/nowhere"]);
                self.run(&["config", "core.bare", "false"]);
            }
            Form::Garbage => fs::write(self.shared().join("config"), "[[[ no\n").expect("written"),
            Form::AdminPipes => {
                // The link is read before its target is a pipe.
                let admin = SandboxState::admin(dir);
                pipe(&admin.join(PIPES[Dice::of(&self.text).below(PIPES.len())]));
            }
            Form::AdminGone => fs::remove_dir_all(SandboxState::admin(dir)).expect("removed"),
            Form::LinkElsewhere => {
                fs::remove_file(&link).expect("removed");
                symlink(self.library.join(".git"), &link).expect("linked");
            }
            _ => {
                fs::remove_file(&link).expect("removed");
                self.run(&["init", "-q", "-b", "main", "--template="]);
                self.commit("ruined", "in another repository\n");
            }
        }
    }
}
