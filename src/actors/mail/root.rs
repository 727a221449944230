//! What the root is asked and told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ractor::{ActorId, RpcReplyPort};

use super::child::{ChildSpec, ChildView, How, SessionView};
use super::meant::Meant;
use crate::domain::cause::Cause;
use crate::domain::city::{City, Pool};
use crate::domain::handoff::Progress;
use crate::domain::ids::{AgentName, ChildId, RigName, SessionId};
use crate::domain::reload::AgentChange;
use crate::ports::repo::Repo;
use crate::ports::sessions::SessionEvent;

/// Messages that other actors, tasks and the control socket send to the root.
pub enum RootMail {
    /// A child is wanted. Answered when its session is up, or the child rests because it is
    /// suspended, or with why its first start failed; then it is forgotten, so that the asker can
    /// unwind.
    Want {
        /// The child.
        spec: Box<ChildSpec>,
        /// Why.
        cause: Cause,
        /// Answered when its session is up or cannot be started. Without it, a failed start counts as a death.
        reply: Option<RpcReplyPort<Result<(), String>>>,
    },
    /// A child's session is up.
    Up {
        /// The child.
        id: ChildId,
        /// Which actor says so.
        actor: ActorId,
        /// The session.
        session: SessionView,
        /// Started or adopted.
        how: How,
    },
    /// A child is not wanted any more: end its session whatever state it is in, and forget it.
    /// Answered when nothing of it runs.
    End {
        /// The child, and which of its sessions.
        meant: Meant,
        /// Why.
        cause: Cause,
        /// Answered when nothing of it runs.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// End the session and start a fresh one; planned, not a death.
    Cycle {
        /// The child.
        meant: Meant,
        /// Why.
        cause: Cause,
        /// The end of its terminal, where its end is a death.
        tail: Option<String>,
        /// The progress of its work, where it hands off.
        progress: Progress,
        /// Answered when the old session is told to end.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// An operator stops a child; sticky for agents.
    Rest {
        /// The child.
        id: ChildId,
        /// Answered when it rests.
        reply: RpcReplyPort<Result<(), EndRefused>>,
    },
    /// An operator starts a resting, backing-off or quarantined child now; its history is cleared.
    /// A child that rested and cannot be started rests on; for any other, that counts as a death.
    Wake {
        /// The child.
        id: ChildId,
        /// Why.
        cause: Cause,
        /// Answered when its session is up, or waits for others, or with why it could not be started.
        reply: RpcReplyPort<Result<(), String>>,
    },
    /// The provider says that a session ended.
    Session(SessionEvent),
    /// Lists the children.
    Views(RpcReplyPort<Vec<ChildView>>),
    /// How large is each pool, and why?
    Pools(RpcReplyPort<Vec<PoolView>>),
    /// Start the tree: infrastructure, then recovery.
    Boot(RpcReplyPort<()>),
    /// The control socket answers: what asks over it may be run.
    Ready,
    /// Something that a look would see has changed.
    Look,
    /// A draining child's time is up, or it said that it is finished.
    DrainDue {
        /// The child.
        id: ChildId,
        /// A timer of an earlier epoch is void; none when the child itself says so.
        epoch: Option<u64>,
    },
    /// A new configuration is in force.
    Reload(Box<Reload>),
    /// End everything, or leave the sessions running.
    Stop {
        /// How.
        mode: StopMode,
        /// Answered at the end.
        reply: Option<RpcReplyPort<()>>,
    },
    /// Something is due of the accounts of harnesses, or has changed.
    Accounts,
}

/// A new configuration.
pub struct Reload {
    /// The configuration.
    pub city: Arc<City>,
    /// The same in full, as `hd config show` prints it.
    pub shown: Arc<serde_json::Value>,
    /// The repository of each of its rigs.
    pub repos: BTreeMap<RigName, Arc<dyn Repo>>,
    /// Sessions that are not to be disturbed: a person is attached, or they ask something.
    pub undisturbed: BTreeSet<SessionId>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Answered with what becomes of each agent; never, when everything ends.
    pub reply: RpcReplyPort<Vec<AgentChange>>,
}

/// A child's session could not be ended.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EndRefused {
    /// It goes on.
    #[error("the session of {id} could not be ended: {why}")]
    Undead {
        /// The child.
        id: ChildId,
        /// The reason.
        why: String,
    },
    /// The child that was meant is gone. Its successor was left alone.
    #[error("somebody else goes by the name of {0} now")]
    Another(ChildId),
}

/// How large a pool is to be, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolView {
    /// The agent that it is of.
    pub name: AgentName,
    /// Its bounds.
    pub pool: Pool,
    /// How many are wanted, within the bounds; none until the first check has come back.
    pub wanted: Option<u32>,
    /// How many its check asked for, whatever the bounds.
    pub asked: Option<u32>,
    /// When the last check came back.
    pub checked: Option<Timestamp>,
    /// Why the last check failed.
    pub failed: Option<String>,
}

/// How the tree is stopped.
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
    /// How the sessions were stopped.
    pub mode: StopMode,
    /// Those that run on although they were to end, with the reason of each.
    pub left: Vec<String>,
}

impl StopEnd {
    /// Says which sessions are left, in a sentence.
    #[must_use]
    pub fn says(&self) -> String {
        let count = self.left.len();
        let which = self.left.join(", ");
        format!(
            "the supervisor has stopped, and {count} of its sessions run on or cannot be seen: {which}"
        )
    }
}
