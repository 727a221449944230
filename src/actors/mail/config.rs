//! What the watcher of the configuration is told.

use jiff::Timestamp;
use ractor::RpcReplyPort;
use serde::Serialize;

use crate::actors::refusal::Refusal;
use crate::domain::reload::{AgentChange, RaiderChange, RigChange};

/// Messages to the configuration's watcher.
pub enum ConfigMsg {
    /// Something in a watched directory changed.
    Touched,
    /// It may have settled.
    Settled,
    /// It is time: look at the files.
    Check,
    /// SIGHUP: look at the files.
    Hangup,
    /// Look at the files and say what came of it.
    Reload {
        /// Only say what would be done.
        dry_run: bool,
        /// Answered with what was done.
        reply: RpcReplyPort<Result<Reloaded, Refusal>>,
    },
    /// A look at the files is over.
    Read {
        /// As it was.
        outcome: Outcome,
        /// Only what would be done was asked.
        dry_run: bool,
        /// Answered with the outcome.
        replies: Vec<RpcReplyPort<Result<Reloaded, Refusal>>>,
    },
}

/// The outcome of a look at the files.
pub enum Outcome {
    /// They say what is in force already.
    Same,
    /// They say something else, which is in force now, or would be.
    Applied(Applied),
    /// They are wrong, or cannot be applied; for people.
    Rejected(String),
    /// Something else kept it from being looked at.
    Failed(Refusal),
}

/// A configuration that was taken over.
pub struct Applied {
    /// Its revision.
    pub revision: String,
    /// The change of each agent.
    pub changes: Vec<AgentChange>,
    /// The change of each rig that is not as before.
    pub rigs: Vec<RigChange>,
    /// The raiders that take a change over with their next session.
    pub raiders: Vec<RaiderChange>,
    /// The keys that take effect at the next start only.
    pub pending: Vec<String>,
}

impl Applied {
    pub(in crate::actors) fn answer(self, applied_at: Option<Timestamp>) -> Reloaded {
        Reloaded {
            revision: self.revision,
            applied_at,
            actions: self.changes,
            rigs: self.rigs,
            raiders: self.raiders,
            errors: Vec::new(),
            pending: self.pending,
            unchanged: false,
        }
    }
}

/// The answer of a reload (`4-rules.md`, reload).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reloaded {
    /// The revision in force; of a dry run, the one that would be.
    pub revision: String,
    /// When it was applied.
    pub applied_at: Option<Timestamp>,
    /// The change of each agent.
    pub actions: Vec<AgentChange>,
    /// The change of each rig that is not as before.
    pub rigs: Vec<RigChange>,
    /// The raiders that take a change over with their next session.
    pub raiders: Vec<RaiderChange>,
    /// Why what is on disk is not in force.
    pub errors: Vec<String>,
    /// The keys that take effect at the next start only.
    pub pending: Vec<String>,
    /// All of this has been answered before: nothing has changed since.
    pub unchanged: bool,
}
