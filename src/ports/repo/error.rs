//! Why git did not do what was asked of it.

use std::path::PathBuf;
use std::time::Duration;

use crate::domain::merge::CheckoutBusy;

/// Why git did not do it. The kind decides what the caller does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepoError {
    /// The remote could not be reached or refused the credentials; retried later.
    #[error("the remote cannot be reached: {0}")]
    Remote(String),
    /// The rig's repository could not be made ready; that is tried again.
    #[error("the rig cannot be worked on: {0}")]
    Held(String),
    /// The remote (a hook, a protected branch) said no.
    #[error("the remote refused the push: {0}")]
    Rejected(String),
    /// A compare-and-swap lost: the ref is not where it was.
    #[error("{name} moved: expected {expected}, found {found}")]
    Moved {
        /// The ref.
        name: String,
        /// Where it was thought to be ("absent" when it should not exist).
        expected: String,
        /// Where it is.
        found: String,
    },
    /// No such branch, commit or sandbox.
    #[error("not found: {0}")]
    NotFound(String),
    /// The sandbox's administrative files are not whole: a repair mends them.
    #[error("{sandbox} is no worktree of this rig: {why}")]
    Broken {
        /// The sandbox.
        sandbox: PathBuf,
        /// What is the matter with it.
        why: String,
    },
    /// The permit no longer describes the sandbox; nothing was touched.
    #[error("the sandbox is not what was judged: {0}")]
    PermitStale(String),
    /// The checkout of a rig without remote cannot be moved at present, so its branch cannot either.
    #[error("the checkout at {path} {why}")]
    CheckoutBusy {
        /// The user's checkout, or the worktree of it.
        path: PathBuf,
        /// Why, and what ends it.
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

/// What git and the system say of a disk that takes nothing.
const NO_ROOM: &[&str] = &[
    "No space left on device",
    "Out of diskspace",
    "Disk quota exceeded",
    "Read-only file system",
];

impl RepoError {
    /// Whether the disk took nothing: the same succeeds once there is room.
    #[must_use]
    pub fn is_no_room(&self) -> bool {
        matches!(self, Self::Failed(why) if is_no_room(why))
    }
}

/// Whether this says that a disk took nothing.
#[must_use]
pub fn is_no_room(why: &str) -> bool {
    NO_ROOM.iter().any(|how| why.contains(how))
}
