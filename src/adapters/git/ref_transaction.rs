//! A change of one ref that is prepared and not made yet: git holds the locks of the ref and of HEAD, so that no commit, checkout or
//! reset of another process comes in between.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::bytes::lossy;
use super::command::Git;
use crate::adapters::standstill;
use crate::domain::ids::Oid;
use crate::ports::repo::RepoError;

/// The longest wait for an answer of git.
const PATIENCE: Duration = Duration::from_secs(60);

/// A prepared change. It is taken back when this value is dropped, and when this process ends.
pub(super) struct Prepared {
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Prepared {
    /// Prepares the change of HEAD, and of the branch that it names, from `old` to `new`. Returns git's message if the branch is
    /// elsewhere or is locked.
    ///
    /// # Errors
    /// When git could not be run.
    pub(super) fn head(git: Git, old: &Oid, new: &Oid) -> Result<Result<Self, String>, RepoError> {
        let mut command = git
            .args(["update-ref", "-m", "landed", "--stdin"])
            .command();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RepoError::Failed("git has no pipe".to_owned()));
        };
        let mut change = Self {
            child,
            input: Some(input),
            answers: BufReader::new(output),
        };
        let words = format!("start\nupdate HEAD {new} {old}\nprepare\n");
        let told = change.tell(&words, &["start: ok", "prepare: ok"])?;
        Ok(told.map(|()| change))
    }

    /// Makes the change. Returns git's message if it was not made.
    ///
    /// # Errors
    /// When git did not answer.
    pub(super) fn commit(mut self) -> Result<Result<(), String>, RepoError> {
        self.tell("commit\n", &["commit: ok"])
    }

    /// Sends lines, and waits for these answers. Returns git's message if there are others.
    fn tell(&mut self, words: &str, expected: &[&str]) -> Result<Result<(), String>, RepoError> {
        // A git that refused has ended, and its message says more than this error.
        let _said_below = self
            .input
            .as_mut()
            .map(|input| input.write_all(words.as_bytes()));
        for answer in expected {
            let said = self.answer();
            standstill::pass();
            if said? != *answer {
                self.input = None;
                let mut said = Vec::new();
                if let Some(mut messages) = self.child.stderr.take() {
                    messages.read_to_end(&mut said).map_err(failed)?;
                }
                // git removes its locks when it ends, but not when it is killed.
                if let Some(signal) = self.child.wait().map_err(failed)?.signal() {
                    return Err(RepoError::Failed(format!(
                        "git update-ref was ended by signal {signal}"
                    )));
                }
                return Ok(Err(lossy(said.trim_ascii())));
            }
        }
        Ok(Ok(()))
    }

    fn answer(&mut self) -> Result<String, RepoError> {
        let mut line = String::new();
        if self.answers.buffer().is_empty() && !self.comes()? {
            self.end();
            return Err(RepoError::Timeout {
                what: "git update-ref --stdin".to_owned(),
                limit: PATIENCE,
            });
        }
        self.answers.read_line(&mut line).map_err(failed)?;
        Ok(line.trim_end().to_owned())
    }

    /// Waits for an answer. Returns false when there is none in time.
    fn comes(&self) -> Result<bool, RepoError> {
        let limit = rustix::time::Timespec::try_from(PATIENCE).ok();
        let mut ready = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        loop {
            match poll(&mut ready, limit.as_ref()) {
                Ok(answered) => return Ok(answered > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }

    /// Ends git, which removes its locks.
    fn end(&mut self) {
        let pid = Pid::from_child(&self.child);
        let _gone_already = kill_process(pid, Signal::TERM);
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // git takes the change back at the end of its input, and ends.
        self.input = None;
        let ends = self.comes().unwrap_or(false);
        if !ends {
            self.end();
            // One that is stopped does not act on TERM. Its locks stay, and are removed when they are old.
            if !self.comes().unwrap_or(false) {
                let _gone_already = self.child.kill();
            }
        }
        if let Err(error) = self.child.wait() {
            tracing::debug!(%error, "the end of a git process could not be read");
        }
    }
}

fn failed(error: std::io::Error) -> RepoError {
    RepoError::Failed(format!("git update-ref: {error}"))
}
