//! Messages to the watcher of the configuration.

use jiff::Timestamp;
use ractor::RpcReplyPort;

use crate::actors::refusal::Refusal;
use crate::domain::answers::{HeldRig, Reloaded};
use crate::domain::asker::Asker;
use crate::domain::ids::RigName;
use crate::domain::reload::{AgentChange, RaiderChange, RigChange};

/// Messages to the configuration's watcher.
pub enum ConfigMsg {
    /// Something in a watched directory changed.
    Touched,
    /// The changes may have settled.
    Settled,
    /// Periodic check of the files.
    Check,
    /// SIGHUP: check the files.
    Hangup,
    /// Check the files, and answer with the outcome.
    Reload {
        /// Only report what would be done.
        dry_run: bool,
        /// The caller.
        by: Asker,
        /// Answered with the outcome.
        reply: RpcReplyPort<Result<Reloaded, Refusal>>,
    },
    /// A check of the files has ended.
    Read {
        /// Its outcome.
        outcome: Outcome,
        /// The rigs that it left held or made ready.
        rigs: HeldRigs,
        /// Set when it was a dry run.
        dry_run: bool,
        /// The first caller that asked for it, if any did.
        by: Option<Asker>,
        /// Callers that wait for the outcome.
        replies: Vec<RpcReplyPort<Result<Reloaded, Refusal>>>,
    },
}

/// The rigs that a check of the files left held, or that it made ready.
#[derive(Clone, Default)]
pub struct HeldRigs {
    /// The rigs that are held after it.
    pub held: Vec<HeldRig>,
    /// The rigs that were held before it, and are no longer.
    pub prepared: Vec<RigName>,
}

/// The outcome of a check of the files.
pub enum Outcome {
    /// The files hold the configuration in force.
    Same,
    /// The files hold another configuration, which is in force now, or would be.
    Applied(Applied),
    /// The files are invalid or cannot be applied; text for people.
    Rejected(String),
    /// The check failed for another reason.
    Failed(Refusal),
}

/// A configuration that was applied.
pub struct Applied {
    /// Its revision.
    pub revision: String,
    /// The change of each agent.
    pub changes: Vec<AgentChange>,
    /// The change of each rig that differs.
    pub rigs: Vec<RigChange>,
    /// The raiders that apply a change with their next session.
    pub raiders: Vec<RaiderChange>,
    /// The keys that take effect only at the next start.
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
            held: Vec::new(),
            prepared: Vec::new(),
            unchanged: false,
        }
    }
}
