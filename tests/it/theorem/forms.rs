//! The forms in which a sandbox holds work: the acts of an agent that make each, and the check that it is there.

mod broken;
mod forged;
mod kinds;
mod submodules;
mod there;
mod told;

pub use kinds::Form;
pub use there::is_there;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::lab::OTHER;
use super::look::SandboxState;
use crate::support::git::{feed_git, try_git};

/// Names that cause trouble in programs.
const ODD: [&[u8]; 7] = [
    b"new\nline",
    b"tab\tand \"quotes\"",
    b"-dash",
    b"back\\slash",
    b"not utf-8 \xff\xfe",
    b":(glob)*",
    b"d/\xc3\xa4\x01",
];

/// An agent in a sandbox.
pub struct Agent<'a> {
    /// Its sandbox.
    pub dir: &'a Path,
    /// The text that it writes: differs from case to case.
    pub text: Vec<u8>,
    /// A repository that it may take in as a submodule.
    pub library: &'a Path,
}

impl Agent<'_> {
    fn within<'a>(&'a self, dir: &'a Path) -> Agent<'a> {
        let text = self.text.clone();
        Agent { dir, text, ..*self }
    }

    fn run(&self, args: &[&str]) {
        // Another form may be in the way: then git refuses, and the agent goes on.
        drop(try_git(self.dir, args));
    }

    fn write(&self, name: impl AsRef<Path>, more: &str) {
        let path = self.dir.join(name);
        let made = path
            .parent()
            .is_some_and(|dir| fs::create_dir_all(dir).is_ok());
        let text = [&self.text, more.as_bytes()].concat();
        if made && !path.is_dir() {
            // Replaces a link: nothing is written to its target.
            drop(fs::remove_file(&path));
            fs::write(&path, text).expect("written");
        }
    }

    fn remove(&self, name: &str) {
        drop(fs::remove_file(self.dir.join(name)));
    }

    fn commit(&self, file: &str, more: &str) {
        self.write(file, more);
        self.run(&["add", "--", file]);
        self.run(&["commit", "-q", "--no-verify", "-m", more]);
    }

    /// Makes the form.
    pub fn make(&self, form: Form) {
        match form {
            Form::Orphan => self.run(&["checkout", "-q", "--orphan", "fresh"]),
            Form::Aside => {
                self.branch_off("aside", "HEAD");
                self.commit("aside", "aside\n");
            }
            Form::Left => {
                self.commit("left", "left\n");
                self.branch_off("look", "origin/main");
            }
            Form::Elsewhere => {
                self.branch_off("try", "HEAD");
                self.commit("tried", "tried\n");
                self.run(&["checkout", "-q", "-"]);
            }
            Form::Backup => {
                self.commit("backed-up", "backed up\n");
                self.run(&["branch", "-f", &self.named("backup")]);
                self.run(&["reset", "-q", "--hard", "HEAD~1"]);
            }
            Form::Ahead => self.commit("work", "ahead\n"),
            Form::Amended => {
                self.commit("amended", "first\n");
                self.write("amended", "again\n");
                self.run(&["commit", "-qa", "--amend", "-m", "again"]);
            }
            Form::ReflogOnly => {
                self.commit("lost", "lost\n");
                self.run(&["reset", "-q", "--hard", "HEAD~1"]);
            }
            Form::OwnRef => {
                self.commit("own", "own\n");
                self.run(&["update-ref", "refs/worktree/own", "HEAD"]);
                self.run(&["reset", "-q", "--hard", "HEAD~1"]);
            }
            Form::Stash | Form::StashTaken => {
                self.write("README", "stashed\n");
                self.write("stashed", "untracked\n");
                self.run(&["stash", "push", "-q", "-u"]);
            }
            Form::Detached => {
                self.run(&["checkout", "-q", "--detach"]);
                self.commit("detached", "detached\n");
            }
            Form::Bisect => {
                self.commit("bisected", "bisected\n");
                self.run(&["bisect", "start"]);
                self.run(&["bisect", "bad", "HEAD"]);
            }
            Form::Sparse => {
                self.run(&["sparse-checkout", "set", "--no-cone", "/README", "/src/"]);
                self.write("run.sh", "there all the same\n");
            }
            Form::Rebase | Form::Autostash | Form::Merge | Form::CherryPick | Form::Revert => {
                self.stop(form);
            }
            Form::Grafted | Form::Replaced | Form::Forged => self.forge(form),
            _ => self.lay(form),
        }
    }

    /// Returns the name of a branch of this kind that no other raider has.
    fn named(&self, kind: &str) -> String {
        let slot = self.dir.file_name().and_then(OsStr::to_str);
        format!("{kind}-{}", slot.expect("a slot"))
    }

    /// Switches to such a branch.
    fn branch_off(&self, kind: &str, from: &str) {
        let name = self.named(kind);
        self.run(&["checkout", "-q", "--no-track", "-B", &name, from]);
    }

    /// Starts an operation that stops at a conflict.
    fn stop(&self, form: Form) {
        self.commit("src/a.txt", "mine\n");
        match form {
            Form::Autostash => {
                self.write("src/b.txt", "put aside\n");
                self.run(&["rebase", "-q", "--autostash", OTHER]);
            }
            Form::Rebase => self.run(&["rebase", "-q", OTHER]),
            Form::Merge => self.run(&["merge", "-q", OTHER]),
            Form::CherryPick => self.run(&["cherry-pick", OTHER]),
            _ => {
                self.commit("src/a.txt", "mine, again\n");
                self.run(&["revert", "--no-edit", "HEAD~1"]);
            }
        }
    }

    /// Makes the forms that lie in index and files.
    fn lay(&self, form: Form) {
        let dir = self.dir;
        match form {
            Form::Submodule => {
                self.take_in();
                let lib = dir.join("lib");
                let lib = self.within(&lib);
                lib.commit("code", "only here\n");
                lib.write("code", "dirty\n");
            }
            Form::SubmoduleLeft | Form::SubmoduleGone | Form::SubmoduleRemoved => {
                self.tidy_up(form);
            }
            Form::Nested => {
                self.run(&["init", "-q", "-b", "main", "tools/inner"]);
                let inner = dir.join("tools/inner");
                let inner = self.within(&inner);
                inner.commit("code", "inner\n");
                inner.write("code", "stashed\n");
                inner.run(&["stash", "-q"]);
                inner.write("loose", "loose\n");
            }
            Form::OwnWorktree => self.worktree("beside"),
            Form::HiddenWorktree => self.worktree("target/beside"),
            Form::HiddenClone => {
                let url = self.library.display().to_string();
                self.run(&["clone", "-q", &url, "target/code"]);
                self.within(&dir.join("target/code"))
                    .commit("code", "only here\n");
            }
            Form::Conflict => self.conflict(),
            Form::Skip | Form::Assume => {
                let (flag, name) = match form {
                    Form::Skip => ("--skip-worktree", "src/deep/c.txt"),
                    _ => ("--assume-unchanged", "src/deep/d.txt"),
                };
                self.run(&["update-index", flag, "--", name]);
                self.write(name, "hidden\n");
            }
            Form::Staged => {
                self.write("README", "staged\n");
                self.run(&["add", "README"]);
                self.write("README", "edited after\n");
            }
            Form::StagedOnly => {
                self.write("staged-only", "nowhere else\n");
                self.run(&["add", "staged-only"]);
                self.remove("staged-only");
            }
            Form::Renamed => self.run(&["mv", "src/deep/e.txt", "src/deep/renamed"]),
            Form::Intent => {
                self.write("promised", "promised\n");
                self.run(&["add", "-N", "promised"]);
            }
            Form::Collected => self.collect(),
            Form::RefLocks => self.lock_refs(),
            Form::OddNames => {
                for name in ODD {
                    self.write(OsStr::from_bytes(name), "odd\n");
                }
                self.run(&["add", "--", "-dash"]);
            }
            form if form.is_told() => self.apply_setting(form),
            form if form.is_odd() => self.hide(form),
            form if form.is_ruin() => self.ruin(form),
            _ => self.leave(form),
        }
    }

    /// Leaves a commit and staged contents that only the sandbox names, beside a few files.
    fn collect(&self) {
        // Another form may exclude all files, or leave them out of a sparse checkout.
        self.write("collected", "left behind\n");
        self.run(&["add", "-f", "--sparse", "collected"]);
        // In the middle of a merge, git commits nothing.
        let commit = ["commit", "-q", "--no-verify", "-m", "left behind"];
        if try_git(self.dir, &commit).status.success() {
            self.run(&["reset", "-q", "--soft", "HEAD~1"]);
        }
        self.write("collected", "staged\n");
        self.run(&["add", "-f", "--sparse", "collected"]);
        self.write("collected", "edited after\n");
        for number in 0..20 {
            self.write(format!("many/{number}"), &format!("{number}\n"));
        }
    }

    /// Makes a worktree of the agent's own, with work in it.
    fn worktree(&self, name: &str) {
        self.run(&["worktree", "add", "-q", "-f", "--detach", name]);
        let beside = self.dir.join(name);
        let beside = self.within(&beside);
        beside.commit("beside", "beside\n");
        beside.write("README", "staged beside\n");
        beside.run(&["add", "README"]);
        beside.write("README", "dirty beside\n");
    }

    /// Makes the forms that need no git.
    fn leave(&self, form: Form) {
        let dir = self.dir;
        match form {
            Form::Deleted => self.remove("src/b.txt"),
            Form::Dirty => self.write("src/deep/f.txt", "dirty\n"),
            Form::Modes => {
                for (name, mode) in [("README", 0o755), ("run.sh", 0o644)] {
                    if dir.join(name).is_file() {
                        fs::set_permissions(dir.join(name), Permissions::from_mode(mode))
                            .expect("set");
                    }
                }
            }
            Form::TypeChange => {
                self.remove("kind/file");
                self.write("kind/file/now/a/directory", "1\n");
                drop(fs::remove_dir_all(dir.join("kind/dir")));
                self.write("kind/dir", "a file now\n");
            }
            Form::Symlink => {
                self.remove("link");
                symlink("nowhere/at all", dir.join("link")).expect("linked");
                drop(symlink("src", dir.join("to-a-directory")));
            }
            Form::LineEndings => fs::write(dir.join("crlf.eol"), "one\ntwo\n").expect("written"),
            Form::Untracked => {
                self.write("new/deep/file", "new\n");
                fs::write(dir.join("new/empty"), "").expect("written");
            }
            Form::OwnTask => {
                self.remove("TASK.md");
                self.write("TASK.md", "my own notes\n");
            }
            Form::Ignored => {
                self.write("target/debug/built", "built\n");
                self.write(".env", "SECRET=1\n");
                self.write("x.ignored", "x\n");
            }
            Form::Locked => {
                let admin = SandboxState::admin(dir);
                fs::write(admin.join("locked"), "by the agent\n").expect("locked");
            }
            _ => {}
        }
    }

    /// Makes three stages of a path, as a failed `stash pop` leaves them: no operation is in progress.
    fn conflict(&self) {
        let objects = git2::Repository::open(self.dir).expect("a repository");
        let mut script = String::new();
        for stage in 1..=3 {
            let text = [&self.text, format!("stage {stage}\n").as_bytes()].concat();
            let id = objects.blob(&text).expect("stored");
            script += &format!("100644 {id} {stage}\tstage\n");
        }
        feed_git(self.dir, &["update-index", "--index-info"], &script);
        self.write("stage", "<<<<<<<\n");
    }
}
