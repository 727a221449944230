//! Messages to the root.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ractor::{ActorId, RpcReplyPort};

use super::child::{ChildSpec, ChildView, How, SessionView};
use super::child_ref::ChildRef;
use crate::domain::asker::Asker;
use crate::domain::cause::Cause;
use crate::domain::child::{EndRefused, Token};
use crate::domain::city::{City, Pool};
use crate::domain::handoff::Progress;
use crate::domain::ids::{AgentName, ChildId, RigName, SessionId};
use crate::domain::reload::AgentChange;
use crate::ports::repo::Repo;
use crate::ports::sessions::SessionEvent;

/// Messages that other actors, tasks and the control socket send to the root.
pub enum RootMail {
    /// A child is wanted. Answered when its session is up, or the child rests because it is suspended, or with the
    /// reason why its first start failed; then its slot is dropped, so that the caller can unwind.
    Want {
        /// The child.
        spec: Box<ChildSpec>,
        /// The reason.
        cause: Cause,
        /// Answered when its session is up or cannot be started. Without it a failed start counts as a death.
        reply: Option<RpcReplyPort<Result<(), String>>>,
    },
    /// A child's session is up.
    Up {
        /// The child.
        id: ChildId,
        /// The actor that reports it.
        actor: ActorId,
        /// The session.
        session: SessionView,
        /// Started or adopted.
        how: How,
    },
    /// A child is no longer wanted: end its session in any state, and drop its slot. Answered when no session of it
    /// runs.
    End {
        /// The child, and which of its sessions.
        meant: ChildRef,
        /// The reason, and the caller.
        order: Order,
        /// Answered when no session of it runs.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// Replace the session by a fresh one; planned, not a death.
    Cycle {
        /// The child.
        meant: ChildRef,
        /// The reason, and the caller.
        order: Order,
        /// The tail of its terminal, if its end is a death.
        tail: Option<String>,
        /// The progress of its work, if it hands off.
        progress: Progress,
        /// Answered when the old session is told to end.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// An operator stops a child; sticky for agents.
    Rest {
        /// The child.
        id: ChildId,
        /// The caller; none for the supervisor itself.
        by: Option<Asker>,
        /// Answered when it rests.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// An operator starts a resting, backing-off or quarantined child now; its death history is cleared. If the start
    /// fails, a child that rested rests again; for any other that counts as a death.
    Wake {
        /// The child.
        id: ChildId,
        /// The reason, and the caller.
        order: Order,
        /// Answered when its session is up, or waits for dependencies, or with the reason why it could not be started.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// The provider reports the end of a session.
    Session(SessionEvent),
    /// Lists the children.
    Views(RpcReplyPort<Vec<ChildView>>),
    /// Lists the pools with their desired sizes.
    Pools(RpcReplyPort<Vec<PoolView>>),
    /// Start the tree: infrastructure, then recovery.
    Boot(RpcReplyPort<()>),
    /// The control socket answers: programs that use it may be run.
    Ready,
    /// Something that a look observes has changed.
    Look,
    /// A draining child's time is up, or it reported that it is finished.
    DrainDue {
        /// The child.
        id: ChildId,
        /// The drain that is due; none when the child itself reports.
        drain: Option<Token>,
    },
    /// A new configuration is in force.
    Reload(Box<Reload>),
    /// End everything, or leave the sessions running.
    Stop {
        /// The mode.
        mode: StopMode,
        /// Answered at the end.
        reply: Option<RpcReplyPort<()>>,
    },
    /// Something is due for the harnesses' accounts, or has changed.
    Accounts,
}

/// The reason of an order about a child, and the caller of the control socket that gave it, if one did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The reason.
    pub cause: Cause,
    /// The caller; the events that follow name it.
    pub by: Option<Asker>,
}

impl From<Cause> for Order {
    fn from(cause: Cause) -> Self {
        Self { cause, by: None }
    }
}

impl From<&Asker> for Order {
    /// Makes the order of a caller. The child's machine knows one cause for all callers.
    fn from(asker: &Asker) -> Self {
        Self {
            cause: Cause::Operator,
            by: Some(asker.clone()),
        }
    }
}

/// A new configuration.
pub struct Reload {
    /// The configuration.
    pub city: Arc<City>,
    /// The configuration in full, as `hd config show` prints it.
    pub shown: Arc<serde_json::Value>,
    /// The repository of each of its rigs.
    pub repos: BTreeMap<RigName, Arc<dyn Repo>>,
    /// Sessions that must not be disturbed: a person is attached, or a dialog is open.
    pub undisturbed: BTreeSet<SessionId>,
    /// Only report what would be done.
    pub dry_run: bool,
    /// Answered with the change of each agent; never answered during a stop.
    pub reply: RpcReplyPort<Vec<AgentChange>>,
}

/// The desired size of a pool, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// The agent of the pool.
    pub name: AgentName,
    /// Its bounds.
    pub pool: Pool,
    /// The desired size within the bounds; none until the first check has come back.
    pub wanted: Option<u32>,
    /// The size that its check asked for, before the bounds.
    pub asked: Option<u32>,
    /// When the last check came back.
    pub checked: Option<Timestamp>,
    /// Why the last check failed.
    pub failed: Option<String>,
}

/// The mode of the tree's stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// End every session within its grace.
    Graceful,
    /// End every session now.
    Now,
    /// Leave the sessions running for the next start to adopt.
    KeepSessions,
}

/// The outcome of a stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopEnd {
    /// The mode.
    pub mode: StopMode,
    /// Sessions that run on although they were to end, each with the reason.
    pub left: Vec<String>,
}

impl StopEnd {
    /// Returns a sentence about the sessions that are left.
    #[must_use]
    pub fn says(&self) -> String {
        let count = self.left.len();
        let which = self.left.join(", ");
        format!(
            "the supervisor has stopped, but {count} of its sessions still run or cannot be checked: {which}"
        )
    }
}
