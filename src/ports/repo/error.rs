//! Errors of git operations.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::ids::Oid;
use crate::domain::merge::CheckoutBusy;

/// Error of a git operation. The kind decides what the caller does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepoError {
    /// The remote could not be reached, or refused the credentials; the caller retries later.
    #[error("the remote cannot be reached: {0}")]
    Remote(String),
    /// The rig's repository could not be prepared; that is retried.
    #[error("the repository of the rig cannot be set up: {0}")]
    Held(String),
    /// The rig's disk or its git does not answer; the caller retries later.
    #[error("the disk or the git of the rig does not answer: {0}")]
    Unseen(String),
    /// The remote refused (a hook, a protected branch), or a check or the user's hook here did.
    #[error("the push was refused: {0}")]
    Rejected(String),
    /// A compare-and-swap lost: the ref is not where it was.
    #[error("{name} moved: expected {expected}, found {found}")]
    Moved {
        /// The ref.
        name: String,
        /// The expected commit ("absent" when it should not exist).
        expected: String,
        /// The actual commit.
        found: String,
    },
    /// No such branch, commit or sandbox.
    #[error("not found: {0}")]
    NotFound(String),
    /// The sandbox's administrative files are damaged: a repair fixes them.
    #[error("{sandbox} is not a worktree of this rig: {why}")]
    Broken {
        /// The sandbox.
        sandbox: PathBuf,
        /// The damage.
        why: String,
    },
    /// The permit no longer describes the sandbox; nothing was touched.
    #[error("the sandbox has changed since it was checked: {0}")]
    PermitStale(String),
    /// The checkout of a rig without remote cannot be moved now, so its branch cannot either.
    #[error("the checkout at {path} {why}")]
    CheckoutBusy {
        /// The user's checkout, or a worktree of it.
        path: PathBuf,
        /// The reason, and how to end it.
        why: CheckoutBusy,
    },
    /// It took longer than allowed.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// The operation.
        what: String,
        /// Its limit.
        limit: Duration,
    },
    /// A git command exited with another code than 0, or was ended by a signal.
    #[error("{command} ended with {}: {stderr}", .code.map_or_else(signal, exit))]
    Git {
        /// The command, with its arguments.
        command: String,
        /// The exit code; none when a signal ended it.
        code: Option<i32>,
        /// The messages of git.
        stderr: String,
    },
    /// The content of an object does not match its id.
    #[error("the object {id} of {} is damaged: its content does not match its id", .repository.display())]
    Damaged {
        /// The object.
        id: Oid,
        /// The repository that it was read from.
        repository: PathBuf,
    },
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

fn signal() -> String {
    "a signal".to_owned()
}

fn exit(code: i32) -> String {
    code.to_string()
}

/// Messages of git and the system for a disk that takes no writes. git has no exit code of its own for it.
const NO_ROOM: &[&str] = &[
    "No space left on device",
    "Out of diskspace",
    "Disk quota exceeded",
    "Read-only file system",
];

impl RepoError {
    /// Returns true when the disk took no writes: the operation succeeds once there is room.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        matches!(self, Self::Failed(why) | Self::Git { stderr: why, .. } if is_no_room(why))
    }
}

/// Returns true when a text of git or of the system reports a disk that took no writes.
#[must_use]
pub fn is_no_room(why: &str) -> bool {
    NO_ROOM.iter().any(|how| why.contains(how))
}
