//! The end of a child's actor, and what it says of the session.

use super::super::cause::Cause;
use super::super::city::RestartType;
use super::super::facts::{SessionExit, Stopped};
use super::super::ids::ChildId;

/// The reason why a child ended by itself; it travels to the root as the actor's error.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChildExit {
    /// The session ended although work is left.
    #[error("the session died: {cause}")]
    Died {
        /// Died or lost.
        cause: Cause,
        /// The recorded exit, if any.
        exit: Option<SessionExit>,
        /// The tail of its terminal.
        tail: String,
    },
    /// The state of its session, its outcome or its rig is unknown: none was started.
    #[error("{0}")]
    Unseen(String),
    /// Files or records of the session cannot be written: none was started.
    #[error("the session cannot be recorded: {0}")]
    Unwritable(String),
    /// No session could be started.
    #[error("the session could not be started: {0}")]
    StartFailed(String),
    /// Its sandbox is gone or broken: no session can start in it.
    #[error("{0}")]
    NoSandbox(String),
    /// The session ended after its agent had reported its outcome; the witness goes on from here.
    #[error("the agent finished")]
    Finished,
    /// The session was told to end, and did.
    #[error("the session was ended: {0:?}")]
    Ended(Stopped),
    /// A session that was told to end did not.
    #[error("the session could not be ended: {0}")]
    NotEnded(String),
    /// The actor itself was killed or panicked, or could not be spawned; its session may run on.
    #[error("the actor failed: {0}")]
    Broken(String),
}

/// A child's session could not be ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndRefused {
    /// The session runs on.
    #[error("the session of {id} could not be ended: {why}")]
    NotEnded {
        /// The child.
        id: ChildId,
        /// The reason.
        why: String,
    },
    /// The incarnation that was meant is gone. Its successor was left alone.
    #[error("another child has the name {0} now")]
    Another(ChildId),
}

impl ChildExit {
    /// Returns the cause of this end and the recorded exit; `planned` is the cause of an end that the session did not
    /// bring about itself.
    pub(super) fn judge(exit: Option<&Self>, planned: Cause) -> (Cause, Option<SessionExit>) {
        match exit {
            Some(Self::Died { cause, exit, .. }) => (*cause, exit.clone()),
            Some(
                Self::StartFailed(_) | Self::NoSandbox(_) | Self::Unseen(_) | Self::Unwritable(_),
            ) => (Cause::StartFailed, None),
            Some(Self::NotEnded(_) | Self::Broken(_)) => (Cause::Internal, None),
            Some(Self::Finished | Self::Ended(_)) | None => (planned, None),
        }
    }

    /// Returns the error that prevented the start or the end of the session.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::StartFailed(why)
            | Self::NoSandbox(why)
            | Self::Unseen(why)
            | Self::Unwritable(why)
            | Self::NotEnded(why)
            | Self::Broken(why) => Some(why),
            Self::Died { .. } | Self::Finished | Self::Ended(_) => None,
        }
    }

    /// Returns true when it never had a session.
    pub(super) fn is_failed_start(&self) -> bool {
        self.is_put_off() || matches!(self, Self::StartFailed(_))
    }

    /// Returns true when the start is no failure of the child: it is retried later, and is no death.
    pub(super) fn is_put_off(&self) -> bool {
        matches!(
            self,
            Self::Unseen(_) | Self::Unwritable(_) | Self::NoSandbox(_)
        )
    }
}

/// Returns true when a session with this cause follows a death.
#[must_use]
pub fn is_crash(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::SessionDied | Cause::SessionLost | Cause::AgentDead | Cause::WindowPassed
    )
}

/// Returns true when this restart type leaves the child at rest after such an end (OTP: a transient child rests after a
/// good end, a temporary one after any).
pub(super) fn rests(restart: RestartType, exit: Option<&SessionExit>) -> bool {
    match restart {
        RestartType::Permanent => false,
        RestartType::Transient => exit.is_some_and(is_good),
        RestartType::Temporary => true,
    }
}

/// OTP's `normal` and `shutdown`; the latter is a TERM signal here.
pub(super) fn is_good(exit: &SessionExit) -> bool {
    const TERM: i32 = 15;
    exit.code == Some(0) || exit.signal == Some(TERM)
}
