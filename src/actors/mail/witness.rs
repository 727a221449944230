//! Messages to a witness.

use jiff::Timestamp;
use ractor::RpcReplyPort;

use super::requests::{Accepted, ChargeBatch, ChargeRequest, DoneRequest, NukeTarget};
use crate::actors::refusal::Refusal;
use crate::domain::answers::{Charged, Nuked};
use crate::domain::ids::RaiderId;

/// Messages to a witness.
pub enum WitnessMsg {
    /// Something may have changed: check inbox, open sagas and waiting work.
    Look,
    /// The time to retry failed work has come.
    Again,
    /// Look as a patrol: all of that, and every outcome file.
    Patrol,
    /// A raider's session ended after its completion.
    Finished(RaiderId),
    /// An outcome file in this task directory changed.
    Outcome(std::path::PathBuf),
    /// A completion that this raider left in the outbox was refused.
    Refused(RaiderId, Refusal),
    /// Charge a relic.
    Charge(ChargeRequest, RpcReplyPort<Result<Charged, Refusal>>),
    /// Charge several relics, in this order.
    ChargeEach(ChargeBatch),
    /// Work is declared done.
    Done(DoneRequest, RpcReplyPort<Result<Accepted, Refusal>>),
    /// Remove a raider.
    Nuke {
        /// The sandbox.
        target: Box<NukeTarget>,
        /// Write salvage refs, then remove.
        salvage: bool,
        /// Answered when the slot is free.
        reply: RpcReplyPort<Result<Nuked, Refusal>>,
    },
    /// A look has ended.
    Looked {
        /// Set when it failed, for a retry.
        retry: bool,
        /// When the next completion may be stuck.
        next: Option<Timestamp>,
    },
    /// A task ended: look for what follows.
    Ended {
        /// Set when it failed, for a retry.
        retry: bool,
    },
}
