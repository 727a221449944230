//! The files between an agent and the supervisor: `TASK.md`, the outcome file, prompts, the outbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::domain::intent::Intent;

use crate::domain::unattended::Trace;

/// A file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct TaskError {
    /// The file or directory.
    pub path: PathBuf,
    /// What the system said.
    pub why: String,
}

/// A file of the outbox: what it holds, or why that is not an intent.
pub type OutboxFile = (PathBuf, Result<Intent, TaskError>);

/// Something changed on disk; a hint to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// The outcome file in this task directory.
    Outcome(PathBuf),
    /// The outbox.
    Outbox,
}

/// An outcome file as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutcomeText {
    /// What it says.
    pub text: String,
    /// When it was written last; tells one writing from the next even when both say the same.
    pub written: Option<Timestamp>,
    /// Why nothing can be read of it, where it is no file.
    pub odd: Option<String>,
}

/// A part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// What is in it.
    pub bytes: Vec<u8>,
    /// How long the whole file is.
    pub length: u64,
}

/// What lies about in a city's own directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Entries of the trash.
    pub trash: Vec<PathBuf>,
    /// Files of the outbox, intents or not, and when they were written.
    pub outbox: Vec<(PathBuf, Option<Timestamp>)>,
}

/// Receives [`TaskEvent`]s; called from any thread, must not block.
pub type TaskListener = Box<dyn Fn(TaskEvent) + Send + Sync>;

/// Task directories and outbox of a city.
pub trait TaskFiles: Send + Sync {
    /// Sets who hears of changes. Called once, before anything else.
    fn listen(&self, listener: TaskListener);

    /// Writes `TASK.md` and an empty outcome file, before any session can write an outcome; watches
    /// the directory.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_task(&self, dir: &Path, text: &str) -> Result<(), TaskError>;

    /// The name of the task file in a sandbox: `TASK.md`, or `.horde-task.md` where the
    /// repository has a `TASK.md` of its own.
    fn task_file(&self, sandbox: &Path) -> &'static str;

    /// Moves a task directory that an earlier version kept in another place, with what of the sandbox leads
    /// there. Where there is none, nothing is done.
    ///
    /// # Errors
    /// [`TaskError`].
    fn adopt(&self, old: &Path, dir: &Path, sandbox: &Path) -> Result<(), TaskError>;

    /// Watches an existing task directory (again). What is not heard of is found by the patrol and by the
    /// session's end: one that cannot be watched is no error.
    fn watch(&self, dir: &Path);

    /// Why changes of some of these files are not seen as they happen.
    fn unwatched(&self) -> Option<String> {
        None
    }

    /// Stops watching a task directory; one that is not watched is fine.
    fn unwatch(&self, dir: &Path);

    /// Whether this trace of a login is there.
    fn shows(&self, trace: &Trace) -> bool;

    /// Writes a prompt beside `TASK.md` and says where.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_prompt(&self, dir: &Path, text: &str) -> Result<PathBuf, TaskError>;

    /// Writes a file into a directory of ours, which is made where it is not there, and says where.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_beside(&self, dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError>;

    /// Writes a file into a sandbox and excludes it from git, unless a file that is not ours is there
    /// already; false then.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_unless_there(&self, sandbox: &Path, path: &str, text: &str)
    -> Result<bool, TaskError>;

    /// Excludes files from git in every sandbox of the repository, by patterns as in `.gitignore`.
    ///
    /// # Errors
    /// [`TaskError`].
    fn exclude(&self, sandbox: &Path, patterns: &[String]) -> Result<(), TaskError>;

    /// Writes the outcome file for an agent that cannot, and tells the listener nothing of it.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_outcome(&self, dir: &Path, text: &str) -> Result<(), TaskError>;

    /// The worktree's own directory of git, and the one that all worktrees share; none where it is no
    /// worktree.
    fn git_dirs(&self, sandbox: &Path) -> Option<(PathBuf, PathBuf)>;

    /// Reads on in a transcript, at most so many bytes. None where there is no regular file of this path
    /// below `root`, links followed.
    ///
    /// # Errors
    /// [`TaskError`].
    fn transcript(
        &self,
        path: &Path,
        root: &Path,
        from: u64,
        limit: usize,
    ) -> Result<Option<Part>, TaskError>;

    /// The file with this ending in a directory that was written last.
    ///
    /// # Errors
    /// [`TaskError`].
    fn newest(&self, dir: &Path, ending: &str) -> Result<Option<PathBuf>, TaskError>;

    /// Whether a regular file is there.
    fn is_file(&self, path: &Path) -> bool;

    /// The outcome file; empty when there is none. An agent that replaced the link in its sandbox by
    /// a file of its own is heard too.
    ///
    /// # Errors
    /// [`TaskError`].
    fn outcome(&self, dir: &Path, sandbox: &Path) -> Result<OutcomeText, TaskError>;

    /// Runs the rig's set-up commands in a fresh sandbox, one after the other.
    ///
    /// # Errors
    /// [`TaskError`] with the end of the output of the one that failed.
    fn set_up(
        &self,
        sandbox: &Path,
        commands: &[String],
        env: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), TaskError>;

    /// Intents in the outbox, the oldest first, with the files that hold them. What is no intent comes
    /// with an error in its place; what cannot be read now is left out.
    ///
    /// # Errors
    /// [`TaskError`].
    fn outbox(&self) -> Result<Vec<OutboxFile>, TaskError>;

    /// Removes a file of the outbox: an intent that was carried out or refused for good.
    ///
    /// # Errors
    /// [`TaskError`].
    fn settle(&self, file: &Path) -> Result<(), TaskError>;

    /// Keeps what is no intent, or is not what it says, for a person to look at, and reads it no more.
    ///
    /// # Errors
    /// [`TaskError`].
    fn set_aside(&self, file: &Path) -> Result<(), TaskError>;

    /// Whether the directory is the other one or below it, links followed. One that cannot be seen is
    /// not.
    fn is_within(&self, dir: &Path, of: &Path) -> bool;

    /// Deletes files below a directory that were written last before that time, with the directories
    /// that nothing is left in, and says how many files. What is in the directories of `but` stays. No
    /// directory is no file.
    ///
    /// # Errors
    /// [`TaskError`] of the first that would not go.
    fn prune(&self, dir: &Path, before: Timestamp, but: &[PathBuf]) -> Result<usize, TaskError>;

    /// What lies in trash and outbox. Changes nothing.
    ///
    /// # Errors
    /// [`TaskError`].
    fn leftovers(&self) -> Result<Leftovers, TaskError>;

    /// Deletes what lies in the trash, unless it is in use, or was written to after it had been thrown away.
    ///
    /// # Errors
    /// [`TaskError`] of the first entry that would not go.
    fn empty_trash(&self) -> Result<(), TaskError>;

    /// What the last emptying left because it was written to after it had been thrown away: each entry, and a file that
    /// was written.
    fn written_in_trash(&self) -> BTreeMap<PathBuf, PathBuf> {
        BTreeMap::new()
    }
}
