//! Submodules that look clean: `git status` of the sandbox shows nothing of their work.

use std::fs;
use std::path::Path;

use super::super::look::SandboxState;
use super::{Agent, Form};

impl Agent<'_> {
    /// Takes the library in, as the submodule `lib`, unless landed work has done so.
    pub(super) fn take_in(&self) {
        let url = self.library.display().to_string();
        let allow = "protocol.file.allow=always";
        self.run(&["-c", allow, "submodule", "-q", "add", &url, "lib"]);
        self.run(&["-c", allow, "submodule", "-q", "update", "--init", "lib"]);
    }

    /// Commits it, works in it, and makes it look as before.
    pub(super) fn tidy_up(&self, form: Form) {
        self.take_in();
        self.commit("uses-lib", "with a library\n");
        let lib = self.dir.join("lib");
        let lib = self.within(&lib);
        lib.run(&["checkout", "-q", "-B", "mine"]);
        lib.commit("code", "only here\n");
        lib.run(&["checkout", "-q", "--detach", "HEAD~1"]);
        match form {
            Form::SubmoduleLeft => lib.run(&["branch", "-q", "-D", "mine"]),
            Form::SubmoduleGone => self.run(&["submodule", "-q", "deinit", "-f", "lib"]),
            _ => {
                self.run(&["rm", "-q", "lib"]);
                self.run(&["commit", "-q", "--no-verify", "-m", "without it"]);
            }
        }
    }
}

/// Returns whether the form is there: a commit that is neither in its index nor among its files.
pub(super) fn is_there(form: Form, dir: &Path, seen: &SandboxState) -> bool {
    let git_dir = SandboxState::admin(dir).join("modules/lib");
    let log = fs::read_to_string(git_dir.join("logs/HEAD")).unwrap_or_default();
    let branch = git_dir.join("refs/heads/mine").exists();
    let taken = seen.index.iter().any(|entry| entry.path == b"lib");
    let checked_out = dir.join("lib/.git").exists();
    let looks = match form {
        Form::SubmoduleLeft => (false, true, true),
        Form::SubmoduleGone => (true, true, false),
        _ => (true, false, false),
    };
    log.contains("only here") && (branch, taken, checked_out) == looks
}
