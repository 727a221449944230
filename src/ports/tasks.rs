//! The files between an agent and the supervisor: `TASK.md`, the outcome file, prompts, the outbox.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::domain::intent::Intent;

use crate::domain::unattended::Trace;

/// Error when a file could not be read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct TaskError {
    /// The file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub why: String,
}

/// A file of the outbox: its intent, or the reason why its content is none.
pub type OutboxFile = (PathBuf, Result<Intent, TaskError>);

/// A change on disk; a hint to look again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// The outcome file in this task directory.
    Outcome(PathBuf),
    /// The outbox.
    Outbox,
}

/// The content of an outcome file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutcomeText {
    /// Its text.
    pub text: String,
    /// When the session declared it; tells two writings apart even when their text is the same.
    pub written: Option<Timestamp>,
    /// The reason why its text cannot be read, or is not read as an outcome.
    pub odd: Option<String>,
    /// Set while a file in the place of a link cannot be told from one of git, which is at work.
    pub unsettled: bool,
}

/// A part of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Length of the whole file.
    pub length: u64,
}

/// Leftovers in a city's own directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Entries of the trash, except those that are kept because they were written to after their removal.
    pub trash: Vec<PathBuf>,
    /// Files of the outbox, intents or not, and when they were written.
    pub outbox: Vec<(PathBuf, Option<Timestamp>)>,
}

/// Receives [`TaskEvent`]s; called from any thread, must not block.
pub type TaskListener = Box<dyn Fn(TaskEvent) + Send + Sync>;

/// The files that a pruning deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired {
    /// Files that were last written before that time; none go without one.
    pub before: Option<Timestamp>,
    /// Files that took the place of a link in a sandbox before that time, which may be work; none go without one.
    pub replaced_before: Option<Timestamp>,
}

/// The result of a repair of links.
#[derive(Debug, Default)]
pub struct Repaired {
    /// The files that were in their places, where they are now.
    pub moved: Vec<PathBuf>,
    /// The first error. The other links are put back all the same.
    pub failed: Option<TaskError>,
}

/// Task directories and outbox of a city.
pub trait TaskFiles: Send + Sync {
    /// Sets the listener for changes. Called once, before any other method.
    fn listen(&self, listener: TaskListener);

    /// Writes `TASK.md` and an empty outcome file, before any session can write an outcome; watches the directory.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_task(&self, dir: &Path, text: &str) -> Result<(), TaskError>;

    /// Returns the name of the task file in a sandbox: `TASK.md`, or `.horde-task.md` where the repository has a
    /// `TASK.md` of its own.
    fn task_file(&self, sandbox: &Path) -> &'static str;

    /// Watches an existing task directory (again), and the sandbox for an outcome file that takes the place of its link.
    /// Failure is no error: the patrol and the end of the session find missed changes.
    fn watch(&self, dir: &Path, sandbox: &Path);

    /// Puts back the links of a sandbox to its task and its outcome, where a clean-up removed one, or an editor put a
    /// file in its place. That file moves into the task directory: an outcome as the outcome file, a task under a free
    /// name beside `TASK.md`. A file that HEAD has stays, as does anything but a regular file. Does nothing in a sandbox
    /// that is watched for another task directory. Source: `agent-lifecycle.md`, section 1.
    fn repair_links(&self, dir: &Path, sandbox: &Path) -> Repaired;

    /// Returns the reason why changes of some of these files are not seen as they happen.
    fn unwatched(&self) -> Option<String> {
        None
    }

    /// Stops watching a task directory and its sandbox; an unwatched directory is fine.
    fn unwatch(&self, dir: &Path);

    /// Returns true when this trace of a login exists.
    fn shows(&self, trace: &Trace) -> bool;

    /// Writes a prompt beside `TASK.md` and returns its path.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_prompt(&self, dir: &Path, text: &str) -> Result<PathBuf, TaskError>;

    /// Writes a file into one of the supervisor's directories, which is created if needed, and returns its path.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_beside(&self, dir: &Path, name: &str, text: &str) -> Result<PathBuf, TaskError>;

    /// Writes a file into a sandbox and excludes it from git. Returns false, and writes nothing, when a file of another
    /// owner exists there.
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

    /// Writes the outcome file for an agent that cannot, without an event to the listener.
    ///
    /// # Errors
    /// [`TaskError`].
    fn write_outcome(&self, dir: &Path, text: &str) -> Result<(), TaskError>;

    /// Returns the worktree's own git directory and the one that all worktrees share; none when `sandbox` is no
    /// worktree.
    fn git_dirs(&self, sandbox: &Path) -> Option<(PathBuf, PathBuf)>;

    /// Reads a transcript from an offset, at most `limit` bytes. None when there is no regular file of this path below
    /// `root`, with links followed.
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

    /// Returns the file with this ending in a directory that was last written.
    ///
    /// # Errors
    /// [`TaskError`].
    fn newest(&self, dir: &Path, ending: &str) -> Result<Option<PathBuf>, TaskError>;

    /// Returns true when a regular file exists there.
    fn is_file(&self, path: &Path) -> bool;

    /// Returns the outcome file; empty when there is none. If the agent replaced the link in its sandbox by a file of
    /// its own, that file counts.
    ///
    /// # Errors
    /// [`TaskError`].
    fn outcome(&self, dir: &Path, sandbox: &Path) -> Result<OutcomeText, TaskError>;

    /// Moves outcomes that count no longer, because they were declared until this time, beside the outcome file, and leaves
    /// an empty one.
    ///
    /// # Errors
    /// [`TaskError`].
    fn set_outcome_aside(
        &self,
        dir: &Path,
        sandbox: &Path,
        until: Option<Timestamp>,
    ) -> Result<(), TaskError>;

    /// Runs the rig's set-up commands in a fresh sandbox, one after the other.
    ///
    /// # Errors
    /// [`TaskError`] with the end of the output of the command that failed.
    fn set_up(
        &self,
        sandbox: &Path,
        commands: &[String],
        env: &std::collections::BTreeMap<String, String>,
    ) -> Result<(), TaskError>;

    /// Returns the intents in the outbox, the oldest first, with their files. A file that is no intent comes with an
    /// error in its place; a file that cannot be read now is left out.
    ///
    /// # Errors
    /// [`TaskError`].
    fn outbox(&self) -> Result<Vec<OutboxFile>, TaskError>;

    /// Removes a file of the outbox: an intent that was carried out or finally refused.
    ///
    /// # Errors
    /// [`TaskError`].
    fn remove_intent(&self, file: &Path) -> Result<(), TaskError>;

    /// Sets a file aside that is no intent, or not the intent that it claims to be, for a person to look at; it is not
    /// read again.
    ///
    /// # Errors
    /// [`TaskError`].
    fn set_aside(&self, file: &Path) -> Result<(), TaskError>;

    /// Returns true when the directory is the other one or below it, with links followed; false when it cannot be seen.
    fn is_within(&self, dir: &Path, of: &Path) -> bool;

    /// Deletes files below a directory that are older than allowed, and directories that become empty; returns the
    /// number of files. The directories in `but` stay. A missing directory counts as empty.
    ///
    /// # Errors
    /// [`TaskError`] of the first file that could not be deleted.
    fn prune(&self, dir: &Path, expired: Expired, but: &[PathBuf]) -> Result<usize, TaskError>;

    /// Lists the entries of trash and outbox. Changes nothing.
    ///
    /// # Errors
    /// [`TaskError`].
    fn leftovers(&self) -> Result<Leftovers, TaskError>;

    /// Deletes the entries of the trash, except those that are in use or were written to after their removal.
    ///
    /// # Errors
    /// [`TaskError`] of the first entry that could not be deleted.
    fn empty_trash(&self) -> Result<(), TaskError>;

    /// Returns the entries that the last emptying kept because they were written to after their removal, each with a
    /// file that was written.
    fn written_in_trash(&self) -> BTreeMap<PathBuf, PathBuf> {
        BTreeMap::new()
    }
}
