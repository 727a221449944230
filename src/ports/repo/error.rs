//! Errors of git operations.

use std::path::PathBuf;
use std::time::Duration;

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
    /// The remote refused (a hook, a protected branch).
    #[error("the remote refused the push: {0}")]
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
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Messages of git and the system for a disk that takes no writes.
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
        matches!(self, Self::Failed(why) if is_no_room(why))
    }
}

/// Returns true when a text reports a disk that took no writes.
#[must_use]
pub fn is_no_room(why: &str) -> bool {
    NO_ROOM.iter().any(|how| why.contains(how))
}
