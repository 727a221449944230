//! Refs, replacements and grafts that claim that a commit is where it is not.

use std::fs;

use super::super::look::SandboxState;
use super::{Agent, Form};

impl Agent<'_> {
    /// Commits, and makes git claim that the remote has the commit.
    pub(super) fn forge(&self, form: Form) {
        self.commit("mine", "mine\n");
        match form {
            Form::Forged => {
                for name in ["main", "mine"] {
                    let name = format!("refs/remotes/origin/{name}");
                    self.run(&["update-ref", &name, "HEAD"]);
                }
            }
            Form::Grafted => {
                self.run(&["replace", "--graft", "origin/main", "HEAD"]);
                let Some(head) = SandboxState::of(self.dir).head else {
                    return;
                };
                let base = crate::support::git::try_git(
                    self.dir,
                    &["--no-replace-objects", "rev-parse", "origin/main"],
                );
                let base = String::from_utf8_lossy(&base.stdout);
                let line = format!("{} {head}\n", base.trim());
                fs::write(self.shared().join("info/grafts"), line).expect("written");
            }
            _ => {
                self.write("src/stat", "replaced\n");
                self.run(&["commit", "-qam", "replaced", "--no-verify"]);
                self.run(&["replace", "HEAD:src/stat", "HEAD~1:src/stat"]);
                self.run(&["replace", "HEAD", "origin/main"]);
            }
        }
    }
}
